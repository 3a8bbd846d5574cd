package rolling

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
)

// clock is a clock for one goroutine that stands until it is moved.
type clock struct{ t time.Time }

func newClock() *clock {
	return &clock{time.Date(2024, 2, 28, 23, 59, 59, 999_999_999, time.UTC)}
}

func (c *clock) now() time.Time { return c.t }

func (c *clock) move(d time.Duration) { c.t = c.t.Add(d) }

// newExact is a filter that does not err: the tests hold some dozens of keys.
func newExact(span time.Duration, keep int, now func() time.Time) *Rotating {
	return bloom.Must(NewRotating(1000, 1e-11, RotatingOptions{Span: span, Keep: keep, Now: now}))
}

func TestRotatingBadArguments(t *testing.T) {
	good := RotatingOptions{Span: time.Minute, Keep: 2}
	for _, tt := range []struct {
		capacity uint64
		rate     float64
		o        RotatingOptions
		opts     []bloom.Option
		is       error
		want     string
	}{
		{100, 0.01, RotatingOptions{Keep: 2}, nil, bloom.ErrInvalid, "Span is 0s, want above 0"},
		{100, 0.01, RotatingOptions{Span: -1, Keep: 2}, nil, bloom.ErrInvalid, "Span is -1ns"},
		{100, 0.01, RotatingOptions{Span: 1}, nil, bloom.ErrInvalid, "Keep is 0, want 2 … 1000"},
		{100, 0.01, RotatingOptions{Span: 1, Keep: 1}, nil, bloom.ErrInvalid, "Keep is 1"},
		{100, 0.01, RotatingOptions{Span: 1, Keep: -1}, nil, bloom.ErrInvalid, "Keep is -1"},
		{100, 0.01, RotatingOptions{Span: 1, Keep: 1001}, nil, bloom.ErrInvalid, "Keep is 1001"},
		{100, 0.01, RotatingOptions{Span: math.MaxInt64/2 + 1, Keep: 2}, nil, bloom.ErrInvalid, "more than a time.Duration holds"},
		{0, 0.01, good, nil, bloom.ErrInvalid, "capacity is 0"},
		{100, 0, good, nil, bloom.ErrInvalid, "error rate is 0,"},
		{100, 1, good, nil, bloom.ErrInvalid, "error rate is 1,"},
		{100, math.NaN(), good, nil, bloom.ErrInvalid, "error rate is NaN"},
		{100, 5e-324, good, nil, bloom.ErrTooLarge, ""},
		{1 << 60, 0.01, good, nil, bloom.ErrTooLarge, ""},
		{100, 0.01, good, []bloom.Option{nil}, bloom.ErrInvalid, "option 0 is nil"},
		{100, 0.01, good, []bloom.Option{bloom.WithGrowth(2)}, bloom.ErrInvalid, "WithGrowth has no meaning here"},
		{100, 0.01, good, []bloom.Option{bloom.WithScheme(bloom.RedisBloom), bloom.WithSeed(1)}, bloom.ErrInvalid, "no seed"},
		{100, 0.01, good, []bloom.Option{bloom.WithMaxBytes(140)}, bloom.ErrTooLarge, "a bucket: "},
		{100, 0.01, good, []bloom.Option{bloom.WithScheme(bloom.SipHash)}, bloom.ErrInvalid, "needs a key"},
	} {
		r, err := NewRotating(tt.capacity, tt.rate, tt.o, tt.opts...)
		require.ErrorIs(t, err, tt.is)
		require.ErrorContains(t, err, tt.want)
		require.Nil(t, r)
	}
	// The longest and the most.
	require.NotNil(t, bloom.Must(NewRotating(1, 0.5, RotatingOptions{Span: math.MaxInt64 / 1000, Keep: 1000})))
}

