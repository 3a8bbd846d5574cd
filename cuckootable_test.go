package bloom

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCuckooSizes(t *testing.T) {
	for _, x := range []struct {
		capacity uint64
		rate     float64
		buckets  uint64
		width    uint64
	}{
		{1, 0.01, 1, 8}, {3, 0.01, 1, 9}, {4, 0.01, 2, 9}, {1000, 0.01, 264, 10}, {1000, 0.001, 264, 13}, {1000, 0.03, 264, 8},
		{1000, 0.99, 264, 8}, {1_000_000, 1e-5, 263_168, 20}, {1_000_000, 2e-9, 263_168, 32},
		{1e10, 0.01, 2_631_579_008, 10},
	} {
		s := cuckooShape{bucketSize: 4}
		buckets, err := s.size(x.capacity, x.rate)
		require.NoError(t, err)
		require.Equal(t, []uint64{x.buckets, x.width}, []uint64{buckets, s.width}, "%+v", x)
		require.LessOrEqual(t, s.rate(x.capacity, buckets), x.rate)
	}

	// The sizes of CF.INFO of chains that no test could build.
	for _, x := range []struct {
		p    cuckooParams
		size uint64
	}{
		{cuckooParams{buckets: 8192, bucketSize: 2, expansion: 2, filters: 12}, 67_092_712},
		{cuckooParams{buckets: 8192, bucketSize: 2, expansion: 2, filters: 19}, 8_589_918_552},
		{cuckooParams{buckets: 512, bucketSize: 2, expansion: 1, filters: 32}, 33_320},
	} {
		size := 40 + 16*x.p.filters
		for i := range x.p.filters {
			size += x.p.filterBuckets(i) * uint64(x.p.bucketSize)
		}
		require.Equal(t, x.size, size)
	}
}

func TestCuckooBadParameters(t *testing.T) {
	redis := WithScheme(RedisBloom)
	for _, x := range []struct {
		capacity uint64
		rate     float64
		opts     []Option
		err      error
		says     string
	}{
		{0, 0.01, nil, ErrInvalid, "capacity is 0"},
		{10, 0, nil, ErrInvalid, "error rate is 0"},
		{10, 1, nil, ErrInvalid, "error rate is 1"},
		{10, -1, nil, ErrInvalid, "error rate is -1"},
		{10, math.NaN(), nil, ErrInvalid, "NaN"},
		{10, math.Inf(1), nil, ErrInvalid, "Inf"},
		{1000, 1e-9, nil, ErrInvalid, "error rate is 1e-09, want at least 1.7"},
		{10, 0.01, []Option{WithBucketSize(0)}, ErrInvalid, "bucket size is 0, want 1 … 8"},
		{10, 0.01, []Option{WithBucketSize(9)}, ErrInvalid, "bucket size is 9"},
		{10, 0.01, []Option{WithMaxIterations(0)}, ErrInvalid, "max iterations is 0, want 1 … 65535"},
		{10, 0.01, []Option{WithGrowth(-1)}, ErrInvalid, "growth is -1, want 0 … 32768"},
		{10, 0.01, []Option{WithTightening(0.5)}, ErrInvalid, "WithTightening"},
		{10, 0.01, []Option{nil}, ErrInvalid, "nil"},
		{1e18, 0.01, nil, ErrTooLarge, "limit"},
		{1 << 46, 0.01, nil, ErrTooLarge, "limit"},
		{1e6, 0.01, []Option{WithMaxBytes(1e6)}, ErrTooLarge, "WithMaxBytes"},
		{0, 0, []Option{redis}, ErrInvalid, "capacity is 0"},
		{10, 0.01, []Option{redis}, ErrInvalid, "error rate is 0.01, want 0"},
		{10, math.NaN(), []Option{redis}, ErrInvalid, "want 0"},
		{10, 0, []Option{redis, WithSeed(1)}, ErrInvalid, "seed"},
		{10, 0, []Option{redis, WithBucketSize(256)}, ErrInvalid, "bucket size is 256, want 1 … 255"},
		{10, 0, []Option{redis, WithBucketSize(-2)}, ErrInvalid, "bucket size is -2"},
		{10, 0, []Option{redis, WithMaxIterations(65_536)}, ErrInvalid, "max iterations is 65536"},
		{10, 0, []Option{redis, WithGrowth(32_769)}, ErrInvalid, "growth is 32769"},
		{1<<33 + 2, 0, []Option{redis}, ErrTooLarge, "2^32"},
		{math.MaxUint64, 0, []Option{redis}, ErrTooLarge, "limit"},
	} {
		c, err := NewCuckoo(x.capacity, x.rate, x.opts...)
		require.ErrorIs(t, err, x.err, "%+v", x)
		require.ErrorContains(t, err, x.says)
		require.Nil(t, c)
	}
}

