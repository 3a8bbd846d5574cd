package bloom

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The chain keeps the rate it was asked for, and ErrorRate tells it: of N absent
// keys the false positives are binomial, with sigma √(N·rate).
func TestScalableKeepsItsRate(t *testing.T) {
	absent := 1_000_000.0
	for _, c := range []struct {
		capacity, keys uint64
		opts           []Option
	}{
		{1000, 200_000, nil},
		{1000, 1_000_000, nil},
		{1000, 1_000_000, []Option{WithScheme(XXHash)}},
		{1000, 200_000, []Option{WithGrowth(4), WithTightening(0.5)}},
		{10_000, 200_000, []Option{WithGrowth(1), WithTightening(0.99)}},
		{1000, 200_000, []Option{WithScheme(RedisBloom)}},
	} {
		if testing.Short() {
			absent, c.keys = 100_000, c.keys/20
		}
		s := Must(NewScalable(c.capacity, 0.01, c.opts...))
		for i := range c.keys {
			_, err := s.AddUint64(i)
			require.NoError(t, err)
		}
		falsePositives := 0
		for i := range uint64(absent) {
			if s.ContainsUint64(1<<40 + i) {
				falsePositives++
			}
		}
		rate := s.ErrorRate()
		require.InDelta(t, absent*rate, falsePositives, 5*math.Sqrt(absent*rate))
		if s.Scheme() == RedisBloom {
			require.LessOrEqual(t, rate, 1.015*0.01)
		} else {
			require.LessOrEqual(t, rate, 0.01)
			sum := 0.0
			for l := range s.Links() {
				sum += l.TargetRate
			}
			require.Less(t, sum, 0.01)
		}
		for i := range c.keys {
			if !s.ContainsUint64(i) {
				t.Fatalf("key %d is lost", i)
			}
		}
		require.InEpsilon(t, float64(c.keys), float64(s.Len()), 0.01)
	}
}

func TestScalableGrows(t *testing.T) {
	s := Must(NewScalable(100, 0.01, WithGrowth(3)))
	want := []uint64{100, 300, 900, 2700}
	for i := range uint64(3000) {
		_, err := s.AddUint64(i)
		require.NoError(t, err)
	}
	var capacities []uint64
	last := 1.0
	for l := range s.Links() {
		capacities = append(capacities, l.Capacity)
		require.Less(t, l.TargetRate, last)
		last = l.TargetRate
	}
	require.Equal(t, want, capacities)
	require.Equal(t, uint64(4000), s.Capacity())
	info := s.Info()
	require.Equal(t, "Scalable", info.Kind)
	require.Equal(t, s.Bits(), info.Bits)
	require.Equal(t, s.Len(), info.Len)
	for range s.Links() { // an iteration may stop early
		break
	}
}

// Links of equal size get ever lower rates, but not so low that their sizes explode,
// and their number is bounded.
func TestScalableManyLinks(t *testing.T) {
	s := Must(NewScalable(10, 0.01, WithGrowth(1), WithMaxBytes(1<<20)))
	added, err := uint64(0), error(nil)
	for i := uint64(0); err == nil; i++ {
		var fresh bool
		if fresh, err = s.AddUint64(i); fresh {
			added++
		}
	}
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "1024 links")
	require.Equal(t, uint64(10*maxLinks), added)
	sum := 0.0
	for l := range s.Links() {
		sum += l.TargetRate
	}
	require.LessOrEqual(t, sum, 0.01)
	require.LessOrEqual(t, s.ErrorRate(), 0.01)
}

