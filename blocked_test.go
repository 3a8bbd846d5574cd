package bloom

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

var blockedSchemes = []Scheme{Murmur3, XXHash, SipHash}

func TestBlockedNoFalseNegatives(t *testing.T) {
	n := uint64(1_000_000)
	if testing.Short() {
		n /= 10
	}
	for _, s := range blockedSchemes {
		b := Must(NewBlocked(n, 0.01, withScheme(s)))
		added := uint64(0)
		for i := range n {
			if b.AddUint64(i * 7919) {
				added++
			}
		}
		require.Equal(t, added, b.Len())
		require.Greater(t, float64(added), 0.99*float64(n))
		for i := range n {
			if !b.ContainsUint64(i * 7919) {
				t.Fatalf("%v: key %d is lost", s, i)
			}
		}
		require.InEpsilon(t, n, b.EstimateLen(), 0.005)
	}
}

func blockedFalsePositives(b *Blocked, absent uint64) float64 {
	n := 0
	for i := range absent {
		if b.ContainsUint64(1<<40 + i) {
			n++
		}
	}
	return float64(n)
}

// More than one row of positions, down to the lowest rate: ErrorRate is exact where the
// bits that are set are few enough to count on, which is far past capacity.
func TestBlockedRows(t *testing.T) {
	absent := uint64(1_000_000)
	if testing.Short() {
		absent /= 10
	}
	for hashes, rate := range map[int]float64{8: 0.01, 16: 1e-6, 24: 1e-12} {
		b := Must(NewBlocked(10_000, rate))
		require.Equal(t, hashes, b.Hashes())
		for i := uint64(0); b.ErrorRate() < 0.003; {
			for range 1000 {
				b.AddUint64(i)
				i++
			}
		}
		want := float64(absent) * b.ErrorRate()
		require.InDelta(t, want, blockedFalsePositives(b, absent), 5*math.Sqrt(want))
	}
}

// Filters of a few keys keep the rate too, each of them and not on average.
func TestBlockedSmall(t *testing.T) {
	absent := uint64(300_000)
	if testing.Short() {
		absent /= 10
	}
	for _, s := range blockedSchemes {
		for _, n := range []uint64{1, 2, 3, 10, 50, 100, 300} {
			for rate := 0.1; rate > 0.5e-9; rate /= 10 {
				b := Must(NewBlocked(n, rate, withScheme(s)))
				for i := range n {
					b.AddUint64(i)
				}
				require.LessOrEqual(t, b.ErrorRate(), rate, "%+v", b.Info())
				most := float64(absent) * rate
				require.LessOrEqual(t, blockedFalsePositives(b, absent), most+5*math.Sqrt(most), "%+v", b.Info())
			}
		}
	}
	require.Equal(t, uint64(64), Must(NewBlocked(1, 1e-12)).SizeBytes(), "one line does")
	require.Equal(t, uint64(64), Must(NewBlocked(10, 1e-6)).SizeBytes())
}

// What the sizes are made from, against chance itself: the rate of filters of lines keys
// each, and its spread.
func TestBlockedExpectedRate(t *testing.T) {
	const filters = 2000
	for rows := 1; rows <= maxRows; rows++ {
		l := newLineRates(rows)
		for _, c := range []struct{ lines, keys uint64 }{{1, 30}, {2, 40}, {5, 150}, {40, 1000}} {
			r := newRand(uint64(rows))
			var sum, squares, over float64
			high := l.highRate(c.keys, c.lines)
			for range filters {
				b := Blocked{lines: newLines(c.lines), rows: rows}
				for range c.keys {
					b.lines.setAll(r.Uint64(), r.Uint64(), rows)
				}
				rate := b.ErrorRate()
				sum += rate
				squares += rate * rate
				if rate > high {
					over++
				}
			}
			mean := sum / filters
			sigma := math.Sqrt(squares/filters - mean*mean)
			require.InEpsilon(t, mean+3*sigma, high, 0.2, "rows %d, %+v: mean %v sigma %v", rows, c, mean, sigma)
			require.Less(t, over/filters, 0.05, "rows %d, %+v", rows, c)
		}
	}
}

