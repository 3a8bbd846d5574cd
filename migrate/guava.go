package migrate

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf16"

	"github.com/redbloom-go/bloom"
)

// Guava is a filter that BloomFilter.writeTo of Google's Guava for Java wrote, in either of its
// strategies.
//
// A Guava filter holds bytes: a Funnel makes them of an object, and the stream does not tell
// which. Look keys up by the method for the funnel that they were added with; by another the filter
// denies keys that it holds.
//
//	Funnels.byteArrayFunnel()           Contains           the bytes
//	Funnels.stringFunnel(UTF_8)         ContainsString     the string's UTF-8
//	Funnels.stringFunnel(other)         Contains           the string in that encoding
//	Funnels.unencodedCharsFunnel()      ContainsUTF16      each char as 2 bytes, low byte first
//	Funnels.longFunnel()                ContainsUint64     8 bytes, low byte first
//	Funnels.integerFunnel()             ContainsInt32      4 bytes, low byte first
//	Funnels.sequentialFunnel(f)         Contains           the elements' bytes, one after the other
//	a Funnel of yours                   Contains           what it puts, one after the other
//
// putShort and putChar put 2 bytes, putInt 4, putLong 8, the low byte first; putFloat
// and putDouble the bits of the number so; putBoolean a byte 0 or 1. putString with UTF-8 and
// putUnencodedChars put what the funnels of these names do. None puts a length or a mark between.
type Guava struct {
	filter
	strategy byte
}

// The strategies, by their place in Guava's enum.
const (
	mitz32 = iota
	mitz64
)

var strategyNames = [...]string{mitz32: "MURMUR128_MITZ_32", mitz64: "MURMUR128_MITZ_64"}

// ReadFrom reads one filter from r, as writeTo of the original wrote it, and not a byte
// past it; it returns how many it read. Its reads from r are of 6 bytes, then of up to 32 KiB.
//
// The error wraps [bloom.ErrIncomplete] where r ended early, and [io.EOF] besides if it did
// before the first byte, otherwise [io.ErrUnexpectedEOF]; [bloom.ErrCorrupt] for what no
// such filter can be; [bloom.ErrVersion] for another strategy, and for what Java's object
// serialization wrote and not writeTo; [bloom.ErrTooLarge] for sizes past what this machine can
// address; and any other error of r as it came.
func (f *Guava) ReadFrom(r io.Reader) (int64, error) {
	var header [6]byte
	n, err := readStart(r, header[:])
	if err != nil {
		return n, err
	}
	strategy, k, words := header[0], int(header[1]), binary.BigEndian.Uint32(header[2:])
	switch {
	case strategy == 0xac && k == 0xed:
		return n, fmt.Errorf("%w: an object serialized by Java, want what BloomFilter.writeTo writes", bloom.ErrVersion)
	case int(strategy) >= len(strategyNames):
		return n, fmt.Errorf("%w: strategy %d, want 0 or 1", bloom.ErrVersion, int8(strategy))
	case k == 0:
		return n, fmt.Errorf("%w: 0 hashes, want at least 1", bloom.ErrCorrupt)
	case words == 0 || words > math.MaxInt32:
		return n, fmt.Errorf("%w: %d words of bits, want at least 1", bloom.ErrCorrupt, int32(words))
	}
	data, body, err := readWords(r, uint64(words), false)
	n += body
	if err != nil {
		return n, err
	}
	m := uint64(words) * 64
	*f = Guava{filter{data, m, k, bloom.Params{Bits: reach(strategy, m), Hashes: k, Scheme: bloom.RedisBloom}}, strategy}
	return n, nil
}

// reach is how many of m bits the strategy can set at all: sums of 32 bits reach 2^31.
func reach(strategy byte, m uint64) uint64 {
	if strategy == mitz32 {
		return min(m, 1<<31)
	}
	return m
}

// UnmarshalBinary reads a filter from data, all of it, as writeTo of the original wrote
// it. It keeps no part of data. Its errors are those of [Guava.ReadFrom], and bytes
// behind the filter are [bloom.ErrCorrupt].
func (f *Guava) UnmarshalBinary(data []byte) error { return whole(f, data, (*Guava).ReadFrom) }

// Strategy returns the name of the filter's strategy in Guava, "MURMUR128_MITZ_64" or, which was the
// default of early versions, "MURMUR128_MITZ_32".
func (f *Guava) Strategy() string { return strategyNames[f.strategy] }

// Contains reports what mightContain of the original does for an object whose funnel puts
// the bytes of key: false means that it was definitely not put, true that it was, or is one of the
// same false positives. It does not allocate.
func (f *Guava) Contains(key []byte) bool { return f.contains(murmur.Digest(key)) }

// ContainsString is [Guava.Contains] of the bytes of key, without a copy: of a String by
// Funnels.stringFunnel(UTF_8), if key is valid UTF-8 (Java puts a question mark for half a surrogate
// pair, which UTF-8 cannot hold).
func (f *Guava) ContainsString(key string) bool { return f.contains(murmur.DigestString(key)) }

// ContainsUint64 is [Guava.Contains] of the 8 bytes of key, least significant first: of the
// long with these 64 bits by Funnels.longFunnel(), so uint64(n) for a negative n. Keys of
// Funnels.integerFunnel() are others.
func (f *Guava) ContainsUint64(key uint64) bool { return f.contains(murmur.DigestUint64(key)) }

// ContainsInt32 is [Guava.Contains] of the 4 bytes of key, least significant first: of an
// Integer by Funnels.integerFunnel().
func (f *Guava) ContainsInt32(key int32) bool {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], uint32(key))
	return f.Contains(b[:])
}

// ContainsUTF16 is [Guava.Contains] of key in UTF-16, least significant byte first and without a
// byte order mark: of a String by Funnels.unencodedCharsFunnel(). In key, which is
// UTF-8, a byte that is not counts as U+FFFD; a string with half a surrogate pair can be looked up by
// its bytes. It does not allocate, except that the UTF-16 of keys of more than 64 bytes goes to a buffer
// that calls share.
func (f *Guava) ContainsUTF16(key string) bool {
	if len(key) <= shortKey/2 {
		var b [shortKey]byte
		return f.Contains(appendUTF16(b[:0], key))
	}
	b := longKeys.Get().(*[]byte)
	*b = appendUTF16((*b)[:0], key)
	found := f.Contains(*b)
	longKeys.Put(b)
	return found
}

// appendUTF16 appends at most 2 bytes for each of s.
func appendUTF16(dst []byte, s string) []byte {
	for _, r := range s {
		if r > math.MaxUint16 {
			var high rune
			high, r = utf16.EncodeRune(r)
			dst = binary.LittleEndian.AppendUint16(dst, uint16(high))
		}
		dst = binary.LittleEndian.AppendUint16(dst, uint16(r))
	}
	return dst
}

func (f *Guava) contains(d bloom.Digest) bool {
	if f.m == 0 {
		return false
	}
	h1, h2 := d.Words()
	if f.strategy == mitz32 {
		return f.contains32(uint32(h1), uint32(h1>>32))
	}
	for range f.k {
		if !f.test(h1 & math.MaxInt64 % f.m) {
			return false
		}
		h1 += h2
	}
	return true
}

// contains32 takes the halves of the first word of the hash; its sums are Java's ints, and a
// negative one is complemented.
func (f *Guava) contains32(h1, h2 uint32) bool {
	for range f.k {
		h1 += h2
		if x := h1 ^ uint32(int32(h1)>>31); !f.test(uint64(x) % f.m) {
			return false
		}
	}
	return true
}
