package rolling

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom"
)

// Rotating is a Bloom filter that forgets by itself, a bucket of time at a time: keys
// go into the bucket of the present span, a key is contained while any bucket that has it
// is live, and a bucket is dropped as a whole when its time is over.
//
// A key is remembered for more than Span·(Keep−1) and at most Span·Keep from the
// moment at which it was added last, as the clock measures it. To remember keys for at
// least an hour, and for no more than a quarter longer, take a Span of 15 minutes and a
// Keep of 5. More and shorter spans make that more exact, and lookups slower: an absent key
// is looked for in every live bucket.
//
// The rate of false positives over all live buckets stays at what was asked for, as long as no
// bucket gets more keys than it was made for: each is made for the rate divided by Keep,
// and a union of Keep events is at most Keep times as likely as one.
//
// All methods may be called by any number of goroutines at any time. Lookups never wait and never
// write. Adds wait for nobody either, but for those that run into the moment of a rotation, which
// is short, since the new bucket is there already: the add that rotates makes the one for the next
// span before it returns, which takes about a millisecond a MiB. Expired buckets are left to the
// garbage collector. There is no goroutine in the background: buckets whose time is over are not
// looked at, and the next add drops them, however many they are.
//
// Contains and Add take one hash, a reading of the clock, and a lookup in each live bucket until the
// key is found. They allocate nothing, but at a rotation. Make one with [NewRotating]; reads of the
// zero value find nothing, adds to it panic. It must not be copied.
type Rotating struct {
	state atomic.Pointer[rotation]
	span  time.Duration
	keep  int64
	now   func() time.Time // nil: the system's clock
	began time.Time        // by the clock; all other times are counted from it
	shape *bloom.Filter    // of one bit, to hash as all buckets do

	capacity uint64 // of a bucket
	rate     float64
	params   bloom.Params // of a bucket
	opts     []bloom.Option

	mu   sync.Mutex        // held to replace state, and for next
	next *bloom.Concurrent // for the next rotation
}

// rotation says which buckets there are and since when. It never changes: a rotation
// replaces it. What a reader has loaded stays as it is, so that the answer holds for that moment.
// For the same reason the memory of a dropped bucket is not used again: a reader could find it
// emptied, and call a key absent that was added to another bucket in good time, after the
// look into that one. The garbage collector knows when nobody looks any more.
type rotation struct {
	start   time.Duration // of the present span
	number  int64         // of the newest bucket; as many spans pass as numbers
	buckets []bucket      // newest first; those of spans without an add are missing
}

type bucket struct {
	number int64
	start  time.Duration
	filter *bloom.Concurrent
}

// RotatingOptions are the options of [NewRotating] that are not those of a filter.
type RotatingOptions struct {
	// Span is how long a bucket takes keys; above 0.
	Span time.Duration

	// Keep is how many buckets are live: the one that takes keys and Keep−1 before it. It
	// is at least 2, since a single bucket would forget a key that came at its end at
	// once, and at most 1,000.
	Keep int

	// Now is the clock. Nil is the system's: its monotonic reading, so that setting the
	// system's time changes nothing. Another one may be set back. No bucket is dropped for that,
	// and keys are remembered for as much longer: for a Span at most, if there was an add
	// in the span before and one follows. A clock that is set forward makes keys forgotten as if
	// time had passed. Now is called by several goroutines.
	Now func() time.Time
}

const maxKeep = 1000

