package bloom

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"unsafe"
)

// bitset is n bits, bit i in word i/64 at i%64 from the least significant.
// Bits past n in the last word are zero, always: popcounts, comparisons and
// encodings rely on it.
type bitset struct {
	words []uint64
	n     uint64
}

// wordsFor is how many words hold n bits.
func wordsFor(n uint64) uint64 { return n/64 + (n%64+63)/64 }

// newBitset makes n zero bits; n has passed checkSize.
func newBitset(n uint64) bitset { return bitset{make([]uint64, wordsFor(n)), n} }

func (b *bitset) sizeBytes() uint64 { return uint64(len(b.words)) * 8 }

func (b *bitset) test(i uint64) bool { return b.words[i>>6]>>(i&63)&1 != 0 }

// set sets bit i and reports whether it was clear.
func (b *bitset) set(i uint64) bool {
	w := &b.words[i>>6]
	old := *w
	*w = old | 1<<(i&63)
	return old != *w
}

// testAll reports whether every bit of a probe sequence is set; in no bits at
// all none is. It probes four at a time without a branch between them: near
// the design load each bit is a coin toss that no predictor calls, and four
// loads that do not wait for each other cost little more than one.
func (b *bitset) testAll(d *modulus, p probes) bool {
	if d.magic == 0 || uint64(len(b.words)) < d.w {
		return b.testAny(d, p)
	}
	words := unchecked{unsafe.SliceData(b.words)}
	magic, w, shift := d.magic, d.w, d.shift
	x, step, inc, k := p.x, p.step, p.inc, p.k
	for ; k >= 4; k -= 4 {
		x1 := x + step
		step += inc
		x2 := x1 + step
		step += inc
		x3 := x2 + step
		step += inc
		if words.at(wordOf(x, magic, w, shift))>>(x&63)&
			(words.at(wordOf(x1, magic, w, shift))>>(x1&63))&
			(words.at(wordOf(x2, magic, w, shift))>>(x2&63))&
			(words.at(wordOf(x3, magic, w, shift))>>(x3&63))&1 == 0 {
			return false
		}
		x = x3 + step
		step += inc
	}
	for ; k > 0; k-- {
		if words.at(wordOf(x, magic, w, shift))>>(x&63)&1 == 0 {
			return false
		}
		x, step = x+step, step+inc
	}
	return true
}

// testAny is testAll for any number of bits, with a division a probe. Inlined it would cost
// testAll registers.
//
//go:noinline
func (b *bitset) testAny(d *modulus, p probes) bool {
	for range p.k {
		if !b.test(p.x % d.m) {
			return false
		}
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return len(b.words) > 0
}

// unchecked is at least d.w words. A position of the modulus d is in one of them, but the compiler
// cannot know that, and would check it at each probe: a tenth of a lookup.
type unchecked struct{ first *uint64 }

func (u unchecked) at(i uint64) uint64 { return *u.word(i) }

func (u unchecked) word(i uint64) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(u.first), i*8))
}

// setAll sets every bit of a probe sequence and reports whether one was clear.
func (b *bitset) setAll(d *modulus, p probes) bool {
	if d.magic == 0 || uint64(len(b.words)) < d.w {
		return b.setAny(d, p)
	}
	words := unchecked{unsafe.SliceData(b.words)}
	magic, w, shift := d.magic, d.w, d.shift
	x, step, inc := p.x, p.step, p.inc
	var fresh uint64
	for range p.k {
		word := words.word(wordOf(x, magic, w, shift))
		old := *word
		mask := uint64(1) << (x & 63)
		*word = old | mask
		fresh |= mask &^ old
		x, step = x+step, step+inc
	}
	return fresh != 0
}

