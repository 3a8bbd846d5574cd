package bloom

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/big"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite generated files instead of comparing with them")

func TestOptimalBits(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		p    float64
		bits uint64
		k    int
	}{
		{1e10, 0.01, 95_850_583_774, 7},
		{1e9, 0.01, 9_585_058_378, 7},
		{1e7, 0.001, 143_775_876, 10},
		{1e10, 1e-5, 239_626_459_435, 17},
		{1, 0.5, 2, 1},
	} {
		require.Equal(t, c.bits, OptimalBits(c.n, c.p))
		require.Equal(t, c.k, OptimalHashes(c.bits, c.n))
		p, err := Estimate(c.n, c.p)
		require.NoError(t, err)
		require.Equal(t, c.k, p.Hashes)
		require.Zero(t, p.Bits%64)
		require.GreaterOrEqual(t, p.Bits, c.bits)
		require.LessOrEqual(t, p.ErrorRate(c.n), c.p)
	}
	require.Zero(t, OptimalBits(0, 0.01))
	require.Zero(t, OptimalBits(1, math.NaN()))
	require.Equal(t, uint64(math.MaxUint64), OptimalBits(math.MaxUint64, 1e-9))
	require.Equal(t, 1, OptimalHashes(1, 0))
	require.Equal(t, 1, OptimalHashes(1, 100))
	require.Equal(t, maxHashes, OptimalHashes(math.MaxUint64, 1))
}

func TestSizesAreMonotone(t *testing.T) {
	for _, s := range allSchemes {
		for _, p := range []float64{0.01, 1e-4, 1e-9} {
			for _, around := range []uint64{1 << 20, 1 << 29, 1 << 30, 1 << 32, 1 << 34} {
				last := uint64(0)
				for n := around - 50; n <= around+50; n++ {
					bits := Must(Estimate(n, p, withScheme(s))).Bits
					require.GreaterOrEqual(t, bits, last, "%v n %d p %v", s, n, p)
					last = bits
				}
			}
		}
	}
}

// Sizes that a Redis server gives (REDIS.md in docs/ says how it computes them).
func TestRedisSizes(t *testing.T) {
	for _, c := range []struct {
		n           uint64
		p           float64
		bits, bytes uint64
		k           int
	}{
		{1e4, 1e-4, 191_701, 23_968, 14},   // NONSCALING
		{1e4, 0.5e-4, 206_128, 25_768, 15}, // the first link of a scaling chain at 1e-4
		{5e9, 0.005, 0, 6_892_345_888, 8},  // the same at 0.01
		{20_000, 0.5e-4, 0, 51_536, 15},    // the same at 1e-4
		{3, 0.99, 1, 8, 1},
		{1, 1e-6, 28, 8, 20},
	} {
		l := sizeRedis(c.n, c.p)
		p := Must(Estimate(c.n, c.p, WithScheme(RedisBloom)))
		require.Equal(t, c.bytes*8, p.Bits)
		require.Equal(t, c.k, p.Hashes)
		if c.bits != 0 {
			require.Equal(t, max(1, uint64(float64(c.n)*l.bitsPerEntry)), c.bits)
		}
		f := Must(New(min(c.n, 1e4), c.p, WithScheme(RedisBloom)))
		require.Equal(t, c.k, f.Hashes())
	}
}

