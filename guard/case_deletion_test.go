package guard

import (
	"context"
	"iter"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCase10_Deletions(t *testing.T) {
	t.Run("deleted, then created", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			g := builtGuard(t, db, nil)
			check := func() {
				db.remove(5)
				require.NoError(t, g.MarkDeleted(t.Context(), 5))
				_, err := g.Get(t.Context(), 5)
				require.Equal(t, ErrAbsent, err)
				db.insert(5)
				require.NoError(t, g.MarkCreated(t.Context(), 5))
				v, err := g.Get(t.Context(), 5)
				require.NoError(t, err)
				require.Equal(t, "row 5", v)
				time.Sleep(time.Minute) // from here on it is no key of a moment ago
			}
			check()
			_, err := g.Rebuild(t.Context(), opening(db.scan, check), RebuildOptions[int]{})
			require.NoError(t, err)
			check()
			_, err = g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
				db.remove(5)
				require.NoError(t, g.MarkDeleted(ctx, 5))
				rows := db.scan(ctx, since) // without it
				db.insert(5)
				require.NoError(t, g.MarkCreated(ctx, 5))
				return rows
			}, RebuildOptions[int]{})
			require.NoError(t, err)
			v, err := g.Get(t.Context(), 5)
			require.NoError(t, err)
			require.Equal(t, "row 5", v)
		})
	})
	t.Run("exact", func(t *testing.T) {
		db := rowsUpTo(10_000)
		g := builtGuard(t, db, func(o *options) { o.Deletions, o.Capacity = 5000, 20_000 })
		for k := 1; k <= 5000; k++ {
			require.NoError(t, g.MarkDeleted(t.Context(), 2*k))
		}
		for k := 1; k <= 10_000; k++ {
			want := Maybe
			if k%2 == 0 {
				want = Absent
			}
			require.Equal(t, want, g.Check(t.Context(), k))
		}
		require.Equal(t, 5000, g.Stats().Deletions)
	})
	t.Run("too many", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, func(o *options) { o.Deletions = 2 })
		db.remove(1, 2, 3, 4)
		require.NoError(t, g.MarkDeleted(t.Context(), 1, 2, 3, 4))
		for k := 1; k <= 4; k++ {
			_, err := g.Get(t.Context(), k)
			require.ErrorIs(t, err, ErrNotFound)
		}
		require.Zero(t, db.loads.Load(), "the null cache has the rest")
		require.EqualValues(t, 2, g.Stats().NullHits)
		require.EqualValues(t, 2, g.Stats().Deleted)
		db.insert(4)
		require.NoError(t, g.MarkCreated(t.Context(), 4))
		_, err := g.Get(t.Context(), 4)
		require.NoError(t, err)
	})
	t.Run("marks in the wrong order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			g := builtGuard(t, db, nil)
			require.NoError(t, g.MarkCreated(t.Context(), 5)) // the second of two writers
			require.NoError(t, g.MarkDeleted(t.Context(), 5)) // the first one, late
			_, err := g.Get(t.Context(), 5)
			require.NoError(t, err, "a deletion of what was created a moment ago is not believed")
			time.Sleep(time.Minute)
			require.NoError(t, g.MarkDeleted(t.Context(), 5)) // later still
			_, err = g.Get(t.Context(), 5)
			require.Equal(t, ErrAbsent, err)
			time.Sleep(g.opts.MissTTL)
			_, err = g.Get(t.Context(), 5)
			require.NoError(t, err, "it costs MissTTL")
		})
	})
	t.Run("a load that read the row before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			db.takes = time.Second
			g := builtGuard(t, db, func(o *options) { o.Deletions = 0 })
			got := make(chan error)
			go func() { _, err := g.Get(t.Context(), 5); got <- err }()
			synctest.Wait()
			db.remove(5)
			require.NoError(t, g.MarkDeleted(t.Context(), 5))
			require.NoError(t, <-got, "it began before")
			synctest.Wait()
			time.Sleep(2 * g.opts.MissTTL)
			_, err := g.Get(t.Context(), 5)
			require.ErrorIs(t, err, ErrNotFound, "the old row is not in the cache")
		})
	})
}

