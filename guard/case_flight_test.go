package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Callers who need one row share one load, also when they come between its storing and its end.
func TestCase21_OneLoadForMany(t *testing.T) {
	t.Run("64 callers, 200 keys", func(t *testing.T) {
		for _, takes := range []time.Duration{0, time.Millisecond} {
			db := rowsUpTo(200)
			db.takes = takes
			g := newGuard(t, db, nil)
			var wg sync.WaitGroup
			for c := range 64 {
				wg.Go(func() {
					for _, i := range rand.New(rand.NewPCG(uint64(c), 0)).Perm(200) {
						if v, err := g.Get(t.Context(), i+1); err != nil || v != valueOf(i+1) {
							t.Error(v, err)
						}
					}
				})
			}
			wg.Wait()
			require.EqualValues(t, 200, db.loads.Load())
			rest(g)
			s := g.Stats()
			require.EqualValues(t, 200, s.Loads)
			require.EqualValues(t, 64*200, s.Hits+s.Found)
			require.LessOrEqual(t, s.Shared, s.Found)
		}
	})
	t.Run("between storing and end", func(t *testing.T) {
		db, cache := rowsUpTo(10), newHookedCache()
		g := newGuard(t, db, func(o *options) { o.Cache = cache })
		missed, resume := make(chan bool), make(chan bool)
		cache.afterGet = func(int, bool) {
			missed <- true
			<-resume
		}
		got := make(chan error)
		go func() { _, err := g.Get(t.Context(), 5); got <- err }()
		<-missed // has looked at the cache, and found nothing
		cache.afterGet = nil
		_, err := g.Get(t.Context(), 5) // from beginning to end
		require.NoError(t, err)
		eventually(func() bool { return g.flights.shard(g.keys.hash(5)).ended.Load() == 1 })
		gets := cache.gets.Load()
		close(resume)
		require.NoError(t, <-got)
		require.EqualValues(t, 1, db.loads.Load())
		require.Equal(t, gets+1, cache.gets.Load(), "it looked once more")

		_, err = g.Get(t.Context(), 6)
		require.NoError(t, err)
		require.Equal(t, gets+2, cache.gets.Load(), "a plain miss looks once")
	})
	t.Run("between answer and storing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db, cache := rowsUpTo(10), newHookedCache()
			cache.beforeSet = func(context.Context, int, Entry[string]) error { time.Sleep(time.Second); return nil }
			g := newGuard(t, db, func(o *options) { o.Cache = cache })
			for range 5 {
				v, err := g.Get(t.Context(), 5)
				require.NoError(t, err)
				require.Equal(t, "row 5", v)
			}
			require.EqualValues(t, 1, db.loads.Load())
			time.Sleep(2 * time.Second)
			requireRow(t, g, 5)
			require.EqualValues(t, 1, db.loads.Load())
		})
	})
}

// The caller who began a load leaves; the others get the row.
func TestCase22_LeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := rowsUpTo(10)
		db.takes = time.Second
		g := newGuard(t, db, nil)
		type key struct{}
		db.fault = func(ctx context.Context, _ int) error {
			if ctx.Value(key{}) != "leader" {
				return errors.New("the load has not the values of the leader's context")
			}
			return nil
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "leader"))
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := g.Get(ctx, 5)
			require.Equal(t, context.Canceled, err)
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() {
				v, err := g.Get(t.Context(), 5)
				require.NoError(t, err)
				require.Equal(t, "row 5", v)
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		require.EqualValues(t, 1, db.loads.Load())
	})
}

// A follower leaves at its own deadline, and the load goes on.
func TestCase23_FollowerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := rowsUpTo(10)
		db.takes = time.Second
		g := newGuard(t, db, nil)
		start := time.Now()
		got := make(chan error, 1)
		go func() { _, err := g.Get(t.Context(), 5); got <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := g.Get(ctx, 5)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 20*time.Millisecond, time.Since(start))
		rows, err := g.GetMany(ctx, []int{5, 6})
		require.Equal(t, context.DeadlineExceeded, err)
		require.Empty(t, rows)
		require.NoError(t, <-got)
		require.Equal(t, time.Second, time.Since(start))
	})
}

