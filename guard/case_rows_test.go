package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// requireRow checks that the guard gives the row of k now, and once more from the cache.
func requireRow(t *testing.T, g *Guard[int, string], k int) {
	t.Helper()
	for range 2 {
		v, err := g.Get(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, valueOf(k), v)
	}
}

// create is the commit of a row and its mark, without an announcement: what Create does is worth more.
func create(t *testing.T, g *Guard[int, string], db *database, k int) {
	t.Helper()
	db.insert(k)
	require.NoError(t, g.MarkCreated(t.Context(), k))
}

// A load that found no row is overtaken by the creation of that row: its null is not stored.
func TestCase14_LateNull(t *testing.T) {
	for name, when := range map[string]point{
		"before the loader answers": loading, "inside of a slow Set, before it": setting, "inside of a slow Set, after it": set,
	} {
		for _, filtered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, filter %v", name, filtered), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db, cache := newDatabase(), newHookedCache()
					pause := func(p point) {
						if p == when {
							time.Sleep(time.Second)
						}
					}
					db.after = func(int) { pause(loading) }
					g := newGuard(t, db, func(o *options) {
						o.Settle = time.Millisecond // only the fence is tested
						o.Cache = slowSet{cache, pause}
					})
					if filtered { // by one that lets 99 through, a false positive
						_, err := g.Rebuild(t.Context(), newDatabase(99).scan, RebuildOptions[int]{})
						require.NoError(t, err)
					}
					got := make(chan error, 1)
					go func() { _, err := g.Get(t.Context(), 99); got <- err }()
					time.Sleep(500 * time.Millisecond)
					db.heal()
					create(t, g, db, 99)
					time.Sleep(10 * time.Millisecond) // Settle is over
					requireRow(t, g, 99)
					require.Equal(t, ErrNotFound, <-got, "who asked before gets what was true then")
					synctest.Wait()
					time.Sleep(5 * time.Second)
					requireRow(t, g, 99)
					_, null := cache.has(99)
					require.False(t, null)
					require.Empty(t, g.flights.shard(g.keys.hash(99)).flying)
				})
			})
		}
	}
}

// point is where a load stands.
type point int

const (
	loading point = iota
	setting
	set
)

// slowSet is a cache with a pause before and after Set.
type slowSet struct {
	*hookedCache
	pause func(point)
}

func (c slowSet) Set(ctx context.Context, k int, e Entry[string], ttl time.Duration) error {
	c.pause(setting)
	err := c.hookedCache.Set(ctx, k, e, ttl)
	c.pause(set)
	return err
}

// A cache stores a row longer than a load may take, and then fails to take it back. A row that was deleted meanwhile
// does not come back: who marks it waits for all that are still storing.
func TestCase14_RowOfAnExpiredFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, cache := newDatabase(5), newHookedCache()
		g := newGuard(t, db, func(o *options) { o.Cache = cache })
		var down atomic.Bool
		cache.beforeSet = func(_ context.Context, _ int, e Entry[string]) error {
			if !e.Missing {
				time.Sleep(10 * g.opts.LoadTimeout) // deaf
				down.Store(true)
			}
			return nil
		}
		cache.beforeDelete = func(context.Context, int) error {
			if down.CompareAndSwap(true, false) {
				return errors.New("down")
			}
			return nil
		}
		requireRow(t, g, 5)
		time.Sleep(3 * g.opts.LoadTimeout)
		requireRow(t, g, 5) // by a second flight, which is to be late as well
		time.Sleep(3 * g.opts.LoadTimeout)
		db.remove(5)
		require.NoError(t, g.MarkDeleted(t.Context(), 5))
		for range 20 {
			_, err := g.Get(t.Context(), 5)
			require.Equal(t, ErrNotFound, err)
			time.Sleep(g.opts.LoadTimeout)
		}
		synctest.Wait()
		require.Empty(t, g.flights.shard(g.keys.hash(5)).late)
	})
}