// NewRotating makes an empty filter of time buckets, each for capacity keys a span, with a
// rate of false positives of at most errorRate over all buckets together. A key that is added
// again in a later span takes room in that span's bucket too. A bucket is allocated a span
// before it is needed: there are two at first, and Keep+1 at most.
//
// The options are those of [bloom.New]; [bloom.WithMaxBytes] bounds one bucket, and SizeBytes tells
// what all of them may take. In the RedisBloom scheme buckets have the server's sizes, and the
// rates of those. It returns an error that wraps [bloom.ErrInvalid] for a bad capacity, rate or
// option, or a Span or Keep out of its range, and [bloom.ErrTooLarge] where bloom.New does.
func NewRotating(capacity uint64, errorRate float64, o RotatingOptions, opts ...bloom.Option) (*Rotating, error) {
	if o.Span <= 0 {
		return nil, fmt.Errorf("%w: Span is %v, want above 0", bloom.ErrInvalid, o.Span)
	}
	if o.Keep < 2 || o.Keep > maxKeep {
		return nil, fmt.Errorf("%w: Keep is %d, want 2 … %d", bloom.ErrInvalid, o.Keep, maxKeep)
	}
	if o.Span > math.MaxInt64/time.Duration(o.Keep) {
		return nil, fmt.Errorf("%w: %d spans of %v are more than a time.Duration holds", bloom.ErrInvalid, o.Keep, o.Span)
	}
	// First with the arguments as they were given, for an error that names them.
	if _, err := bloom.Estimate(capacity, errorRate, opts...); err != nil {
		return nil, err
	}
	r := &Rotating{
		span: o.Span, keep: int64(o.Keep), now: o.Now,
		capacity: capacity, rate: errorRate, opts: slices.Clone(opts),
	}
	var err error
	if r.params, err = bloom.Estimate(capacity, r.bucketRate(), opts...); err != nil {
		return nil, fmt.Errorf("a bucket: %w", err)
	}
	if r.shape, err = bloom.NewWithSize(1, 1, opts...); err != nil {
		return nil, err
	}
	if r.next, err = r.newBucket(); err != nil {
		return nil, err
	}
	if r.began = time.Now(); r.now != nil {
		r.began = r.now()
	}
	r.turn(0, 0, 0)
	return r, nil
}

func (r *Rotating) bucketRate() float64 { return r.rate / float64(r.keep) }

func (r *Rotating) newBucket() (*bloom.Concurrent, error) {
	return bloom.NewConcurrent(r.capacity, r.bucketRate(), r.opts...)
}

// clock returns how long ago the filter was made.
func (r *Rotating) clock() time.Duration {
	if r.now == nil {
		return time.Since(r.began) // reads the monotonic clock only
	}
	return r.now().Sub(r.began)
}

// spans is how many whole spans have passed from the start of the newest bucket until now: 0 while
// it is the present one, and −1 if the clock was set back to before its start.
func (r *Rotating) spans(s *rotation, now time.Duration) int64 {
	switch passed := now - s.start; {
	case passed < 0:
		return -1
	case passed < r.span:
		return 0
	default:
		return int64(passed / r.span)
	}
}

