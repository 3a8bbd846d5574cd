package bloom

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// This file is the header of the binary format, docs/FORMAT.md.

const (
	formatMagic   = "\x89BF\n" // no text, and no byte order mark
	formatVersion = 1

	fixedHeader = 56      // bytes before the parameters of the kind
	headerUnit  = 64      // the header is a multiple of it: the bits of a mapped file start a cache line
	maxHeader   = 1 << 24 // bytes: a chain of some 316,000 links

	flagEstimated = 1 // Len is an estimate
)

// kind is the number of a type in the format.
type kind byte

const (
	kindFilter kind = 1 + iota // also of Concurrent
	kindScalable
	kindCounting
	kindCuckoo
	kindBlocked
)

var kindNames = [...]string{
	kindFilter: "Filter", kindScalable: "Scalable", kindCounting: "Counting", kindCuckoo: "Cuckoo", kindBlocked: "Blocked",
}

func (k kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// newFilter returns a new filter of the type, or nil where there is no such kind.
func (k kind) newFilter() encoded {
	switch k {
	case kindFilter:
		return new(Filter)
	case kindScalable:
		return new(Scalable)
	case kindCounting:
		return new(Counting)
	case kindCuckoo:
		return new(Cuckoo)
	case kindBlocked:
		return new(Blocked)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// head is a header.
type head struct {
	kind      kind
	scheme    Scheme
	estimated bool
	seed      uint64
	sizing
	len    uint64
	body   uint64 // bytes of the bits
	params []byte // of the kind
	config config // for reading: what the scheme, the seed and the reader's key come to
}

func (h *head) bytes() []byte {
	size := (fixedHeader + len(h.params) + 4 + headerUnit - 1) / headerUnit * headerUnit
	b := make([]byte, 0, size)
	b = append(b, formatMagic...)
	flags := byte(0)
	if h.estimated {
		flags = flagEstimated
	}
	b = append(b, formatVersion, byte(h.kind), byte(h.scheme), flags)
	b = binary.LittleEndian.AppendUint64(b, uint64(size))
	for _, v := range []uint64{h.seed, h.capacity, math.Float64bits(h.rate), h.len, h.body} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, h.params...)[:size]
	binary.LittleEndian.PutUint32(b[size-4:], crc32.Checksum(b[:size-4], castagnoli))
	return b
}

// parseHead takes a whole header of the right magic and version.
func parseHead(b []byte) (h head, err error) {
	end := len(b) - 4
	if sum := crc32.Checksum(b[:end], castagnoli); sum != binary.LittleEndian.Uint32(b[end:]) {
		return h, fmt.Errorf("%w: the checksum of the header does not match", ErrCorrupt)
	}
	h.kind, h.scheme = kind(b[5]), Scheme(b[6])
	r := headerReader(b[16:])
	h.seed, h.capacity, h.rate, h.len, h.body = r.u64(), r.u64(), r.f64(), r.u64(), r.u64()
	h.estimated, h.params = b[7]&flagEstimated != 0, b[fixedHeader:end]
	switch {
	case h.kind.newFilter() == nil:
		return h, fmt.Errorf("%w: unknown %v", ErrVersion, h.kind)
	case !h.scheme.valid():
		return h, fmt.Errorf("%w: unknown %v", ErrVersion, h.scheme)
	case b[7]&^flagEstimated != 0:
		return h, fmt.Errorf("%w: unknown flags %#x", ErrVersion, b[7])
	case h.scheme == RedisBloom && h.seed != 0:
		return h, fmt.Errorf("%w: seed %#x in scheme RedisBloom, which has none", ErrCorrupt, h.seed)
	case !(h.rate >= 0 && h.rate <= 1):
		return h, fmt.Errorf("%w: the target rate is %v", ErrCorrupt, h.rate)
	case h.body > maxBits/8:
		return h, fmt.Errorf("%w: %d bytes of bits", ErrTooLarge, h.body)
	}
	return h, nil
}

// paramsOf returns the first n bytes of the parameters, if zeros follow and no more of them than fill the
// header up.
func (h *head) paramsOf(n int) (headerReader, error) {
	if len(h.params) < n || len(h.params)-n >= headerUnit || slices.ContainsFunc(h.params[n:], func(b byte) bool { return b != 0 }) {
		return nil, fmt.Errorf("%w: %d bytes of parameters, want %d", ErrCorrupt, len(h.params), n)
	}
	return headerReader(h.params[:n]), nil
}

// A headerReader takes fields off a header whose length has been checked.
type headerReader []byte

func (r *headerReader) u8() uint8 {
	v := (*r)[0]
	*r = (*r)[1:]
	return v
}

func (r *headerReader) u16() uint16 {
	v := binary.LittleEndian.Uint16(*r)
	*r = (*r)[2:]
	return v
}

func (r *headerReader) u32() uint32 {
	v := binary.LittleEndian.Uint32(*r)
	*r = (*r)[4:]
	return v
}

func (r *headerReader) u64() uint64 {
	v := binary.LittleEndian.Uint64(*r)
	*r = (*r)[8:]
	return v
}

func (r *headerReader) f64() float64 { return math.Float64frombits(r.u64()) }
