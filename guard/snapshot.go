package guard

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/redbloom-go/bloom"
)

// A snapshot is a header, the filter in the binary format of package bloom, and a trailer. All numbers
// are little-endian.
//
//	 0  4  magic, 89 'B' 'G' 0A
//	 4  1  version, 1
//	 5  1  kind of the filter: 0 Concurrent, 1 Blocked, 2 Scalable
//	 6  1  n, length of the key encoding
//	 7  1  0
//	 8  8  complete: Unix time in nanoseconds, signed
//	16  8  capacity
//	24  8  random bytes
//	32  n  the key encoding
//	    4  CRC-32C of all that is above
//	    …  record of the filter, with checksums of its own
//	    8  the random bytes again: both ends are of one snapshot
const (
	snapshotMagic   = "\x89BG\n"
	snapshotVersion = 1
	snapshotFixed   = 32
	nonceSize       = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNoFilter says that there is no filter to save.
var ErrNoFilter = errors.New("guard: there is no filter")

// snapshotHeader is what precedes the filter.
type snapshotHeader struct {
	kind     Kind
	complete time.Time
	capacity uint64
	nonce    [nonceSize]byte
	encoding string
}

func (h *snapshotHeader) bytes() []byte {
	b := append([]byte(snapshotMagic), snapshotVersion, byte(h.kind), byte(len(h.encoding)), 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.complete.UnixNano()))
	b = binary.LittleEndian.AppendUint64(b, h.capacity)
	b = append(b, h.nonce[:]...)
	b = append(b, h.encoding...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func readSnapshotHeader(r io.Reader) (h snapshotHeader, err error) {
	b := make([]byte, snapshotFixed, snapshotFixed+255+4)
	if err := fill(r, b); err != nil {
		return h, err
	}
	switch {
	case string(b[:4]) != snapshotMagic:
		return h, fmt.Errorf("%w: no snapshot of a guard, it begins with %x", bloom.ErrCorrupt, b[:4])
	case b[4] != snapshotVersion:
		return h, fmt.Errorf("%w: snapshot of version %d, want %d", bloom.ErrVersion, b[4], snapshotVersion)
	}
	name := int(b[6])
	b = b[:snapshotFixed+name+4]
	if err := fill(r, b[snapshotFixed:]); err != nil {
		return h, err
	}
	sum := len(b) - 4
	if got, want := crc32.Checksum(b[:sum], castagnoli), binary.LittleEndian.Uint32(b[sum:]); got != want {
		return h, fmt.Errorf("%w: checksum of the snapshot's header is %08x, want %08x", bloom.ErrCorrupt, got, want)
	}
	if b[7] != 0 {
		return h, fmt.Errorf("%w: byte 7 of the snapshot is %d, want 0", bloom.ErrCorrupt, b[7])
	}
	h.kind = Kind(b[5])
	h.complete = time.Unix(0, int64(binary.LittleEndian.Uint64(b[8:])))
	h.capacity = binary.LittleEndian.Uint64(b[16:])
	copy(h.nonce[:], b[24:])
	h.encoding = string(b[snapshotFixed:sum])
	return h, nil
}

// fill reads all of b.
func fill(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: the snapshot ends too soon: %w", bloom.ErrIncomplete, io.ErrUnexpectedEOF)
	}
	return err
}

// Snapshot writes the filter, so that the next process need not scan the whole table: see
// [Guard.Restore]. Lookups and writes go on meanwhile. It writes in pieces, and takes the memory of a
// second filter only for kinds with a lock. Neither rows nor keys are in it, and the secret of the hash is
// not either.
//
// It returns [ErrNoFilter] if there is none, an error that wraps [bloom.ErrInvalid] if the hash has a key
// that New has drawn, [errors.ErrUnsupported] for a filter outside of the process, or
// the error of w.
func (g *Guard[K, V]) Snapshot(w io.Writer) error {
	if g.opts.Filter != nil {
		return errElsewhere
	}
	if !g.opts.lasting() {
		return fmt.Errorf("%w: nobody else could read the snapshot, since the key of the hash was drawn by New: give Options.Key", bloom.ErrInvalid)
	}
	gen, ok := g.filters.Load()
	if !ok {
		return ErrNoFilter
	}
	// Not the time of this call: rows that other processes committed since may be missing.
	h := snapshotHeader{kind: g.opts.Kind, complete: gen.completeAt(), capacity: gen.capacity, encoding: g.keys.encoding}
	rand.Read(h.nonce[:]) // never fails
	if _, err := w.Write(h.bytes()); err != nil {
		return err
	}
	if _, err := gen.frozen().WriteTo(w); err != nil {
		return err
	}
	_, err := w.Write(h.nonce[:])
	return err
}

// Restore puts the filter of a snapshot in use. It is live only when delta has been read, which is called
// with the time since which rows may be missing: that of the last Rebuild, Restore or CatchUp before the
// snapshot. Clocks differ, and rows appear at their commit but carry an earlier time, so a delta should begin
// some minutes before. What is written meanwhile goes into the new filter as in
// [Guard.Rebuild], which this is in everything else too: an old filter goes on rejecting, and one of
// both runs at a time.
//
// On error all stays as it was: without a filter the state remains Unknown, so go on with Rebuild. Errors that wrap
// [bloom.ErrIncomplete], [bloom.ErrCorrupt] or [bloom.ErrVersion] are of a damaged snapshot or
// another version's, of which no more is believed, nor allocated, than has arrived;
// [bloom.ErrMismatch] says that it was made with another key encoding, kind, hash, key or rate, or for less
// than Options.Capacity. Restore reads one snapshot and not a byte more.
func (g *Guard[K, V]) Restore(ctx context.Context, r io.Reader, delta Scan[K]) (Report, error) {
	return g.restore(ctx, delta, func() (*generation, error) { return g.readSnapshot(r) })
}

func (g *Guard[K, V]) restore(ctx context.Context, delta Scan[K], read func() (*generation, error)) (Report, error) {
	if delta == nil {
		return Report{}, fmt.Errorf("%w: delta is nil", bloom.ErrInvalid)
	}
	return g.replace(ctx, 0, read, func(ctx context.Context, gen *generation, rep *Report) (err error) {
		rep.Scanned = gen.len()
		rep.CaughtUp, err = g.scanInto(ctx, gen, delta, gen.completeAt())
		gen.setComplete(rep.Start)
		return err
	})
}

func (g *Guard[K, V]) readSnapshot(r io.Reader) (*generation, error) {
	h, err := readSnapshotHeader(r)
	if err != nil {
		return nil, err
	}
	switch {
	case h.encoding != g.keys.encoding:
		return nil, fmt.Errorf("%w: key encoding %q in the snapshot, %q here", bloom.ErrMismatch, h.encoding, g.keys.encoding)
	case h.kind != g.opts.Kind:
		return nil, fmt.Errorf("%w: kind %v in the snapshot, %v here", bloom.ErrMismatch, h.kind, g.opts.Kind)
	case h.capacity < g.opts.Capacity:
		return nil, fmt.Errorf("%w: capacity %d in the snapshot, at least %d wanted", bloom.ErrMismatch, h.capacity, g.opts.Capacity)
	}
	f, err := g.newFilter(1) // has the key that the record needs
	if err != nil {
		return nil, err
	}
	if _, err := f.ReadFrom(r); err != nil {
		return nil, err
	}
	var nonce [nonceSize]byte
	switch err := fill(r, nonce[:]); {
	case err != nil:
		return nil, err
	case nonce != h.nonce:
		return nil, fmt.Errorf("%w: beginning and end are of two snapshots", bloom.ErrCorrupt)
	case f.Digest(nil) != g.keys.hasher.Digest(nil): // it knows scheme and seed
		return nil, fmt.Errorf("%w: the filter of the snapshot hashes otherwise", bloom.ErrMismatch)
	case f.TargetRate() != g.opts.ErrorRate:
		return nil, fmt.Errorf("%w: error rate %v in the snapshot, %v here", bloom.ErrMismatch, f.TargetRate(), g.opts.ErrorRate)
	}
	gen := g.newGeneration(f, h.capacity)
	gen.setComplete(h.complete)
	return gen, nil
}

// SnapshotFile is [Guard.Snapshot] to a file, by [bloom.Save]: path holds the new snapshot or the old one, whole,
// whatever happens.
func (g *Guard[K, V]) SnapshotFile(path string) error {
	return bloom.Save(path, snapshotTo(g.Snapshot))
}

type snapshotTo func(io.Writer) error

func (s snapshotTo) WriteTo(w io.Writer) (int64, error) { return 0, s(w) }

// RestoreFile is [Guard.Restore] of a file that has one snapshot and nothing else.
func (g *Guard[K, V]) RestoreFile(ctx context.Context, path string, delta Scan[K]) (Report, error) {
	return g.restore(ctx, delta, func() (*generation, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		gen, err := g.readSnapshot(file)
		if err != nil {
			return nil, err
		}
		if n, err := file.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			return nil, fmt.Errorf("%w: bytes follow the snapshot", bloom.ErrCorrupt)
		}
		return gen, nil
	})
}
