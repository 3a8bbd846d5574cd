package bloom

import (
	"fmt"
	"iter"
	"math/bits"
)

// This file has what is under a Cuckoo: the sizes, the chain of sub-filters, and
// how fingerprints are placed, moved and found in one of them.

// cuckooShape is what all sub-filters of a cuckoo filter have in common.
type cuckooShape struct {
	redis         bool   // the scheme is RedisBloom
	bucketSize    uint64 // slots a bucket
	width         uint64 // bits a slot
	maxIterations uint64 // moves that one add may try
	growth        uint64 // buckets of a sub-filter over those of the one before; 0: fixed size
}

const (
	maxRedisBucketSize = 255
	maxRedisSlots      = 1 << 32 // of a sub-filter: the server has 32-bit offsets
	maxCuckooMoves     = 1<<16 - 1
	maxSubFilters      = 32

	// There are only as many ways from a bucket to another as fingerprints: with
	// fewer bits large filters cannot be filled as far.
	minFingerprintBits = 8
	maxFingerprintBits = 32

	// A native filter of fixed size holds its capacity, whichever keys come. For
	// what its first sub-filter cannot place it may have up to maxOverflows
	// others, used while Len < Capacity: with as many buckets or, from overflowSplit
	// of them on, with an overflowShare-th. There each key raises the rate as
	// overflowShare keys do elsewhere, so that it takes no more keys than the
	// size has room for, a share of overflowKeys of the capacity.
	maxOverflows  = 3
	overflowShare = 64
	overflowSplit = 1 << 13
	overflowKeys  = 1 << 12
)

// designLoad is the percentage of slots that the capacity of a native filter fills,
// by bucket size: 1 to 4 less than where adds begin to fail in large filters; 10
// less in buckets of 1, where a few keys that crowd overflow anyway.
var designLoad = [...]uint64{1: 40, 2: 85, 3: 92, 4: 95, 5: 96, 6: 97, 7: 97, 8: 98}

// cuckooShape checks the options and fills in the defaults; size sets the width.
func (c *config) cuckooShape() (s cuckooShape, err error) {
	s = cuckooShape{bucketSize: 4, maxIterations: 2000}
	maxBucketSize := len(designLoad) - 1
	if c.scheme == RedisBloom {
		s = cuckooShape{redis: true, bucketSize: 2, maxIterations: 20, growth: 1}
		maxBucketSize = maxRedisBucketSize
	}
	set := func(o optionSet, name string, value, low, high int, field *uint64) {
		switch {
		case c.given&o == 0 || err != nil:
		case value < low || value > high:
			err = fmt.Errorf("%w: %s is %d, want %d … %d in scheme %v", ErrInvalid, name, value, low, high, c.scheme)
		default:
			*field = uint64(value)
		}
	}
	set(optBucketSize, "bucket size", c.bucketSize, 1, maxBucketSize, &s.bucketSize)
	set(optMaxIterations, "max iterations", c.maxIterations, 1, maxCuckooMoves, &s.maxIterations)
	set(optGrowth, "growth", c.growth, 0, maxExpansion, &s.growth)
	return s, err
}

// size returns the number of buckets of the first sub-filter, and completes the shape.
func (s *cuckooShape) size(capacity uint64, errorRate float64) (buckets uint64, err error) {
	if s.redis {
		return s.sizeRedis(capacity, errorRate)
	}
	if err := checkCapacityAndRate(capacity, errorRate); err != nil {
		return 0, err
	}
	if capacity > maxBits {
		return 0, fmt.Errorf("%w: capacity is %d, the limit is 2^48", ErrTooLarge, capacity)
	}
	perBucket := s.bucketSize * designLoad[s.bucketSize] // keys, in hundredths
	buckets = (capacity*100 + perBucket - 1) / perBucket
	if buckets >= overflowSplit {
		buckets = (buckets + overflowShare - 1) / overflowShare * overflowShare
	}
	weight := capacity
	if buckets >= overflowSplit {
		weight += capacity / overflowKeys * (overflowShare - 1)
	}
	for s.width = minFingerprintBits; s.rate(weight, buckets) > errorRate; s.width++ {
		if s.width == maxFingerprintBits {
			return 0, fmt.Errorf("%w: error rate is %v, want at least %v, the rate of %d-bit fingerprints",
				ErrInvalid, errorRate, s.rate(weight, buckets), s.width)
		}
	}
	return buckets, nil
}

