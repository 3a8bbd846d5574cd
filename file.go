package bloom

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Save writes a filter to a file, in the form of WriteTo, so that path holds the whole of the filter or what
// it held before, whatever happens: it writes to a temporary file in the same directory, path with a random
// number and ".tmp" behind it, flushes that to the disk and renames it. A killed process can leave the
// temporary file behind; it is safe to delete. A file that path names already is replaced and hands on its
// permissions; so is a symbolic link, and not what it points to.
//
// Save only reads the filter: others may read it meanwhile, and add to a [Concurrent]. Of several Saves to one
// path the last rename stands. It returns the error of the filter's WriteTo or of the file system.
func Save(path string, f io.WriterTo) error {
	mode := os.FileMode(0o666) // less the umask
	old, err := os.Stat(path)
	if err == nil {
		if !old.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is there and is no regular file", ErrInvalid, path)
		}
		mode = old.Mode().Perm()
	}
	temp := fmt.Sprintf("%s.%016x.tmp", path, rand.Uint64())
	file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed { // also after a panic
			file.Close() // may be a second time
			os.Remove(temp)
		}
	}()
	if old != nil {
		if err := file.Chmod(mode); err != nil { // the umask may have taken some of it
			return err
		}
	}
	if _, err := f.WriteTo(file); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	renamed = true
	// The new name is on the disk once the directory is. Not every file system can do that, and the
	// filter is whole either way.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		dir.Sync()
		dir.Close()
	}
	return nil
}

// Load is [Read] of a file that holds one filter of type F, as [Save] wrote it, and nothing else.
//
//	f, err := bloom.Load[bloom.Filter]("users.bloom")
func Load[F any, P Decodable[F]](path string, opts ...Option) (*F, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := Read[F, P](file, opts...)
	if err == nil {
		err = expectEnd(file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// expectEnd returns an error if anything follows a record.
func expectEnd(r io.Reader) error {
	var next [1]byte
	switch _, err := io.ReadFull(r, next[:]); err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("%w: bytes follow the record", ErrCorrupt)
	default:
		return err
	}
}