func TestBadParameters(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		n    uint64
		p    float64
		opts []Option
		kind error
		says string
	}{
		{0, 0.01, nil, ErrInvalid, "capacity is 0, want at least 1"},
		{1, 0, nil, ErrInvalid, "error rate is 0, want strictly between 0 and 1"},
		{1, 1, nil, ErrInvalid, "error rate is 1,"},
		{1, 2, nil, ErrInvalid, "error rate is 2,"},
		{1, -1, nil, ErrInvalid, "error rate is -1,"},
		{1, math.NaN(), nil, ErrInvalid, "error rate is NaN,"},
		{1, inf, nil, ErrInvalid, "error rate is +Inf,"},
		{1, -inf, nil, ErrInvalid, "error rate is -Inf,"},
		{1, 0.01, []Option{WithScheme(77)}, ErrInvalid, "scheme is Scheme(77), want one of [Murmur3 XXHash RedisBloom SipHash]"},
		{1, 0.01, []Option{WithScheme(RedisBloom), WithSeed(5)}, ErrInvalid, "RedisBloom scheme takes no seed"},
		{1, 0.01, []Option{nil}, ErrInvalid, "option 0 is nil"},
		{1, 0.01, []Option{WithGrowth(2)}, ErrInvalid, "WithGrowth has no meaning here"},
		{1e18, 0.01, nil, ErrTooLarge, "1000000000000000000 keys at 0.01 take 9585058377367437312 bits, the limit is 2^48"},
		{1e18, 0.01, []Option{WithScheme(RedisBloom)}, ErrTooLarge, "the limit is 2^48"},
		{math.MaxUint64, 1e-300, nil, ErrTooLarge, "the limit is 2^48"},
		{math.MaxUint64, 1e-300, []Option{WithScheme(RedisBloom)}, ErrTooLarge, "the limit is 2^48"},
		{1e6, 0.01, []Option{WithMaxBytes(1e6)}, ErrTooLarge, "bytes, WithMaxBytes allows 1000000"},
	} {
		_, err := Estimate(c.n, c.p, c.opts...)
		require.ErrorIs(t, err, c.kind)
		require.ErrorContains(t, err, c.says)
		f, err := New(c.n, c.p, c.opts...)
		require.ErrorIs(t, err, c.kind)
		require.ErrorContains(t, err, c.says)
		require.Nil(t, f)
		counting, err := NewCounting(c.n, c.p, c.opts...)
		require.ErrorIs(t, err, c.kind)
		require.Nil(t, counting)
	}
	for _, c := range []struct {
		bits   uint64
		hashes int
		kind   error
	}{
		{0, 1, ErrInvalid}, {64, 0, ErrInvalid}, {64, -1, ErrInvalid}, {64, 2001, ErrInvalid},
		{1<<48 + 1, 1, ErrTooLarge}, {math.MaxUint64, 1, ErrTooLarge},
	} {
		_, err := NewWithSize(c.bits, c.hashes)
		require.ErrorIs(t, err, c.kind)
	}
	require.Panics(t, func() { Must(New(0, 0.01)) })
}

// What a slice cannot address is refused, and the message has the true number.
func TestTooLargeForTheMachine(t *testing.T) {
	if math.MaxInt > math.MaxInt32 {
		require.NoError(t, checkSize(1<<48, math.MaxUint64))
		require.ErrorIs(t, checkSize(1<<48+1, math.MaxUint64), ErrTooLarge)
		return
	}
	bits := Must(Estimate(1e10, 0.01)).Bits
	require.Greater(t, bits, uint64(95_850_583_774))
	_, err := New(1e10, 0.01)
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, fmt.Sprint(bits))
}

// bigExp is e^x to about 300 bits, by a route of its own: Taylor after 64 halvings.
func bigExp(x *big.Float) *big.Float {
	num := func() *big.Float { return new(big.Float).SetPrec(400) }
	x = num().SetMantExp(x, -64)
	sum, term := num().SetInt64(1), num().SetInt64(1)
	for i := int64(1); i < 20; i++ {
		term.Mul(term, x)
		term.Quo(term, num().SetInt64(i))
		sum.Add(sum, term)
	}
	for range 64 {
		sum.Mul(sum, sum)
	}
	return sum
}

// ln is correctly rounded: x lies between e to the power of the two points half
// way to the neighbours of ln x.
func TestLnIsCorrectlyRounded(t *testing.T) {
	r := newRand(20)
	xs := []float64{0.01, 0.000185, 0.5, 0.99, math.Nextafter(1, 0), math.Nextafter(1, 2), 2, math.E,
		math.SmallestNonzeroFloat64, math.MaxFloat64, 0x1p-1022, math.Sqrt2 / 2, math.Sqrt2, 1e-12, 0.25}
	for range 2000 {
		xs = append(xs, math.Exp(-28*r.Float64()))
	}
	half := func(a, b float64) *big.Float {
		sum := new(big.Float).SetPrec(400).SetFloat64(a)
		sum.Add(sum, big.NewFloat(b))
		return sum.Quo(sum, big.NewFloat(2))
	}
	for _, x := range xs {
		y := ln(x)
		low := bigExp(half(y, math.Nextafter(y, math.Inf(-1))))
		high := bigExp(half(y, math.Nextafter(y, math.Inf(1))))
		at := big.NewFloat(x)
		require.True(t, low.Cmp(at) <= 0 && at.Cmp(high) <= 0, "ln(%v) = %v", x, y)
	}
	require.Zero(t, ln(1))
	require.Equal(t, -4.605170185988091, ln(0.01))
}

func TestExpm1(t *testing.T) {
	for x := -0x1p-60; x > -80; x *= 1.01 {
		require.InEpsilon(t, math.Expm1(x), expm1(x), 4e-15, "%v", x)
	}
	require.Zero(t, expm1(0))
	require.Equal(t, -1.0, expm1(math.Inf(-1)))
}