func TestCuckooHeaders(t *testing.T) {
	good := cuckooParams{items: 3, buckets: 512, deletes: 1, filters: 2, bucketSize: 2, maxIterations: 20, expansion: 2}
	c, err := newCuckooRedis(good)
	require.NoError(t, err)
	require.Equal(t, []uint64{1024, 3, 1}, []uint64{c.Capacity(), c.Len(), c.deletes})
	for name, change := range map[string]func(*cuckooParams){
		"bucket size 0":         func(p *cuckooParams) { p.bucketSize = 0 },
		"bucket size 256":       func(p *cuckooParams) { p.bucketSize = 256 },
		"no iterations":         func(p *cuckooParams) { p.maxIterations = 0 },
		"expansion 32769":       func(p *cuckooParams) { p.expansion = 32_769 },
		"expansion 3":           func(p *cuckooParams) { p.expansion = 3 },
		"expansion 0":           func(p *cuckooParams) { p.expansion = 0 },
		"no sub-filters":        func(p *cuckooParams) { p.filters = 0 },
		"65537 sub-filters":     func(p *cuckooParams) { p.filters = 65_537; p.expansion = 1 },
		"endless sub-filters":   func(p *cuckooParams) { p.filters = math.MaxUint64; p.expansion = 1 },
		"too many slots":        func(p *cuckooParams) { p.filters = 24 },
		"buckets 0":             func(p *cuckooParams) { p.buckets = 0 },
		"buckets 513":           func(p *cuckooParams) { p.buckets = 513 },
		"buckets 2^63":          func(p *cuckooParams) { p.buckets = 1 << 63 },
		"too many in all":       func(p *cuckooParams) { p.buckets = 1 << 31; p.expansion = 1; p.filters = 65_536 },
		"more items than slots": func(p *cuckooParams) { p.items = 3073 },
	} {
		p := good
		change(&p)
		c, err := newCuckooRedis(p)
		require.Error(t, err, name)
		require.Nil(t, c)
		require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrTooLarge), name)
		before := allocated()
		_, _ = newCuckooRedis(p)
		require.Less(t, allocated()-before, uint64(1<<10), name)
	}
}

// A fingerprint is never 0, which is a free slot, and takes all other values.
func TestCuckooFingerprints(t *testing.T) {
	for _, x := range []struct {
		c    *Cuckoo
		last uint64
	}{
		{newTestCuckoo(Murmur3, 100, 0.03), 1<<8 - 1}, {newTestCuckoo(XXHash, 100, 0.001), 1<<13 - 1},
		{newTestCuckoo(Murmur3, 1e6, 2e-9), 1<<32 - 1}, {newTestCuckoo(RedisBloom, 100, 0), 255},
	} {
		require.Equal(t, x.last, x.c.fingerprints())
		r := newRand(80)
		least, most := uint64(math.MaxUint64), uint64(0)
		for range 20_000 {
			fp := x.c.fingerprint(r.Uint64(), r.Uint64())
			least, most = min(least, fp), max(most, fp)
		}
		require.Positive(t, least)
		require.LessOrEqual(t, most, x.last)
		if x.last < 1<<14 {
			require.GreaterOrEqual(t, most-least, x.last*98/100)
		}
		for _, h := range []uint64{0, 1, 254, 255, 256, math.MaxUint64 - 1, math.MaxUint64} {
			fp := x.c.fingerprint(h, h)
			require.True(t, 1 <= fp && fp <= x.last)
		}
	}
	require.Equal(t, uint64(1), newTestCuckoo(Murmur3, 100, 0.03).fingerprint(9, 0))
	require.Equal(t, uint64(255), newTestCuckoo(Murmur3, 100, 0.03).fingerprint(9, math.MaxUint64))
	require.Equal(t, uint64(1), newTestCuckoo(RedisBloom, 100, 0).fingerprint(255, 0))
}

// Either bucket gives the other, for any number of buckets, and the buckets are those of
// a sub-filter with a multiple of that number, mod it.
func TestCuckooBuckets(t *testing.T) {
	r := newRand(81)
	for range 20_000 {
		for _, redis := range []bool{false, true} {
			n, growth := r.Uint64N(1<<r.Uint64N(40))+1, r.Uint64N(9)+1
			if redis {
				n, growth = ceilPowerOfTwo(n), ceilPowerOfTwo(growth)
			}
			small := subFilter{mod: newModulus(64 * n), redis: redis}
			large := subFilter{mod: newModulus(64 * n * growth), redis: redis}
			h, fp := r.Uint64(), r.Uint64N(1<<32-1)+1
			i := small.bucket(h)
			j := small.alternate(i, fp)
			require.Less(t, i, n)
			require.Less(t, j, n)
			require.Equal(t, i, small.alternate(j, fp))
			require.Equal(t, i, large.bucket(h)%n)
			require.Equal(t, j, large.alternate(large.bucket(h), fp)%n)
			if !redis {
				require.Equal(t, h/64%n, i)
				require.Equal(t, fp*0x9e3779b97f4a7c15/64%n, (i+j)%n)
			}
		}
	}
	// Buckets past 2^32 are reached, by first and second buckets.
	huge := subFilter{mod: newModulus(64 * 3 << 33)}
	var first, second uint64
	for range 1000 {
		i := huge.bucket(r.Uint64())
		first, second = max(first, i), max(second, huge.alternate(i, r.Uint64N(1<<20)+1))
	}
	require.Greater(t, min(first, second), uint64(3<<33)*99/100)
}
