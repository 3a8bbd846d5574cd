package guard

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMemorySizes(t *testing.T) {
	ctx := t.Context()
	for _, entries := range []int{-1, 0, 1, 2, 3, 10, 11, 1000, 1023, 1024, 4096, 10_000, 100_000} {
		m := NewMemory[int, int](entries)
		for k := range 3 * max(entries, 2) {
			require.NoError(t, m.Set(ctx, k, Entry[int]{Value: k}, time.Hour))
			require.NoError(t, m.Set(ctx, -k-1, Entry[int]{Missing: true}, time.Hour))
		}
		values, nulls := m.Len()
		require.Equal(t, max(entries, 2), values+nulls, "full, and no more")
		require.LessOrEqual(t, nulls, max(1, entries/10+1))
		require.GreaterOrEqual(t, nulls, max(1, entries/10-len(m.shards)))
	}
}

func TestMemoryForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory[int, int](10)
		time.Sleep(time.Hour)
		require.NoError(t, m.Set(t.Context(), 1, Entry[int]{Value: 1}, math.MaxInt64))
		_, ok, _ := m.Get(t.Context(), 1)
		require.True(t, ok)
	})
}

func TestMemoryEvictsTheLeastRecentlyUsed(t *testing.T) {
	ctx := t.Context()
	m := NewMemory[int, int](10) // nine values
	for k := range 9 {
		require.NoError(t, m.Set(ctx, k, Entry[int]{Value: k}, time.Hour))
	}
	_, ok, _ := m.Get(ctx, 0)
	require.True(t, ok)
	require.NoError(t, m.Set(ctx, 1, Entry[int]{Value: 11}, time.Hour))
	for k := 9; k < 12; k++ {
		require.NoError(t, m.Set(ctx, k, Entry[int]{Value: k}, time.Hour))
	}
	for k := range 12 {
		e, ok, _ := m.Get(ctx, k)
		require.Equal(t, k < 2 || k > 4, ok, k)
		if k == 1 {
			require.Equal(t, 11, e.Value)
		}
	}
}

// The cache against a map: what it has is what was set last, and not for longer than it may.
func TestMemoryModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		type stored struct {
			Entry[int]
			until time.Time
		}
		model := map[int]stored{}
		live := func(k int) (stored, bool) {
			s, ok := model[k]
			return s, ok && time.Now().Before(s.until)
		}
		m := NewMemory[int, int](1000) // more than there are keys: nothing is evicted
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 50_000 {
			k := r.IntN(80)
			switch r.IntN(8) {
			case 0:
				require.NoError(t, m.Delete(ctx, k))
				delete(model, k)
			case 1, 2:
				e := Entry[int]{Value: i, Missing: false}
				if r.IntN(2) == 0 {
					e = Entry[int]{Missing: true}
				}
				ttl := time.Duration(1+r.IntN(50)) * time.Millisecond
				require.NoError(t, m.Set(ctx, k, e, ttl))
				if s, ok := live(k); !e.Missing || !ok || s.Missing {
					model[k] = stored{e, time.Now().Add(ttl)}
				}
			case 3:
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			case 4:
				found, err := m.GetMany(ctx, []int{k, k + 1, k})
				require.NoError(t, err)
				for _, k := range []int{k, k + 1} {
					want, ok := live(k)
					got, has := found[k]
					require.Equal(t, ok, has)
					require.Equal(t, want.Entry, orZero(got, want.Entry, ok))
				}
			default:
				e, has, err := m.Get(ctx, k)
				require.NoError(t, err)
				want, ok := live(k)
				require.Equal(t, ok, has)
				if ok {
					require.Equal(t, want.Entry, e)
				} else {
					require.Zero(t, e)
				}
			}
		}
	})
}

func orZero(got, want Entry[int], ok bool) Entry[int] {
	if !ok {
		return want
	}
	return got
}

func TestMemoryInParallel(t *testing.T) {
	ctx := context.Background()
	m := NewMemory[string, int](5000)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 0))
			for range 5000 {
				n := r.IntN(10_000)
				k := fmt.Sprint(n)
				switch r.IntN(4) {
				case 0:
					_ = m.Set(ctx, k, Entry[int]{Value: n}, time.Hour)
				case 1:
					_ = m.SetMany(ctx, []Item[string, int]{{k, Entry[int]{Missing: true}, time.Hour}})
				case 2:
					_ = m.Delete(ctx, k)
				default:
					if e, ok, _ := m.Get(ctx, k); ok && !e.Missing && e.Value != n {
						t.Error("another key's value")
					}
				}
			}
		})
	}
	wg.Wait()
	values, nulls := m.Len()
	require.LessOrEqual(t, values+nulls, 5000)
}

func TestMemoryNotSelf(t *testing.T) {
	m := NewMemory[float64, int](10)
	for range 100 {
		require.NoError(t, m.Set(t.Context(), math.NaN(), Entry[int]{}, time.Hour))
	}
	values, _ := m.Len()
	require.Zero(t, values)
}

func TestMemoryAllocations(t *testing.T) {
	ctx := context.Background()
	m := NewMemory[int, int](100)
	k := 0
	require.Zero(t, testing.AllocsPerRun(2000, func() { // the maps have grown once it is full
		k++
		_ = m.Set(ctx, k%300, Entry[int]{Value: k}, time.Hour)
		_, _, _ = m.Get(ctx, k%300)
		_ = m.Delete(ctx, (k-50)%300)
	}))
}