func (s *cuckooShape) sizeRedis(capacity uint64, errorRate float64) (buckets uint64, err error) {
	if capacity == 0 {
		return 0, fmt.Errorf("%w: capacity is 0, want at least 1", ErrInvalid)
	}
	if errorRate != 0 {
		return 0, fmt.Errorf("%w: error rate is %v, want 0 in scheme RedisBloom, where 8-bit fingerprints fix it",
			ErrInvalid, errorRate)
	}
	s.width = 8
	if s.growth > 0 {
		s.growth = ceilPowerOfTwo(s.growth)
	}
	return ceilPowerOfTwo(max(1, capacity/s.bucketSize)), nil
}

// ceilPowerOfTwo rounds x ≥ 1 up to a power of two, but to 2^63 at most.
func ceilPowerOfTwo(x uint64) uint64 { return 1 << min(63, bits.Len64(x-1)) }

// fingerprints is the number of different fingerprints.
func (s *cuckooShape) fingerprints() uint64 { return 1<<s.width - 1 }

// rate is the rate of false positives expected of a sub-filter that holds n
// fingerprints, of which there are F. One of them is taken for an absent key if it
// equals the key's, with probability 1/F, and is in one of the key's buckets: in one
// of two out of B, or of one when both are the same, with probability 1/B. So it
// answers for (2 − 1/B)/(B·F) of all keys, and n of them, some of which answer for
// the same, for 1 − e^(−n·(2 − 1/B)/(B·F)).
func (s *cuckooShape) rate(n, buckets uint64) float64 {
	b := float64(buckets)
	return -expm1(-float64(float64(n) / b * (2 - 1/b) / float64(s.fingerprints())))
}

func (s *cuckooShape) checkRedisSlots(buckets uint64) error {
	if buckets > maxRedisSlots/s.bucketSize {
		return fmt.Errorf("%w: a sub-filter of %d buckets of %d slots, scheme RedisBloom's limit is 2^32 slots",
			ErrTooLarge, buckets, s.bucketSize)
	}
	return nil
}

// chainBuckets iterates over the numbers of buckets of the first count sub-filters of a chain
// whose first one has first.
func (s *cuckooShape) chainBuckets(first, count uint64) iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		buckets := first
		for i := range int(count) {
			if i == 1 && s.overflows() {
				buckets = overflowBuckets(first)
			}
			if !yield(i, buckets) {
				return
			}
			if !s.overflows() {
				buckets *= s.growth
			}
		}
	}
}

// overflowBuckets is the number of buckets of a sub-filter for what overflows one of
// buckets.
func overflowBuckets(buckets uint64) uint64 {
	if buckets >= overflowSplit {
		return buckets / overflowShare
	}
	return buckets
}

// appendFilter adds an empty sub-filter, or returns an error and changes nothing.
func (c *Cuckoo) appendFilter(buckets uint64) error {
	if buckets > maxBits/(c.bucketSize*c.width) {
		return fmt.Errorf("%w: %d buckets of %d slots of %d bits, the limit is 2^48 bits", ErrTooLarge, buckets, c.bucketSize, c.width)
	}
	if c.redis {
		if err := c.checkRedisSlots(buckets); err != nil {
			return err
		}
	}
	slots := buckets * c.bucketSize
	if err := checkSize((c.slots()+slots)*c.width, c.maxBytes); err != nil {
		return err
	}
	c.filters = append(c.filters, newSubFilter(c.cuckooShape, buckets, newBitset(slots*c.width)))
	return nil
}

// slots is the number of slots in all sub-filters.
func (c *Cuckoo) slots() uint64 {
	n := uint64(0)
	for i := range c.filters {
		n += c.filters[i].buckets() * c.bucketSize
	}
	return n
}

// overflows reports whether the filter is a native one of fixed size, whose
// sub-filters after the first are there for what that could not place.
func (s *cuckooShape) overflows() bool { return s.growth == 0 && !s.redis }