// When all leave, the load's context ends; who comes then begins a load of its own.
func TestCase24_AllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := rowsUpTo(10)
		db.takes = time.Second
		g := newGuard(t, db, func(o *options) { o.MaxLoads = 1 })
		ended := make(chan time.Duration, 10)
		start := time.Now()
		db.fault = func(ctx context.Context, _ int) error {
			context.AfterFunc(ctx, func() { ended <- time.Since(start) })
			return nil
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := g.Get(ctx, 5)
				require.Equal(t, context.Canceled, err)
			})
		}
		time.Sleep(100 * time.Millisecond)
		cancel()
		wg.Wait()
		require.Equal(t, 100*time.Millisecond, <-ended)
		synctest.Wait() // the loader has heeded it, and given its slot back
		v, err := g.Get(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, "row 5", v)
		require.EqualValues(t, 2, db.loads.Load())
	})
	t.Run("a newcomer beside a loader that does not heed it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			var loads atomic.Int64
			db.fault = func(ctx context.Context, _ int) error {
				if loads.Add(1) == 1 {
					time.Sleep(time.Second) // deaf
					return errors.New("of the dying one")
				}
				return nil
			}
			g := newGuard(t, db, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := g.Get(ctx, 5)
			require.Equal(t, context.DeadlineExceeded, err)
			v, err := g.Get(t.Context(), 5)
			require.NoError(t, err)
			require.Equal(t, "row 5", v)
			time.Sleep(2 * time.Second)
			requireRow(t, g, 5)
		})
	})
	t.Run("of a batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := &batchDatabase{database: rowsUpTo(10)}
			db.takes = time.Second
			g := newGuard(t, db, nil)
			start := time.Now()
			ended := make(chan time.Duration, 10)
			db.fault = func(ctx context.Context, k int) error {
				if k == 1 {
					context.AfterFunc(ctx, func() { ended <- time.Since(start) })
				}
				return nil
			}
			batch, cancelBatch := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancelBatch()
			single, cancelSingle := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancelSingle()
			var wg sync.WaitGroup
			wg.Go(func() {
				_, err := g.GetMany(batch, []int{1, 2, 3})
				require.Equal(t, context.DeadlineExceeded, err)
			})
			synctest.Wait()
			wg.Go(func() {
				_, err := g.Get(single, 2)
				require.Equal(t, context.DeadlineExceeded, err)
			})
			wg.Wait()
			require.Equal(t, 200*time.Millisecond, <-ended, "as long as one is waited for")
		})
	})
}

// A loader that is deaf and hangs: its callers are released at LoadTimeout.
func TestCase25_HungLoader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := rowsUpTo(10)
		hung := make(chan bool)
		db.fault = func(_ context.Context, k int) error {
			if k == 5 {
				<-hung
			}
			return nil
		}
		g := newGuard(t, db, nil)
		start := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				_, err := g.Get(t.Context(), 5)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, g.opts.LoadTimeout, time.Since(start))
			})
		}
		wg.Wait()
		requireRow(t, g, 6)
		db.heal()
		requireRow(t, g, 5)
		require.EqualValues(t, 3, db.loads.Load())
		close(hung)
		synctest.Wait()
		requireRow(t, g, 5)
	})
}