// A row that is created while the cache is slow: Create waits for it, but not for ever.
func TestCase14_MarkCreatedIsBoundByItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, cache := newDatabase(), newHookedCache()
		cache.beforeSet = func(context.Context, int, Entry[string]) error { time.Sleep(time.Hour); return nil } // deaf
		g := newGuard(t, db, func(o *options) { o.Cache = cache })
		_, err := g.Get(t.Context(), 99)
		require.Equal(t, ErrNotFound, err, "the caller does not wait for the cache")
		synctest.Wait()
		db.insert(99)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, g.MarkCreated(ctx, 99), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		cache.beforeSet = nil
		requireRow(t, g, 99)
		time.Sleep(time.Hour) // the late null has come, and has been taken away again
		_, null := cache.has(99)
		require.False(t, null)
		requireRow(t, g, 99)
	})
}

// As case 14, but every caller has left, and the loader does not heed its context.
func TestCase15_LateNullOfAnAbandonedLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, cache := newDatabase(), newHookedCache()
		db.after = func(int) { time.Sleep(time.Second) } // deaf
		g := newGuard(t, db, func(o *options) { o.Settle, o.Cache = time.Millisecond, cache })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := g.Get(ctx, 99)
		require.Equal(t, context.DeadlineExceeded, err)
		db.heal()
		create(t, g, db, 99)
		time.Sleep(10 * time.Millisecond)
		requireRow(t, g, 99)
		time.Sleep(5 * time.Second) // the loader has answered by now
		require.Zero(t, cache.nulls.Load())
		requireRow(t, g, 99)
	})
}

// Two processes share a cache. B's load found no row before A created it, and answers late: the
// cache refuses its null for as long as that can take.
func TestCase16_LateNullOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, cache := newDatabase(), newSharedFake()
		newProcess := func() *Guard[int, string] {
			return newGuard(t, db, func(o *options) { o.Cache = cache })
		}
		a, b := newProcess(), newProcess()
		late := []time.Duration{0, time.Second, a.opts.LoadTimeout - time.Millisecond}
		for i, d := range late {
			k := 100 + i
			db.after = func(int) { time.Sleep(d) }
			got := make(chan error, 1)
			go func() { _, err := b.Get(t.Context(), k); got <- err }()
			synctest.Wait()
			db.heal()
			create(t, a, db, k)
			require.Equal(t, ErrNotFound, <-got)
			synctest.Wait()
			for _, g := range []*Guard[int, string]{a, b} {
				requireRow(t, g, k)
			}
		}
		for _, d := range cache.fences {
			require.Greater(t, d, 2*a.opts.LoadTimeout+a.opts.Settle, "load, Set, replica")
		}
	})
}

