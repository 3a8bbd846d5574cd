package redisbloom

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"

	bloom "github.com/redbloom-go/bloom"
)

// This file writes all keys to one file and reads them back. All integers are little-endian.
//
//	magic "\x89BK\n", version 1 and three zeros
//	for each key: type u8 and three zeros, length of the key u32, length of the value u64,
//	  the key, the value, CRC-32C of all these u32; and for a filter its record, as
//	  its WriteTo writes it (docs/FORMAT.md)
//	the end: type 255 and three zeros, 0 u32, number of keys u64, CRC-32C of these
//
// The value is the string, or the header of a filter that was being loaded, or empty.

const (
	snapshotMagic   = "\x89BK\n"
	snapshotVersion = 1
	snapshotHead    = 16 // bytes before a key
)

const (
	recordString byte = 1 + iota
	recordBF
	recordCF
	recordBFHeader // a filter that was being loaded
	recordCFHeader
	recordEnd = 255
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes all keys to a file, so that path holds all of this or what it held before, whatever
// happens: it writes to a temporary file in the same directory (path with a random number and ".tmp" behind it, which a
// killed process can leave behind), flushes it to the disk and renames it. What is written is what
// [Engine.WriteTo] writes.
func (e *Engine) Save(path string) error { return bloom.Save(path, e) }

// WriteTo writes all keys in the package's own format, and returns the number of bytes. Each key is written as it is at
// one moment, but not all at the same: keys that are made or deleted meanwhile may be in or not. A key that is
// being written can be read and not changed: a command that would change it waits, and later ones for that key
// behind it. Of a filter that is being loaded only the header is written, so that it is incomplete
// after a Load too, and chunks can be sent again. It allocates some 100 KiB, and the names of
// a 256th of the keys at a time.
func (e *Engine) WriteTo(w io.Writer) (int64, error) {
	counted := &countingWriter{w: w}
	b := bufio.NewWriterSize(counted, 1<<16)
	b.WriteString(snapshotMagic)
	b.Write([]byte{snapshotVersion, 0, 0, 0})
	n := uint64(0)
	for i := range e.keys.shards {
		for _, key := range e.keys.shards[i].appendKeys(nil) {
			en := e.keys.rlock(asBytes(key))
			if en == nil {
				continue
			}
			err := en.writeTo(b, key)
			en.RUnlock()
			if err != nil {
				return counted.n, fmt.Errorf("key %.100q: %w", key, err)
			}
			n++
		}
	}
	end := snapshotEnd(n)
	b.Write(end[:])
	err := b.Flush()
	return counted.n, err
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

func snapshotEnd(keys uint64) (end [snapshotHead + 4]byte) {
	end[0] = recordEnd
	binary.LittleEndian.PutUint64(end[8:], keys)
	binary.LittleEndian.PutUint32(end[snapshotHead:], crc32.Checksum(end[:snapshotHead], castagnoli))
	return end
}

func (en *entry) writeTo(w *bufio.Writer, key string) error {
	var kind byte
	var value []byte
	var filter io.WriterTo
	switch {
	case en.kind == kindString:
		kind, value = recordString, en.str
	case en.bf != nil:
		kind, filter = recordBF, en.bf
	case en.cf != nil:
		kind, filter = recordCF, en.cf
	case en.kind == kindBF:
		kind, value = recordBFHeader, en.load.header
	default:
		kind, value = recordCFHeader, en.load.header
	}
	var head [snapshotHead]byte
	head[0] = kind
	binary.LittleEndian.PutUint32(head[4:], uint32(len(key)))
	binary.LittleEndian.PutUint64(head[8:], uint64(len(value)))
	sum := crc32.Checksum(head[:], castagnoli)
	for _, part := range [][]byte{head[:], asBytes(key), value} {
		w.Write(part)
	}
	sum = crc32.Update(crc32.Update(sum, castagnoli, asBytes(key)), castagnoli, value)
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum))
	if err == nil && filter != nil {
		_, err = filter.WriteTo(w)
	}
	return err
}

// Load reads the keys of a file that Save wrote, and then has these and no others: see [Engine.ReadFrom].
func (e *Engine) Load(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := e.ReadFrom(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ReadFrom reads the keys that WriteTo wrote, to the end of r, and then has these and no others. It checks all of
// them first: on an error nothing has changed. The error wraps [bloom.ErrCorrupt] or [bloom.ErrIncomplete] if the
// data is damaged, [bloom.ErrVersion] if a later version of this package may have written it, [bloom.ErrTooLarge] if
// the keys would pass the memory limit, or is the error of r. While it reads, both the old and the new keys are in
// memory, and for both the limit counts alone.
func (e *Engine) ReadFrom(r io.Reader) (int64, error) {
	counted := &countingReader{r: r}
	s, err := e.read(bufio.NewReaderSize(counted, 1<<16))
	if err == nil {
		defer e.stop()() // no command sees a part of the keys
		e.replace(s)
	}
	return counted.n, err
}

type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// snapshot is keys on their way in.
type snapshot struct {
	r       *bufio.Reader
	sum     hash.Hash32
	limit   uint64 // of memory; 0 is none
	used    uint64
	entries map[string]*entry
}

// Reload writes all keys to memory and reads them back, while no command runs: it is there for tests of what Save
// keeps. On an error nothing has changed.
func (e *Engine) Reload() error {
	defer e.stop()()
	var file bytes.Buffer
	if _, err := e.WriteTo(&file); err != nil {
		return err
	}
	s, err := e.read(bufio.NewReader(&file))
	if err == nil {
		e.replace(s)
	}
	return err
}

func (e *Engine) read(r *bufio.Reader) (*snapshot, error) {
	s := &snapshot{r: r, sum: crc32.New(castagnoli), limit: e.MaxMemory(), entries: map[string]*entry{}}
	if err := s.start(); err != nil {
		return nil, err
	}
	for {
		more, err := s.next()
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", len(s.entries)+1, err)
		}
		if !more {
			break
		}
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return nil, fmt.Errorf("%w: bytes follow the last key", bloom.ErrCorrupt)
	}
	return s, nil
}

// replace gives the engine other keys, while no command runs.
func (e *Engine) replace(s *snapshot) {
	flushAll(e, [][]byte{nil})
	e.mem.used.Add(s.used)
	for key, en := range s.entries {
		e.keys.shard(asBytes(key)).entries[key] = en
	}
}

func (s *snapshot) start() error {
	head := make([]byte, 8)
	if err := s.full(head); err != nil {
		return err
	}
	if string(head[:4]) != snapshotMagic {
		return fmt.Errorf("%w: it begins with % x, want % x", bloom.ErrCorrupt, head[:4], snapshotMagic)
	}
	if !bytes.Equal(head[4:], []byte{snapshotVersion, 0, 0, 0}) {
		return fmt.Errorf("%w: version % x, this package reads %d", bloom.ErrVersion, head[4:], snapshotVersion)
	}
	return nil
}

// full reads all of b.
func (s *snapshot) full(b []byte) error {
	_, err := io.ReadFull(s.r, b)
	return incomplete(err)
}

func incomplete(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the file ends too soon: %w", bloom.ErrIncomplete, io.ErrUnexpectedEOF)
	}
	return err
}

