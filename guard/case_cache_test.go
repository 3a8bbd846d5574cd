package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
	t.Run("a mark is told", func(t *testing.T) {
		cache, watch := newHookedCache(), new(watcher)
		g := newGuard(t, newDatabase(), func(o *options) { o.Cache, o.Observer, o.Deletions = cache, watch, 1 })
		require.NoError(t, g.MarkDeleted(t.Context(), 1))
		cache.beforeSet = func(context.Context, int, Entry[string]) error { return errors.New("full") }
		require.ErrorContains(t, g.MarkDeleted(t.Context(), 2), "full")
		cache.beforeDelete = func(context.Context, int) error { return errors.New("down") }
		require.ErrorContains(t, g.MarkCreated(t.Context(), 3), "down")
		require.Equal(t, []string{"cache: full", "cache: down"}, watch.failures)
		require.EqualValues(t, 2, g.Stats().CacheErrors)
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