func TestBlockedSizes(t *testing.T) {
	for _, c := range []struct {
		n      uint64
		rate   float64
		bits   uint64
		hashes int
	}{
		{1, 0.5, 512, 8}, {1, 1e-12, 512, 8}, {100, 0.01, 1536, 8}, {1000, 0.001, 16896, 8}, {10_000, 0.01, 102400, 8},
		{1_000_000, 0.01, 10114048, 8}, {1_000_000, 1e-4, 22984192, 16}, {1_000_000, 1e-9, 84919808, 24},
		{10_000_000_000, 0.01, 100994520576, 8}, {10_000_000_000, 1e-12, 1622939403264, 24}, {600, 0.9999, 1024, 8},
	} {
		lines, rows, err := sizeBlocked(c.n, c.rate)
		require.NoError(t, err)
		require.Equal(t, [2]uint64{c.bits, uint64(c.hashes)}, [2]uint64{lines * 512, uint64(rows) * 8}, "%d keys at %v", c.n, c.rate)
	}
	// The smallest that will do, with any number of rows.
	for n := uint64(1); n < 2000; n += 1 + n/7 {
		for rate := 0.3; rate > minBlockedRate; rate /= 9 {
			lines, rows, err := sizeBlocked(n, rate)
			require.NoError(t, err)
			for r := 1; r <= maxRows; r++ {
				l := newLineRates(r)
				if r == rows {
					require.LessOrEqual(t, l.highRate(n, lines), rate)
				}
				if lines > 1 && lines > n/512+1 {
					require.Greater(t, l.highRate(n, lines-1), rate, "%d keys at %v: %d lines, %d rows", n, rate, lines, r)
				}
			}
		}
	}
	for _, c := range []struct {
		n    uint64
		rate float64
		opts []Option
		is   error
		says string
	}{
		{0, 0.01, nil, ErrInvalid, "capacity is 0"},
		{1, 0, nil, ErrInvalid, "error rate is 0"},
		{1, 1, nil, ErrInvalid, "error rate is 1"},
		{1, math.NaN(), nil, ErrInvalid, "error rate is NaN"},
		{1, 1e-13, nil, ErrInvalid, "error rate is 1e-13, Blocked goes down to 1e-12"},
		{1, 0.01, []Option{WithScheme(RedisBloom)}, ErrInvalid, "no blocked layout"},
		{1, 0.01, []Option{WithGrowth(2)}, ErrInvalid, "WithGrowth"},
		{1000, 0.01, []Option{WithMaxBytes(1000)}, ErrTooLarge, "WithMaxBytes allows 1000"},
		{1e18, 0.01, nil, ErrTooLarge, "keys"},
		{math.MaxUint64, 0.9999, nil, ErrTooLarge, "keys"},
	} {
		_, err := NewBlocked(c.n, c.rate, c.opts...)
		require.ErrorIs(t, err, c.is)
		require.ErrorContains(t, err, c.says)
	}
}

// The table in the documentation of Blocked is made of the sizes.
func TestBlockedTable(t *testing.T) {
	const n = 1_000_000
	rows := [5]string{"rate    ", "Blocked ", "Filter  ", "extra   ", "extra % "}
	for _, rate := range []string{"0.05", "0.01", "0.001", "1e-4", "1e-6", "1e-9"} {
		p := Must(strconv.ParseFloat(rate, 64))
		lines, _, err := sizeBlocked(n, p)
		require.NoError(t, err)
		blocked, classic := float64(lines*512)/n, float64(Must(Estimate(n, p)).Bits)/n
		rows[0] += fmt.Sprintf("%7s", rate)
		rows[1] += fmt.Sprintf("%7.2f", blocked)
		rows[2] += fmt.Sprintf("%7.2f", classic)
		rows[3] += fmt.Sprintf("%7.2f", blocked-classic)
		rows[4] += fmt.Sprintf("%7.0f", 100*(blocked/classic-1))
	}
	rows[1] += "  bits a key"
	source, err := os.ReadFile("blocked.go")
	require.NoError(t, err)
	table := "//\t" + strings.Join(rows[:], "\n//\t") + "\n"
	require.True(t, strings.Contains(string(source), table), "blocked.go should have\n%s", table)
}

