package guard

import (
	"context"
	"errors"
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