// What goes wrong in a load is told to every caller, stored nowhere, and forgotten.
func TestCase17_LoadsThatFail(t *testing.T) {
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		fault func(ctx context.Context) error
		check func(t *testing.T, err error)
	}{
		"error": {func(context.Context) error { return boom }, func(t *testing.T, err error) { require.Equal(t, boom, err) }},
		"nil error of a context": {func(context.Context) error { return context.Canceled }, func(t *testing.T, err error) {
			require.Equal(t, context.Canceled, err)
		}},
		"panic": {func(context.Context) error { panic("ouch") }, func(t *testing.T, err error) {
			var p *PanicError
			require.ErrorAs(t, err, &p)
			require.Equal(t, "ouch", p.Value)
			require.Contains(t, string(p.Stack), "guard_test.go")
		}},
		"panic with ErrNotFound": {func(context.Context) error { panic(ErrNotFound) }, func(t *testing.T, err error) {
			require.ErrorContains(t, err, "panic")
		}},
		"panic with nil": {func(context.Context) error { panic(nil) }, func(t *testing.T, err error) { //nolint
			var nilPanic *PanicError
			require.ErrorAs(t, err, &nilPanic)
			require.IsType(t, new(runtime.PanicNilError), nilPanic.Value)
		}},
		"Goexit": {func(context.Context) error { runtime.Goexit(); return nil }, func(t *testing.T, err error) {
			require.Equal(t, errGoexit, err)
		}},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, batch %v", name, batch), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					db, cache, watch := rowsUpTo(3), newHookedCache(), new(watcher)
					db.fault = func(ctx context.Context, k int) error {
						time.Sleep(time.Second)
						return tt.fault(ctx)
					}
					var loader Loader[int, string] = db
					if batch {
						loader = &batchDatabase{database: db}
					}
					g := newGuard(t, loader, func(o *options) { o.Cache, o.Observer, o.MaxLoads = cache, watch, 10 })
					var wg sync.WaitGroup
					for i := range 10 {
						if i == 1 {
							synctest.Wait() // the first one has begun the load of all keys
						}
						wg.Go(func() {
							if batch {
								rows, err := g.GetMany(t.Context(), []int{1, 2, 77})
								require.Empty(t, rows)
								tt.check(t, err)
								require.NotErrorIs(t, err, ErrNotFound)
								return
							}
							v, err := g.Get(t.Context(), 1)
							require.Empty(t, v)
							tt.check(t, err)
							require.NotErrorIs(t, err, ErrNotFound)
						})
					}
					wg.Wait()
					synctest.Wait()
					require.EqualValues(t, 1, db.loads.Load(), "they shared it")
					require.Zero(t, cache.sets.Load())
					require.Zero(t, g.flights.slots.Load())
					require.Len(t, watch.loads, 1)
					require.Error(t, watch.loads[0].Err)
					require.EqualValues(t, 1, g.Stats().LoadErrors)

					db.heal()
					requireRow(t, g, 1)
					rows, err := g.GetMany(t.Context(), []int{1, 2, 77})
					require.NoError(t, err)
					require.Len(t, rows, 2)
				})
			})
		}
	}
	t.Run("a batch that says ErrNotFound", func(t *testing.T) {
		db := &batchDatabase{database: rowsUpTo(3)}
		db.fault = func(context.Context, int) error { return fmt.Errorf("no rows: %w", ErrNotFound) }
		g := newGuard(t, db, nil)
		rows, err := g.GetMany(t.Context(), []int{1, 2})
		require.Error(t, err)
		require.NotErrorIs(t, err, ErrNotFound, "nobody may take it for two rows that do not exist")
		require.Empty(t, rows)
	})
	t.Run("a loader that ends the goroutine of a batch of single loads", func(t *testing.T) {
		db := rowsUpTo(100)
		db.fault = func(_ context.Context, k int) error {
			if k%3 == 0 {
				runtime.Goexit()
			}
			return nil
		}
		g := newGuard(t, db, func(o *options) { o.MaxLoads = 2 })
		ks := make([]int, 100)
		for i := range ks {
			ks[i] = i + 1
		}
		rows, err := g.GetMany(t.Context(), ks)
		require.ErrorIs(t, err, errGoexit)
		require.Len(t, rows, 100-33)
		rest(g)
	})
}

// A nil error is a row, whatever the value is.
func TestCase18_AnyValueIsAValue(t *testing.T) {
	found := func(t *testing.T, values map[string]any) {
		loads := 0
		g, err := New(Options[string, any]{Capacity: 10, Loader: LoaderFunc[string, any](func(_ context.Context, k string) (any, error) {
			loads++
			if v, ok := values[k]; ok {
				return v, nil
			}
			return nil, fmt.Errorf("select: %w", ErrNotFound)
		})})
		require.NoError(t, err)
		for range 3 {
			for k, want := range values {
				v, err := g.Get(t.Context(), k)
				require.NoError(t, err, k)
				require.Equal(t, want, v, k)
				eventually(func() bool { _, ok, _ := g.opts.Cache.Get(t.Context(), k); return ok })
			}
			v, err := g.Get(t.Context(), "absent")
			require.ErrorIs(t, err, ErrNotFound)
			require.Nil(t, v)
			eventually(func() bool { _, ok, _ := g.opts.Cache.Get(t.Context(), "absent"); return ok })
		}
		require.Equal(t, len(values)+1, loads, "each is kept")
		rows, err := g.GetMany(t.Context(), []string{"nil", "absent", "pointer"})
		require.NoError(t, err)
		require.Len(t, rows, 2)
		require.Contains(t, rows, "nil")
	}
	found(t, map[string]any{"nil": nil, "pointer": (*int)(nil), "empty": "", "zero": 0, "error": errors.New("value")})
}

