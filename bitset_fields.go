package bloom

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// This file is for bits taken as small numbers.

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
