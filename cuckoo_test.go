package bloom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// newTestCuckoo makes a filter of a scheme, with the rate where it takes one.
func newTestCuckoo(s Scheme, capacity uint64, rate float64, opts ...Option) *Cuckoo {
	if s == RedisBloom {
		rate = 0
	}
	return Must(NewCuckoo(capacity, rate, append(opts, withScheme(s))...))
}

func TestCuckooCounts(t *testing.T) {
	for _, s := range allSchemes {
		c := newTestCuckoo(s, 1000, 0.001)
		require.False(t, c.ContainsString("a"))
		for i := range 3 {
			added, err := c.AddString("a")
			require.NoError(t, err)
			require.True(t, added)
			require.Equal(t, i+1, c.CountString("a"))
		}
		for i, want := range []bool{true, true, true, false} {
			require.Equal(t, want, c.RemoveString("a"))
			require.Equal(t, max(0, 2-i), c.CountString("a"))
		}
		require.Zero(t, c.Len())
		require.Zero(t, c.FillRatio())
		require.Zero(t, c.ErrorRate())

		for _, want := range []bool{true, false} {
			added, err := c.AddUniqueString("b")
			require.NoError(t, err)
			require.Equal(t, want, added)
		}
	}
}

// fillCuckoo adds keys from 0 on until one is refused, and returns which that is.
func fillCuckoo(c *Cuckoo) (refused uint64, err error) {
	for {
		if _, err := c.AddUint64(refused); err != nil {
			return refused, err
		}
		refused++
	}
}

// A filter that is filled until a thousand keys were refused has lost none of the
// others, and no refusal changed a byte.
func TestCuckooFull(t *testing.T) {
	for _, s := range allSchemes {
		c := newTestCuckoo(s, 2000, 0.01, WithGrowth(0))
		var accepted []uint64
		before := c.Clone()
		key, refused := uint64(0), 0
		for ; refused < 1000; key++ {
			added, err := c.AddUint64(key)
			require.Equal(t, added, err == nil)
			if added {
				accepted = append(accepted, key)
				before = nil
				continue
			}
			require.ErrorIs(t, err, ErrFull)
			require.NotErrorIs(t, err, ErrTooLarge)
			refused++
			if before == nil {
				before = c.Clone() // of the bytes after the first refusal in a row
			}
			require.True(t, c.Equal(before))
			require.Equal(t, uint64(len(accepted)), c.Len())
		}
		for _, key := range accepted {
			require.True(t, c.ContainsUint64(key), "%v key %d", s, key)
			require.True(t, c.RemoveUint64(key))
		}
		require.Zero(t, c.FillRatio())
	}
}

// One key goes twice the bucket size times in a sub-filter, and not once more.
func TestCuckooSameKey(t *testing.T) {
	for _, s := range allSchemes {
		for _, bucketSize := range []int{1, 2, 3, 4, 5, 8} {
			c := newTestCuckoo(s, 10_000, 0.01, WithBucketSize(bucketSize), WithGrowth(1))
			for i := range 2 * bucketSize * 3 {
				Must(c.AddString("again"))
				require.Equal(t, i+1, c.CountString("again"))
				require.Len(t, c.filters, i/(2*bucketSize)+1)
			}
			fixed := newTestCuckoo(s, 10_000, 0.01, WithBucketSize(bucketSize), WithGrowth(0))
			copies := 0
			for {
				if _, err := fixed.AddString("again"); err != nil {
					require.ErrorIs(t, err, ErrFull)
					break
				}
				copies++
			}
			require.Equal(t, 2*bucketSize*len(fixed.filters), copies)
			require.Equal(t, copies, fixed.CountString("again"))
			for range copies {
				require.True(t, fixed.RemoveString("again"))
			}
			require.False(t, fixed.RemoveString("again"))
		}
	}
}

