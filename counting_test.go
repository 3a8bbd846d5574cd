package bloom

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountingCounts(t *testing.T) {
	for _, s := range allSchemes {
		c := Must(NewCounting(100, 0.01, withScheme(s)))
		require.True(t, c.AddString("a"), "absent before")
		require.False(t, c.AddString("a"))
		require.Equal(t, 2, c.CountString("a"))
		require.Equal(t, uint64(2), c.Len())
		require.True(t, c.RemoveString("a"))
		require.True(t, c.ContainsString("a"))
		require.True(t, c.RemoveString("a"))
		require.False(t, c.ContainsString("a"))
		before := c.Clone()
		require.False(t, c.RemoveString("a"), "a key that is not there")
		require.True(t, c.Equal(before))
		require.Zero(t, c.Len())
		require.Zero(t, c.FillRatio())
	}
}

func TestCountersStick(t *testing.T) {
	c := Must(NewCounting(100, 0.01))
	for range 20 {
		c.AddString("a")
	}
	require.Equal(t, 15, c.CountString("a"))
	for range 16 {
		require.True(t, c.RemoveString("a"))
	}
	require.True(t, c.ContainsString("a"), "saturated counters stick")
	require.Equal(t, uint64(4), c.Len())
}

// Positions that coincide count once, so that a remove undoes an add, also where
// 16 probes meet in one counter.
func TestCountingRepeatedPositions(t *testing.T) {
	for _, s := range allSchemes {
		for _, rate := range []float64{0.1, 1e-9} {
			c := Must(NewCounting(1, rate, withScheme(s)))
			c.mod = newModulus(3) // three counters: every key repeats positions
			for i := range uint64(200) {
				require.True(t, c.AddUint64(i))
				require.Equal(t, 1, c.CountUint64(i))
				require.True(t, c.RemoveUint64(i))
				require.Zero(t, c.counters.count())
			}
		}
	}
}

// Against a multiset: no key is ever absent that is in it, and the filter is empty
// again when all have been removed, unless a counter stuck.
func TestCountingModel(t *testing.T) {
	for _, s := range allSchemes {
		for _, n := range []uint64{1, 10, 500} {
			r := newRand(40)
			c, model, size := Must(NewCounting(n, 0.01, withScheme(s))), map[uint64]int{}, 0
			for range 20_000 {
				key := r.Uint64N(n)
				if size < int(n) && model[key] < 4 {
					c.AddUint64(key)
					model[key]++
					size++
				} else if model[key] > 0 {
					require.True(t, c.RemoveUint64(key))
					model[key]--
					size--
				}
				require.GreaterOrEqual(t, c.CountUint64(key), model[key])
				require.Equal(t, uint64(size), c.Len())
			}
			for key, count := range model {
				require.GreaterOrEqual(t, c.CountUint64(key), count)
				for range count {
					require.True(t, c.RemoveUint64(key))
				}
			}
			for i := range c.mod.m {
				v := c.counters.get(i)
				require.True(t, v == 0 || v == maxCount, "counter %d is %d", i, v)
			}
		}
	}
}

func TestCountingUnion(t *testing.T) {
	a, b := Must(NewCounting(100, 0.01)), Must(NewCounting(100, 0.01))
	for range 9 {
		a.AddString("x")
		b.AddString("x")
	}
	b.AddString("y")
	require.NoError(t, a.Union(b))
	require.Equal(t, 15, a.CountString("x"))
	require.Equal(t, 1, a.CountString("y"))
	require.Equal(t, uint64(19), a.Len())
	for range 20 {
		a.RemoveString("x")
	}
	require.True(t, a.ContainsString("x"), "9 + 9 is past 15, and sticks")

	require.NoError(t, b.Intersect(a))
	require.Equal(t, 9, b.CountString("x"))
	require.True(t, b.Info().LenEstimated)
	require.Equal(t, uint64(2), b.Len(), "distinct keys")

	require.ErrorIs(t, a.Union(nil), ErrInvalid)
	require.ErrorIs(t, a.Intersect(nil), ErrInvalid)
	require.ErrorIs(t, a.Union(Must(NewCounting(100, 0.01, WithSeed(1)))), ErrMismatch)
	require.ErrorIs(t, a.Intersect(Must(NewCounting(200, 0.01))), ErrMismatch)
	require.False(t, a.Equal(nil))
}

