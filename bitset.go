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

// batchSize is how many keys go through a batch together: enough for their cache
// misses to overlap, and few enough for what is kept of them to stay in the first
// level of cache.
const batchSize = 128

// largeWords is the size from which a bitset is taken not to be in cache, and
// batches touch what they are about to use.
const largeWords = 4 << 20 / 8

// batch is a block of keys on their way through a lookup.
type batch struct {
	x, step [batchSize]uint64 // where each probe sequence is
	pos     [batchSize]uint64 // of the keys that are live, in their order
	live    [batchSize]uint8  // keys not found absent so far
	n       int               // how many those are
}

// set makes key i live.
func (q *batch) set(i int, p probes) { q.x[i], q.step[i], q.live[i] = p.x, p.step, uint8(i) }

// touched takes what loads have returned, so that the compiler keeps them.
//
//go:noinline
func touched(uint64) {}

// touch writes the position of the next probe of every live key, and then loads their words, in
// a loop of nothing else. No load waits for another, so that memory works on as many at a
// time as it can.
func (q *batch) touch(b *bitset, d *modulus, inc uint64) {
	for j, i := range q.live[:q.n] {
		q.pos[j] = d.of(q.x[i])
		q.x[i] += q.step[i]
		q.step[i] += inc
	}
	sum := uint64(0)
	for _, p := range q.pos[:q.n] {
		sum += b.words[p>>6]
	}
	touched(sum)
}

// testBatch leaves those keys live that have all their bits set. It goes one
// probe of all live keys after the other: half of the absent ones drop out at each. In
// cache, keys that do not drop out are soonest done one by one.
func (b *bitset) testBatch(d *modulus, q *batch, inc uint64, k int) {
	large := len(b.words) >= largeWords
	for ; k > 0 && q.n > 0; k-- {
		before := q.n
		if large {
			q.touch(b, d, inc)
			b.testTouched(q)
		} else if b.testNext(d, q, inc); q.n > before-before/4 {
			b.testEach(d, q, inc, k-1)
			return
		}
	}
}

// testTouched tests the positions that touch wrote.
func (b *bitset) testTouched(q *batch) {
	n := 0
	for j, i := range q.live[:q.n] {
		p := q.pos[j]
		q.live[n] = i
		n += int(b.words[p>>6] >> (p & 63) & 1)
	}
	q.n = n
}

// testNext is touch and testTouched in one, for bits that are near.
func (b *bitset) testNext(d *modulus, q *batch, inc uint64) {
	if d.magic == 0 || uint64(len(b.words)) < d.w {
		q.touch(b, d, inc)
		b.testTouched(q)
		return
	}
	words := unchecked{unsafe.SliceData(b.words)}
	magic, w, shift := d.magic, d.w, d.shift
	n := 0
	for _, i := range q.live[:q.n] {
		x, step := q.x[i%batchSize], q.step[i%batchSize]
		q.x[i%batchSize], q.step[i%batchSize] = x+step, step+inc
		q.live[n] = i
		n += int(words.at(wordOf(x, magic, w, shift)) >> (x & 63) & 1)
	}
	q.n = n
}

// testEach is testBatch one key after the other.
func (b *bitset) testEach(d *modulus, q *batch, inc uint64, k int) {
	n := 0
	for _, i := range q.live[:q.n] {
		q.live[n] = i
		if b.testAll(d, probes{q.x[i], q.step[i], inc, k}) {
			n++
		}
	}
	q.n = n
}

// touchBatch brings all words of all keys near.
func (b *bitset) touchBatch(d *modulus, q *batch, inc uint64, k int) {
	for range k {
		q.touch(b, d, inc)
	}
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
	return b.appendWords(dst, binary.LittleEndian.AppendUint64)
}

// appendRedisString appends the bits in the order of Redis's SETBIT and GETBIT:
// bit i in byte i/8 at i%8 from the most significant.
func (b *bitset) appendRedisString(dst []byte) []byte {
	return b.appendWords(dst, func(dst []byte, w uint64) []byte {
		return binary.BigEndian.AppendUint64(dst, bits.Reverse64(w))
	})
}