func TestCuckooGrowsAndCompacts(t *testing.T) {
	for _, s := range allSchemes {
		for _, growth := range []int{1, 2, 3, 4} {
			const n = 6000
			c := newTestCuckoo(s, 1000, 0.001, WithGrowth(growth))
			for i := range uint64(n) {
				Must(c.AddUint64(i))
			}
			grown := len(c.filters)
			require.Greater(t, grown, 1)
			require.LessOrEqual(t, c.ErrorRate(), float64(grown)*max(0.001, c.rate(1000, 1000/c.bucketSize)))
			size := c.SizeBytes()
			for i := uint64(0); i < n; i += 2 {
				require.True(t, c.RemoveUint64(i))
			}
			c.Compact()
			require.Zero(t, c.deletes)
			require.LessOrEqual(t, c.SizeBytes(), size)
			if growth == 1 {
				require.Less(t, c.SizeBytes(), size)
			}
			require.Equal(t, uint64(n/2), c.Len())
			again := 0
			for i := range uint64(n) {
				if i%2 == 1 {
					require.True(t, c.ContainsUint64(i), "%v growth %d key %d", s, growth, i)
				} else if c.ContainsUint64(i) {
					again++
				}
			}
			// Removed keys are absent but for false positives, at most 5 sigma over
			// what is expected of n/2.
			expected := n / 2 * c.ErrorRate()
			require.Less(t, float64(again), expected+5*math.Sqrt(expected)+1)
		}
	}
}

func TestCuckooOrderOfGrowth(t *testing.T) {
	buckets := func(c *Cuckoo) (n []uint64) {
		for i := range c.filters {
			n = append(n, c.filters[i].buckets())
		}
		return n
	}
	c := newTestCuckoo(RedisBloom, 1000, 0, WithGrowth(3))
	for i := range uint64(15_000) {
		Must(c.AddUint64(i))
	}
	require.Equal(t, []uint64{512, 2048, 8192}, buckets(c))
	c = newTestCuckoo(Murmur3, 1000, 0.01, WithGrowth(3))
	for i := range uint64(10_000) {
		Must(c.AddUint64(i))
	}
	require.Equal(t, []uint64{264, 792, 2376}, buckets(c))
	require.Equal(t, uint64(1000), c.Capacity())

	c = newTestCuckoo(XXHash, 1000, 0.01, WithGrowth(1))
	_, err := fillCuckoo(c)
	require.ErrorIs(t, err, ErrFull)
	require.Len(t, c.filters, maxSubFilters)
}

// The server looks once a command whether a chain may grow, so that one command can
// go past the limit; then no key is taken, even one that would fit.
func TestCuckooSubFilterLimit(t *testing.T) {
	newChain := func() *Cuckoo {
		return newTestCuckoo(RedisBloom, 4, 0, WithBucketSize(1), WithMaxIterations(1))
	}
	c := newChain()
	n, err := fillCuckoo(c)
	require.ErrorIs(t, err, ErrFull)
	require.Len(t, c.filters, 32)
	require.Equal(t, n, c.Len())
	require.Equal(t, uint64(40+16*32+4*32), c.infoSize())
	c.RemoveUint64(0)
	_, err = c.AddUint64(0)
	require.ErrorIs(t, err, ErrFull)
	_, err = c.AddUniqueUint64(1)
	require.ErrorIs(t, err, ErrFull, "also for a key that is there")

	c = newChain()
	words := make([]string, 400)
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	done, err := c.AddManyString(nil, words)
	require.NoError(t, err)
	require.Len(t, done, 400)
	require.Greater(t, len(c.filters), 32)
	done, err = c.AddManyString(nil, words[:2])
	require.ErrorIs(t, err, ErrFull)
	require.Empty(t, done)
}

// n keys fit a native filter for n, also when few keys share fingerprint and
// buckets: in small filters with many seeds that is sure to happen.
func TestCuckooHoldsItsCapacity(t *testing.T) {
	check := func(n uint64, rate float64, opts ...Option) {
		c := Must(NewCuckoo(n, rate, opts...))
		for i := range n {
			if added, err := c.AddUint64(i); !added || err != nil {
				t.Fatalf("key %d of %d at %v: %v, %v", i, n, rate, added, err)
			}
		}
		require.Equal(t, n, c.Len())
		for i := range n {
			if !c.ContainsUint64(i) {
				t.Fatalf("key %d of %d is lost", i, n)
			}
		}
	}
	for seed := range uint64(10) {
		for n := uint64(1); n <= 300; n++ {
			check(n, []float64{0.9, 0.03, 0.001}[n%3], WithSeed(seed), WithScheme(Scheme(seed%2)))
		}
		for bucketSize := 1; bucketSize <= 8; bucketSize++ {
			check(50, 0.03, WithSeed(seed), WithBucketSize(bucketSize))
			check(3000, 0.03, WithSeed(seed), WithBucketSize(bucketSize))
			check(31_128, 0.03, WithSeed(seed), WithBucketSize(bucketSize)) // the least with a split at 4
		}
		check(10_000, 1e-6, WithSeed(seed))
	}
	check(300_000, 0.03)
}