// next reads a key, or the end.
func (s *snapshot) next() (more bool, err error) {
	var head [snapshotHead]byte
	if err := s.full(head[:]); err != nil {
		return false, err
	}
	kind, keySize, valueSize := head[0], binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint64(head[8:])
	s.sum.Reset()
	s.sum.Write(head[:])
	if kind == recordEnd {
		if err := s.checkSum(); err != nil {
			return false, err
		}
		if keySize != 0 || valueSize != uint64(len(s.entries)) {
			return false, fmt.Errorf("%w: %d keys where %d were written", bloom.ErrCorrupt, len(s.entries), valueSize)
		}
		return false, nil
	}
	key, err := s.piece(uint64(keySize))
	if err != nil {
		return false, err
	}
	value, err := s.piece(valueSize)
	if err != nil {
		return false, err
	}
	if err := s.checkSum(); err != nil {
		return false, err
	}
	if s.entries[string(key)] != nil {
		return false, fmt.Errorf("%w: %.100q is there twice", bloom.ErrCorrupt, key)
	}
	en, err := s.value(kind, key, value)
	if err != nil {
		return false, fmt.Errorf("%.100q: %w", key, err)
	}
	s.entries[string(key)] = en
	return true, nil
}

func (s *snapshot) checkSum() error {
	var want [4]byte
	if err := s.full(want[:]); err != nil {
		return err
	}
	if s.sum.Sum32() != binary.LittleEndian.Uint32(want[:]) {
		return fmt.Errorf("%w: a checksum does not match", bloom.ErrCorrupt)
	}
	return nil
}

// piece reads n bytes, and takes memory only as they come.
func (s *snapshot) piece(n uint64) ([]byte, error) {
	if err := s.reserve(n); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if n <= 1<<12 {
		b.Grow(int(n))
	}
	got, err := io.CopyN(&b, s.r, int64(n))
	if err == nil && uint64(got) != n {
		err = io.ErrUnexpectedEOF
	}
	s.sum.Write(b.Bytes())
	return b.Bytes(), incomplete(err)
}

// reserve counts memory that is about to be used.
func (s *snapshot) reserve(n uint64) error {
	if n > s.left() {
		return fmt.Errorf("%w: the keys take more than the memory limit of %d bytes", bloom.ErrTooLarge, s.limit)
	}
	s.used += n
	return nil
}

// left is how much more there may be.
func (s *snapshot) left() uint64 {
	limit := s.limit
	if limit == 0 {
		limit = 1 << 62
	}
	return limit - min(limit, s.used)
}

// value makes the entry of a key.
func (s *snapshot) value(kind byte, key, value []byte) (*entry, error) {
	if len(value) > 0 && (kind == recordBF || kind == recordCF) {
		return nil, fmt.Errorf("%w: a filter with a value of %d bytes before it", bloom.ErrCorrupt, len(value))
	}
	en := &entry{version: 1}
	limit := bloom.WithMaxBytes(s.left())
	var err error
	switch kind {
	case recordString:
		en.set(kindString)
		en.str = value
	case recordBF:
		en.set(kindBF)
		if en.bf, err = bloom.Read[bloom.Scalable](s.r, limit); err != nil {
			return nil, err
		}
		if en.bf.Scheme() != bloom.RedisBloom {
			return nil, fmt.Errorf("%w: a filter of scheme %v", bloom.ErrMismatch, en.bf.Scheme())
		}
		en.bf.SetMaxBytes(0)
	case recordCF:
		f, err := bloom.Read[bloom.Cuckoo](s.r, limit)
		if err != nil {
			return nil, err
		}
		if f.Scheme() != bloom.RedisBloom {
			return nil, fmt.Errorf("%w: a filter of scheme %v", bloom.ErrMismatch, f.Scheme())
		}
		en.setCF(f)
	case recordBFHeader:
		en.set(kindBF)
		en.load, err = newBFLoading(value)
	case recordCFHeader:
		en.set(kindCF)
		en.load, err = newCFLoading(value)
	default:
		err = fmt.Errorf("%w: a key of type %d", bloom.ErrVersion, kind)
	}
	if err != nil {
		return nil, err
	}
	s.used -= uint64(len(key) + len(value)) // they are in the size
	en.bytes = en.size(key)
	return en, s.reserve(en.bytes)
}