// Every bucket is a filter for the rate divided by Keep, with all that the options say.
func TestRotatingSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n, keep := 1+rng.Uint64N(3000), 2+rng.IntN(20)
		rate := math.Pow(10, -9*rng.Float64()) * 0.99
		opts := [][]bloom.Option{
			nil,
			{bloom.WithSeed(7)},
			{bloom.WithScheme(bloom.XXHash)},
			{bloom.WithScheme(bloom.RedisBloom)},
			{bloom.WithScheme(bloom.SipHash), bloom.WithKey([16]byte{1})},
		}[rng.IntN(5)]
		o := RotatingOptions{Span: 1, Keep: keep, Now: newClock().now}
		r := bloom.Must(NewRotating(n, rate, o, opts...))
		bucket := bloom.Must(bloom.NewConcurrent(n, rate/float64(keep), opts...))
		size := bucket.SizeBytes()
		require.Equal(t, size*uint64(keep+1), r.SizeBytes())
		for range 2 {
			r.Rotate()
			r.AddString("key")
			bucket.AddString("key")
			require.True(t, bucket.Equal(r.state.Load().buckets[0].filter))
		}
		require.Equal(t, bucket.DigestString("key"), r.DigestString("key"))

		_, err := NewRotating(n, rate, o, append(opts, bloom.WithMaxBytes(size))...)
		require.NoError(t, err)
		_, err = NewRotating(n, rate, o, append(opts, bloom.WithMaxBytes(size-1))...)
		require.ErrorIs(t, err, bloom.ErrTooLarge)
	}
}

// To the nanosecond: a key that is added some time into a span is remembered until Keep spans
// after the start of that span have passed.
func TestRotatingForHowLong(t *testing.T) {
	const span = time.Minute
	for _, keep := range []int{2, 3, 5, 100} {
		for _, into := range []time.Duration{0, 1, span / 2, span - 1} {
			for _, before := range []time.Duration{0, 1, 7, 1000} {
				for _, touched := range []bool{false, true} {
					c := newClock()
					r := newExact(span, keep, c.now)
					c.move(before*span + into)
					require.True(t, r.AddString("key"))
					life := time.Duration(keep)*span - into
					require.Greater(t, life, time.Duration(keep-1)*span)
					require.LessOrEqual(t, life, time.Duration(keep)*span)
					c.move(life - 1)
					if touched { // somebody rotates before the reader comes
						r.AddString("other")
					}
					require.True(t, r.ContainsString("key"))
					c.move(1)
					if touched {
						r.AddString("other")
					}
					require.False(t, r.ContainsString("key"))
					require.Equal(t, touched, r.ContainsString("other"))
					require.True(t, r.AddString("key"), "it is new again")
				}
			}
		}
	}
}

// All stale buckets go in one step, however long nobody came.
func TestRotatingIdle(t *testing.T) {
	for _, idle := range []time.Duration{4 * time.Minute, 5 * time.Minute, time.Hour, 100 * 365 * 24 * time.Hour} {
		c := newClock()
		r := newExact(time.Minute, 4, c.now)
		for i := range uint64(4) {
			r.AddUint64(i)
			c.move(time.Minute)
		}
		require.Len(t, slices.Collect(r.Buckets()), 3)
		require.Equal(t, uint64(3), r.Len())
		require.False(t, r.ContainsUint64(0))
		c.move(idle)
		for i := range uint64(4) {
			require.False(t, r.ContainsUint64(i), "also before anybody adds")
		}
		require.Zero(t, r.Len())
		require.Empty(t, slices.Collect(r.Buckets()))
		require.Zero(t, r.ErrorRate())
		require.True(t, r.AddUint64(9))
		for i := range uint64(4) {
			require.False(t, r.ContainsUint64(i))
		}
		require.True(t, r.ContainsUint64(9))
		require.Len(t, r.state.Load().buckets, 1)
		require.Equal(t, uint64(1), r.Len())
	}
}

// Idle for fewer spans than Keep: the bucket of each key goes in its time.
func TestRotatingGaps(t *testing.T) {
	c := newClock()
	r := newExact(time.Minute, 10, c.now)
	r.AddUint64(0)
	c.move(3 * time.Minute)
	r.AddUint64(3)
	c.move(4 * time.Minute)
	r.AddUint64(7)
	require.Len(t, slices.Collect(r.Buckets()), 3)
	for minute, want := range map[time.Duration][]bool{
		9: {true, true, true}, 10: {false, true, true}, 12: {false, true, true},
		13: {false, false, true}, 16: {false, false, true}, 17: {false, false, false},
	} {
		d := *c
		d.move((minute - 7) * time.Minute)
		r.now = d.now
		require.Equal(t, want, []bool{r.ContainsUint64(0), r.ContainsUint64(3), r.ContainsUint64(7)}, "minute %d", minute)
	}
}