func TestNonScaling(t *testing.T) {
	for _, opts := range [][]Option{
		{WithNonScaling()},
		{WithScheme(RedisBloom), WithNonScaling()},
		{WithScheme(RedisBloom), WithGrowth(0)},
	} {
		s := Must(NewScalable(3, 1e-6, opts...))
		answers, err := s.AddManyString([]bool{true}, []string{"a", "b", "a", "c", "d", "e"})
		require.ErrorIs(t, err, ErrFull)
		require.Equal(t, []bool{true, true, true, false, true}, answers, "what was done before the refusal")
		before := s.Clone()
		for _, word := range []string{"d", "e", "f"} {
			added, err := s.AddString(word)
			require.ErrorIs(t, err, ErrFull)
			require.False(t, added)
		}
		require.True(t, s.Equal(before), "a refused add changes nothing")
		added, err := s.AddString("a")
		require.NoError(t, err, "a key that is present is not refused")
		require.False(t, added)
		require.Equal(t, 1, len(slices.Collect(s.Links())))
		require.Equal(t, 1e-6, slices.Collect(s.Links())[0].TargetRate)
	}
}

func TestScalableByteLimit(t *testing.T) {
	for _, scheme := range allSchemes {
		s := Must(NewScalable(100, 0.01, withScheme(scheme), WithMaxBytes(2000)))
		var refused error
		i := uint64(0)
		for ; refused == nil; i++ {
			before := s.Clone()
			_, refused = s.AddUint64(i)
			if refused != nil {
				require.True(t, s.Equal(before))
			}
		}
		require.ErrorIs(t, refused, ErrTooLarge)
		require.LessOrEqual(t, s.SizeBytes(), uint64(2000))
		for j := range i - 1 {
			require.True(t, s.ContainsUint64(j), "it stays usable")
		}
		_, err := NewScalable(100_000, 0.01, withScheme(scheme), WithMaxBytes(2000))
		require.ErrorIs(t, err, ErrTooLarge)
	}
}

func TestScalableBadParameters(t *testing.T) {
	redis := WithScheme(RedisBloom)
	for _, c := range []struct {
		n    uint64
		p    float64
		opts []Option
		says string
	}{
		{0, 0.01, nil, "capacity is 0"},
		{1, 0, nil, "error rate is 0"},
		{1, math.NaN(), []Option{redis}, "error rate is NaN"},
		{1, 0.01, []Option{WithGrowth(0)}, "growth is 0, want 1 …"},
		{1, 0.01, []Option{WithGrowth(-1)}, "growth is -1, want 1 …"},
		{1, 0.01, []Option{redis, WithGrowth(-1)}, "growth is -1, want 0 … 32768"},
		{1, 0.01, []Option{redis, WithGrowth(32769)}, "growth is 32769, want 0 … 32768"},
		{1, 0.01, []Option{WithNonScaling(), WithGrowth(2)}, "WithNonScaling together with WithGrowth(2)"},
		{1, 0.01, []Option{redis, WithGrowth(2), WithNonScaling()}, "WithNonScaling together with WithGrowth(2)"},
		{1, 0.01, []Option{WithTightening(0)}, "tightening is 0, want strictly between 0 and 1"},
		{1, 0.01, []Option{WithTightening(1)}, "tightening is 1,"},
		{1, 0.01, []Option{WithTightening(math.NaN())}, "tightening is NaN,"},
		{1, 0.01, []Option{redis, WithTightening(0.9)}, "the RedisBloom scheme has 0.5"},
		{1, 0.01, []Option{redis, WithSeed(1)}, "takes no seed"},
	} {
		s, err := NewScalable(c.n, c.p, c.opts...)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, c.says)
		require.Nil(t, s)
	}
	_, err := NewScalable(1e18, 0.01)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = NewScalable(1e18, 0.01, redis)
	require.ErrorIs(t, err, ErrTooLarge)
}

// Growth that passes every limit is refused, not wrapped.
func TestScalableGrowthOverflow(t *testing.T) {
	s := Must(NewScalable(1<<20, 0.5, WithScheme(RedisBloom), WithGrowth(32768)))
	s.links[0].entries = 1 << 60
	s.links[0].count = 1 << 60
	before := s.SizeBytes()
	_, err := s.AddString("one more")
	require.ErrorIs(t, err, ErrTooLarge)
	require.Equal(t, before, s.SizeBytes())
}

