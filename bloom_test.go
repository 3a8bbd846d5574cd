package bloom

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoFalseNegatives(t *testing.T) {
	for _, s := range allSchemes {
		const n = 1_000_000
		f := Must(New(n, 0.01, withScheme(s)))
		added := uint64(0)
		for i := range uint64(n) {
			if f.AddUint64(i * 7919) {
				added++
			}
		}
		require.Equal(t, added, f.Len())
		require.Greater(t, added, uint64(0.99*n))
		for i := range uint64(n) {
			if !f.ContainsUint64(i * 7919) {
				t.Fatalf("%v: key %d is lost", s, i)
			}
		}
		require.InEpsilon(t, n, f.EstimateLen(), 0.005)
	}
}

// falsePositives counts, of absent keys that nobody added, those f contains.
func falsePositives(f *Filter, absent uint64) int {
	n := 0
	for i := range absent {
		if f.ContainsUint64(1<<40 + i) {
			n++
		}
	}
	return n
}

// Small filters keep their promise too, where the term of double hashing rules: at most
// the rate asked for, plus 5 sigma.
func TestSmallFiltersKeepTheirRate(t *testing.T) {
	absent := uint64(2_000_000)
	if testing.Short() {
		absent /= 10
	}
	for _, s := range []Scheme{Murmur3, XXHash} {
		for _, n := range []uint64{1, 2, 10, 50, 100} {
			for rate := 1e-3; rate > 0.5e-9; rate /= 10 {
				f := Must(New(n, rate, withScheme(s)))
				for i := range n {
					f.AddUint64(i)
				}
				most := float64(absent) * rate
				require.LessOrEqual(t, float64(falsePositives(f, absent)), most+5*math.Sqrt(most),
					"%v n %d rate %v: %+v", s, n, rate, f.Info())
			}
		}
	}
	f := Must(New(1, 1e-9))
	f.AddString("only")
	require.LessOrEqual(t, falsePositives(f, absent), 1)
}

func TestTwinsAgree(t *testing.T) {
	r := newRand(30)
	for _, s := range allSchemes {
		f := Must(New(1000, 0.01, withScheme(s)))
		g := Must(New(1000, 0.01, withScheme(s)))
		for i := range 1000 {
			key := make([]byte, r.IntN(30))
			for j := range key {
				key[j] = byte(r.Uint32())
			}
			want := f.Add(key)
			switch i % 2 {
			case 0:
				require.Equal(t, want, g.AddString(string(key)))
			case 1:
				require.Equal(t, want, g.AddDigest(f.Digest(key)))
			}
			require.True(t, g.Contains(key) && g.ContainsString(string(key)) && g.ContainsDigest(f.DigestString(string(key))))
			x := r.Uint64()
			b := uint64Bytes(x)
			require.Equal(t, f.Contains(b[:]), g.ContainsUint64(x))
			require.Equal(t, f.Contains(b[:]), g.ContainsDigest(f.DigestUint64(x)))
			require.Equal(t, f.Add(b[:]), g.AddUint64(x))
		}
		require.True(t, f.Equal(g))
		require.Equal(t, f.Len(), g.Len())
	}
}

func TestBatches(t *testing.T) {
	f, g := Must(New(100, 0.01)), Must(New(100, 0.01))
	keys := [][]byte{[]byte("a"), []byte("b"), nil, []byte("a"), {}}
	words := []string{"a", "b", "", "a", ""}
	want := []bool{true, true, true, false, false}
	require.Equal(t, want, f.AddMany(nil, keys))
	require.Equal(t, append([]bool{true}, want...), g.AddManyString([]bool{true}, words))
	require.True(t, f.Equal(g))
	require.Equal(t, []bool{false, true, true}, f.ContainsMany([]bool{false}, keys[:2]))
	require.Equal(t, []bool{true, false}, f.ContainsManyString(nil, []string{"b", "c"}))
	require.Empty(t, f.AddMany(nil, nil))
}