func TestBlockedPositions(t *testing.T) {
	for _, s := range blockedSchemes {
		for _, rate := range []float64{0.01, 1e-6, 1e-12} {
			b := Must(NewBlocked(1000, rate, withScheme(s)))
			for i := range uint64(200) {
				key := uint64Bytes(i)
				b.Reset()
				b.Add(key[:])
				want := b.Positions([]uint64{7}, key[:])
				require.Equal(t, uint64(7), want[0])
				require.Len(t, want[1:], b.Hashes())
				h1, h2 := b.Digest(key[:]).Words()
				for j, p := range want[1:] { // the formula as documented, term by term
					x := h2 & math.MaxUint32
					if j%8 >= 4 {
						x = h2 >> 32
					}
					c := []uint64{0xe220a839, 0x6e789e6b, 0x06c45d19, 0xf88bb8a9}[j%4]
					bit := (x * c << (6 * (j / 8)) % (1 << 32)) / (1 << 26)
					line := (h1>>32*b.Bits()/512 + (h1&math.MaxUint32*(b.Bits()/512))>>32) >> 32
					require.Equal(t, line*512+uint64(j%8)*64+bit, p)
				}
				all := b.lines.bits()
				set := slices.Compact(slices.Sorted(slices.Values(want[1:])))
				require.Equal(t, uint64(len(set)), all.count())
				for _, p := range set {
					require.True(t, all.test(p))
				}
			}
		}
	}
}

func TestBlockedLinesAreCacheLines(t *testing.T) {
	for n := uint64(1); n < 100; n++ {
		for range 10 {
			ls := newLines(n)
			require.Len(t, ls, int(n))
			require.Zero(t, uintptr(unsafe.Pointer(&ls[0]))%64)
			ls[n-1][7] = n
			c := ls.clone()
			require.Equal(t, ls, c)
			require.Zero(t, uintptr(unsafe.Pointer(&c[0]))%64)
			require.Equal(t, n, ls.bits().words[8*n-1])
			require.Len(t, ls.bits().words, int(8*n))
		}
	}
}

func TestBlockedTwinsAndBatchesAgree(t *testing.T) {
	r := newRand(50)
	for _, s := range blockedSchemes {
		for _, n := range []uint64{1, 5000} {
			f, g := Must(NewBlocked(n, 0.01, withScheme(s))), Must(NewBlocked(n, 0.01, withScheme(s)))
			h, k := f.Clone(), f.Clone()
			var keys [][]byte
			var words []string
			var want []bool
			for i := range 1000 {
				key := make([]byte, r.IntN(4))
				for j := range key {
					key[j] = byte(r.Uint32())
				}
				added := f.Add(key)
				if i%2 == 0 {
					require.Equal(t, added, g.AddString(string(key)))
				} else {
					require.Equal(t, added, g.AddDigest(f.Digest(key)))
				}
				require.True(t, g.Contains(key) && g.ContainsString(string(key)) && g.ContainsDigest(f.DigestString(string(key))))
				keys, words, want = append(keys, key), append(words, string(key)), append(want, added)
			}
			require.True(t, f.Equal(g))
			require.Equal(t, append([]bool{true}, want...), h.AddMany([]bool{true}, keys))
			require.Equal(t, want, k.AddManyString(nil, words))
			require.True(t, h.Equal(f) && k.Equal(f))
			require.Equal(t, f.Len(), h.Len())

			absent := make([]string, 300)
			for i := range absent {
				absent[i] = fmt.Sprint("absent", i)
			}
			asked := append(absent, words...)
			wantAll, asBytes := []bool{false}, [][]byte{}
			for _, w := range asked {
				wantAll, asBytes = append(wantAll, f.ContainsString(w)), append(asBytes, []byte(w))
			}
			require.Equal(t, wantAll, f.ContainsManyString([]bool{false}, asked))
			require.Equal(t, wantAll, f.ContainsMany([]bool{false}, asBytes))
			require.Empty(t, f.ContainsMany(nil, nil))

			x := r.Uint64()
			b := uint64Bytes(x)
			require.Equal(t, f.AddUint64(x), g.Add(b[:]))
			require.True(t, f.ContainsUint64(x) && f.ContainsDigest(g.DigestUint64(x)))
		}
	}
}

