package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are 1/16 wide at most, relative to what is in them.
type histogram struct {
	counts [64 * 16]uint64
	n      uint64
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(uint64(max(d, 0)))]++
	h.n++
	h.max = max(h.max, d)
}

// bucket has the place of the highest bit and the four bits after it.
func bucket(x uint64) int {
	if x < 16 {
		return int(x)
	}
	high := bits.Len64(x) - 5
	return high<<4 + int(x>>high)
}

// start is the least duration in a bucket.
func start(bucket int) time.Duration {
	if bucket < 32 {
		return time.Duration(bucket)
	}
	high := bucket>>4 - 1
	return time.Duration(uint64(bucket&15|16) << high)
}

// quantile returns the upper end of the bucket that it is in, but no more than the longest duration.
func (h *histogram) quantile(q float64) time.Duration {
	rank, seen := uint64(q*float64(h.n)), uint64(0)
	for b, n := range h.counts {
		if seen += n; seen > rank {
			return min(start(b+1)-1, h.max)
		}
	}
	return h.max
}