// Times to live are the ones asked for, to the millisecond, and never longer.
func TestCase19_TimesToLive(t *testing.T) {
	for _, tt := range []struct {
		ttl, miss         time.Duration
		wantTTL, wantMiss time.Duration
	}{
		{0, 0, 10 * time.Minute, 30 * time.Second},
		{time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond},
		{500 * time.Millisecond, time.Second, 500 * time.Millisecond, time.Second},
		{1999 * time.Microsecond, time.Hour, time.Millisecond, time.Hour},
	} {
		t.Run(fmt.Sprint(tt.ttl, tt.miss), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, cache := rowsUpTo(2000), newHookedCache()
				g := newGuard(t, db, func(o *options) { o.TTL, o.MissTTL, o.Cache = tt.ttl, tt.miss, cache })
				for k := range 2000 {
					_, err := g.Get(t.Context(), k+1)
					require.NoError(t, err)
				}
				synctest.Wait()
				checkTTLs(t, cache.ttls, tt.wantTTL)
				cache.ttls = nil
				for k := range 2000 {
					_, err := g.Get(t.Context(), -k-1)
					require.Equal(t, ErrNotFound, err)
				}
				synctest.Wait()
				checkTTLs(t, cache.ttls, tt.wantMiss)

				loads := db.loads.Load()
				time.Sleep(max(tt.wantTTL, tt.wantMiss))
				_, _ = g.Get(t.Context(), 2000)
				_, _ = g.Get(t.Context(), -2000)
				require.Equal(t, loads+2, db.loads.Load(), "nothing is kept for longer")
			})
		})
	}
	for _, change := range []func(*options){
		func(o *options) { o.TTL = -1 },
		func(o *options) { o.TTL = 999 * time.Microsecond },
		func(o *options) { o.MissTTL = -time.Second },
		func(o *options) { o.MissTTL = 1 },
		func(o *options) { o.LoadTimeout = -1 },
		func(o *options) { o.Settle = -1 },
		func(o *options) { o.Jitter = -0.1 },
		func(o *options) { o.Jitter = 1 },
		func(o *options) { o.Jitter = math.NaN() },
	} {
		o := options{Loader: newDatabase(), Capacity: 10}
		change(&o)
		_, err := New(o)
		require.ErrorIs(t, err, bloom.ErrInvalid)
	}
}

// checkTTLs checks that ttls are spread over the last tenth of want, if that has many milliseconds.
func checkTTLs(t *testing.T, ttls []time.Duration, want time.Duration) {
	t.Helper()
	require.Len(t, ttls, 2000)
	low, high := slices.Min(ttls), slices.Max(ttls)
	require.LessOrEqual(t, high, want)
	require.GreaterOrEqual(t, low, min(want.Truncate(time.Millisecond), want*9/10-time.Millisecond))
	for _, ttl := range ttls {
		require.Positive(t, ttl)
		require.Zero(t, ttl%time.Millisecond, "%v", ttl)
	}
	if want < time.Second {
		return
	}
	// Uniform in [0.9, 1]: the mean of 2,000 is 0.95 within 5 sigma of 0.1/√(12·2000), and neither
	// end stays empty (0.99^2000 is 2e-9).
	mean := 0.0
	for _, ttl := range ttls {
		mean += float64(ttl) / float64(want) / 2000
	}
	require.InDelta(t, 0.95, mean, 5*0.1/math.Sqrt(12*2000)+1e-3)
	require.Less(t, float64(low)/float64(want), 0.902)
	require.Greater(t, float64(high)/float64(want), 0.998)
}

// An attack with keys that do not exist evicts no row.
func TestCase20_NullsEvictNoValues(t *testing.T) {
	const rows = 5000
	absent := 100_000
	if testing.Short() {
		absent = 20_000
	}
	db := rowsUpTo(rows)
	g := newGuard(t, db, nil) // no filter; 10,000 slots
	memory := g.opts.Cache.(*Memory[int, string])
	for k := 1; k <= rows; k++ {
		_, err := g.Get(t.Context(), k)
		require.NoError(t, err)
	}
	rest(g)
	for k := range absent {
		if _, err := g.Get(t.Context(), -1-k); err != ErrNotFound {
			t.Fatal(err)
		}
	}
	values, nulls := memory.Len()
	require.Equal(t, rows, values)
	require.LessOrEqual(t, nulls, 1000)
	loads := db.loads.Load()
	for k := 1; k <= rows; k++ {
		_, err := g.Get(t.Context(), k)
		require.NoError(t, err)
	}
	require.Equal(t, loads, db.loads.Load())
}