func (b *bitset) appendWords(dst []byte, put func([]byte, uint64) []byte) []byte {
	end := len(dst) + int(b.byteLen())
	dst = slices.Grow(dst, len(b.words)*8)
	for _, w := range b.words {
		dst = put(dst, w)
	}
	return dst[:end]
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

// fields is a row of small numbers of width bits each, 1 to 64, packed without
// gaps: number i takes bits i·width and up.
type fields struct {
	bitset
	width uint64
}

// newFields makes n zero fields; n·width has passed checkSize.
func newFields(n, width uint64) fields { return fields{newBitset(n * width), width} }

func (f *fields) get(i uint64) uint64 {
	at := i * f.width
	w, s := at>>6, at&63
	v := f.words[w] >> s
	if s+f.width > 64 {
		v |= f.words[w+1] << (64 - s)
	}
	return v & (1<<f.width - 1)
}

// put stores v, which fits the width.
func (f *fields) put(i, v uint64) {
	at := i * f.width
	w, s := at>>6, at&63
	mask := uint64(1)<<f.width - 1
	f.words[w] = f.words[w]&^(mask<<s) | v<<s
	if s+f.width > 64 {
		f.words[w+1] = f.words[w+1]&^(mask>>(64-s)) | v>>(64-s)
	}
}

func (f *fields) clone() fields { return fields{f.bitset.clone(), f.width} }

// rows are fields in rows: number j of row i is field i·each+j. A row is searched
// a group of numbers at a time, with one load and one comparison: half the time of a
// loop over the numbers.
type rows struct {
	fields
	each  uint64 // numbers a row
	bits  uint64 // bits a row
	span  uint64 // bits a group; the last group of a row may overlap the one before
	units uint64 // the lowest bit of each number of a group
	highs uint64 // the highest
	top   uint64 // the last byte from which 8 can be read
}

// newRows takes bits as rows of so many numbers each, of 32 bits at most.
func newRows(bits bitset, each, width uint64) rows {
	r := rows{fields: fields{bits, width}, each: each, bits: each * width, top: bits.sizeBytes() - 8}
	// A load brings 64 bits from the start of a byte: 57 are there in any case, and all if
	// every group starts with a byte.
	group := min(each, 57/width)
	if whole := min(each, 64/width); r.bits%8 == 0 && whole*width%8 == 0 {
		group = whole
	}
	r.span = group * width
	for i := range group {
		r.units |= 1 << (i * width)
	}
	r.highs = r.units << (width - 1)
	return r
}

func (r *rows) clone() rows {
	c := *r
	c.bitset = r.bitset.clone()
	return c
}

// find returns the first field of row i that is v.
func (r *rows) find(i, v uint64) (field uint64, ok bool) {
	start, last, pattern := i*r.bits, r.bits-r.span, v*r.units
	for at := uint64(0); ; at = min(at+r.span, last) {
		if m := r.matches(start+at, pattern) & r.highs; m != 0 {
			return (start + at + uint64(bits.TrailingZeros64(m))) / r.width, true
		}
		if at == last {
			return 0, false
		}
	}
}

// either reports whether row i or row j has a v. There is one branch for both: which of
// them has it is a coin toss, and two loads that do not wait for each other cost
// little more than one.
func (r *rows) either(i, j, v uint64) bool {
	i, j = i*r.bits, j*r.bits
	last, pattern := r.bits-r.span, v*r.units
	for at := uint64(0); ; at = min(at+r.span, last) {
		if (r.matches(i+at, pattern)|r.matches(j+at, pattern))&r.highs != 0 {
			return true
		}
		if at == last {
			return false
		}
	}
}

// matches compares the group that starts with bit at with pattern, v in each number: of the
// highest bits of its numbers, none is set if none is v, else the lowest that is set is that of
// the first number that is. Other bits mean nothing.
func (r *rows) matches(at, pattern uint64) uint64 {
	x := r.load(at) ^ pattern
	// A number that is v is 0 now. Subtracting 1 sets a highest bit that was clear
	// only in a 0, or in a 1 that a 0 below it borrows from.
	return (x - r.units) &^ x
}

// load returns the group that starts with bit at, and whatever follows it.
func (r *rows) load(at uint64) uint64 {
	if !littleEndian {
		s := at & 63
		return r.words[at>>6]>>s | r.words[(at+r.span-1)>>6]<<1<<(63-s)
	}
	first := min(at>>3, r.top)
	p := (*[8]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(r.words)), first))
	return binary.LittleEndian.Uint64(p[:]) >> ((at - 8*first) & 63)
}

// nonzero returns how many numbers are not zero.
func (r *rows) nonzero() uint64 {
	n := uint64(0)
	for field := range r.n / r.width {
		if r.get(field) != 0 {
			n++
		}
	}
	return n
}

// occurrences returns how often v is in row i.
func (r *rows) occurrences(i, v uint64) int {
	n := 0
	for field := i * r.each; field < (i+1)*r.each; field++ {
		if r.get(field) == v {
			n++
		}
	}
	return n
}