// mayOverflow reports whether a key that the first sub-filter of a native filter of
// fixed size cannot place may go to another one. It reads those others, which are small
// or few.
func (c *Cuckoo) mayOverflow() bool {
	if !c.overflows() || c.len >= c.sizing.capacity {
		return false
	}
	if c.filters[0].buckets() < overflowSplit {
		return true
	}
	n := uint64(0)
	for i := range c.filters[1:] {
		n += c.filters[i+1].slots.nonzero()
	}
	return n < c.sizing.capacity/overflowKeys
}

// nextBuckets returns how many buckets the next sub-filter has, or an ErrFull.
func (c *Cuckoo) nextBuckets() (uint64, error) {
	buckets := c.filters[len(c.filters)-1].buckets() * c.growth
	switch {
	case c.mayOverflow() && len(c.filters) <= maxOverflows:
		buckets = overflowBuckets(c.filters[0].buckets())
	case c.growth == 0:
		return 0, c.full("the size is fixed")
	case !c.redis && len(c.filters) >= maxSubFilters:
		return 0, c.full("the chain has all the sub-filters it may have")
	}
	return buckets, nil
}

// grow appends the next sub-filter, or returns an ErrFull.
func (c *Cuckoo) grow() error {
	buckets, err := c.nextBuckets()
	if err != nil {
		return err
	}
	if err := c.appendFilter(buckets); err != nil {
		return fmt.Errorf("%w: %w", c.full("growth was refused"), err)
	}
	return nil
}

func (c *Cuckoo) full(why string) error {
	return fmt.Errorf("%w: %d keys in %d slots of %d sub-filters, and %s", ErrFull, c.len, c.slots(), len(c.filters), why)
}

// finest returns the i-th sub-filter in the order of falling numbers of buckets:
// the newest first, or the oldest first in a filter that overflows.
//
// Keys are placed and removed in this order, and that makes removes safe. Each
// number of buckets divides the one before, and the buckets of a key are the same
// there mod that number. So two keys that a sub-filter cannot tell apart, with
// equal fingerprints and buckets, are one to all that follow. When a remove takes
// a fingerprint that another such key had left, the remaining one, in the same or
// a later sub-filter, is that other key's as well.
func (c *Cuckoo) finest(i int) *subFilter {
	if c.overflows() {
		return &c.filters[i]
	}
	return &c.filters[len(c.filters)-1-i]
}

// place puts fp in a slot, moving others if need be, and reports whether it could.
func (c *Cuckoo) place(h1, fp uint64) bool {
	if !c.overflows() {
		for i := range c.filters {
			if s := c.finest(i); s.place(s.bucket(h1), fp) {
				return true
			}
		}
		return c.finest(0).kick(h1, fp, c.maxIterations)
	}
	for i := range c.filters {
		if i > 0 && !c.mayOverflow() {
			break
		}
		if s := &c.filters[i]; s.place(s.bucket(h1), fp) || s.kick(h1, fp, c.maxIterations) {
			return true
		}
	}
	return false
}

// compact empties sub-filters from the newest to the second into older ones. Unless
// all are wanted it stops at one that does not become empty. Only the newest one is
// dropped, even when an older one has become empty.
func (c *Cuckoo) compact(all bool) {
	for i := len(c.filters) - 1; i > 0; i-- {
		emptied := c.moveDown(i)
		if emptied && i == len(c.filters)-1 {
			c.filters[i] = subFilter{} // frees its memory
			c.filters = c.filters[:i]
		}
		if !emptied && !all {
			break
		}
	}
	c.deletes = 0
}

// moveDown moves what it can of sub-filter i to older ones, and reports
// whether nothing is left.
func (c *Cuckoo) moveDown(i int) (emptied bool) {
	s := &c.filters[i]
	emptied = true
	for slot := range s.buckets() * c.bucketSize {
		fp := s.slots.get(slot)
		switch {
		case fp == 0:
		case placeBelow(c.filters[:i], slot/c.bucketSize, s.buckets(), fp):
			s.slots.put(slot, 0)
		default:
			emptied = false
		}
	}
	return emptied
}

// placeBelow puts fp, which is in bucket i of so many buckets, in a free slot of the
// oldest of filters that has one. The bucket there is i mod its number of buckets; a
// sub-filter where that number does not divide buckets is passed over.
func placeBelow(filters []subFilter, i, buckets, fp uint64) bool {
	for f := range filters {
		s := &filters[f]
		if buckets%s.buckets() == 0 && s.place(i%s.buckets(), fp) {
			return true
		}
	}
	return false
}