func TestCase26_GetMany(t *testing.T) {
	ctx := t.Context()
	t.Run("duplicates, hits, nulls, misses, rejections", func(t *testing.T) {
		for _, cache := range []Cache[int, string]{NewMemory[int, string](1000), newHookedCache()} {
			db := &batchDatabase{database: rowsUpTo(10)}
			g := newGuard(t, db, func(o *options) { o.Cache = cache })
			_, err := g.Rebuild(ctx, newDatabase(1, 2, 3, 4, 77, 78).scan, RebuildOptions[int]{}) // 77 and 78 have no row
			require.NoError(t, err)
			for _, k := range []int{1, 77} {
				_, _ = g.Get(ctx, k)
			}
			rest(g)
			rows, err := g.GetMany(ctx, []int{1, 1, 2, 3, 77, 78, 2, 99, 99})
			require.NoError(t, err)
			require.Equal(t, map[int]string{1: "row 1", 2: "row 2", 3: "row 3"}, rows)
			require.Len(t, db.batches, 1)
			require.ElementsMatch(t, []int{2, 3, 78}, db.batches[0])
			rest(g)
			rows, err = g.GetMany(ctx, []int{3, 2, 1, 78, 77})
			require.NoError(t, err)
			require.Len(t, rows, 3)
			require.Len(t, db.batches, 1, "all from the cache")
			s := g.Stats()
			require.EqualValues(t, 1, s.Rejected)
			require.EqualValues(t, 3, s.NullHits)
			require.EqualValues(t, 5, s.FalsePositives)
			require.EqualValues(t, 3, s.Loads)
		}
	})
	t.Run("overlapping batches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := &batchDatabase{database: rowsUpTo(1000)}
			db.takes = 100 * time.Millisecond
			g := newGuard(t, db, nil)
			var wg sync.WaitGroup
			for c := range 40 {
				wg.Go(func() {
					time.Sleep(time.Duration(c%7) * time.Millisecond)
					ks := make([]int, 100)
					for i := range ks {
						ks[i] = 1 + (20*c+i)%1000
					}
					rows, err := g.GetMany(t.Context(), ks)
					require.NoError(t, err)
					require.Len(t, rows, 100)
					for k, v := range rows {
						require.Equal(t, valueOf(k), v)
					}
					_, err = g.Get(t.Context(), ks[0])
					require.NoError(t, err)
				})
			}
			wg.Wait()
			times := map[int]int{}
			for _, batch := range db.batches {
				for _, k := range batch {
					times[k]++
				}
			}
			for k, n := range times {
				require.Equal(t, 1, n, "key %d", k)
			}
			require.Equal(t, 880, len(times))
		})
	})
	t.Run("an error", func(t *testing.T) {
		for _, single := range []bool{false, true} {
			t.Run(fmt.Sprint("single loads ", single), func(t *testing.T) {
				boom := errors.New("boom")
				cache := newHookedCache()
				db := &batchDatabase{database: rowsUpTo(10)}
				var loader Loader[int, string] = db
				if single {
					loader = db.database
				}
				g := newGuard(t, loader, func(o *options) { o.Cache = cache })
				requireRow(t, g, 1)
				db.fault = func(_ context.Context, k int) error {
					if k >= 3 {
						return boom
					}
					return nil
				}
				rows, err := g.GetMany(ctx, []int{1, 2, 3, 98, 99})
				require.ErrorIs(t, err, boom)
				require.Equal(t, "row 1", rows[1], "what the cache had")
				require.NotContains(t, rows, 3)
				rest(g)
				require.Zero(t, cache.nulls.Load())
				db.heal()
				rows, err = g.GetMany(ctx, []int{1, 2, 3, 98, 99})
				require.NoError(t, err)
				require.Len(t, rows, 3)
			})
		}
	})
	t.Run("nothing", func(t *testing.T) {
		db := &batchDatabase{database: rowsUpTo(10)}
		cache, remote := newHookedCache(), &remoteFake{}
		g := newGuard(t, db, func(o *options) { o.Cache, o.Filter = cache, remote })
		for _, ks := range [][]int{nil, {}} {
			rows, err := g.GetMany(ctx, ks)
			require.NoError(t, err)
			require.NotNil(t, rows)
			require.Empty(t, rows)
		}
		require.NoError(t, g.MarkCreated(ctx))
		require.NoError(t, g.MarkDeleted(ctx))
		require.NoError(t, g.Announce(ctx))
		require.Zero(t, db.loads.Load()+cache.gets.Load()+remote.lookups.Load()+remote.adds.Load())
	})
	t.Run("no slot", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, single := range []bool{false, true} {
				db := &batchDatabase{database: rowsUpTo(10)}
				db.takes = time.Second
				var loader Loader[int, string] = db
				if single {
					loader = db.database
				}
				g := newGuard(t, loader, func(o *options) { o.MaxLoads = 1 })
				requireRow(t, g, 1)
				go func() { _, _ = g.Get(t.Context(), 2) }()
				synctest.Wait()
				rows, err := g.GetMany(t.Context(), []int{1, 2, 3, 4})
				require.Equal(t, ErrOverload, err)
				require.Equal(t, map[int]string{1: "row 1", 2: "row 2"}, rows, "what it has, and what it may wait for")
				rows, err = g.GetMany(t.Context(), []int{1, 2, 3, 4})
				require.NoError(t, err)
				require.Len(t, rows, 4)
				synctest.Wait()
				require.Zero(t, g.flights.slots.Load())
			}
		})
	})
	t.Run("its context ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(100)
			db.takes = time.Second
			g := newGuard(t, db, func(o *options) { o.MaxLoads = 3 })
			ks := make([]int, 100)
			for i := range ks {
				ks[i] = i + 1
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
			defer cancel()
			rows, err := g.GetMany(ctx, ks)
			require.Equal(t, context.DeadlineExceeded, err)
			require.Len(t, rows, 9, "three at a time for three seconds")
			synctest.Wait()
			require.EqualValues(t, 12, db.loads.Load(), "what nobody waits for is not loaded")
			require.Zero(t, g.flights.slots.Load())
		})
	})
}