func TestErrorRate(t *testing.T) {
	p := Must(Estimate(1e6, 0.01))
	require.Zero(t, p.ErrorRate(0))
	require.InDelta(t, 0.01, p.ErrorRate(1e6), 1e-4)
	last := 0.0
	for n := uint64(1); n < 1<<63; n *= 2 {
		rate := p.ErrorRate(n)
		require.True(t, rate >= last && rate <= 1, "n %d: %v", n, rate)
		last = rate
	}
	require.Equal(t, 1.0, p.ErrorRate(math.MaxUint64))
	require.Equal(t, 1.0, p.ErrorRateAtFill(p.Bits))
	require.Zero(t, p.ErrorRateAtFill(0))
	require.InEpsilon(t, math.Pow(0.5, float64(p.Hashes)), p.ErrorRateAtFill(p.Bits/2), 1e-4)

	require.Zero(t, Params{64, -3, Murmur3}.ErrorRateAtFill(10))
	require.Zero(t, Params{64, 0, Murmur3}.EstimateLen(10))
	require.LessOrEqual(t, Params{math.MaxUint64, math.MaxInt, Murmur3}.ErrorRate(64), 1.0)
	var zero Params
	require.Zero(t, zero.ErrorRate(1))
	require.Zero(t, zero.ErrorRateAtFill(0))
	require.Zero(t, zero.EstimateLen(1))
	require.Zero(t, zero.Capacity(0.5))
}

// XXHash has 64 bits for a key: n keys leave n/2^64 of the absent ones that no size can tell from them.
func TestXXHashFloor(t *testing.T) {
	_, err := Estimate(1e6, 1e-14, WithScheme(XXHash))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "no size up to 2^48 bits brings the rate of 1000000 keys down to 1e-14 in scheme XXHash")
	p := Must(Estimate(1e6, 1e-14))
	p.Scheme = XXHash
	require.InEpsilon(t, 5.4e-14, p.ErrorRate(1e6), 0.2)
}

func TestCapacity(t *testing.T) {
	for _, s := range allSchemes {
		for _, n := range []uint64{1, 2, 10, 1000, 1e6, 1e10} {
			for _, rate := range []float64{0.5, 0.01, 1e-6} {
				p := Must(Estimate(n, rate, withScheme(s)))
				got := p.Capacity(rate)
				require.LessOrEqual(t, p.ErrorRate(got), rate)
				require.Greater(t, p.ErrorRate(got+1), rate)
				if s != RedisBloom {
					require.GreaterOrEqual(t, got, n, "%v n %d rate %v", s, n, rate)
					if n >= 1e6 {
						require.InEpsilon(t, n, got, 0.005, "no more bits than needed")
					}
				}
			}
		}
	}
	p := Must(Estimate(1000, 0.01))
	require.Zero(t, p.Capacity(0))
	require.Zero(t, p.Capacity(math.NaN()))
	require.Equal(t, uint64(math.MaxUint64), p.Capacity(1))
}

func TestEstimateLen(t *testing.T) {
	p := Params{Bits: 1e11, Hashes: 7}
	require.Zero(t, p.EstimateLen(0))
	require.InEpsilon(t, 9.9e9, p.EstimateLen(5e10), 0.001)
	require.InEpsilon(t, 1.0/7, p.EstimateLen(1), 1e-9)
	require.True(t, math.IsInf(p.EstimateLen(1e11), 1))
	require.True(t, math.IsInf(p.EstimateLen(math.MaxUint64), 1))
	require.Equal(t, 9902102579.427789, p.EstimateLen(5e10), "the same on every platform")
}

// sizesSum is a checksum of the sizes of 2,400 filters: they are the same on
// every platform, whatever it does to floating point.
const sizesSum = "68e0cf949fb9cb25ba1a154b1fd3b93ddcee9bd6f5550ca35154204e04f33398"

func TestSizesAreTheSameEverywhere(t *testing.T) {
	sum := sha256.New()
	r := newRand(21)
	for _, s := range []Scheme{Murmur3, XXHash, RedisBloom} {
		for range 800 {
			n := uint64(math.Ldexp(1+r.Float64(), r.IntN(34)))
			rate := math.Ldexp(1+r.Float64(), -1-r.IntN(24))
			p := Must(Estimate(n, rate, withScheme(s)))
			if s == Murmur3 {
				require.Equal(t, Params{p.Bits, p.Hashes, SipHash}, Must(Estimate(n, rate, WithScheme(SipHash))))
			}
			fmt.Fprintln(sum, n, rate, p.Bits, p.Hashes, math.Float64bits(p.ErrorRate(n)), math.Float64bits(p.EstimateLen(p.Bits/3)))
		}
	}
	require.Equal(t, sizesSum, hex.EncodeToString(sum.Sum(nil)))
}

