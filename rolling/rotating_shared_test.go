package rolling

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sharedClock is a clock that goroutines move on, in nanoseconds.
type sharedClock struct{ atomic.Int64 }

func (c *sharedClock) now() time.Time { return time.Unix(0, c.Load()) }

// together runs f in n goroutines that start at the same time, and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// While writers add and the clock runs, so that buckets come and go all the time, readers hold
// what they see against what is promised: no key is missed before its time, none found after.
func TestRotatingSharedPromise(t *testing.T) {
	const span, keep, writers, readers = 1000, 3, 3, 3
	steps := 60_000
	if testing.Short() {
		steps /= 10
	}
	var c sharedClock
	r := newExact(span, keep, c.now)
	type record struct {
		key           uint64
		before, after int64 // the clock around the add
	}
	var latest [1024]atomic.Pointer[record]
	var missed, stale, found, gone, reading atomic.Int64
	reading.Store(readers)
	together(writers+readers, func(g int) {
		rng := rand.New(rand.NewPCG(uint64(g), 1))
		for i := 0; g < writers && reading.Load() > 0; i++ {
			c.Add(rng.Int64N(3))
			rec := record{key: uint64(g)<<32 + uint64(i), before: c.Load()}
			if i%2 == 0 {
				r.AddUint64(rec.key)
			} else {
				r.AddUniqueUint64(rec.key)
			}
			rec.after = c.Load()
			latest[rng.IntN(len(latest))].Store(&rec)
		}
		if g < writers {
			return
		}
		defer reading.Add(-1)
		for i := 0; i < steps || found.Load() < 100 || gone.Load() < 100; i++ {
			c.Add(rng.Int64N(3))
			rec := latest[rng.IntN(len(latest))].Load()
			if rec == nil {
				continue
			}
			before := c.Load()
			yes := r.ContainsUint64(rec.key)
			after := c.Load()
			switch {
			case after-rec.before <= span*(keep-1):
				found.Add(1)
				if !yes {
					missed.Add(1)
				}
			case before-rec.after >= span*keep:
				gone.Add(1)
				if yes {
					stale.Add(1)
				}
			}
		}
	})
	require.Zero(t, missed.Load())
	require.Zero(t, stale.Load())
}

// Keys that are added again in time are there at every moment, whatever bucket goes.
func TestRotatingSharedRefresh(t *testing.T) {
	const span, keep, keys = 1000, 2, 20
	rounds := 1000
	if testing.Short() {
		rounds /= 10
	}
	var c sharedClock
	r := newExact(span, keep, c.now)
	for key := range uint64(keys) {
		r.AddUint64(key)
	}
	var done atomic.Bool
	var missed atomic.Int64
	together(5, func(g int) {
		if g > 0 {
			var dst []bool
			texts := make([][]byte, keys)
			for i := range texts {
				texts[i] = []byte{byte(i), 0, 0, 0, 0, 0, 0, 0}
			}
			for i := uint64(0); !done.Load(); i++ {
				if !r.ContainsUint64(i % keys) {
					missed.Add(1)
				}
				dst = r.ContainsMany(dst[:0], texts)
				for _, yes := range dst {
					if !yes {
						missed.Add(1)
					}
				}
			}
			return
		}
		defer done.Store(true)
		for i := range rounds {
			for key := range uint64(keys) {
				r.AddUint64(key)
			}
			if i%5 == 0 {
				c.Add(-span / 3)
			}
			c.Add(span)
		}
	})
	require.Zero(t, missed.Load())
}

// Of goroutines that add the same key at the same time, around a rotation, at most one hears that
// it is new; nearly always one does. The key is there afterwards.
func TestRotatingSharedNovelty(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds /= 10
	}
	var c sharedClock
	r := newExact(1000, 4, c.now)
	none := 0
	for i := range rounds {
		key := uint64(i)
		var yes atomic.Int64
		together(5, func(g int) {
			switch {
			case g == 0 && i%2 == 0:
				r.Rotate()
			case g == 0:
				c.Add(1000)
			case g%2 == 0:
				if r.AddUniqueUint64(key) {
					yes.Add(1)
				}
			default:
				if r.AddUint64(key) {
					yes.Add(1)
				}
			}
		})
		require.LessOrEqual(t, yes.Load(), int64(1))
		require.True(t, r.ContainsUint64(key))
		if yes.Load() == 0 {
			none++
		}
	}
	require.Less(t, none, rounds/2)
}

// All that may run at the same time does, with rotations faster than adds.
func TestRotatingSharedEverything(t *testing.T) {
	rounds := 2000
	if testing.Short() {
		rounds /= 10
	}
	var c sharedClock
	r := newExact(10, 3, c.now)
	together(6, func(g int) {
		for i := range rounds {
			key := uint64(g*rounds + i)
			switch g {
			case 0:
				r.Rotate()
			case 1:
				if i%50 == 0 {
					r.Reset()
				}
				r.AddMany(nil, [][]byte{{1}, {2}})
			case 2:
				if info := r.Info(); info.ErrorRate < 0 || info.ErrorRate > 1 {
					t.Error(info)
				}
				r.Len()
			case 3:
				c.Add(int64(key%20) - 5)
				r.ContainsUint64(key)
			default:
				r.AddUint64(key)
				r.AddUniqueUint64(key)
			}
		}
	})
	r.Reset()
	require.Zero(t, r.Len())
	require.True(t, r.AddUint64(1))
	require.True(t, r.ContainsUint64(1))
}