// The rest is for fields 4 bits wide, 16 to a word, taken a word at a time.

const (
	oddNibbles  = 0x0f0f0f0f0f0f0f0f // every second nibble, from the lowest
	nibbleUnits = 0x1111111111111111 // the lowest bit of every nibble
)

// nibble is get for such fields, bumpNibble adds delta, 1 or −1, to one that does
// not leave 0 … 15 by it.

func (f *fields) nibble(i uint64) uint64 { return f.words[i>>4] >> (i & 15 * 4) & 15 }

func (f *fields) bumpNibble(i uint64, delta int) { f.words[i>>4] += uint64(delta) << (i & 15 * 4) }

// nonzeroAll reports whether every field of a probe sequence is not zero; of no fields at all
// none is. It is bitset.testAll for them.
func (f *fields) nonzeroAll(d *modulus, p probes) bool {
	if d.magic == 0 || uint64(len(f.words)) < 4*d.w {
		return f.nonzeroAny(d, p)
	}
	words := unchecked{unsafe.SliceData(f.words)}
	magic, w, shift := d.magic, d.w, d.shift
	x, step, inc, k := p.x, p.step, p.inc, p.k
	for ; k >= 4; k -= 4 {
		x1 := x + step
		step += inc
		x2 := x1 + step
		step += inc
		x3 := x2 + step
		step += inc
		if carry(words.at(wordOf(x, magic, w, shift)<<2|x>>4&3), x)&
			carry(words.at(wordOf(x1, magic, w, shift)<<2|x1>>4&3), x1)&
			carry(words.at(wordOf(x2, magic, w, shift)<<2|x2>>4&3), x2)&
			carry(words.at(wordOf(x3, magic, w, shift)<<2|x3>>4&3), x3)&16 == 0 {
			return false
		}
		x = x3 + step
		step += inc
	}
	for ; k > 0; k-- {
		if carry(words.at(wordOf(x, magic, w, shift)<<2|x>>4&3), x)&16 == 0 {
			return false
		}
		x, step = x+step, step+inc
	}
	return true
}

// carry has bit 4 set unless nibble i mod 16 of w is 0.
func carry(w, i uint64) uint64 { return w>>(i&15*4)&15 + 15 }

// nonzeroAny is nonzeroAll for any number of fields.
//
//go:noinline
func (f *fields) nonzeroAny(d *modulus, p probes) bool {
	for range p.k {
		if f.nibble(p.x%d.m) == 0 {
			return false
		}
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return len(f.words) > 0
}

// addNibbles adds the fields of o, each sum at most 15.
func (f *fields) addNibbles(o *fields) {
	// A sum of two nibbles fits a byte; a carry in its bit 4 fills bits 0 to 3.
	sum := func(a, b uint64) uint64 {
		s := a&oddNibbles + b&oddNibbles
		return (s | s>>4&(nibbleUnits&oddNibbles)*15) & oddNibbles
	}
	for i, b := range o.words {
		a := f.words[i]
		f.words[i] = sum(a, b) | sum(a>>4, b>>4)<<4
	}
}

// minNibbles keeps the smaller of each two fields.
func (f *fields) minNibbles(o *fields) {
	for i, b := range o.words {
		a, least := f.words[i], uint64(0)
		for s := 0; s < 64; s += 4 {
			least |= min(a>>s&15, b>>s&15) << s
		}
		f.words[i] = least
	}
}

// nonzero has the lowest bit of each nibble of w that is not zero.
func nonzero(w uint64) uint64 {
	w |= w >> 2
	return (w | w>>1) & nibbleUnits
}

// nonzeroNibbles counts the fields that are not zero.
func (f *fields) nonzeroNibbles() uint64 {
	n := 0
	for _, w := range f.words {
		n += bits.OnesCount64(nonzero(w))
	}
	return uint64(n)
}

// nonzeroBits has bit i set where field i is not zero.
func (f *fields) nonzeroBits() bitset {
	b := newBitset(f.n / 4)
	for i, w := range f.words {
		// Bring bits 0, 4, 8, … together by halving the gaps.
		w = nonzero(w)
		w = (w | w>>3) & 0x0303030303030303
		w = (w | w>>6) & 0x000f000f000f000f
		w = (w | w>>12) & 0x000000ff000000ff
		w = (w | w>>24) & 0xffff
		b.words[i/4] |= w << (i % 4 * 16)
	}
	return b
}