// The cache is down.
func TestCase27_CacheDown(t *testing.T) {
	down := errors.New("cache is down")
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint("FailClosed ", closed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, cache, watch := rowsUpTo(10), newHookedCache(), new(watcher)
				db.takes = time.Second
				g := newGuard(t, db, func(o *options) { o.Cache, o.FailClosed, o.MaxLoads, o.Observer = cache, closed, 2, watch })
				cache.beforeGet = func(context.Context, int) error { return down }
				cache.beforeSet = func(context.Context, int, Entry[string]) error { return down }
				var wg sync.WaitGroup
				for range 50 {
					wg.Go(func() {
						v, err := g.Get(t.Context(), 5)
						if closed {
							require.Equal(t, down, err)
							return
						}
						require.NoError(t, err)
						require.Equal(t, "row 5", v)
					})
				}
				wg.Wait()
				rows, err := g.GetMany(t.Context(), []int{1, 2})
				synctest.Wait()
				s := g.Stats()
				if closed {
					require.Equal(t, down, err)
					require.Zero(t, db.loads.Load())
					require.EqualValues(t, 51, s.CacheErrors)
					return
				}
				require.NoError(t, err)
				require.Len(t, rows, 2)
				require.EqualValues(t, 3, db.loads.Load(), "collapsed")
				require.LessOrEqual(t, db.peak.Load(), int64(2), "and bounded")
				require.EqualValues(t, 50+2+3, s.CacheErrors, "each Get, each Set")
				require.Len(t, watch.failures, 50+2+3)
				require.Equal(t, "cache: cache is down", watch.failures[0])
			})
		})
	}
	t.Run("an error that says not found", func(t *testing.T) {
		db, cache := rowsUpTo(10), newHookedCache()
		cache.beforeGet = func(context.Context, int) error { return ErrNotFound }
		g := newGuard(t, db, func(o *options) { o.Cache, o.FailClosed = cache, true })
		_, err := g.Get(t.Context(), 5)
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrNotFound)
	})
	t.Run("Delete fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db, cache := newDatabase(), newHookedCache()
			g := newGuard(t, db, func(o *options) { o.Cache = cache })
			_, err := g.Get(t.Context(), 99)
			require.Equal(t, ErrNotFound, err)
			synctest.Wait()
			cache.beforeDelete = func(context.Context, int) error { return down }
			err = g.Create(t.Context(), []int{99}, func(context.Context) error { db.insert(99); return nil })
			require.ErrorIs(t, err, ErrUnmarked)
			require.ErrorIs(t, err, down)
			_, null := cache.has(99)
			require.True(t, null)
			time.Sleep(g.opts.Settle)
			for range 60 { // for as long as the null can be there
				v, err := g.Get(t.Context(), 99)
				require.NoError(t, err)
				require.Equal(t, "row 99", v)
				time.Sleep(time.Second)
			}
		})
	})
	t.Run("Delete panics", func(t *testing.T) {
		cache := newHookedCache()
		g := newGuard(t, newDatabase(), func(o *options) { o.Cache = cache })
		cache.beforeDelete = func(context.Context, int) error { panic("ouch") }
		var p *PanicError
		require.ErrorAs(t, g.MarkCreated(t.Context(), 99), &p)
		require.ErrorAs(t, g.MarkDeleted(t.Context(), 99), &p)
		require.True(t, g.recent.doubts(99, g.recent.now()+g.opts.Settle), "longer than after a mark")
	})
	t.Run("the cache panics while storing", func(t *testing.T) {
		db, cache, watch := rowsUpTo(10), newHookedCache(), new(watcher)
		cache.beforeSet = func(context.Context, int, Entry[string]) error { panic("ouch") }
		g := newGuard(t, db, func(o *options) { o.Cache, o.Observer = cache, watch })
		v, err := g.Get(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, "row 5", v)
		rest(g)
		require.Len(t, watch.failures, 1)
		require.Contains(t, watch.failures[0], "ouch")
		require.Empty(t, g.flights.shard(g.keys.hash(5)).flying)
	})
	t.Run("the cache hangs while storing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db, cache := rowsUpTo(5000), newHookedCache()
			cache.beforeSet = func(ctx context.Context, _ int, _ Entry[string]) error { <-ctx.Done(); return ctx.Err() }
			g := newGuard(t, db, func(o *options) { o.Cache, o.MaxLoads = cache, 8 })
			start := time.Now()
			for k := range 5000 {
				v, err := g.Get(t.Context(), k+1)
				require.NoError(t, err)
				require.Equal(t, valueOf(k+1), v)
			}
			require.Zero(t, time.Since(start), "nobody waits for it")
			synctest.Wait()
			require.EqualValues(t, maxFills, g.fills.Load(), "and no more than so many are behind it")
			time.Sleep(time.Minute)
			require.Zero(t, g.fills.Load())
		})
	})
}

// A key that equals nothing cannot be removed from a map: it must not get into one.
func TestKeyThatIsNotItself(t *testing.T) {
	g, err := New(Options[float64, string]{
		Capacity:  10,
		AppendKey: func(dst []byte, k float64) []byte { return fmt.Append(dst, k) },
		Loader:    LoaderFunc[float64, string](func(context.Context, float64) (string, error) { return "row", nil }),
	})
	require.NoError(t, err)
	nan := func() float64 { z := 0.0; return z / z }()
	_, err = g.Get(t.Context(), nan)
	require.Equal(t, errNotSelf, err)
	rows, err := g.GetMany(t.Context(), []float64{nan, nan, 1})
	require.ErrorIs(t, err, errNotSelf)
	require.Equal(t, map[float64]string{1: "row"}, rows)
}