func TestScalableTwinsCloneReset(t *testing.T) {
	for _, scheme := range allSchemes {
		a, b := Must(NewScalable(10, 0.01, withScheme(scheme))), Must(NewScalable(10, 0.01, withScheme(scheme)))
		require.False(t, a.Contains(nil))
		for i := range uint64(200) {
			key := uint64Bytes(splitMix64(i))
			want, err := a.Add(key[:])
			require.NoError(t, err)
			var got bool
			switch i % 3 {
			case 0:
				got, err = b.AddString(string(key[:]))
			case 1:
				got, err = b.AddUint64(splitMix64(i))
			case 2:
				got, err = b.AddDigest(a.Digest(key[:]))
			}
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.True(t, b.Contains(key[:]) && b.ContainsString(string(key[:])) &&
				b.ContainsUint64(splitMix64(i)) && b.ContainsDigest(a.DigestString(string(key[:]))))
		}
		require.True(t, a.Equal(b))
		require.False(t, a.Equal(nil))
		c := a.Clone()
		c.Reset()
		require.Zero(t, c.Len())
		require.False(t, c.ContainsUint64(splitMix64(1)))
		require.True(t, a.ContainsUint64(splitMix64(1)), "a clone shares nothing")
		require.True(t, c.Equal(Must(NewScalable(10, 0.01, withScheme(scheme)))))
		require.Panics(t, func() { a.AddDigest(Digest{}) })
		require.Panics(t, func() { a.ContainsDigest(Digest{}) })
	}
	var zero Scalable
	require.False(t, zero.ContainsString("a"))
	require.Equal(t, Info{Kind: "Scalable"}, zero.Info())
	require.PanicsWithValue(t, zeroAdd, func() { zero.AddString("a") })
	zero.Reset()
}

func TestScalableNoAllocations(t *testing.T) {
	for _, scheme := range allSchemes {
		s := Must(NewScalable(1000, 0.01, withScheme(scheme)))
		key, i := []byte("a key of more than sixteen bytes"), uint64(0)
		for range 3500 { // the third link has room for 3,000 more
			s.AddUint64(splitMix64(i))
			i++
		}
		for name, op := range map[string]func(){
			"Add": func() { s.Add(key) }, "AddString": func() { s.AddString("user:12345678") },
			"AddUint64": func() { i++; s.AddUint64(splitMix64(i)) },
			"Contains":  func() { s.Contains(key) }, "ContainsString": func() { s.ContainsString("user:12345678") },
			"ContainsDigest": func() { s.ContainsDigest(s.Digest(key)) },
		} {
			require.Zero(t, testing.AllocsPerRun(50, op), name)
		}
	}
}

// Against a map, with dumps in between.
func TestScalableModel(t *testing.T) {
	for _, growth := range []int{1, 2, 8} {
		for _, capacity := range []uint64{1, 63, 64, 65} {
			r := newRand(60)
			s := Must(NewScalable(capacity, 0.37e-7, WithScheme(RedisBloom), WithGrowth(growth)))
			model := map[uint64]bool{}
			for range 1000 {
				key := r.Uint64N(2000)
				require.True(t, s.ContainsUint64(key) || !model[key])
				if r.IntN(2) == 0 {
					added, err := s.AddUint64(key)
					require.NoError(t, err)
					require.False(t, added && model[key])
					model[key] = true
				}
				if r.IntN(200) == 0 {
					cursors, chunks := dumpOf(s, 1+r.IntN(300))
					l := NewScalableLoader()
					for i := range chunks {
						require.NoError(t, l.LoadChunk(cursors[i], chunks[i]))
					}
					loaded := Must(l.Finish())
					require.True(t, loaded.Equal(s))
					s = loaded
				}
			}
		}
	}
}
