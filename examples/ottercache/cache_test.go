package ottercache

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/stretchr/testify/require"
)

func newCache(t *testing.T, rows, nulls int) *Cache[int, string] {
	c, err := New[int, string](rows, nulls)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestContract(t *testing.T) {
	ctx := t.Context()
	var c guard.Cache[int, string] = newCache(t, 100, 100)
	get := func(k int) (guard.Entry[string], bool) {
		e, ok, err := c.Get(ctx, k)
		require.NoError(t, err)
		return e, ok
	}
	set := func(k int, e guard.Entry[string]) { require.NoError(t, c.Set(ctx, k, e, time.Hour)) }
	null, value := guard.Entry[string]{Missing: true}, guard.Entry[string]{Value: "a"}

	e, ok := get(1)
	require.False(t, ok)
	require.Zero(t, e)
	set(1, null)
	e, ok = get(1)
	require.True(t, ok)
	require.Equal(t, null, e)
	set(1, value)
	e, ok = get(1)
	require.True(t, ok)
	require.Equal(t, value, e)
	set(1, null)
	e, _ = get(1)
	require.Equal(t, value, e, "a null replaces no row")
	set(1, guard.Entry[string]{Value: ""})
	e, ok = get(1)
	require.True(t, ok)
	require.Equal(t, guard.Entry[string]{}, e, "the zero value is a value")
	require.NoError(t, c.Delete(ctx, 1))
	_, ok = get(1)
	require.False(t, ok, "and the null from before the row is gone as well")
	set(2, null)
	require.NoError(t, c.Delete(ctx, 2))
	_, ok = get(2)
	require.False(t, ok)
	require.NoError(t, c.Delete(ctx, 3))
}

// Each entry lives for its own time, and never longer.
func TestTimesToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		c, err := New[int, string](100, 100)
		require.NoError(t, err)
		defer c.Close()
		ttls := []time.Duration{time.Millisecond, time.Second, 90 * time.Second, 36 * time.Hour}
		for i, ttl := range ttls {
			require.NoError(t, c.Set(ctx, 2*i, guard.Entry[string]{Value: "a"}, ttl))
			require.NoError(t, c.Set(ctx, 2*i+1, guard.Entry[string]{Missing: true}, ttl))
		}
		// A row that is written again lives from then on, and as long as the second time says.
		require.NoError(t, c.Set(ctx, 100, guard.Entry[string]{Value: "a"}, time.Hour))
		require.NoError(t, c.Set(ctx, 100, guard.Entry[string]{Value: "b"}, time.Second))
		start := time.Now()
		there := func(k int) bool {
			_, ok, err := c.Get(ctx, k)
			require.NoError(t, err)
			return ok
		}
		for i, ttl := range ttls {
			time.Sleep(time.Until(start.Add(ttl - time.Microsecond)))
			require.True(t, there(2*i) && there(2*i+1), ttl)
			require.Equal(t, i <= 1, there(100), ttl)
			time.Sleep(time.Microsecond)
			require.False(t, there(2*i) || there(2*i+1), ttl)
		}
	})
}

// A hundred thousand keys without a row leave the rows alone.
func TestNullsEvictNoRows(t *testing.T) {
	const rows, nulls = 5000, 1000
	ctx := t.Context()
	c := newCache(t, rows, nulls)
	for k := range rows / 2 {
		require.NoError(t, c.Set(ctx, k, guard.Entry[string]{Value: "row"}, time.Hour))
	}
	for k := range 100_000 {
		require.NoError(t, c.Set(ctx, -1-k, guard.Entry[string]{Missing: true}, time.Hour))
	}
	for k := range rows / 2 {
		_, ok, err := c.Get(ctx, k)
		require.NoError(t, err)
		require.True(t, ok)
	}
	c.nulls.CleanUp()
	_, held := c.Len()
	require.LessOrEqual(t, held, nulls)
}

// Whatever the order in which a row and a null are stored, the row is there afterwards.
func TestNullAgainstRow(t *testing.T) {
	ctx := context.Background()
	c := newCache(t, 100, 100)
	for k := range 2000 {
		var both sync.WaitGroup
		both.Go(func() { _ = c.Set(ctx, k, guard.Entry[string]{Missing: true}, time.Hour) })
		both.Go(func() { _ = c.Set(ctx, k, guard.Entry[string]{Value: "row"}, time.Hour) })
		both.Wait()
		_, null := c.nulls.GetIfPresent(k)
		require.False(t, null)
	}
}

// A guard with this cache.
func TestWithGuard(t *testing.T) {
	ctx := t.Context()
	var loads atomic.Int64
	var created atomic.Bool
	cache := newCache(t, 100, 100)
	g, err := guard.New(guard.Options[int, string]{
		Capacity: 1000, Cache: cache,
		Loader: guard.LoaderFunc[int, string](func(_ context.Context, k int) (string, error) {
			loads.Add(1)
			if k >= 0 && k < 500 || k == 501 && created.Load() {
				return "row", nil
			}
			return "", guard.ErrNotFound
		}),
	})
	require.NoError(t, err)
	_, err = g.Rebuild(ctx, func(context.Context, time.Time) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for k := 0; k < 500 && yield(k, nil); k++ {
			}
		}
	}, guard.RebuildOptions[int]{})
	require.NoError(t, err)

	for k := -100; k < 0; k++ {
		_, err = g.Get(ctx, k)
		require.ErrorIs(t, err, guard.ErrNotFound)
	}
	loads.Store(0)
	for range 3 {
		v, err := g.Get(ctx, 7)
		require.NoError(t, err)
		require.Equal(t, "row", v)
		require.Eventually(t, func() bool { _, ok := cache.rows.GetIfPresent(7); return ok }, 10*time.Second, time.Millisecond)
	}
	require.EqualValues(t, 1, loads.Load())
	require.NoError(t, g.Create(ctx, []int{501}, func(context.Context) error { created.Store(true); return nil }))
	v, err := g.Get(ctx, 501)
	require.NoError(t, err)
	require.Equal(t, "row", v)
}

func TestNoRoom(t *testing.T) {
	for _, room := range [][2]int{{0, 10}, {10, 0}, {-1, 10}, {10, -1}} {
		c, err := New[int, string](room[0], room[1])
		require.Error(t, err, room)
		require.Nil(t, c)
	}
}
