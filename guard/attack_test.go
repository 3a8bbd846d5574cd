package guard

import (
	"context"
	"iter"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A million keys that do not exist, each asked for once: the database gets the share that the
// filter was made to let through, and the rows stay in the cache.
func TestAttack(t *testing.T) {
	const rows, hot = 200_000, 5000
	attack := 1_000_000
	if testing.Short() {
		attack = 100_000
	}
	for _, kind := range []Kind{Concurrent, Blocked} {
		t.Run(kind.String(), func(t *testing.T) {
			var queries atomic.Int64
			// Rows are the even numbers. The key is fixed, so that every run has the same false positives.
			g, err := New(Options[uint64, uint64]{
				Kind: kind, Capacity: rows, Key: testKey, MaxLoads: 64, MissTTL: time.Hour, TTL: time.Hour,
				Loader: LoaderFunc[uint64, uint64](func(_ context.Context, k uint64) (uint64, error) {
					queries.Add(1)
					if k%2 == 0 && k < 2*rows {
						return k + 1, nil
					}
					return 0, ErrNotFound
				}),
			})
			require.NoError(t, err)
			_, err = g.Rebuild(t.Context(), func(context.Context, time.Time) iter.Seq2[uint64, error] {
				return func(yield func(uint64, error) bool) {
					for k := range uint64(rows) {
						if !yield(2*k, nil) {
							return
						}
					}
				}
			}, RebuildOptions[uint64]{})
			require.NoError(t, err)
			require.InDelta(t, 1, g.Stats().Load, 0.01, "full: this is the worst that was promised")
			readHot := func() {
				for k := range uint64(hot) {
					v, err := g.Get(t.Context(), 2*k)
					if err != nil || v != 2*k+1 {
						t.Fatal(k, v, err)
					}
				}
			}
			readHot()
			rest(g)
			require.EqualValues(t, hot, queries.Swap(0))

			for k := range uint64(attack) {
				if _, err := g.Get(t.Context(), (k*0x9e3779b97f4a7c15)|1); err != ErrNotFound && err != ErrAbsent {
					t.Fatal(err)
				}
			}
			n := queries.Swap(0)
			// Each key is let through with probability p; Blocked is made for p at most, and may stay below by
			// some percent.
			p := 0.01
			sigma := math.Sqrt(float64(attack) * p * (1 - p))
			t.Logf("%d queries for %d keys", n, attack)
			require.LessOrEqual(t, float64(n), float64(attack)*p+5*sigma)
			if kind == Concurrent {
				require.GreaterOrEqual(t, float64(n), float64(attack)*p-5*sigma)
			}
			s := g.Stats()
			require.EqualValues(t, n, s.FalsePositives)
			require.EqualValues(t, int64(attack)-n, s.Rejected)
			require.InDelta(t, s.EstimatedRate, s.ObservedRate, 5*math.Sqrt(p*(1-p)/float64(attack)))

			rest(g)
			readHot()
			require.Zero(t, queries.Load(), "no row was evicted by a null")
		})
	}
}