func TestBlockedNoAllocations(t *testing.T) {
	key, word := []byte("a key of more than sixteen bytes"), "user:12345678"
	dst, keys, words := make([]bool, 0, 200), slices.Repeat([][]byte{key}, 100), slices.Repeat([]string{word}, 100)
	for _, s := range blockedSchemes {
		b := Must(NewBlocked(1000, 0.001, withSeed(s, 9)))
		d, positions := b.Digest(key), make([]uint64, 0, b.Hashes())
		for name, op := range map[string]func(){
			"Add": func() { b.Add(key) }, "AddString": func() { b.AddString(word) },
			"AddUint64": func() { b.AddUint64(7) }, "AddDigest": func() { b.AddDigest(d) },
			"Contains": func() { b.Contains(key) }, "ContainsString": func() { b.ContainsString(word) },
			"ContainsUint64": func() { b.ContainsUint64(7) }, "ContainsDigest": func() { b.ContainsDigest(d) },
			"AddMany": func() { b.AddMany(dst, keys) }, "AddManyString": func() { b.AddManyString(dst, words) },
			"ContainsMany": func() { b.ContainsMany(dst, keys) }, "ContainsManyString": func() { b.ContainsManyString(dst, words) },
			"Positions": func() { b.Positions(positions, key) }, "ErrorRate": func() { b.ErrorRate() }, "Info": func() { b.Info() },
		} {
			require.Zero(t, testing.AllocsPerRun(100, op), "%v %s", s, name)
		}
	}
}