// setAny is setAll for any number of bits.
//
//go:noinline
func (b *bitset) setAny(d *modulus, p probes) (fresh bool) {
	for range p.k {
		if b.set(p.x % d.m) {
			fresh = true
		}
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return fresh
}

// count returns how many bits are set.
func (b *bitset) count() uint64 {
	n := 0
	for _, w := range b.words {
		n += bits.OnesCount64(w)
	}
	return uint64(n)
}

// union and intersect take a bitset of the same length.

func (b *bitset) union(o *bitset) {
	for i, w := range o.words {
		b.words[i] |= w
	}
}

func (b *bitset) intersect(o *bitset) {
	for i, w := range o.words {
		b.words[i] &= w
	}
}

func (b *bitset) equal(o *bitset) bool { return b.n == o.n && slices.Equal(b.words, o.words) }

func (b *bitset) clone() bitset { return bitset{slices.Clone(b.words), b.n} }

func (b *bitset) clear() { clear(b.words) }

// byteLen is the length of either byte form: whole bytes, the last one padded.
func (b *bitset) byteLen() uint64 { return b.n/8 + (b.n%8+7)/8 }

// appendBytes appends the bits with bit i in byte i/8 at i%8 from the least
// significant, which is how RedisBloom keeps them.
func (b *bitset) appendBytes(dst []byte) []byte {
	end := len(dst) + int(b.byteLen())
	dst = slices.Grow(dst, len(b.words)*8)
	for _, w := range b.words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst[:end]
}

// appendRedisString appends bytes from … to−1 of the bits in the order of Redis's SETBIT and
// GETBIT: bit i in byte i/8 at i%8 from the most significant.
func (b *bitset) appendRedisString(dst []byte, from, to uint64) []byte {
	dst = slices.Grow(dst, int(to-from))
	for at := from; at < to; {
		w := b.words[at/8]
		if at%8 == 0 && to-at >= 8 {
			dst = binary.BigEndian.AppendUint64(dst, bits.Reverse64(w))
			at += 8
			continue
		}
		dst = append(dst, bits.Reverse8(uint8(w>>(at%8*8))))
		at++
	}
	return dst
}

// setRedisString fills the bits from the form appendRedisString writes. It refuses another
// length and bits past the end, and then leaves the bits as they were.
func (b *bitset) setRedisString(src []byte) error {
	if uint64(len(src)) != b.byteLen() {
		return fmt.Errorf("%w: %d bytes for %d bits, want %d", ErrCorrupt, len(src), b.n, b.byteLen())
	}
	if len(src) == 0 {
		return nil
	}
	final := len(b.words) - 1 // its bytes may be fewer than 8
	var tail [8]byte
	copy(tail[:], src[8*final:])
	word := func(s []byte) uint64 { return bits.Reverse64(binary.BigEndian.Uint64(s)) }
	last := word(tail[:])
	if r := b.n % 64; r != 0 && last>>r != 0 {
		return fmt.Errorf("%w: a bit past the %d bits is set", ErrCorrupt, b.n)
	}
	for i := range final {
		b.words[i] = word(src[8*i:])
	}
	b.words[final] = last
	return nil
}

// bytes returns bytes from … to−1 of the form appendBytes writes. Where the machine
// keeps words that way they are the bits' own memory, to be read only and until the
// bits change; elsewhere they are a copy.
func (b *bitset) bytes(from, to uint64) []byte { return b.bytesOr(nil, from, to) }

// bytesOr is bytes with room for a copy.
func (b *bitset) bytesOr(copied []byte, from, to uint64) []byte {
	if from == to {
		return nil
	}
	words := b.words[from/8 : (to+7)/8]
	if littleEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))[from%8:][: to-from : to-from]
	}
	part := bitset{words, uint64(len(words)) * 64}
	return part.appendBytes(copied[:0])[from%8:][: to-from : to-from]
}

// wordsIn takes bytes, in the form appendBytes writes, as words without a copy: they are a whole number of words,
// the first one aligned, on a machine that keeps words that way.
func wordsIn(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
}

// putBytes overwrites bytes at and up of the form appendBytes writes.
func (b *bitset) putBytes(at uint64, src []byte) {
	if littleEndian && len(src) > 0 {
		all := unsafe.Slice((*byte)(unsafe.Pointer(&b.words[0])), 8*len(b.words))
		copy(all[at:], src)
		return
	}
	for i, c := range src {
		w := &b.words[(at+uint64(i))/8]
		shift := (at + uint64(i)) % 8 * 8
		*w = *w&^(0xff<<shift) | uint64(c)<<shift
	}
}

// zeroFrom reports whether all bits from i on are clear, also those past n, which a decoder
// may have filled.
func (b *bitset) zeroFrom(i uint64) bool {
	if i >= uint64(len(b.words))*64 {
		return true
	}
	first := b.words[i/64] >> (i % 64)
	return first == 0 && !slices.ContainsFunc(b.words[i/64+1:], func(w uint64) bool { return w != 0 })
}

// littleEndian tells that this machine keeps the low byte of a word first. It is a constant, since a branch
// would cost where it is asked; an architecture that is not listed takes the portable way.
const littleEndian = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" || runtime.GOARCH == "386" ||
	runtime.GOARCH == "arm" || runtime.GOARCH == "riscv64" || runtime.GOARCH == "loong64" || runtime.GOARCH == "ppc64le" ||
	runtime.GOARCH == "mipsle" || runtime.GOARCH == "mips64le" || runtime.GOARCH == "wasm"