func TestRotatingClockSetBack(t *testing.T) {
	const span = time.Minute
	for _, back := range []time.Duration{1, time.Second, span, 3 * span, 1000 * time.Hour} {
		c := newClock()
		r := newExact(span, 3, c.now)
		r.AddString("old")
		c.move(span)
		r.AddString("mid")
		c.move(span + span/2)
		r.AddString("new")
		all := func() []bool {
			return []bool{r.ContainsString("old"), r.ContainsString("mid"), r.ContainsString("new")}
		}
		c.move(-back)
		require.Equal(t, []bool{true, true, true}, all(), "no bucket is dropped")
		r.AddString("after")
		require.Equal(t, []bool{true, true, true}, all())
		require.Len(t, r.state.Load().buckets, 3, "and none begins")

		// From here on time counts as ever, at most a span later than without.
		c.move(span)
		require.True(t, r.ContainsString("mid"))
		c.move(span)
		r.AddString("x")
		require.False(t, r.ContainsString("old"))
		require.True(t, r.ContainsString("new") && r.ContainsString("after"))
		c.move(2 * span)
		require.Equal(t, []bool{false, false, false}, all())
		require.False(t, r.ContainsString("after"))
	}
}

// With the system's clock, here that of a synctest bubble.
func TestRotatingSystemClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newExact(time.Minute, 2, nil)
		require.True(t, r.AddString("a"))
		time.Sleep(time.Minute)
		require.True(t, r.AddString("b"))
		time.Sleep(time.Minute - 1)
		require.True(t, r.ContainsString("a") && r.ContainsString("b"))
		time.Sleep(time.Nanosecond)
		require.True(t, !r.ContainsString("a") && r.ContainsString("b"))
		time.Sleep(time.Hour)
		require.False(t, r.ContainsString("b"))
		require.True(t, r.AddString("b"))
	})
}

func TestRotatingNovelty(t *testing.T) {
	c := newClock()
	r := newExact(time.Minute, 3, c.now)
	require.True(t, r.AddString("refreshed"))
	require.True(t, r.AddUniqueString("once"))
	for range 10 {
		c.move(time.Minute)
		require.False(t, r.AddString("refreshed"), "known, and remembered anew")
	}
	require.True(t, r.AddUniqueString("once"), "forgotten long ago")
	c.move(2 * time.Minute)
	require.False(t, r.AddUniqueString("once"), "known, and left where it is")
	require.True(t, r.ContainsString("once"))
	c.move(time.Minute)
	require.False(t, r.ContainsString("once"))
	require.True(t, r.AddUniqueString("once"))
}

func TestRotatingTwins(t *testing.T) {
	a, b := newExact(time.Hour, 2, nil), newExact(time.Hour, 2, nil)
	require.True(t, a.Add([]byte("a")) && b.AddString("a"))
	require.True(t, a.AddString("b") && b.AddDigest(a.DigestString("b")))
	require.True(t, a.AddUint64(1) && b.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0}))
	require.True(t, a.AddUnique([]byte("u")) && b.AddUniqueString("u"))
	require.True(t, a.AddUniqueUint64(2) && b.AddUniqueDigest(a.DigestUint64(2)))
	require.False(t, a.AddUnique([]byte("u")) || b.AddUniqueString("u") || a.AddUniqueUint64(2) || b.AddUniqueDigest(a.Digest([]byte("a"))))
	require.True(t, a.Contains([]byte("a")) && a.ContainsString("b") && a.ContainsUint64(1) && a.ContainsDigest(b.DigestString("a")))
	bits := func(r *Rotating) *bloom.Concurrent { return r.state.Load().buckets[0].filter }
	require.True(t, bits(a).Equal(bits(b)))

	a.Rotate()
	require.Equal(t, []bool{true, true, false, true}, a.AddMany([]bool{true}, [][]byte{[]byte("x"), []byte("a"), []byte("y")}))
	require.Equal(t, []bool{false, true}, a.AddManyString(nil, []string{"y", "z"}))
	require.Equal(t, []bool{false, true, false}, a.AddUniqueMany(nil, [][]byte{[]byte("b"), []byte("v"), []byte("v")}))
	require.Equal(t, []bool{false, true}, a.AddUniqueManyString(nil, []string{"u", "w"}))
	require.Equal(t, []bool{true, false}, a.ContainsMany(nil, [][]byte{[]byte("v"), []byte("none")}))
	require.Equal(t, []bool{true, true, false}, a.ContainsManyString(nil, []string{"a", "w", "none"}))
	a.Rotate()
	require.Equal(t, []bool{true, false, true}, a.ContainsManyString(nil, []string{"a", "b", "w"}), "only Add put it anew")
	require.Empty(t, a.AddMany(nil, nil))
	require.Empty(t, a.ContainsMany(nil, nil))
}