func TestBlockedUnionIntersect(t *testing.T) {
	const n = 1000
	a, b, both := Must(NewBlocked(n, 0.01)), Must(NewBlocked(n, 0.01)), Must(NewBlocked(n, 0.01))
	for i := range uint64(n) {
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
	require.InEpsilon(t, 1.5*n, union.EstimateLen(), 0.1)
	require.Greater(t, union.ErrorRate(), union.TargetRate())
	require.NoError(t, a.Intersect(b))
	for i := uint64(n / 2); i < n; i++ {
		require.True(t, a.ContainsUint64(i))
	}
	require.Less(t, a.FillRatio(), b.FillRatio())
	require.NoError(t, b.Union(b))

	before := b.Clone()
	for _, c := range []struct {
		other *Blocked
		says  string
	}{
		{Must(NewBlocked(n, 0.01, WithScheme(XXHash))), "scheme Murmur3 here, XXHash there"},
		{Must(NewBlocked(n, 0.01, WithSeed(255))), "seed 0x0 here, 0xff there"},
		{Must(NewBlocked(2*n, 0.01)), "bits here"},
		{&Blocked{hasher: b.hasher, lines: newLines(uint64(len(b.lines))), rows: 2}, "8 hashes here, 16 there"},
		{&Blocked{}, "0 there"},
	} {
		for _, op := range []func(*Blocked) error{b.Union, b.Intersect} {
			err := op(c.other)
			require.ErrorIs(t, err, ErrMismatch)
			require.ErrorContains(t, err, c.says)
		}
		require.False(t, b.Equal(c.other))
	}
	require.True(t, b.Equal(before))
	require.ErrorIs(t, b.Union(nil), ErrInvalid)
	require.ErrorIs(t, b.Intersect(nil), ErrInvalid)
	require.False(t, b.Equal(nil))
	require.Panics(t, func() { b.ContainsDigest(Must(NewBlocked(n, 0.01, WithSeed(1))).DigestString("a")) })
}

func TestBlockedCloneResetInfo(t *testing.T) {
	b := Must(NewBlocked(1000, 0.001, WithScheme(XXHash), WithSeed(3)))
	b.AddString("a")
	c := b.Clone()
	require.True(t, b.Equal(c))
	c.AddString("b")
	require.False(t, b.Equal(c))
	require.Equal(t, Info{
		Kind: "Blocked", Scheme: XXHash, Seed: 3, Bits: 16896, Hashes: 8, SizeBytes: 2112, Capacity: 1000,
		Len: 1, FillRatio: 8.0 / 16896, TargetRate: 0.001, ErrorRate: math.Pow(64, -8) / 33,
	}, b.Info())
	require.InDelta(t, 1, b.EstimateLen(), 0.01)

	first := &c.lines[0]
	c.Reset()
	require.Same(t, first, &c.lines[0], "the buffer is kept")
	require.Zero(t, float64(c.Len())+c.FillRatio()+c.ErrorRate()+c.EstimateLen())
	require.False(t, c.ContainsString("b"))

	full := Must(NewBlocked(1, 0.5))
	for i := range uint64(5000) {
		full.AddUint64(i)
	}
	require.True(t, math.IsInf(full.EstimateLen(), 1))
	require.Equal(t, 1.0, full.ErrorRate())
	require.NoError(t, full.Union(full))
	require.Equal(t, uint64(396), full.Len(), "ln 512 / −ln(63/64), with one bit to spare")
}

func TestBlockedZero(t *testing.T) {
	var b Blocked
	require.False(t, b.ContainsString("a") || b.Contains(nil) || b.ContainsUint64(1) || b.ContainsDigest(Digest{}))
	require.False(t, b.ContainsDigest(Must(New(1, 0.1)).DigestString("a")))
	require.Equal(t, []bool{false}, b.ContainsManyString(nil, []string{"a"}))
	require.Empty(t, b.Positions(nil, []byte("a")))
	require.Zero(t, b.EstimateLen()+b.FillRatio()+b.ErrorRate()+b.TargetRate())
	require.Zero(t, b.Len()+b.Capacity()+b.Bits()+b.SizeBytes()+uint64(b.Hashes()))
	require.Equal(t, Info{Kind: "Blocked"}, b.Info())
	require.True(t, b.Equal(b.Clone()))
	require.NoError(t, b.Union(&Blocked{}))
	b.Reset()
	for _, add := range []func(){
		func() { b.AddString("a") }, func() { b.AddUint64(1) }, func() { b.AddDigest(Digest{}) }, func() { b.AddMany(nil, [][]byte{nil}) },
	} {
		require.PanicsWithValue(t, zeroAdd, add)
	}
}

// blockedSums are checksums of the bytes of filters: the same on every platform.
var blockedSums = map[string]string{"Murmur3": "cb527fae8f48d8e8", "XXHash": "694848b084ec19bb", "SipHash": "6a5861fed2e41f17"}

func TestBlockedBytesAreTheSameEverywhere(t *testing.T) {
	for _, s := range blockedSchemes {
		sum := sha256.New()
		for _, rate := range []float64{0.01, 1e-6, 1e-12} {
			b := Must(NewBlocked(1000, rate, withScheme(s)))
			for i := range uint64(1000) {
				b.AddUint64(i)
			}
			all := b.lines.bits()
			sum.Write(all.appendBytes(nil))
			fmt.Fprintf(sum, "%x %x", math.Float64bits(b.ErrorRate()), math.Float64bits(b.EstimateLen()))
		}
		require.Equal(t, blockedSums[s.String()], hex.EncodeToString(sum.Sum(nil)[:8]), "%v", s)
	}
}

// Readers need no lock among themselves. It is the race detector's test.
func TestBlockedManyReaders(t *testing.T) {
	b := Must(NewBlocked(1000, 0.01))
	for i := range uint64(1000) {
		b.AddUint64(i)
	}
	together(8, func(int) {
		for i := range uint64(20_000) {
			if !b.ContainsUint64(i % 1000) {
				t.Errorf("key %d missed", i%1000)
				return
			}
		}
		b.Info()
	})
}
