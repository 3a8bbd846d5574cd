// Package migrate reads the Bloom filters of other libraries: [BitsAndBlooms], those of
// github.com/bits-and-blooms/bloom, and [Guava], those of Java's
// com.google.common.hash.BloomFilter. They answer as the originals do for every key, false
// positives included, so that a program can go on with the filter that it has until
// all keys are in a filter of package bloom. They cannot be added to, and their bits cannot
// become those of another filter: every library puts the bits of a key elsewhere.
// docs/MIGRATE.md has the two formats and the way over.
//
// The zero value of either type is an empty filter. The methods that read one in replace the
// filter that was there, and on error leave it as it was. The others change nothing, and any
// number of goroutines may call them at once.
//
// # Bytes from outside
//
// The formats have no checksum: a flipped bit in the body goes unseen, as in the originals. What
// the originals do not write is [bloom.ErrCorrupt], missing bytes are [bloom.ErrIncomplete], a
// version that is not known is [bloom.ErrVersion], and a size past 2^48 bits, 2,000 hashes, or what
// this machine can address is [bloom.ErrTooLarge]. Sizes are claims until the bytes have come:
// whatever a header says, no more than 64 KiB and four times the bytes that came is
// allocated, and less than twice the filter's size is in use at once.
package migrate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"sync"
	"unsafe"

	"github.com/redbloom-go/bloom"
)

// murmur hashes for both formats: its scheme's hash is MurmurHash3 x64 128 with seed 0.
var murmur = bloom.Must(bloom.NewWithSize(1, 1))

const (
	maxBits   = 1 << 48 // of package bloom too
	maxHashes = 2000    // of package bloom too; no rate that a float64 can hold asks for more than 1,075
)

// filter is what the filters of both formats have: bit i is bit i%64, from the least
// significant, of word i/64, and those past m are zero.
type filter struct {
	words []uint64
	m     uint64
	k     int
	like  bloom.Params // those of a filter with the same statistics
}

func (f *filter) test(i uint64) bool { return f.words[i/64]>>(i%64)&1 != 0 }

func (f *filter) count() uint64 {
	n := 0
	for _, w := range f.words {
		n += bits.OnesCount64(w)
	}
	return uint64(n)
}

// Bits returns m, the number of bit positions.
func (f *filter) Bits() uint64 { return f.m }

// Hashes returns k, the number of positions a key has.
func (f *filter) Hashes() int { return f.k }

// SizeBytes returns the memory that the bits take, in bytes.
func (f *filter) SizeBytes() uint64 { return uint64(len(f.words)) * 8 }

// FillRatio returns the fraction of bits that are set, from 0 to 1. It reads every word.
func (f *filter) FillRatio() float64 { return float64(f.count()) / math.Max(1, float64(f.m)) }

// EstimateLen estimates how many distinct keys the filter holds from the bits that are set
// ([bloom.Params.EstimateLen]): what ApproximatedSize and approximateElementCount of the originals
// round to a whole number. It is +Inf when all bits are set, and reads every word.
func (f *filter) EstimateLen() float64 { return f.like.EstimateLen(f.count()) }

// ErrorRate returns the rate of false positives to expect now, from the bits that are set: that of
// a filter of package bloom with as many ([bloom.Params.ErrorRateAtFill]), whose positions depend on
// each other like these or more. So it is rather high: up to 1.1 times what is measured of
// filters of 1,000 keys at 0.1 %, 2 to 8 times that of filters of ten keys. The originals'
// fill^k is low: for ten keys a quarter to a thirtieth of what is measured. It reads every word.
func (f *filter) ErrorRate() float64 { return f.like.ErrorRateAtFill(f.count()) }

// readWords reads n words, most significant byte first, or last if little is set. What it
// allocates follows what r has, where that is known, or what has come.
func readWords(r io.Reader, n uint64, little bool) (words []uint64, read int64, err error) {
	if n > math.MaxInt/8 {
		return nil, 0, fmt.Errorf("%w: %d bytes of bits, this machine's limit is %d", bloom.ErrTooLarge, n*8, math.MaxInt)
	}
	room := 1024
	switch r := r.(type) {
	case *bytes.Reader:
		room = max(room, r.Len()/8)
	case *bytes.Buffer:
		room = max(room, r.Len()/8)
	}
	words = make([]uint64, 0, min(n, uint64(room)))
	buf := make([]byte, min(8*n, 32<<10))
	for left := n; left > 0; left = n - uint64(len(words)) {
		part := buf[:min(uint64(len(buf)), 8*left)]
		got, err := io.ReadFull(r, part)
		read += int64(got)
		if err != nil {
			return nil, read, readError(err, "bits", read, 8*n)
		}
		if len(words)+len(part)/8 > cap(words) {
			words = append(make([]uint64, 0, min(n, 2*uint64(cap(words)+len(part)/8))), words...)
		}
		for ; len(part) > 0; part = part[8:] {
			w := binary.BigEndian.Uint64(part)
			if little {
				w = bits.ReverseBytes64(w)
			}
			words = append(words, w)
		}
	}
	return words, read, nil
}

// readStart reads the first bytes of a record.
func readStart(r io.Reader, b []byte) (int64, error) {
	n, err := io.ReadFull(r, b)
	if err == io.EOF {
		return 0, fmt.Errorf("%w: no data: %w", bloom.ErrIncomplete, io.EOF)
	}
	return int64(n), readError(err, "header", int64(n), uint64(len(b)))
}

// readError is for an err that cut a record short, at which only no record at all wraps io.EOF.
func readError(err error, of string, got int64, want uint64) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: %d of the %d bytes of the %s: %w", bloom.ErrIncomplete, got, want, of, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("migrate: after %d of the %d bytes of the %s: %w", got, want, of, err)
}

// whole sets f to what read makes of data, all of which it must take.
func whole[F any](f *F, data []byte, read func(*F, io.Reader) (int64, error)) error {
	r := bytes.NewReader(data)
	var made F
	if _, err := read(&made, r); err != nil {
		return err
	}
	if r.Len() > 0 {
		return fmt.Errorf("%w: %d bytes follow the filter's %d", bloom.ErrCorrupt, r.Len(), len(data)-r.Len())
	}
	*f = made
	return nil
}

// stringBytes is s as bytes, to be read only.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// shortKey is the length up to which a key that has to be built is built on the stack;
// longer ones go to a buffer from the pool. No hash continues where another ended, so the bytes have
// to stand together.
const shortKey = 128

var longKeys = sync.Pool{New: func() any { return new([]byte) }}
