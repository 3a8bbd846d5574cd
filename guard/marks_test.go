package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A commit takes longer than a key counts as announced. A null that was cached meanwhile does not hide
// the row from those who look for it between the commit and the mark.
func TestCreateThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		g := builtGuard(t, db, nil)
		require.NoError(t, g.Create(t.Context(), []int{99}, func(context.Context) error {
			time.Sleep(g.opts.LoadTimeout + g.opts.Settle + time.Second)
			_, err := g.Get(t.Context(), 99)
			require.Equal(t, ErrNotFound, err)
			synctest.Wait()
			db.insert(99)
			requireRow(t, g, 99)
			return nil
		}))
		requireRow(t, g, 99)
	})
}

// The caller of Create may do with its slice what it likes.
func TestCreateKeepsItsKeys(t *testing.T) {
	g := builtGuard(t, rowsUpTo(10), nil)
	ks := []int{98, 99, 99}
	_ = g.Create(t.Context(), ks, func(context.Context) error { clear(ks); return nil })
	require.Empty(t, g.recent.creating)
}

// What a mark that failed says of the cache is not taken back by an announcement or another mark.
func TestAnnounceAfterAMarkThatFailed(t *testing.T) {
	for name, again := range map[string]func(g *Guard[int, string]) error{
		"announced": func(g *Guard[int, string]) error { return g.Announce(context.Background(), 99) },
		"marked, and the cache hangs": func(g *Guard[int, string]) error {
			go func() { _ = g.MarkCreated(context.Background(), 99) }()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, cache := newDatabase(), newHookedCache()
				g := newGuard(t, db, func(o *options) { o.Cache = cache })
				_, err := g.Get(t.Context(), 99)
				require.Equal(t, ErrNotFound, err)
				synctest.Wait()
				down := errors.New("down")
				cache.beforeDelete = func(context.Context, int) error { return down }
				db.insert(99)
				require.ErrorIs(t, g.MarkCreated(t.Context(), 99), down)
				cache.beforeDelete = func(context.Context, int) error { time.Sleep(time.Hour); return down }
				require.NoError(t, again(g))
				time.Sleep(g.opts.LoadTimeout + g.opts.Settle)
				_, null := cache.has(99)
				require.True(t, null)
				v, err := g.Get(t.Context(), 99)
				require.NoError(t, err)
				require.Equal(t, valueOf(99), v)
				time.Sleep(time.Hour)
			})
		})
	}
}

// MarkDeleted has no instant between seeing that a key is not being created and remembering its deletion
// in which it could be: the row would be called absent.
func TestMarkDeletedBesideACreation(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	g.recent.mu.Lock() // as add does
	done := make(chan error)
	go func() { done <- g.MarkDeleted(t.Context(), 99) }()
	time.Sleep(10 * time.Millisecond)
	deletions := g.filters.Deletions()
	g.recent.mu.Unlock()
	require.Zero(t, deletions)
	require.NoError(t, <-done)
	require.Equal(t, 1, g.filters.Deletions())
}

// Where there is no room for the deletion, a null takes its place. It does not hide a row that is created
// while the cache stores it.
func TestMarkDeletedBesideACreationInTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, cache := rowsUpTo(10), newHookedCache()
		g := builtGuard(t, db, func(o *options) { o.Cache, o.Deletions = cache, 1 })
		require.NoError(t, g.MarkDeleted(t.Context(), 1))
		cache.beforeSet = func(_ context.Context, k int, e Entry[string]) error {
			if e.Missing {
				require.NoError(t, g.Create(t.Context(), []int{k}, func(context.Context) error { db.insert(k); return nil }))
			}
			return nil
		}
		db.remove(2)
		require.NoError(t, g.MarkDeleted(t.Context(), 2))
		time.Sleep(g.opts.LoadTimeout + g.opts.Settle)
		requireRow(t, g, 2)
	})
}

// A key that is not equal to itself stays in a map for ever, so it enters none.
func TestMarksOfKeysThatAreNotThemselves(t *testing.T) {
	g, err := New(Options[float64, string]{
		Capacity:  10,
		Journal:   3,
		Deletions: 3,
		AppendKey: func(dst []byte, k float64) []byte { return fmt.Append(dst, k) },
		Loader:    LoaderFunc[float64, string](func(context.Context, float64) (string, error) { return "", ErrNotFound }),
	})
	require.NoError(t, err)
	nan := math.NaN()
	for range 10 {
		require.NoError(t, g.Create(t.Context(), []float64{nan, 1}, func(context.Context) error { return nil }))
		require.NoError(t, g.MarkDeleted(t.Context(), nan))
	}
	require.Len(t, g.recent.records, 1)
	require.Empty(t, g.recent.creating)
	require.Zero(t, g.filters.Deletions())
}

// A key that cannot be hashed is its caller's mistake, and panics there. Later calls, of others, work.
func TestMarksOfKeysThatCannotBeHashed(t *testing.T) {
	g, err := New(Options[any, string]{
		Capacity:  10,
		Journal:   3,
		AppendKey: func(dst []byte, k any) []byte { return fmt.Append(dst, k) },
		Loader:    LoaderFunc[any, string](func(context.Context, any) (string, error) { return "", ErrNotFound }),
	})
	require.NoError(t, err)
	for i := range 5 {
		bad := []any{i, []int{1}}
		require.Panics(t, func() { _ = g.MarkCreated(t.Context(), bad...) })
		require.Panics(t, func() { _ = g.Announce(t.Context(), bad...) })
		require.Panics(t, func() { _ = g.Create(t.Context(), bad, func(context.Context) error { return nil }) })
		require.Panics(t, func() { _ = g.MarkDeleted(t.Context(), bad...) })
	}
	require.Empty(t, g.recent.creating)
	for i := range 10 {
		require.NoError(t, g.MarkCreated(t.Context(), i))
	}
}