// A filter of fixed size goes on past capacity until keys find no room: with
// buckets of 4 at 95 % and more.
func TestCuckooLoad(t *testing.T) {
	for seed := range uint64(10) {
		c := Must(NewCuckoo(30_000, 0.001, WithSeed(seed), WithScheme(Scheme(seed%2))))
		n, err := fillCuckoo(c)
		require.ErrorIs(t, err, ErrFull)
		require.Len(t, c.filters, 1)
		require.Equal(t, n, c.Len())
		require.Greater(t, c.FillRatio(), 0.96)
	}
}

// With few moves instead of 2,000 keys go to the overflow. Keys that it cannot tell
// apart are removed without loss of others, and it takes no more of them than
// the rate has room for.
func TestCuckooOverflow(t *testing.T) {
	for _, x := range []struct {
		capacity            uint64
		moves, bucketSize   int
		filters             int
		overflow, capacity2 uint64
	}{
		{32_000, 2, 4, 2, 32_000 / overflowKeys, 0},
		{32_000, 20, 8, 0, 0, 0},
		{1000, 1, 2, 0, 0, 1000},
		{300, 1, 1, 0, 0, 300},
	} {
		c := Must(NewCuckoo(x.capacity, 0.03, WithMaxIterations(x.moves), WithBucketSize(x.bucketSize)))
		n, err := fillCuckoo(c)
		require.ErrorIs(t, err, ErrFull)
		require.LessOrEqual(t, c.Info().ErrorRate, 0.03*max(1, float64(n)/float64(x.capacity)))
		if x.filters > 0 {
			require.True(t, len(c.filters) == x.filters, "%d sub-filters", len(c.filters))
			require.Equal(t, x.overflow, c.Len()-c.filters[0].slots.nonzero())
		}
		require.GreaterOrEqual(t, n, x.capacity2, "where sub-filters are small the capacity fits with any number of moves")
		r := newRand(70)
		order := r.Perm(int(n))
		for i, key := range order {
			require.True(t, c.RemoveUint64(uint64(key)))
			if i%500 == 0 {
				for _, left := range order[i+1:] {
					if !c.ContainsUint64(uint64(left)) {
						t.Fatalf("key %d is lost after %d removes", left, i)
					}
				}
			}
		}
		require.Zero(t, c.Len())
		require.True(t, len(c.filters) == 1, "empty sub-filters are dropped")
		require.Zero(t, c.FillRatio())
	}
}

// At capacity the rate is at most the one wanted, also where that is barely so.
func TestCuckooRateIsKept(t *testing.T) {
	for bucketSize := 1; bucketSize <= 8; bucketSize++ {
		for _, n := range []uint64{1, 10, 1000, 40_000} {
			for _, moves := range []int{100, 2000} {
				for _, rate := range []float64{0.03, 0.0031325, 1e-4} {
					c := Must(NewCuckoo(n, rate, WithBucketSize(bucketSize), WithMaxIterations(moves)))
					for i := range n {
						if _, err := c.AddUint64(i); err != nil {
							require.ErrorIs(t, err, ErrFull)
							break
						}
					}
					require.LessOrEqual(t, c.ErrorRate(), rate, "bucket size %d n %d moves %d", bucketSize, n, moves)
					if moves == 2000 {
						require.Equal(t, n, c.Len())
					}
				}
			}
		}
	}
}