// A batch answers as the same calls one by one do, whatever the size of the filter and
// the mix of keys.
func TestBatchesAgainstSingleCalls(t *testing.T) {
	r := newRand(31)
	for _, s := range allSchemes {
		for _, bits := range []uint64{1000, 1 << 16, 64*largeWords + 64, 64*largeWords + 1} {
			for _, k := range []int{1, 2, 7, 13} {
				single := Must(NewWithSize(bits, k, withScheme(s)))
				batched := single.Clone()
				for _, present := range []int{0, 1, 5, 10} {
					var keys [][]byte
					var words []string
					for i := range 300 {
						id := r.Uint64N(1 << 50)
						if r.IntN(10) < present {
							id = r.Uint64N(100)
						}
						key := uint64Bytes(id)
						keys, words = append(keys, key[:i%9]), append(words, string(key[:]))
					}
					var want []bool
					for _, key := range keys {
						want = append(want, single.Add(key))
					}
					require.Equal(t, want, batched.AddMany(nil, keys))
					want = nil
					for _, word := range words {
						want = append(want, single.ContainsString(word))
					}
					require.Equal(t, want, batched.ContainsManyString(nil, words))
					want = nil
					for _, word := range words[:150] {
						want = append(want, single.AddString(word))
					}
					require.Equal(t, want, batched.AddManyString(nil, words[:150]))
					want = nil
					for _, key := range keys {
						want = append(want, single.Contains(key))
					}
					require.Equal(t, want, batched.ContainsMany(nil, keys))
					require.Equal(t, single.Len(), batched.Len())
				}
				require.True(t, single.Equal(batched))
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	key, word := []byte("a key of more than sixteen bytes"), "user:12345678"
	dst, keys, words := make([]bool, 0, 8), [][]byte{key, key}, []string{word, word}
	for _, s := range allSchemes {
		opts := []Option{withScheme(s)}
		if s != RedisBloom {
			opts = []Option{withSeed(s, 9)}
		}
		f, c := Must(New(1000, 0.01, opts...)), Must(NewCounting(1000, 0.01, opts...))
		d, positions := f.Digest(key), make([]uint64, 0, f.Hashes())
		for name, op := range map[string]func(){
			"Add": func() { f.Add(key) }, "AddString": func() { f.AddString(word) },
			"AddUint64": func() { f.AddUint64(7) }, "AddDigest": func() { f.AddDigest(d) },
			"Contains": func() { f.Contains(key) }, "ContainsString": func() { f.ContainsString(word) },
			"ContainsUint64": func() { f.ContainsUint64(7) }, "ContainsDigest": func() { f.ContainsDigest(d) },
			"Digest": func() { f.Digest(key) }, "DigestString": func() { f.DigestString(word) },
			"DigestUint64": func() { f.DigestUint64(7) }, "Positions": func() { f.Positions(positions, key) },
			"AddMany": func() { f.AddMany(dst, keys) }, "AddManyString": func() { f.AddManyString(dst, words) },
			"ContainsMany": func() { f.ContainsMany(dst, keys) }, "ContainsManyString": func() { f.ContainsManyString(dst, words) },
			"Counting.Add": func() { c.Add(key) }, "Counting.AddString": func() { c.AddString(word) },
			"Counting.AddUint64": func() { c.AddUint64(7) }, "Counting.AddDigest": func() { c.AddDigest(d) },
			"Counting.Contains": func() { c.Contains(key) }, "Counting.ContainsString": func() { c.ContainsString(word) },
			"Counting.ContainsUint64": func() { c.ContainsUint64(7) }, "Counting.ContainsDigest": func() { c.ContainsDigest(d) },
			"Counting.CountString": func() { c.CountString(word) }, "Counting.CountDigest": func() { c.CountDigest(d) },
			"Counting.CountUint64": func() { c.CountUint64(7) }, "Counting.AddMany": func() { c.AddMany(dst, keys) },
			"Counting.ContainsMany": func() { c.ContainsMany(dst, keys) }, "Counting.RemoveDigest": func() { c.RemoveDigest(d) },
			"Counting.Remove": func() { c.Remove(key) }, "Counting.RemoveString": func() { c.RemoveString(word) },
			"Counting.RemoveUint64": func() { c.RemoveUint64(7) }, "Counting.RemoveMany": func() { c.RemoveMany(dst, keys) },
		} {
			require.Zero(t, testing.AllocsPerRun(100, op), "%v %s", s, name)
		}
	}
}

func TestUnionIntersect(t *testing.T) {
	for _, s := range allSchemes {
		for _, n := range []uint64{10, 1000} {
			a, b := Must(New(n, 0.01, withScheme(s))), Must(New(n, 0.01, withScheme(s)))
			both := Must(New(n, 0.01, withScheme(s)))
			for i := range n {
				a.AddUint64(i)
				b.AddUint64(n/2 + i)
				both.AddUint64(i)
				both.AddUint64(n/2 + i)
			}
			union := a.Clone()
			require.NoError(t, union.Union(b))
			require.True(t, union.Equal(both))
			require.True(t, union.Info().LenEstimated)
			require.InDelta(t, union.EstimateLen(), float64(union.Len()), 0.5)
			if n == 1000 {
				require.Greater(t, union.ErrorRate(), union.TargetRate(), "two full filters make an overfull one")
			}

			require.NoError(t, a.Intersect(b))
			require.True(t, a.Info().LenEstimated)
			for i := n / 2; i < n; i++ {
				require.True(t, a.ContainsUint64(i))
			}
			require.Less(t, a.FillRatio(), b.FillRatio())

			same := b.Clone()
			require.NoError(t, b.Union(b)) // with itself
			require.True(t, b.Equal(same))
		}
	}
}

func TestMismatch(t *testing.T) {
	base := Must(NewWithSize(1024, 7))
	for _, c := range []struct {
		other *Filter
		says  string
	}{
		{Must(NewWithSize(1024, 7, WithScheme(XXHash))), "scheme Murmur3 here, XXHash there"},
		{Must(NewWithSize(1024, 7, WithSeed(255))), "seed 0x0 here, 0xff there"},
		{Must(NewWithSize(1025, 7)), "1024 bits here, 1025 there"},
		{Must(NewWithSize(1024, 8)), "7 hashes here, 8 there"},
		{&Filter{}, "1024 bits here, 0 there"},
	} {
		before := base.Clone()
		for _, op := range []func(*Filter) error{base.Union, base.Intersect} {
			err := op(c.other)
			require.ErrorIs(t, err, ErrMismatch)
			require.ErrorContains(t, err, c.says)
		}
		require.False(t, base.Equal(c.other))
		require.True(t, base.Equal(before))
		require.False(t, base.Info().LenEstimated)
	}
	require.ErrorIs(t, base.Union(nil), ErrInvalid)
	require.ErrorIs(t, base.Intersect(nil), ErrInvalid)
	require.False(t, base.Equal(nil))
	require.False(t, errors.Is(ErrMismatch, ErrInvalid))
}

func TestCloneReset(t *testing.T) {
	f := Must(New(100, 0.01))
	f.AddString("a")
	c := f.Clone()
	require.True(t, f.Equal(c))
	c.AddString("b")
	require.False(t, f.Equal(c))
	require.Equal(t, uint64(1), f.Len())

	words := &c.bits.words[0]
	c.Reset()
	require.Same(t, words, &c.bits.words[0], "the buffer is kept")
	require.Zero(t, c.Len())
	require.Zero(t, c.FillRatio())
	require.Equal(t, uint64(100), c.Capacity())
	require.False(t, c.ContainsString("a"))
	require.True(t, c.Equal(Must(New(100, 0.01))))
}

func TestZeroFilter(t *testing.T) {
	var f Filter
	require.False(t, f.ContainsString("a") || f.Contains(nil) || f.ContainsUint64(1) || f.ContainsDigest(Digest{}))
	require.False(t, f.ContainsDigest(Must(New(1, 0.1)).DigestString("a")))
	require.Equal(t, []bool{false}, f.ContainsManyString(nil, []string{"a"}))
	require.Empty(t, f.Positions(nil, []byte("a")))
	require.Zero(t, f.EstimateLen()+f.FillRatio()+f.ErrorRate()+f.TargetRate())
	require.Zero(t, f.Len()+f.Capacity()+f.Bits()+f.SizeBytes()+uint64(f.Hashes()))
	require.Equal(t, Info{Kind: "Filter"}, f.Info())
	require.True(t, f.Equal(f.Clone()))
	f.Reset()
	for _, add := range []func(){
		func() { f.AddString("a") }, func() { f.AddUint64(1) }, func() { f.AddDigest(Digest{}) },
	} {
		require.PanicsWithValue(t, zeroAdd, add)
	}
}

func TestNewWithSize(t *testing.T) {
	for _, bits := range []uint64{1, 63, 64, 65, 1000, 412_256} {
		f := Must(NewWithSize(bits, 5))
		require.Equal(t, bits, f.Bits())
		require.Equal(t, (bits+63)/64*8, f.SizeBytes())
		require.Equal(t, 5, f.Hashes())
		require.Equal(t, max(1, uint64(math.Round(float64(bits)/5*math.Ln2))), f.Capacity())
		require.InDelta(t, f.params().ErrorRate(f.Capacity()), f.TargetRate(), 1e-15)
		for i := range uint64(200) {
			f.AddUint64(i)
			require.True(t, f.ContainsUint64(i))
		}
		require.LessOrEqual(t, f.bits.count(), bits)
		require.LessOrEqual(t, f.ErrorRate(), 1.0)
	}
	saturated := Must(NewWithSize(64, 1))
	for i := range uint64(2000) {
		saturated.AddUint64(i)
	}
	require.True(t, math.IsInf(saturated.EstimateLen(), 1))
	require.Equal(t, 1.0, saturated.ErrorRate())
	require.NoError(t, saturated.Union(saturated))
	require.Equal(t, uint64(266), saturated.Len(), "64·ln 64, with one bit to spare")
}

func TestHalfRate(t *testing.T) {
	f := Must(New(10, 0.5))
	require.Equal(t, 1, f.Hashes())
	require.False(t, f.ContainsString("anything"))
	require.LessOrEqual(t, f.params().ErrorRate(10), 0.5)
	require.Equal(t, 1, Must(New(10, 0.99)).Hashes())
}

func TestInfo(t *testing.T) {
	f := Must(New(1000, 0.01, WithScheme(XXHash), WithSeed(3)))
	f.AddString("a")
	i := f.Info()
	require.Equal(t, Info{
		Kind: "Filter", Scheme: XXHash, Seed: 3, Bits: f.Bits(), Hashes: 7, SizeBytes: f.SizeBytes(), Capacity: 1000,
		Len: 1, FillRatio: f.FillRatio(), TargetRate: 0.01, ErrorRate: f.ErrorRate(),
	}, i)
}

// Readers need no lock among themselves. It is the race detector's test.
func TestManyReaders(t *testing.T) {
	f, c := Must(New(1000, 0.01)), Must(NewCounting(1000, 0.01))
	s := Must(NewScalable(100, 0.01, WithScheme(RedisBloom)))
	k := Must(NewCuckoo(1000, 0, WithScheme(RedisBloom), WithGrowth(1)))
	for i := range uint64(1000) {
		f.AddUint64(i)
		c.AddUint64(i)
		Must(s.AddUint64(i))
		Must(k.AddUint64(i))
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range uint64(100_000) {
				id := i % 1000
				if !f.ContainsUint64(id) || !c.ContainsUint64(id) || !s.ContainsUint64(id) || !k.ContainsUint64(id) {
					t.Errorf("key %d missed", id)
					return
				}
			}
			f.Info()
			f.Clone()
			c.Info()
			c.Filter()
			s.Info()
			k.Info()
			for range s.ScanDump(100) {
			}
			for range k.ScanDump(100) {
			}
		})
	}
	wg.Wait()
}

// filterSums are checksums of the bytes of filters: the same on every platform.
var filterSums = map[string]string{
	"Murmur3":    "90e67d12f3d7d1f3",
	"XXHash":     "d2ba7d000b140a2c",
	"RedisBloom": "7ea6cbd9b3781838",
	"SipHash":    "967e5350a6a0a9fb",
}

func TestFilterBytesAreTheSameEverywhere(t *testing.T) {
	for _, s := range allSchemes {
		f := Must(New(1000, 0.001, withScheme(s)))
		odd := Must(NewWithSize(10_007, 9, withScheme(s)))
		for i := range uint64(1000) {
			f.AddUint64(i)
			f.AddString(fmt.Sprint("user:", i))
			f.Add(bytes.Repeat([]byte{byte(i)}, int(i%50)))
			odd.AddUint64(i)
		}
		sum := sha256.Sum256(odd.bits.appendBytes(f.bits.appendBytes(nil)))
		require.Equal(t, filterSums[s.String()], hex.EncodeToString(sum[:8]), "%v", s)
	}
}
