package migrate

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/redbloom-go/bloom"
)

// BitsAndBlooms is a filter that github.com/bits-and-blooms/bloom v3 wrote, or its predecessor
// github.com/willf/bloom v2: the formats are the same. It reads whatever form a BloomFilter
// writes, by methods of the same names, so it can take that type's place in code that
// loads one: WriteTo by [BitsAndBlooms.ReadFrom], MarshalBinary by
// [BitsAndBlooms.UnmarshalBinary], gob by [BitsAndBlooms.GobDecode] and JSON by
// [BitsAndBlooms.UnmarshalJSON].
//
// Keys are bytes in the original, so there is no form for numbers here: look up the bytes that your
// program made of a number when it added it. Filters that were filled on big-endian machines by
// versions before 3.7.0 cannot be read: those hash words in the order of the machine. The stream
// does not tell, and the filter read in denies keys.
type BitsAndBlooms struct{ filter }

// ReadFrom reads one filter from r, as WriteTo of the original wrote it, and not a byte past
// it; it returns how many it read. Its reads from r are of 16 and 8 bytes, then of up to 32 KiB. The
// bitset may be in either byte order: the original writes big-endian, unless the program called
// bitset.LittleEndian.
//
// The error wraps [bloom.ErrIncomplete] where r ended early, and [io.EOF] besides if it did
// before the first byte, otherwise [io.ErrUnexpectedEOF]; [bloom.ErrCorrupt] for what no
// such filter can be; [bloom.ErrTooLarge] for sizes past the limits of this package; and any other
// error of r as it came.
func (f *BitsAndBlooms) ReadFrom(r io.Reader) (int64, error) {
	var header [16]byte
	n, err := readStart(r, header[:])
	if err != nil {
		return n, err
	}
	body, err := f.read(r, binary.BigEndian.Uint64(header[:]), binary.BigEndian.Uint64(header[8:]))
	return n + body, err
}

// read reads the bitset: its length in bits, then its words.
func (f *BitsAndBlooms) read(r io.Reader, m, k uint64) (int64, error) {
	switch {
	case m == 0:
		return 0, fmt.Errorf("%w: 0 bits, want at least 1", bloom.ErrCorrupt)
	case k == 0:
		return 0, fmt.Errorf("%w: 0 hashes, want at least 1", bloom.ErrCorrupt)
	case m > maxBits:
		return 0, fmt.Errorf("%w: %d bits, the limit is 2^48", bloom.ErrTooLarge, m)
	case k > maxHashes:
		return 0, fmt.Errorf("%w: %d hashes, the limit is %d", bloom.ErrTooLarge, k, maxHashes)
	}
	var header [8]byte
	got, err := io.ReadFull(r, header[:])
	n := int64(got)
	if err != nil {
		return n, readError(err, "bitset's length", n, 8)
	}
	// New makes the bitset as long as the filter, but for New(0, k), a filter of one bit, whose bitset
	// is empty until a key comes. FromWithM makes it as long as the words that it is given.
	// A number that is the same in both orders is taken as big-endian: the smallest size of
	// that kind takes half a gigabyte.
	possible := func(length uint64) bool {
		return length == m || length == (m+63)/64*64 || length == 0 && m == 1
	}
	length, little := binary.BigEndian.Uint64(header[:]), false
	if !possible(length) {
		length, little = binary.LittleEndian.Uint64(header[:]), true
	}
	if !possible(length) {
		return n, fmt.Errorf("%w: a bitset of %d bits in a filter of %d", bloom.ErrCorrupt, binary.BigEndian.Uint64(header[:]), m)
	}
	words, body, err := readWords(r, (length+63)/64, little)
	n += body
	switch {
	case err != nil:
		return n, err
	case length == 0:
		words = []uint64{0}
	case m%64 != 0 && words[len(words)-1]>>(m%64) != 0:
		return n, fmt.Errorf("%w: a bit past the %d bits is set", bloom.ErrCorrupt, m)
	}
	f.filter = filter{words, m, int(k), bloom.Params{Bits: m, Hashes: int(k), Scheme: bloom.Murmur3}}
	return n, nil
}

// UnmarshalBinary reads a filter from data, all of it, as MarshalBinary of the original
// wrote it. It keeps no part of data. Its errors are those of [BitsAndBlooms.ReadFrom], and bytes
// behind the filter are [bloom.ErrCorrupt].
func (f *BitsAndBlooms) UnmarshalBinary(data []byte) error {
	return whole(f, data, (*BitsAndBlooms).ReadFrom)
}

// GobDecode is [BitsAndBlooms.UnmarshalBinary], under the name by which package gob reads a field
// or a value that was a BloomFilter of the original.
func (f *BitsAndBlooms) GobDecode(data []byte) error { return f.UnmarshalBinary(data) }

// UnmarshalJSON reads a filter from JSON as MarshalJSON of the original wrote it: an object of
// m, k and b, the bitset in base64, by the URL's alphabet or, as with bitset.Base64StdEncoding,
// the standard one. A null in the place of the object or of b is [bloom.ErrCorrupt], since a
// filter that is empty by mistake denies keys. Other errors are those of
// [BitsAndBlooms.UnmarshalBinary].
func (f *BitsAndBlooms) UnmarshalJSON(data []byte) error {
	var object struct {
		M uint64  `json:"m"`
		K uint64  `json:"k"`
		B *string `json:"b"`
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return fmt.Errorf("%w: %w", bloom.ErrCorrupt, err)
	}
	if object.B == nil {
		return fmt.Errorf("%w: no bitset, or null", bloom.ErrCorrupt)
	}
	encoding := base64.URLEncoding
	if strings.ContainsAny(*object.B, "+/") {
		encoding = base64.StdEncoding
	}
	bitset, err := encoding.DecodeString(*object.B)
	if err != nil {
		return fmt.Errorf("%w: %w", bloom.ErrCorrupt, err)
	}
	return whole(f, bitset, func(f *BitsAndBlooms, r io.Reader) (int64, error) {
		return f.read(r, object.M, object.K)
	})
}

// Contains reports what Test of the original does: false means that key was definitely
// not added, true that it was, or is one of the same false positives. It takes no longer
// than the original, and does not allocate, except that keys of 128 bytes and more are copied to a
// buffer that calls share.
func (f *BitsAndBlooms) Contains(key []byte) bool {
	if f.m == 0 {
		return false
	}
	// Position i is h[i%2] + i·h[2 or 3]: the first takes one of two hashes.
	var h [4]uint64
	h[0], h[1] = murmur.Digest(key).Words()
	if !f.test(h[0] % f.m) {
		return false
	}
	h[2], h[3] = hashWithOne(key)
	for i := uint64(1); i < uint64(f.k); i++ {
		if !f.test((h[i%2] + i*h[2+(i+i%2)%4/2]) % f.m) {
			return false
		}
	}
	return true
}

// ContainsString is [BitsAndBlooms.Contains] of the bytes of key, as TestString of the
// original, without a copy.
func (f *BitsAndBlooms) ContainsString(key string) bool { return f.Contains(stringBytes(key)) }

// hashWithOne hashes key with a byte 1 after it, without touching what lies there.
func hashWithOne(key []byte) (h1, h2 uint64) {
	if len(key) < shortKey {
		var b [shortKey]byte
		n := copy(b[:], key)
		b[n] = 1
		return murmur.Digest(b[:n+1]).Words()
	}
	b := longKeys.Get().(*[]byte)
	*b = append(append((*b)[:0], key...), 1)
	h1, h2 = murmur.Digest(*b).Words()
	longKeys.Put(b)
	return h1, h2
}