// ErrorRate is the rate also of chains, of buckets of another size, and, over many seeds,
// of tiny filters: there the two buckets of a key are often one. The number of false positives
// among N absent keys has sigma √(N·rate).
func TestCuckooRateOfChains(t *testing.T) {
	for _, c := range []*Cuckoo{
		newTestCuckoo(RedisBloom, 1000, 0), newTestCuckoo(RedisBloom, 60_000, 0, WithBucketSize(7)),
		newTestCuckoo(Murmur3, 1000, 0.01, WithGrowth(2)), newTestCuckoo(Murmur3, 40_000, 0.02),
	} {
		for i := range uint64(20_000) {
			Must(c.AddUint64(i))
		}
		want := 1e6 * c.ErrorRate()
		require.InDelta(t, want, cuckooFalsePositives(c, 1e6), 5*math.Sqrt(want))
	}
	want, got := 0.0, 0
	for seed := range uint64(200) {
		for _, n := range []uint64{1, 4, 9} {
			c := Must(NewCuckoo(n, 0.03, WithSeed(seed)))
			for i := range n {
				Must(c.AddUint64(i))
			}
			want += 3000 * c.ErrorRate()
			got += cuckooFalsePositives(c, 3000)
		}
	}
	require.InDelta(t, want, got, 5*math.Sqrt(want))
}

func cuckooFalsePositives(c *Cuckoo, absent uint64) (n int) {
	for i := range absent {
		if c.ContainsUint64(1<<40 + i) {
			n++
		}
	}
	return n
}

// Growth past the limit of bytes is refused, and the filter stays usable.
func TestCuckooByteLimit(t *testing.T) {
	for _, s := range allSchemes {
		c := newTestCuckoo(s, 1000, 0.01, WithGrowth(2), WithMaxBytes(6000))
		n, err := fillCuckoo(c)
		require.ErrorIs(t, err, ErrFull)
		require.ErrorIs(t, err, ErrTooLarge)
		require.LessOrEqual(t, c.SizeBytes(), uint64(6000))
		require.Len(t, c.filters, 2)
		require.Equal(t, n, c.Len())
		require.True(t, c.ContainsUint64(0))
		require.True(t, c.RemoveUint64(0))
		Must(c.AddUint64(0))
	}
}

// cuckooSums are checksums of the slots after fixed operations: the same in every
// process and on every platform.
var cuckooSums = map[Scheme]string{
	Murmur3:    "3b2efdaac3469c0c",
	XXHash:     "b3807341fefceaf8",
	RedisBloom: "00f2ba377df494a4",
	SipHash:    "8272bd4fe993cab3",
}

func TestCuckooBytesAreTheSameEverywhere(t *testing.T) {
	for _, s := range allSchemes {
		run := func() *Cuckoo {
			c := newTestCuckoo(s, 1000, 0.0001, WithGrowth(2))
			for i := range uint64(4000) {
				Must(c.AddUint64(i))
				Must(c.AddString(fmt.Sprint("user:", i/2)))
				if i%3 == 0 {
					c.RemoveUint64(i / 2)
				}
			}
			return c
		}
		c := run()
		require.Equal(t, c.slotBytes(), run().slotBytes())
		sum := sha256.Sum256(c.slotBytes())
		require.Equal(t, cuckooSums[s], hex.EncodeToString(sum[:8]), "%v", s)
	}
}

func TestCuckooTwins(t *testing.T) {
	for _, s := range allSchemes {
		a, b := newTestCuckoo(s, 500, 0.01, WithGrowth(1)), newTestCuckoo(s, 500, 0.01, WithGrowth(1))
		for i := range uint64(600) {
			bytes, word := uint64Bytes(i), fmt.Sprint("key ", i%100)
			Must(a.Add(bytes[:]))
			Must(b.AddUint64(i))
			Must(a.Add([]byte(word)))
			Must(b.AddString(word))
			Must(a.AddDigest(b.DigestUint64(i)))
			Must(b.AddDigest(a.Digest(bytes[:])))
			require.Equal(t, Must(a.AddUnique([]byte(word))), Must(b.AddUniqueString(word)))
			require.Equal(t, Must(a.AddUniqueUint64(i+1)), Must(b.AddUniqueDigest(a.DigestUint64(i+1))))
			require.Equal(t, a.Count([]byte(word)), b.CountString(word))
			require.Equal(t, a.CountUint64(i), b.CountDigest(b.DigestUint64(i)))
			require.Equal(t, a.ContainsUint64(i+9), b.ContainsDigest(a.DigestUint64(i+9)))
			require.Equal(t, a.Contains([]byte(word)), b.ContainsString(word))
			if i%4 == 0 {
				require.Equal(t, a.RemoveUint64(i), b.RemoveDigest(b.DigestUint64(i)))
				require.Equal(t, a.Remove([]byte(word)), b.RemoveString(word))
			}
			require.True(t, a.Equal(b))
		}
		require.Equal(t, a.Info(), b.Info())
		require.Equal(t, s, a.Scheme())
	}
	// One digest serves all filters of a native scheme, whatever their type.
	f, c := Must(New(10, 0.1, WithSeed(5))), Must(NewCuckoo(1000, 0.001, WithSeed(5)))
	Must(c.AddDigest(f.DigestString("a")))
	require.True(t, c.ContainsString("a"))
	for _, d := range []Digest{{}, Must(New(10, 0.1)).DigestString("a"), Must(New(10, 0.1, WithScheme(XXHash))).DigestString("a")} {
		require.Panics(t, func() { _, _ = c.AddDigest(d) })
		require.Panics(t, func() { _, _ = c.AddUniqueDigest(d) })
		require.Panics(t, func() { c.ContainsDigest(d) })
		require.Panics(t, func() { c.CountDigest(d) })
		require.Panics(t, func() { c.RemoveDigest(d) })
	}
	redis := newTestCuckoo(RedisBloom, 10, 0)
	require.Panics(t, func() { redis.ContainsDigest(Must(New(10, 0.1, WithScheme(RedisBloom))).DigestString("a")) })
}

