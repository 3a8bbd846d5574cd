package bloom

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// This file is for bits that goroutines share, each access atomic. The words are
// aligned for it on every platform: the first word of an allocated slice is 64-bit
// aligned, also where the machine's own words have 32 bits (sync/atomic).

// sharedBits is a bitset in which bits are only ever set while it is shared.
type sharedBits bitset

// testAll is bitset.testAll.
func (b *sharedBits) testAll(d *modulus, p probes) bool {
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
		if atomic.LoadUint64(words.word(wordOf(x, magic, w, shift)))>>(x&63)&
			(atomic.LoadUint64(words.word(wordOf(x1, magic, w, shift)))>>(x1&63))&
			(atomic.LoadUint64(words.word(wordOf(x2, magic, w, shift)))>>(x2&63))&
			(atomic.LoadUint64(words.word(wordOf(x3, magic, w, shift)))>>(x3&63))&1 == 0 {
			return false
		}
		x = x3 + step
		step += inc
	}
	for ; k > 0; k-- {
		if atomic.LoadUint64(words.word(wordOf(x, magic, w, shift)))>>(x&63)&1 == 0 {
			return false
		}
		x, step = x+step, step+inc
	}
	return true
}

// testAny is bitset.testAny.
//
//go:noinline
func (b *sharedBits) testAny(d *modulus, p probes) bool {
	for range p.k {
		if i := p.x % d.m; atomic.LoadUint64(&b.words[i>>6])>>(i&63)&1 == 0 {
			return false
		}
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return len(b.words) > 0
}

// setAll sets every bit of a probe sequence and reports whether one was clear, of
// several calls for one key at the same time in at most one.
//
// It writes only where a bit is missing, and one behind: the missing bit that it found last
// is held back until another one is found, or the end, and the answer is whether
// setting the very last one changed it. Then, at that moment in the total order of all
// atomic operations, every bit of the key is set, since each other one was seen set, or
// was set, before; and just before that moment it was not so. A key becomes complete
// once, bits never being cleared, so one call at most can say so. None does when the key is
// completed by a bit that another key sets meanwhile: then it counts as the false positive that
// it would have been had it come last. No bit is lost either way.
func (b *sharedBits) setAll(d *modulus, p probes) bool {
	words := b.words
	x, step := p.x, p.step
	var held *uint64
	var heldMask uint64
	for range p.k {
		i := d.of(x)
		x, step = x+step, step+p.inc
		w, mask := &words[i>>6], uint64(1)<<(i&63)
		if atomic.LoadUint64(w)&mask != 0 || w == held && mask == heldMask {
			continue
		}
		if held != nil {
			atomic.OrUint64(held, heldMask)
		}
		held, heldMask = w, mask
	}
	return held != nil && atomic.OrUint64(held, heldMask)&heldMask == 0
}

func (b *sharedBits) count() uint64 {
	n := 0
	for i := range b.words {
		n += bits.OnesCount64(atomic.LoadUint64(&b.words[i]))
	}
	return uint64(n)
}

// union, equal: o has the same length.

func (b *sharedBits) union(o *sharedBits) {
	for i := range o.words {
		w := atomic.LoadUint64(&o.words[i])
		if w&^atomic.LoadUint64(&b.words[i]) != 0 {
			atomic.OrUint64(&b.words[i], w)
		}
	}
}

func (b *sharedBits) equal(o *sharedBits) bool {
	for i := range b.words {
		if atomic.LoadUint64(&b.words[i]) != atomic.LoadUint64(&o.words[i]) {
			return false
		}
	}
	return true
}

// copy returns the bits as they are read one word after the other: what is set when
// it starts is in it, and nothing that is not set when it ends.
func (b *sharedBits) copy() bitset {
	return bitset{b.load(make([]uint64, len(b.words)), 0, uint64(len(b.words))), b.n}
}

// load copies words from … to−1 to dst, each as copy does, and returns them.
func (b *sharedBits) load(dst []uint64, from, to uint64) []uint64 {
	dst = dst[:to-from]
	for i := range dst {
		dst[i] = atomic.LoadUint64(&b.words[from+uint64(i)])
	}
	return dst
}

// clear is for when nobody sets bits.
func (b *sharedBits) clear() {
	for i := range b.words {
		atomic.StoreUint64(&b.words[i], 0)
	}
}
