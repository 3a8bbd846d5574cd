package bloom

import (
	"math/bits"
	"unsafe"
)

// This file is for bits in lines of 512, one cache line each.

// line is 8 words of 64 bits.
type line [8]uint64

// lines is a row of lines, each starting at a multiple of 64 bytes.
type lines []line

// newLines makes n clear lines; n·512 has passed checkSize. It allocates 7 words more
// than that and starts at the first one that is aligned: the heap does not move.
func newLines(n uint64) lines {
	words := make([]uint64, 8*n+7)
	skip := -uintptr(unsafe.Pointer(&words[0])) / 8 % 8
	return unsafe.Slice((*line)(unsafe.Pointer(&words[skip])), n)
}

// bits returns the same memory as a bitset.
func (ls lines) bits() bitset {
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(ls))), 8*len(ls))
	return bitset{words, uint64(len(ls)) * 512}
}

// linesOf takes bits as lines: a whole number of them, and the first word aligned.
func linesOf(b bitset) lines {
	return unsafe.Slice((*line)(unsafe.Pointer(unsafe.SliceData(b.words))), len(b.words)/8)
}

func (ls lines) clone() lines {
	if len(ls) == 0 {
		return nil
	}
	c := newLines(uint64(len(ls)))
	copy(c, ls)
	return c
}

// of returns the number of the line of a key.
func (ls lines) of(h1 uint64) uint64 {
	i, _ := bits.Mul64(h1, uint64(len(ls)))
	return i
}

// The positions in a line are those of Blocked: in each row four of the lower and four
// of the upper half of h2. Since x·c·2^6i is (x·2^6i)·c, the halves are shifted from
// row to row and the code stays the same.

// testAll reports whether every bit of a key is set; in no lines at all none is. Four words
// go without a branch between them; one between the halves costs nothing where the
// answer is yes and saves the rest where it is no.
func (ls lines) testAll(h1, h2 uint64, rows int) bool {
	i := ls.of(h1)
	if i >= uint64(len(ls)) {
		return false
	}
	l := &ls[i]
	lo, hi := uint32(h2), uint32(h2>>32)
	for ; rows > 0; rows-- {
		if l[0]>>(lo*line0>>26)&(l[1]>>(lo*line1>>26))&(l[2]>>(lo*line2>>26))&(l[3]>>(lo*line3>>26))&1 == 0 ||
			l[4]>>(hi*line0>>26)&(l[5]>>(hi*line1>>26))&(l[6]>>(hi*line2>>26))&(l[7]>>(hi*line3>>26))&1 == 0 {
			return false
		}
		lo, hi = lo<<6, hi<<6
	}
	return true
}

// setAll sets every bit of a key and reports whether one was clear.
func (ls lines) setAll(h1, h2 uint64, rows int) bool {
	l := &ls[ls.of(h1)]
	lo, hi := uint32(h2), uint32(h2>>32)
	var fresh uint64
	for ; rows > 0; rows-- {
		fresh |= setBit(&l[0], lo*line0>>26) | setBit(&l[1], lo*line1>>26) |
			setBit(&l[2], lo*line2>>26) | setBit(&l[3], lo*line3>>26) |
			setBit(&l[4], hi*line0>>26) | setBit(&l[5], hi*line1>>26) |
			setBit(&l[6], hi*line2>>26) | setBit(&l[7], hi*line3>>26)
		lo, hi = lo<<6, hi<<6
	}
	return fresh != 0
}

// setBit sets bit i < 64 of w and returns its mask if it was clear, else 0.
func setBit(w *uint64, i uint32) uint64 {
	old := *w
	*w = old | 1<<(i&63)
	return *w ^ old
}

// touch loads a word of the line of each key and returns a number made of them, for
// touched.
func (ls lines) touch(h1s []uint64) (sum uint64) {
	for _, h1 := range h1s {
		if i := ls.of(h1); i < uint64(len(ls)) {
			sum += ls[i][0]
		}
	}
	return sum
}

// hitRate is the chance that rows random positions in each word of a random line are
// all set.
func (ls lines) hitRate(rows int) float64 {
	if len(ls) == 0 {
		return 0
	}
	sum := 0.0
	for i := range ls {
		product := uint64(1) // at most 64^8
		for _, w := range ls[i] {
			product *= uint64(bits.OnesCount64(w))
		}
		sum += float64(pow(float64(product)/(1<<48), rows))
	}
	return sum / float64(len(ls))
}
