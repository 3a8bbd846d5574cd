package bloom

import "unsafe"

// This file is for the bits of many keys at a time.

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
