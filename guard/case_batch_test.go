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
				go func() {
					if _, err := g.Get(t.Context(), 2); err != nil {
						t.Error("the slot of the last load is not free:", err)
					}
				}()
				synctest.Wait()
				rows, err := g.GetMany(t.Context(), []int{1, 2, 3, 4})
				require.Equal(t, ErrOverload, err)
				require.Equal(t, map[int]string{1: "row 1", 2: "row 2"}, rows, "what it has, and what it may wait for")
				for k := 3; k < 10; k++ {
					rows, err = g.GetMany(t.Context(), []int{1, 2, k, k + 1})
					require.NoError(t, err)
					require.Len(t, rows, 4)
				}
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
			// 12 had begun. The call leaves the others one after the other, and until it has left one, a
			// goroutine that is free may begin it.
			require.GreaterOrEqual(t, db.loads.Load(), int64(12))
			require.Less(t, db.loads.Load(), int64(50), "what nobody waits for is not loaded")
			require.Zero(t, g.flights.slots.Load())
		})
	})
}

// The cache is down.
// A key that equals nothing cannot be removed from a map: it must not get into one.