func TestRotatingForeignDigest(t *testing.T) {
	foreign := bloom.Must(bloom.New(1, 0.1, bloom.WithSeed(1))).DigestString("a")
	c := newClock()
	for _, idle := range []time.Duration{0, time.Hour} {
		r := newExact(time.Minute, 2, c.now)
		c.move(idle)
		require.Panics(t, func() { r.ContainsDigest(foreign) })
		require.Panics(t, func() { r.AddDigest(foreign) })
		require.Panics(t, func() { r.AddUniqueDigest(foreign) })
		require.Zero(t, r.Len())
	}
	seeded := bloom.Must(NewRotating(10, 0.1, RotatingOptions{Span: 1, Keep: 2, Now: c.now}, bloom.WithSeed(1)))
	require.True(t, seeded.AddDigest(foreign))
	require.True(t, seeded.ContainsString("a"))
	require.Equal(t, uint64(1), seeded.Info().Seed)
}

func TestRotatingZeroValue(t *testing.T) {
	var r Rotating
	require.False(t, r.Contains([]byte("a")) || r.ContainsString("a") || r.ContainsUint64(1))
	require.False(t, r.ContainsDigest(r.DigestString("a")))
	require.Equal(t, []bool{false}, r.ContainsManyString(nil, []string{"a"}))
	require.Zero(t, r.Len()+r.Capacity()+r.Bits()+r.SizeBytes()+uint64(r.Hashes())+uint64(r.Keep())+uint64(r.Span()))
	require.Zero(t, r.TargetRate()+r.ErrorRate()+r.FillRatio())
	require.Equal(t, bloom.Info{Kind: "Rotating"}, r.Info())
	require.Empty(t, slices.Collect(r.Buckets()))
	r.Rotate()
	r.Reset()
	require.Empty(t, r.AddMany(nil, nil))
	for _, add := range []func(){
		func() { r.AddString("a") }, func() { r.AddUniqueString("a") }, func() { r.AddManyString(nil, []string{"a"}) },
	} {
		require.PanicsWithValue(t, "rolling: Add to a zero-value Rotating; make one with NewRotating", add)
	}
}

func TestRotatingRotateAndReset(t *testing.T) {
	c := newClock()
	r := newExact(time.Minute, 3, c.now)
	r.AddString("a")
	c.move(time.Second)
	r.Rotate()
	r.AddString("b")
	c.move(time.Minute - 1)
	r.AddString("c") // the span began with Rotate
	require.Len(t, r.state.Load().buckets, 2)
	r.Rotate()
	require.True(t, r.ContainsString("a"))
	r.Rotate()
	require.Equal(t, []bool{false, true, true}, r.ContainsManyString(nil, []string{"a", "b", "c"}))
	c.move(time.Minute) // the clock and the hand together
	r.Rotate()
	require.Equal(t, []bool{false, false}, r.ContainsManyString(nil, []string{"b", "c"}))

	r.AddString("d")
	c.move(30 * time.Second)
	r.Reset()
	require.False(t, r.ContainsString("d"))
	require.Zero(t, r.Len())
	require.True(t, r.AddString("d"))
	c.move(3*time.Minute - 1)
	require.True(t, r.ContainsString("d"))
	c.move(1)
	require.False(t, r.ContainsString("d"))
}