// Where double hashing rules, the rate of small filters, averaged over their keys, is what
// ErrorRate tells, or up to 2.3 times less (docs/SIZING.md). Each point is 4,000
// filters asked for 2,000 keys: more than 1,500 false positives; the bounds
// leave room for five sigma and for what filters differ.
func TestErrorRateOfSmallFilters(t *testing.T) {
	filters, absent := 4000, 2000
	if testing.Short() {
		filters /= 10 // 150 false positives at least: five sigma are 40 %
	}
	for _, c := range []struct {
		n, m uint64
		k    int
	}{
		{1, 64, 10}, {1, 128, 20}, {2, 64, 20}, {3, 64, 13}, {10, 192, 10}, {10, 256, 17}, {50, 768, 10},
		{100, 1472, 10}, {100, 2048, 14}, {200, 2880, 10},
	} {
		r := newRand(c.m)
		f := Must(NewWithSize(c.m, c.k))
		expected, hits := 0.0, 0
		for range filters {
			f.Reset()
			for range c.n {
				f.AddUint64(r.Uint64())
			}
			expected += f.ErrorRate()
			for range absent {
				if f.ContainsUint64(r.Uint64()) {
					hits++
				}
			}
		}
		ratio := expected * float64(absent) / float64(hits)
		require.True(t, ratio > 0.6 && ratio < 3, "%+v: ErrorRate is %.2f times the rate measured", c, ratio)
	}
}

// The sizes in docs/SIZING.md.
func TestSizeTableOfTheDocs(t *testing.T) {
	var table strings.Builder
	rates := []float64{0.01, 0.001, 0.0001, 1e-6, 1e-9}
	table.WriteString("| keys | 1 % | 0.1 % | 0.01 % | 1e-6 | 1e-9 |\n|---|---|---|---|---|---|\n")
	for _, n := range []uint64{100, 1000, 10_000, 100_000, 1_000_000, 100_000_000} {
		fmt.Fprintf(&table, "| %d ", n)
		for _, rate := range rates {
			p := Must(Estimate(n, rate))
			fmt.Fprintf(&table, "| %.2f, %d ", float64(p.Bits)/float64(n), p.Hashes)
		}
		table.WriteString("|\n")
	}
	compareSection(t, "docs/SIZING.md", "sizes", table.String())

	table.Reset()
	table.WriteString("| rate | Filter | Counting | Cuckoo |\n|---|---|---|---|\n")
	for _, rate := range []float64{0.03, 0.01, 0.001, 0.0001, 1e-6, 1e-8} {
		const n = 1_000_000
		p := Must(Estimate(n, rate))
		c := Must(NewCuckoo(n, rate))
		perKey := float64(p.Bits) / n
		fmt.Fprintf(&table, "| %v | %.2f | %.2f | %.2f (%.2g) |\n",
			rate, perKey, 4*perKey, float64(c.SizeBytes())*8/n, c.rate(n, c.filters[0].buckets()))
	}
	compareSection(t, "docs/SIZING.md", "kinds", table.String())
}

// The table of docs/SIZING.md: what a filter is expected to do at a load, and
// what one does. Run the test with -update to write it again.
func TestRateTableOfTheDocs(t *testing.T) {
	const n, absent = 10_000, 1_000_000
	var table strings.Builder
	table.WriteString("| keys ÷ capacity | 1 %: expected | measured | 0.1 %: expected | measured | 0.01 %: expected | measured |\n|---|---|---|---|---|---|---|\n")
	for _, load := range []float64{0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2} {
		fmt.Fprintf(&table, "| %.2f ", load)
		for _, rate := range []float64{0.01, 0.001, 0.0001} {
			f := Must(New(n, rate))
			keys := uint64(load * n)
			for i := range keys {
				f.AddUint64(i)
			}
			hits := 0
			for i := range uint64(absent) {
				if f.ContainsUint64(1<<32 + i) {
					hits++
				}
			}
			expected := f.params().ErrorRate(keys)
			fmt.Fprintf(&table, "| %.3g %% | %.3g %% ", 100*expected, 100*float64(hits)/absent)
			require.InDelta(t, f.ErrorRate()*absent, hits, 5*math.Sqrt(f.ErrorRate()*absent)+5)
		}
		table.WriteString("|\n")
	}
	compareSection(t, "docs/SIZING.md", "rate by load", table.String())
}

// compareSection holds generated text against the part of a page between the
// comments <!-- generated: name --> and <!-- end -->.
func compareSection(t *testing.T, path, name, text string) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	open, end := "<!-- generated: "+name+" -->\n", "<!-- end -->"
	before, rest, ok := strings.Cut(string(page), open)
	require.True(t, ok, "no %q in %s", open, path)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "no %q after it", end)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+open+text+end+after), 0o644))
		return
	}
	require.Equal(t, text, old, "%s is out of date: go test -run %s -update .", path, t.Name())
}