func TestCountingToFilter(t *testing.T) {
	for _, s := range allSchemes {
		c, want := Must(NewCounting(1000, 0.01, withScheme(s))), Must(New(1000, 0.01, withScheme(s)))
		for i := range uint64(1000) {
			c.AddUint64(i)
			c.AddUint64(5000 + i)
			want.AddUint64(i)
		}
		for i := range uint64(1000) {
			c.RemoveUint64(5000 + i)
		}
		f := c.Filter()
		require.True(t, f.Equal(want), "%v", s)
		require.True(t, f.Info().LenEstimated)
		require.InEpsilon(t, 1000, f.Len(), 0.1)
		require.Equal(t, want.FillRatio(), c.FillRatio())
		require.Equal(t, want.ErrorRate(), c.ErrorRate())
		require.Equal(t, want.EstimateLen(), c.EstimateLen())
		require.Equal(t, want.Positions(nil, []byte("k")), c.Positions(nil, []byte("k")))
		require.Equal(t, 4*want.SizeBytes(), c.SizeBytes())
	}
}

func TestCountingTwins(t *testing.T) {
	a, b := Must(NewCounting(1000, 0.01)), Must(NewCounting(1000, 0.01))
	for i := range uint64(1000) {
		bytes, word := uint64Bytes(i), fmt.Sprint(i)
		require.Equal(t, a.Add(bytes[:]), b.AddUint64(i))
		require.Equal(t, a.Add([]byte(word)), b.AddString(word))
		require.Equal(t, a.Add([]byte(word)), b.AddDigest(a.DigestString(word)))
		require.Equal(t, a.Count([]byte(word)), b.CountDigest(b.DigestString(word)))
		require.True(t, b.ContainsUint64(i) && b.ContainsString(word) && b.Contains(bytes[:]) && b.ContainsDigest(a.DigestUint64(i)))
	}
	require.True(t, a.Equal(b))
	for i := range uint64(1000) {
		word := fmt.Sprint(i)
		require.Equal(t, a.Remove([]byte(word)), b.RemoveString(word))
		require.Equal(t, a.RemoveDigest(a.DigestString(word)), b.RemoveString(word))
	}
	require.True(t, a.Equal(b))

	keys, words := [][]byte{[]byte("p"), []byte("q"), []byte("p")}, []string{"p", "q", "p"}
	c, d := Must(NewCounting(10, 1e-6)), Must(NewCounting(10, 1e-6))
	require.Equal(t, []bool{true, true, false}, c.AddMany(nil, keys))
	require.Equal(t, []bool{true, true, false}, d.AddManyString(nil, words))
	require.Equal(t, []bool{true, true, true}, c.ContainsMany(nil, keys))
	require.Equal(t, []bool{true}, c.ContainsManyString(nil, words[:1]))
	require.Equal(t, []bool{true, true, true}, c.RemoveMany(nil, keys))
	require.Equal(t, []bool{true, true, true}, d.RemoveManyString(nil, words))
	require.Equal(t, []bool{false, false, false}, c.RemoveMany(nil, keys))
}

func TestCountingLimitsAndReset(t *testing.T) {
	_, err := NewCounting(1000, 0.01, WithMaxBytes(4000))
	require.ErrorIs(t, err, ErrTooLarge, "half a byte a counter: 4,800")
	c := Must(NewCounting(1000, 0.01, WithMaxBytes(5000)))
	c.AddString("a")
	c.Reset()
	require.False(t, c.ContainsString("a"))
	require.True(t, c.Equal(Must(NewCounting(1000, 0.01))))

	var zero Counting
	require.False(t, zero.ContainsString("a") || zero.RemoveString("a"))
	require.Zero(t, zero.Count(nil))
	require.False(t, zero.Filter().ContainsString("a"))
	require.Equal(t, Info{Kind: "Counting"}, zero.Info())
	require.PanicsWithValue(t, zeroAdd, func() { zero.AddString("a") })
}