func TestCase11_DeletionsAtASwap(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	db.remove(1)
	require.NoError(t, g.MarkDeleted(t.Context(), 1))
	_, err := g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		rows := db.scan(ctx, since)
		db.remove(2)
		require.NoError(t, g.MarkDeleted(ctx, 2))
		return rows
	}, RebuildOptions[int]{})
	require.NoError(t, err)
	require.Equal(t, 1, g.Stats().Deletions)
	require.Equal(t, Absent, g.Check(t.Context(), 1), "it is not in the new filter")
	require.Equal(t, Absent, g.Check(t.Context(), 2), "it is in the new filter, and in the set")
	gen, _ := g.filters.Load()
	require.False(t, gen.contains(g.keys.digest(1)))
	require.True(t, gen.contains(g.keys.digest(2)))
	require.Equal(t, Maybe, g.Check(t.Context(), 3))
}

func TestDeletionsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	db := newDatabase()
	g := builtGuard(t, db, func(o *options) { o.Deletions, o.Settle = 20, time.Millisecond })
	for range 20_000 {
		k := r.IntN(60)
		_, exists := db.read(k)
		switch op := r.IntN(100); {
		case op < 30 && !exists:
			require.NoError(t, g.Create(t.Context(), []int{k}, func(context.Context) error { db.insert(k); return nil }))
		case op < 60 && exists:
			db.remove(k)
			require.NoError(t, g.MarkDeleted(t.Context(), k))
		case op == 60:
			_, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{MinKeep: -1})
			require.NoError(t, err)
		default:
			v, err := g.Get(t.Context(), k)
			if exists {
				require.NoError(t, err)
				require.Equal(t, valueOf(k), v)
			} else {
				require.ErrorIs(t, err, ErrNotFound)
			}
		}
	}
}

// Each lookup counts once, and nothing but a lookup counts.
func TestDeletionsAreCounted(t *testing.T) {
	counts := func(g *Guard[int, string]) [3]uint64 {
		s := g.Stats()
		return [3]uint64{s.Rejected, s.Deleted, s.Missing}
	}
	for name, filter := range map[string]Filter{"in process": nil, "elsewhere": &remoteFake{marker: true, keys: map[string]bool{}}} {
		t.Run(name, func(t *testing.T) {
			db := rowsUpTo(10)
			g := newGuard(t, db, func(o *options) { o.Filter, o.Fresh = filter, func(k int) bool { return k == 3 } })
			if filter == nil {
				_, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
				require.NoError(t, err)
			}
			require.NoError(t, g.MarkCreated(t.Context(), 1, 2, 3))
			g.recent = newRecent[int](10) // or they were created a moment ago
			db.remove(1, 2, 3)
			require.NoError(t, g.MarkDeleted(t.Context(), 1, 2, 3))
			require.Equal(t, Absent, g.Check(t.Context(), 1))
			require.Equal(t, Unknown, g.Check(t.Context(), 3))
			require.Equal(t, [3]uint64{}, counts(g))
			_, err := g.Get(t.Context(), 1)
			require.Equal(t, ErrAbsent, err)
			_, err = g.Get(t.Context(), 99)
			require.Equal(t, ErrAbsent, err)
			_, err = g.Get(t.Context(), 3)
			require.Equal(t, ErrNotFound, err)
			require.Equal(t, [3]uint64{2, 1, 1}, counts(g))
			_, err = g.GetMany(t.Context(), []int{1, 2, 98})
			require.NoError(t, err)
			require.Equal(t, [3]uint64{5, 3, 1}, counts(g))
			g.opts.Audit = 1
			_, err = g.Get(t.Context(), 2)
			require.Equal(t, ErrAbsent, err)
			require.Equal(t, [3]uint64{6, 4, 1}, counts(g))
		})
	}
}