func TestRotatingInfo(t *testing.T) {
	c := newClock()
	start := c.t
	r := bloom.Must(NewRotating(1000, 0.03, RotatingOptions{Span: time.Minute, Keep: 3, Now: c.now}, bloom.WithSeed(7), bloom.WithScheme(bloom.XXHash)))
	twin := func() *bloom.Filter {
		return bloom.Must(bloom.New(1000, 0.01, bloom.WithSeed(7), bloom.WithScheme(bloom.XXHash)))
	}
	first, second := twin(), twin()
	for i := range uint64(600) {
		r.AddUint64(i)
		first.AddUint64(i)
	}
	c.move(2*time.Minute + time.Second)
	for i := range uint64(900) {
		r.AddUint64(500 + i)
		second.AddUint64(500 + i)
	}
	require.Equal(t, first.Len()+second.Len(), r.Len())
	require.Equal(t, uint64(3000), r.Capacity())
	require.Equal(t, 0.03, r.TargetRate())
	require.Equal(t, 3*first.Bits(), r.Bits())
	require.Equal(t, first.Hashes(), r.Hashes())
	require.Equal(t, 4*first.SizeBytes(), r.SizeBytes())
	require.Equal(t, bloom.XXHash, r.Scheme())
	require.Equal(t, time.Minute, r.Span())
	require.Equal(t, 3, r.Keep())
	require.InDelta(t, (first.FillRatio()+second.FillRatio())/3, r.FillRatio(), 1e-12)
	require.InDelta(t, 1-(1-first.ErrorRate())*(1-second.ErrorRate()), r.ErrorRate(), 1e-12)
	i := r.Info()
	require.Equal(t, bloom.Info{
		Kind: "Rotating", Scheme: bloom.XXHash, Seed: 7, Bits: r.Bits(), Hashes: r.Hashes(), SizeBytes: r.SizeBytes(),
		Capacity: 3000, Len: r.Len(), FillRatio: r.FillRatio(), TargetRate: 0.03, ErrorRate: r.ErrorRate(),
	}, i)

	bucket := func(f *bloom.Filter, from time.Duration) Bucket {
		return Bucket{
			Start: start.Add(from), Expires: start.Add(from + 3*time.Minute), Capacity: 1000, Len: f.Len(),
			SizeBytes: f.SizeBytes(), FillRatio: f.FillRatio(), ErrorRate: f.ErrorRate(),
		}
	}
	require.Equal(t, []Bucket{bucket(first, 0), bucket(second, 2*time.Minute)}, slices.Collect(r.Buckets()))
	for b := range r.Buckets() { // stops when told to
		require.Equal(t, start, b.Start)
		break
	}
	c.move(time.Minute - time.Second)
	require.Equal(t, []Bucket{bucket(second, 2*time.Minute)}, slices.Collect(r.Buckets()))
}

// Keep full buckets have at most the rate asked for, within five sigma of the lookups.
func TestRotatingRate(t *testing.T) {
	const capacity = 5000
	lookups := uint64(1_000_000)
	if testing.Short() {
		lookups /= 20
	}
	for _, keep := range []int{2, 4, 16} {
		for _, rate := range []float64{0.1, 0.01} {
			for _, scheme := range []bloom.Scheme{bloom.Murmur3, bloom.XXHash} {
				c := newClock()
				r := bloom.Must(NewRotating(capacity, rate, RotatingOptions{Span: 1, Keep: keep, Now: c.now}, bloom.WithScheme(scheme)))
				key := uint64(0)
				for range keep + 1 { // the first is dropped again
					for range capacity {
						r.AddUint64(key)
						key++
					}
					c.move(1)
				}
				c.move(-1)
				yes := 0.0
				for i := range lookups {
					if r.ContainsUint64(1<<40 + i) {
						yes++
					}
				}
				n := float64(lookups)
				require.LessOrEqual(t, yes, n*rate+5*math.Sqrt(n*rate*(1-rate)), "keep %d, rate %v, %v", keep, rate, scheme)
				// The bound by the sum is above the rate of the union by rate/2, chance and whole
				// words take some per cent more.
				require.Greater(t, yes, 0.85*n*rate)
				require.InDelta(t, yes/n, r.ErrorRate(), 0.05*rate+5*math.Sqrt(rate/n))
			}
		}
	}
}

func TestRotatingAllocations(t *testing.T) {
	r := newExact(time.Hour, 3, nil)
	r.AddString("present")
	r.Rotate()
	bytes, digest := []byte("key"), r.DigestString("digest")
	keys, texts := [][]byte{bytes, []byte("b")}, []string{"a", "present"}
	dst := make([]bool, 0, 16)
	n := uint64(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		n++
		r.Add(bytes)
		r.AddString("text")
		r.AddUint64(n)
		r.AddDigest(digest)
		r.AddUnique(bytes)
		r.AddUniqueString("unique")
		r.AddUniqueUint64(n << 32)
		r.AddUniqueDigest(digest)
		r.Contains(bytes)
		r.ContainsString("absent")
		r.ContainsUint64(n)
		r.ContainsDigest(digest)
		dst = r.AddMany(dst[:0], keys)
		dst = r.AddManyString(dst, texts)
		dst = r.AddUniqueMany(dst[:0], keys)
		dst = r.AddUniqueManyString(dst, texts)
		dst = r.ContainsMany(dst[:0], keys)
		dst = r.ContainsManyString(dst, texts)
	}))
}

// What is dropped is left to the garbage collector.
func TestRotatingFreesMemory(t *testing.T) {
	r := newExact(time.Hour, 2, nil)
	r.AddString("a")
	first := weak.Make(r.state.Load().buckets[0].filter)
	r.Rotate()
	runtime.GC()
	require.NotNil(t, first.Value())
	r.Rotate()
	runtime.GC()
	require.Nil(t, first.Value())
	runtime.KeepAlive(r)
}
