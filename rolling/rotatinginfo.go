package rolling

import (
	"iter"
	"slices"
	"time"

	"github.com/redbloom-go/bloom"
)

// Bucket describes one bucket of a [Rotating].
type Bucket struct {
	Start     time.Time // when it began to take keys, by the clock
	Expires   time.Time // when its keys are forgotten, unless Rotate or Reset is called, or the clock set
	Capacity  uint64    // keys it was made for
	Len       uint64    // adds that changed it
	SizeBytes uint64
	FillRatio float64
	ErrorRate float64 // expected now, from the bits set
}

// Buckets iterates over the live buckets, oldest first. There are up to Keep, and none for spans
// without an add. It reads every word of those it yields.
func (r *Rotating) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		s, live := r.look()
		for _, b := range slices.Backward(live) {
			i := b.filter.Info()
			if !yield(Bucket{
				Start: r.began.Add(b.start), Expires: r.began.Add(s.start + time.Duration(b.number-s.number+r.keep)*r.span),
				Capacity: r.capacity, Len: i.Len, SizeBytes: i.SizeBytes,
				FillRatio: i.FillRatio, ErrorRate: i.ErrorRate,
			}) {
				return
			}
		}
	}
}

// Span returns how long a bucket takes keys.
func (r *Rotating) Span() time.Duration { return r.span }

// Keep returns how many buckets may be live.
func (r *Rotating) Keep() int { return int(r.keep) }

// Len returns how many adds changed a bucket that is live: the number of keys that are
// remembered, where one that was added in several spans counts in each.
func (r *Rotating) Len() uint64 {
	n := uint64(0)
	_, live := r.look()
	for _, b := range live {
		n += b.filter.Len()
	}
	return n
}

// Capacity returns the number of keys that all live buckets together were made for: Keep times
// that of one. Buckets tells whether one of them has more than its part.
func (r *Rotating) Capacity() uint64 { return r.capacity * uint64(r.keep) }

// TargetRate returns the rate of false positives the filter was made for, a ratio between 0
// and 1.
func (r *Rotating) TargetRate() float64 { return r.rate }

// ErrorRate returns the rate of false positives to expect now: that an absent key is one of at
// least one live bucket, from the bits that are set. It reads every word.
func (r *Rotating) ErrorRate() float64 { return r.Info().ErrorRate }

// FillRatio returns the fraction of bits that are set, of Keep buckets. It reads every word of the
// live ones.
func (r *Rotating) FillRatio() float64 { return r.Info().FillRatio }

// Bits returns the number of bits of Keep buckets.
func (r *Rotating) Bits() uint64 { return r.params.Bits * uint64(r.keep) }

// Hashes returns the number of positions that a key has in each bucket.
func (r *Rotating) Hashes() int { return r.params.Hashes }

// Scheme returns how the filter hashes and places keys.
func (r *Rotating) Scheme() bloom.Scheme { return r.params.Scheme }

// SizeBytes returns the memory that the bits take at most, in bytes: those of Keep buckets and of the
// one for the next span. Expired buckets come to it until the garbage collector has run.
func (r *Rotating) SizeBytes() uint64 { return (r.params.Bits + 63) / 64 * 8 * uint64(r.keep+1) }

// Info describes the filter. It reads every word of the live buckets.
func (r *Rotating) Info() bloom.Info {
	i := bloom.Info{
		Kind: "Rotating", Scheme: r.Scheme(), Seed: r.like().Info().Seed, Bits: r.Bits(), Hashes: r.Hashes(),
		SizeBytes: r.SizeBytes(), Capacity: r.Capacity(), TargetRate: r.rate,
	}
	for b := range r.Buckets() {
		i.Len += b.Len
		i.FillRatio += b.FillRatio / float64(r.keep)
		i.ErrorRate += (1 - i.ErrorRate) * b.ErrorRate
	}
	return i
}

// Digest hashes key for every filter with the same scheme and seed, of this package or of bloom;
// the cuckoo filters of the RedisBloom scheme hash differently. It does not allocate.
func (r *Rotating) Digest(key []byte) bloom.Digest { return r.like().Digest(key) }

// DigestString is [Rotating.Digest] of the bytes of key, without a copy.
func (r *Rotating) DigestString(key string) bloom.Digest { return r.like().DigestString(key) }

// DigestUint64 is [Rotating.Digest] of the 8 bytes of key, least significant first.
func (r *Rotating) DigestUint64(key uint64) bloom.Digest { return r.like().DigestUint64(key) }

// like returns a filter that hashes as the buckets do.
func (r *Rotating) like() *bloom.Filter {
	if r.shape == nil {
		return new(bloom.Filter)
	}
	return r.shape
}
