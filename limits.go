package bloom

import "math/bits"

// This file has what a keyspace of filters asks of them: how much memory the next growth
// takes, and limits that follow from what all filters use together.

// SetMaxBytes bounds what all links together may take from now on, in bytes, as [WithMaxBytes] does at
// construction: also for a filter from a [ScalableLoader], which has no limit; one that was read has the
// limit it was written with. What is there stays, even where it is more; growth past the limit is refused
// with [ErrTooLarge]. Goroutines: as for Add.
func (s *Scalable) SetMaxBytes(limit uint64) { s.maxBytes = limit }

// GrowthBytes returns the memory that the next link will take, in bytes, whatever the
// limit is; 0 for a filter that cannot grow. It does not tell when that link will
// be needed. Goroutines: as for Contains.
func (s *Scalable) GrowthBytes() uint64 {
	if len(s.links) == 0 {
		return 0
	}
	entries, rate, err := s.nextSize()
	if err != nil {
		return 0
	}
	_, bits, err := s.sizeLink(entries, rate)
	if err != nil {
		return 0
	}
	return wordsFor(bits) * 8
}

// SetMaxBytes bounds what all sub-filters together may take from now on, as
// [Scalable.SetMaxBytes] does. A key that finds no room then is refused with
// [ErrFull] and [ErrTooLarge].
func (c *Cuckoo) SetMaxBytes(limit uint64) { c.maxBytes = limit }

// GrowthBytes returns the memory that the next sub-filter will take, as
// [Scalable.GrowthBytes] does for a link.
func (c *Cuckoo) GrowthBytes() uint64 {
	if len(c.filters) == 0 {
		return 0
	}
	buckets, err := c.nextBuckets()
	if err != nil || c.redis && (len(c.filters) >= c.maxFilters || c.checkRedisSlots(buckets) != nil) {
		return 0
	}
	over, size := bits.Mul64(buckets, c.bucketSize*c.width)
	if over != 0 || size > maxBits {
		return 0
	}
	return wordsFor(size) * 8
}

// SetMaxSubFilters sets how many sub-filters a filter in the [RedisBloom] scheme may have
// before it refuses keys, as the server's cf-max-expansions does: 32 unless set. It is
// looked at once in every call, before its keys. With 0 or less every key is refused. Other schemes keep
// to 32. It is no part of an encoding: set it again after reading. Goroutines: as for Add.
func (c *Cuckoo) SetMaxSubFilters(n int) { c.maxFilters = n }