func TestCuckooBatches(t *testing.T) {
	for _, s := range allSchemes {
		c, d := newTestCuckoo(s, 1000, 0.0001), newTestCuckoo(s, 1000, 0.0001)
		keys, words := [][]byte{[]byte("a"), nil, []byte("a"), {}}, []string{"a", "", "a", ""}
		done, err := c.AddMany([]bool{false}, keys)
		require.NoError(t, err)
		require.Equal(t, []bool{false, true, true, true, true}, done)
		done, err = c.AddUniqueMany(nil, [][]byte{[]byte("a"), []byte("b")})
		require.NoError(t, err)
		require.Equal(t, []bool{false, true}, done)
		done, err = d.AddManyString([]bool{false}, words)
		require.NoError(t, err)
		require.Equal(t, []bool{false, true, true, true, true}, done)
		done, err = d.AddUniqueManyString(nil, []string{"a", "b"})
		require.NoError(t, err)
		require.Equal(t, []bool{false, true}, done)
		require.True(t, c.Equal(d))
		require.Equal(t, []bool{true, true}, c.ContainsMany(nil, keys[:2]))
		require.Equal(t, []bool{true, false}, c.ContainsManyString(nil, []string{"b", "c"}))
		require.Equal(t, []bool{true, true, true, true}, c.RemoveMany(nil, keys))
		require.Equal(t, []bool{true, true, true, true, false}, d.RemoveManyString(nil, append(words, "a")))
		require.True(t, c.Equal(d))
		done, err = c.AddMany(done[:1], nil)
		require.NoError(t, err)
		require.Len(t, done, 1)
	}
	// The first refused key ends a batch.
	full := newTestCuckoo(RedisBloom, 4, 0, WithGrowth(0))
	done, err := full.AddManyString(nil, []string{"b3807341fefceaf8", "x", "x", "x", "x", "00f2ba377df494a4"})
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, []bool{true, true, true, true}, done)
	require.Equal(t, uint64(4), full.Len())
}

func TestCuckooNoAllocations(t *testing.T) {
	key, word := []byte("a key of more than sixteen bytes"), "user:12345678"
	dst, keys, words := make([]bool, 0, 8), [][]byte{key, key}, []string{word, word}
	for _, s := range allSchemes {
		c := newTestCuckoo(s, 2000, 0.001, WithBucketSize(8))
		for i := range uint64(1800) {
			Must(c.AddUint64(i))
		}
		d := c.Digest(key)
		for name, op := range map[string]func(){
			"Add": func() { Must(c.Add(key)); c.Remove(key) }, "AddString": func() { Must(c.AddString(word)); c.RemoveString(word) },
			"AddUint64": func() { Must(c.AddUint64(7)); c.RemoveUint64(7) }, "AddDigest": func() { Must(c.AddDigest(d)); c.RemoveDigest(d) },
			"AddUnique": func() { Must(c.AddUnique(key)) }, "AddUniqueString": func() { Must(c.AddUniqueString(word)) },
			"Contains": func() { c.Contains(key) }, "ContainsString": func() { c.ContainsString(word) },
			"ContainsUint64": func() { c.ContainsUint64(7) }, "ContainsDigest": func() { c.ContainsDigest(d) },
			"Count": func() { c.Count(key) }, "CountString": func() { c.CountString(word) },
			"CountUint64": func() { c.CountUint64(7) }, "CountDigest": func() { c.CountDigest(d) },
			"AddMany":       func() { Must(c.AddMany(dst, keys)); c.RemoveMany(dst, keys) },
			"AddManyString": func() { Must(c.AddManyString(dst, words)); c.RemoveManyString(dst, words) },
			"AddUniqueMany": func() { Must(c.AddUniqueMany(dst, keys)) },
			"ContainsMany":  func() { c.ContainsMany(dst, keys) }, "Compact": c.Compact,
		} {
			require.Zero(t, testing.AllocsPerRun(100, op), "%v %s", s, name)
		}
		require.Len(t, c.filters, 1)
	}
}

