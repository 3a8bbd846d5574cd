package bloom

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// GrowthBytes is what the next growth takes, to the byte, for chains of all kinds; with a
// limit of that much the growth happens, with two words less it is refused and the
// filter stays as it was.
func TestGrowthBytes(t *testing.T) {
	type filter interface {
		SizeBytes() uint64
		GrowthBytes() uint64
		SetMaxBytes(uint64)
		AddUint64(uint64) (bool, error)
		ContainsUint64(uint64) bool
		Len() uint64
	}
	for name, f := range map[string]filter{
		"native":       Must(NewScalable(50, 0.01)),
		"redis":        Must(NewScalable(50, 0.01, WithScheme(RedisBloom))),
		"redis, by 1":  Must(NewScalable(50, 0.01, WithScheme(RedisBloom), WithGrowth(1))),
		"cuckoo":       Must(NewCuckoo(50, 0.01, WithGrowth(2))),
		"cuckoo, over": Must(NewCuckoo(2000, 0.01, WithMaxIterations(1))),
		"cuckoo redis": Must(NewCuckoo(64, 0, WithScheme(RedisBloom), WithGrowth(4))),
	} {
		t.Run(name, func(t *testing.T) {
			f.SetMaxBytes(f.SizeBytes())
			grown, n := 0, uint64(0)
			for ; grown < 3 && n < 100_000; n++ {
				before, next := f.SizeBytes(), f.GrowthBytes()
				added, err := f.AddUint64(n)
				if err == nil {
					require.Equal(t, before, f.SizeBytes())
					continue
				}
				require.False(t, added)
				if next == 0 { // a cuckoo filter of fixed size that is full
					require.ErrorIs(t, err, ErrFull)
					break
				}
				require.ErrorIs(t, err, ErrTooLarge)
				f.SetMaxBytes(before + next - 16)
				_, err = f.AddUint64(n)
				require.ErrorIs(t, err, ErrTooLarge)
				f.SetMaxBytes(before + next)
				added, err = f.AddUint64(n)
				require.NoError(t, err)
				require.True(t, added)
				require.Equal(t, before+next, f.SizeBytes())
				grown++
			}
			require.Positive(t, grown)
			for i := range n {
				require.True(t, f.ContainsUint64(i))
			}
		})
	}
}

func TestGrowthBytesOfFiltersThatDoNotGrow(t *testing.T) {
	require.Zero(t, (&Scalable{}).GrowthBytes())
	require.Zero(t, (&Cuckoo{}).GrowthBytes())
	require.Zero(t, (&Cuckoo{}).Buckets())
	require.Zero(t, Must(NewScalable(10, 0.01, WithNonScaling())).GrowthBytes())
	require.Zero(t, Must(NewScalable(10, 0.01, WithScheme(RedisBloom), WithGrowth(0))).GrowthBytes())
	require.Zero(t, Must(NewCuckoo(10, 0, WithScheme(RedisBloom), WithGrowth(0))).GrowthBytes())
	most := Must(NewCuckoo(10, 0, WithScheme(RedisBloom)))
	most.SetMaxSubFilters(1)
	require.Zero(t, most.GrowthBytes())
	steep := Must(NewCuckoo(1<<20, 0, WithScheme(RedisBloom), WithGrowth(maxExpansion)))
	require.Zero(t, steep.GrowthBytes(), "2^35 slots")
}

// The limit on sub-filters is looked at before the keys of a call, for any number.
func TestSetMaxSubFilters(t *testing.T) {
	for _, limit := range []int{1, 5, 40} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			c := Must(NewCuckoo(4, 0, WithScheme(RedisBloom), WithBucketSize(1), WithMaxIterations(1)))
			c.SetMaxSubFilters(limit)
			n := uint64(0)
			for ; ; n++ {
				if _, err := c.AddUint64(n); err != nil {
					require.ErrorIs(t, err, ErrFull)
					require.False(t, errors.Is(err, ErrTooLarge))
					break
				}
			}
			require.Equal(t, limit, c.SubFilterCount())
			require.Equal(t, n, c.Len())
			require.Equal(t, uint64(4), c.Buckets())
			c.SetMaxSubFilters(limit + 1)
			_, err := c.AddUint64(n)
			require.NoError(t, err)
		})
	}
}