// subFilter is one table of buckets.
type subFilter struct {
	slots rows    // row i is bucket i; 0 is a free slot
	mod   modulus // of 64 times the number of buckets, so that its w is that number
	redis bool
}

// newSubFilter takes slots as those of so many buckets.
func newSubFilter(s cuckooShape, buckets uint64, slots bitset) subFilter {
	return subFilter{newRows(slots, s.bucketSize, s.width), newModulus(64 * buckets), s.redis}
}

func (s *subFilter) buckets() uint64 { return s.mod.w }

// bucket returns the first bucket of a key. Where there is only one a mask does, too, for
// any bucket.
func (s *subFilter) bucket(h1 uint64) uint64 {
	if s.redis || s.mod.magic == 0 {
		return h1 & (s.mod.w - 1)
	}
	return wordOf(h1, s.mod.magic, s.mod.w, s.mod.shift)
}

// alternate returns the other bucket of fp when one is i.
func (s *subFilter) alternate(i, fp uint64) uint64 {
	if s.redis || s.mod.magic == 0 {
		return (i ^ fp*0x5bd1e995) & (s.mod.w - 1)
	}
	j := wordOf(fp*0x9e3779b97f4a7c15, s.mod.magic, s.mod.w, s.mod.shift) - i
	return j + s.mod.w&uint64(int64(j)>>63) // below 0, so w is due; a branch would be a coin toss
}

func (s *subFilter) contains(h1, fp uint64) bool {
	i := s.bucket(h1)
	j := s.alternate(i, fp)
	r := &s.slots
	// Most buckets are one group, and then this is all that either does, without the call.
	pattern := fp * r.units
	if (r.matches(i*r.bits, pattern)|r.matches(j*r.bits, pattern))&r.highs != 0 {
		return true
	}
	return r.span < r.bits && r.either(i, j, fp)
}

func (s *subFilter) count(h1, fp uint64) int {
	i := s.bucket(h1)
	j := s.alternate(i, fp)
	n := s.slots.occurrences(i, fp)
	if i != j || s.redis {
		n += s.slots.occurrences(j, fp)
	}
	return n
}

// place puts fp in the first free slot of bucket i, or else of its other bucket.
func (s *subFilter) place(i, fp uint64) bool { return s.replace(i, fp, 0, fp) }

// remove frees the first slot with fp, in the order in which place fills them.
func (s *subFilter) remove(h1, fp uint64) bool { return s.replace(s.bucket(h1), fp, fp, 0) }

func (s *subFilter) replace(i, fp, from, to uint64) bool {
	slot, ok := s.slots.find(i, from)
	if !ok {
		slot, ok = s.slots.find(s.alternate(i, fp), from)
	}
	if ok {
		s.slots.put(slot, to)
	}
	return ok
}

// kick puts fp in a slot of its first bucket, the fingerprint from there in a free
// slot of its own other bucket or, if there is none, in the place of another one,
// and so on for at most so many moves. If no free slot is found it undoes them.
func (s *subFilter) kick(h1, fp, moves uint64) bool {
	i := s.bucket(h1)
	for move := range moves {
		fp = s.swap(i, s.victim(h1, move), fp)
		i = s.alternate(i, fp)
		if slot, ok := s.slots.find(i, 0); ok {
			s.slots.put(slot, fp)
			return true
		}
	}
	for move := moves; move > 0; move-- {
		i = s.alternate(i, fp)
		fp = s.swap(i, s.victim(h1, move-1), fp)
	}
	return false
}

// victim returns which slot of its bucket a move takes. The server takes one after the
// other. Choosing by a hash of key and move fills a table further: with 500 moves
// buckets of 2 to 86 % instead of 70, buckets of 4 to 96.1 instead of 95.6.
func (s *subFilter) victim(h1, move uint64) uint64 {
	if s.redis {
		return move % s.slots.each
	}
	v, _ := bits.Mul64(splitMix64(h1+move), s.slots.each)
	return v
}

// swap puts fp in a slot of bucket i and returns what was there.
func (s *subFilter) swap(i, slot, fp uint64) uint64 {
	slot += i * s.slots.each
	old := s.slots.get(slot)
	s.slots.put(slot, fp)
	return old
}