// current returns the rotation whose newest bucket is that of the present span. Those who
// find a span over wait for the one among them that rotates.
func (r *Rotating) current() *rotation {
	s := r.state.Load()
	if s == nil {
		panic("rolling: Add to a zero-value Rotating; make one with NewRotating")
	}
	if r.spans(s, r.clock()) == 0 {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.catchUp()
}

// catchUp brings the state to the present span. The lock is held.
func (r *Rotating) catchUp() *rotation {
	// The clock is read once more: by now another goroutine may have rotated, and what was
	// read before would look like a clock that was set back.
	s, now := r.state.Load(), r.clock()
	switch n := r.spans(s, now); {
	case n < 0:
		// The newest bucket goes on from here, for a whole span. To wait until the clock is
		// back where it was would be for ever after a jump forward by mistake.
		r.state.Store(&rotation{now, s.number, s.buckets})
	case n > 0:
		r.turn(s.start+time.Duration(n)*r.span, s.number+n, s.number+n-r.keep+1)
	}
	return r.state.Load()
}

// turn begins a span, drops the buckets numbered below oldest, and makes the bucket for the next
// span. The lock is held.
func (r *Rotating) turn(start time.Duration, number, oldest int64) {
	t := &rotation{start, number, []bucket{{number, start, r.next}}}
	if s := r.state.Load(); s != nil {
		for _, b := range s.buckets {
			if b.number >= oldest {
				t.buckets = append(t.buckets, b)
			}
		}
	}
	r.state.Store(t)
	r.next = bloom.Must(r.newBucket()) // its parameters have been good before
}

// Rotate ends the present span now, whatever the clock says: a new bucket begins, for a whole Span,
// and buckets age by one. Keys are then remembered for up to a Span less each time; after Keep−1
// calls they are still there. It is for when a bucket is full before its time, or when something
// else than time ends an epoch. On the zero value it does nothing.
func (r *Rotating) Rotate() {
	if r.state.Load() == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.catchUp()
	r.turn(r.clock(), s.number+1, s.number+1-r.keep+1)
}

// Reset forgets all keys and begins a new span. Keys that are being added meanwhile may be forgotten
// or not. On the zero value it does nothing.
func (r *Rotating) Reset() {
	if r.state.Load() == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	number := r.state.Load().number + 1
	r.turn(r.clock(), number, number)
}

// Add adds key to the bucket of the present span, whichever buckets have it already: from now on it
// is remembered for as long as a new key. It reports whether the key was absent from all live
// buckets; false means that it was remembered, or is a false positive.
//
// Of several goroutines that add the same absent key at the same time, at most one is
// answered true. None is in two rare cases: as in [bloom.Concurrent], when the last missing bit
// of the key is set by another key at that moment, and when a rotation falls between them. The key
// is found all the same.
func (r *Rotating) Add(key []byte) bool { return r.add(r.Digest(key)) }

// AddString is [Rotating.Add] of the bytes of key, without a copy.
func (r *Rotating) AddString(key string) bool { return r.add(r.DigestString(key)) }

// AddUint64 is [Rotating.Add] of the 8 bytes of key, least significant first.
func (r *Rotating) AddUint64(key uint64) bool { return r.add(r.DigestUint64(key)) }

// AddDigest is [Rotating.Add] of the key that d was made from. It panics if d was made
// with another hash or seed.
func (r *Rotating) AddDigest(d bloom.Digest) bool { return r.add(d) }

func (r *Rotating) add(d bloom.Digest) bool { return r.addAt(r.current(), d) }

// addAt is add to the newest bucket of s, which was the present one when the call began.
func (r *Rotating) addAt(s *rotation, d bloom.Digest) bool {
	newest := s.buckets[0]
	fresh := newest.filter.AddDigest(d)
	t := r.state.Load()
	i := slices.Index(t.buckets, newest)
	if i < 0 { // dropped before the key was in it
		return r.add(d)
	}
	// Another goroutine may add the same key on the other side of a rotation. The one with the newer
	// bucket looks into the older ones afterwards, and the one that finds a newer bucket looks
	// into that: one of them sees what the other did, or both do.
	return fresh && !contains(s.buckets[1:], d) && !contains(t.buckets[:i], d)
}

func contains(in []bucket, d bloom.Digest) bool {
	for i := range in {
		if in[i].filter.ContainsDigest(d) {
			return true
		}
	}
	return false
}

// AddUnique is [Rotating.Add] unless the filter contains key: a key that is remembered stays where
// it is, and is forgotten in its time from the moment it was new, however often it comes. It
// reports whether the key was added; of goroutines at the same time see there.
func (r *Rotating) AddUnique(key []byte) bool { return r.addUnique(r.Digest(key)) }

// AddUniqueString is [Rotating.AddUnique] of the bytes of key, without a copy.
func (r *Rotating) AddUniqueString(key string) bool { return r.addUnique(r.DigestString(key)) }

// AddUniqueUint64 is [Rotating.AddUnique] of the 8 bytes of key, least significant first.
func (r *Rotating) AddUniqueUint64(key uint64) bool { return r.addUnique(r.DigestUint64(key)) }

// AddUniqueDigest is [Rotating.AddUnique] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (r *Rotating) AddUniqueDigest(d bloom.Digest) bool { return r.addUnique(d) }

func (r *Rotating) addUnique(d bloom.Digest) bool { return r.addUniqueAt(r.current(), d) }

func (r *Rotating) addUniqueAt(s *rotation, d bloom.Digest) bool {
	return !contains(s.buckets, d) && r.addAt(s, d)
}

// Contains reports whether key is remembered: false means that it certainly was not added in the
// last Span·(Keep−1), true that it was added in the last Span·Keep, or is one of the false
// positives. Buckets are asked from the newest to the oldest. A key that is being added, or whose
// time ends, during the call may be found or not.
func (r *Rotating) Contains(key []byte) bool { return r.contains(r.Digest(key)) }

// ContainsString is [Rotating.Contains] of the bytes of key, without a copy.
func (r *Rotating) ContainsString(key string) bool { return r.contains(r.DigestString(key)) }

// ContainsUint64 is [Rotating.Contains] of the 8 bytes of key, least significant first.
func (r *Rotating) ContainsUint64(key uint64) bool { return r.contains(r.DigestUint64(key)) }

// ContainsDigest is [Rotating.Contains] of the key that d was made from. It panics if d was made
// with another hash or seed.
func (r *Rotating) ContainsDigest(d bloom.Digest) bool {
	_, live := r.look()
	if len(live) == 0 {
		return r.like().ContainsDigest(d) // false, or the panic
	}
	return contains(live, d)
}

func (r *Rotating) contains(d bloom.Digest) bool {
	_, live := r.look()
	return contains(live, d)
}

// look returns the buckets that are live by the clock, whether somebody has rotated or not, and the
// rotation they are of, nil in the zero value.
func (r *Rotating) look() (s *rotation, live []bucket) {
	// The clock first. With a rotation from before the time, a key would be missed that was added
	// anew between the two, to a bucket that this rotation does not have.
	now := r.clock()
	if s = r.state.Load(); s == nil {
		return nil, nil
	}
	live = s.buckets
	if n := r.spans(s, now); n > 0 {
		for len(live) > 0 && live[len(live)-1].number <= s.number+n-r.keep {
			live = live[:len(live)-1]
		}
	}
	return s, live
}

// AddMany adds keys in their order and appends the answer of [Rotating.Add] for each to dst. It
// returns the extended slice and allocates only when dst is short of room. The clock is read once
// for all: the time for which they are remembered counts from the call.
func (r *Rotating) AddMany(dst []bool, keys [][]byte) []bool {
	return addMany(r, dst, keys, r.Digest, r.addAt)
}

// AddManyString is [Rotating.AddMany] for strings.
func (r *Rotating) AddManyString(dst []bool, keys []string) []bool {
	return addMany(r, dst, keys, r.DigestString, r.addAt)
}

// AddUniqueMany is [Rotating.AddMany] with [Rotating.AddUnique] in the place of Add.
func (r *Rotating) AddUniqueMany(dst []bool, keys [][]byte) []bool {
	return addMany(r, dst, keys, r.Digest, r.addUniqueAt)
}

// AddUniqueManyString is [Rotating.AddUniqueMany] for strings.
func (r *Rotating) AddUniqueManyString(dst []bool, keys []string) []bool {
	return addMany(r, dst, keys, r.DigestString, r.addUniqueAt)
}

func addMany[K any](r *Rotating, dst []bool, keys []K,
	digest func(K) bloom.Digest, add func(*rotation, bloom.Digest) bool) []bool {
	if len(keys) == 0 {
		return dst
	}
	dst = slices.Grow(dst, len(keys))
	s := r.current()
	for _, key := range keys {
		dst = append(dst, add(s, digest(key)))
	}
	return dst
}

// ContainsMany appends the answer of [Rotating.Contains] for each of keys to dst. It returns the
// extended slice and allocates only when dst is short of room. The clock is read once for all.
func (r *Rotating) ContainsMany(dst []bool, keys [][]byte) []bool {
	return containsMany(r, dst, keys, r.Digest)
}

// ContainsManyString is [Rotating.ContainsMany] for strings.
func (r *Rotating) ContainsManyString(dst []bool, keys []string) []bool {
	return containsMany(r, dst, keys, r.DigestString)
}

func containsMany[K any](r *Rotating, dst []bool, keys []K, digest func(K) bloom.Digest) []bool {
	dst = slices.Grow(dst, len(keys))
	_, live := r.look()
	for _, key := range keys {
		dst = append(dst, contains(live, digest(key)))
	}
	return dst
}