func TestCuckooCopiesAndReset(t *testing.T) {
	for _, s := range allSchemes {
		c := newTestCuckoo(s, 300, 0.01, WithGrowth(2))
		empty := c.Clone()
		for i := range uint64(1000) {
			Must(c.AddUint64(i))
		}
		d := c.Clone()
		require.True(t, c.Equal(d))
		require.False(t, c.Equal(empty))
		require.False(t, c.Equal(nil))
		require.True(t, d.RemoveUint64(3))
		require.False(t, c.Equal(d))
		require.Equal(t, uint64(1000), c.Len())
		c.Reset()
		require.True(t, c.Equal(empty))
		require.Zero(t, c.Len())
		require.False(t, c.ContainsUint64(1))
		require.True(t, d.ContainsUint64(1))
		for i := range uint64(1000) {
			Must(c.AddUint64(i))
		}
		require.True(t, c.RemoveUint64(3))
		require.True(t, c.Equal(d), "as if new")
	}
	require.False(t, newTestCuckoo(Murmur3, 100, 0.01).Equal(newTestCuckoo(XXHash, 100, 0.01)))
	require.False(t, newTestCuckoo(Murmur3, 100, 0.01).Equal(newTestCuckoo(Murmur3, 100, 0.01, WithSeed(1))))
	require.False(t, newTestCuckoo(Murmur3, 95, 0.01).Equal(newTestCuckoo(Murmur3, 96, 0.01)))
	require.False(t, newTestCuckoo(Murmur3, 95, 0.01).Equal(newTestCuckoo(Murmur3, 95, 0.001)))
	require.True(t, newTestCuckoo(Murmur3, 94, 0.01).Equal(newTestCuckoo(Murmur3, 95, 0.009)), "the same buckets and widths")
}

func TestCuckooInfo(t *testing.T) {
	c := newTestCuckoo(Murmur3, 95, 0.01, WithSeed(7))
	Must(c.AddString("a"))
	require.Equal(t, Info{
		Kind: "Cuckoo", Seed: 7, Bits: 100, Hashes: 2, SizeBytes: 128, Capacity: 95, Len: 1,
		FillRatio: 0.01, TargetRate: 0.01, ErrorRate: c.rate(1, 25),
	}, c.Info())
	redis := newTestCuckoo(RedisBloom, 1000, 0)
	require.Zero(t, redis.TargetRate())
	require.Equal(t, uint64(1000), redis.Capacity())
	require.Equal(t, uint64(1024), redis.Info().Bits)
}

func TestZeroCuckoo(t *testing.T) {
	var zero Cuckoo
	require.False(t, zero.ContainsString("a"))
	require.False(t, zero.RemoveString("a"))
	require.Zero(t, zero.CountString("a"))
	require.False(t, zero.ContainsDigest(newTestCuckoo(XXHash, 10, 0.1).DigestString("a")))
	require.Equal(t, Info{Kind: "Cuckoo"}, zero.Info())
	require.Zero(t, zero.FillRatio())
	require.Zero(t, zero.ErrorRate())
	zero.Compact()
	zero.Reset()
	require.True(t, zero.Equal(zero.Clone()))
	require.PanicsWithValue(t, zeroAdd, func() { _, _ = zero.AddString("a") })
	require.PanicsWithValue(t, zeroAdd, func() { _, _ = zero.AddUniqueString("a") })
	require.PanicsWithValue(t, zeroAdd, func() { _, _ = zero.AddManyString(nil, []string{"a"}) })
}
