package bloom

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys and seeds are fixed, and bounds are derived: a right filter is beyond one of them, to one side,
// with a probability of at most e^-unlikely, 1.1e-7. The file makes some 3,000 comparisons, so
// that with other keys one of them would fail in one run of 1,500.
const unlikely = 16

// surprise is n·D(hits/n ‖ p), with D the divergence of Kullback and Leibler. By
// Chernoff's bound n trials with chance p hit as often as that or more, or as seldom or
// less, with a probability of at most e^-surprise. The bound holds for any n and p, also
// where hits are too few for a normal distribution. In numbers, for many hits: n·p ± √(2·16·n·p),
// 5.7 sigma.
func surprise(hits, n, p float64) float64 {
	term := func(part, of float64) float64 {
		if part == 0 {
			return 0
		}
		return part * math.Log(part/of)
	}
	q := hits / n
	return n * (term(q, p) + term(1-q, 1-p))
}

// chiSquare is Pearson's statistic of counts of draws that should fall in bin i with chance
// share(i).
func chiSquare(counts []int, share func(i int) float64) (sum float64) {
	n := 0
	for _, c := range counts {
		n += c
	}
	for i, c := range counts {
		want := float64(n) * share(i)
		sum += (float64(c) - want) * (float64(c) - want) / want
	}
	return sum
}

// chiSquareSurprise is surprise of that statistic, again by Chernoff's bound: with d = bins−1
// degrees of freedom it is d·u and beyond with a probability of at most (u·e^(1−u))^(d/2), above
// for u > 1 and below for u < 1. Of 256 bins, 148 … 404 are likely; too even is as bad as too
// uneven.
func chiSquareSurprise(statistic float64, bins int) float64 {
	d := float64(bins - 1)
	u := statistic / d
	return d / 2 * (u - 1 - math.Log(u))
}

func requireChiSquare(t *testing.T, counts []int, share func(i int) float64, format string, args ...any) {
	t.Helper()
	x := chiSquare(counts, share)
	require.LessOrEqual(t, chiSquareSurprise(x, len(counts)), float64(unlikely), "%s: chi-square of %d bins is %.1f",
		fmt.Sprintf(format, args...), len(counts), x)
}

// rangeBins puts positions below m in bins of nearly equal width.
type rangeBins struct {
	m      uint64
	counts []int
}

func (b *rangeBins) of(pos uint64) int { return int(pos * uint64(len(b.counts)) / b.m) }

// share is the exact share of the positions that are in bin i.
func (b *rangeBins) share(i int) float64 {
	bins := uint64(len(b.counts))
	start := func(i uint64) uint64 { return (i*b.m + bins - 1) / bins }
	return float64(start(uint64(i)+1)-start(uint64(i))) / float64(b.m)
}

func (b *rangeBins) require(t *testing.T, format string, args ...any) {
	t.Helper()
	requireChiSquare(t, b.counts, b.share, format, args...)
}

func evenly(bins int) func(int) float64 { return func(int) float64 { return 1 / float64(bins) } }

// statisticsKeys are the forms of keys that people have: numbers in a row, and text that differs in a few
// digits.
var statisticsKeys = map[string]func(dst []byte, i uint64) []byte{
	"uint64": func(dst []byte, i uint64) []byte { b := uint64Bytes(i); return append(dst, b[:]...) },
	"text": func(dst []byte, i uint64) []byte {
		return strconv.AppendUint(append(dst, "user:"...), 10_000_000+i, 10)
	},
}

// Positions are spread evenly over the range and over the bits of a word, and two positions of a
// key have nothing to do with each other, whatever the size is and however keys are
// made. A bin has 400 draws or more, so that Pearson's statistic has its distribution.
func TestPositionsAreUniform(t *testing.T) {
	const k, bins, side = 7, 256, 16
	keys := uint64(bins * 400)
	sizes := []uint64{1021, 4096, 9600, 9_600_448, 3 << 29, 10_000_000_000, 1<<40 + 15}
	if testing.Short() {
		keys, sizes = keys/4, sizes[2:4] // 100 draws
	}
	pairs := [][2]int{{0, 1}, {1, 2}, {0, k - 1}}
	for _, s := range allSchemes {
		for _, m := range sizes {
			l := testLayout(Params{m, k, s}, 0)
			for form, key := range statisticsKeys {
				var positions [k]rangeBins
				var inWord [k][]int
				for i := range k {
					positions[i] = rangeBins{m, make([]int, bins)}
					inWord[i] = make([]int, 64)
				}
				coarse := rangeBins{m, make([]int, side)}
				joint := make([][]int, len(pairs))
				for i := range joint {
					joint[i] = make([]int, side*side)
				}
				var buf []byte
				var pos []uint64
				for id := range keys {
					buf = key(buf[:0], id)
					pos = l.Positions(pos[:0], buf)
					for i, p := range pos {
						positions[i].counts[positions[i].of(p)]++
						inWord[i][p%64]++
					}
					for i, pair := range pairs {
						joint[i][coarse.of(pos[pair[0]])*side+coarse.of(pos[pair[1]])]++
					}
				}
				for i := range k {
					positions[i].require(t, "%v m %d %s position %d", s, m, form, i)
					if m%64 == 0 {
						requireChiSquare(t, inWord[i], evenly(64), "%v m %d %s position %d in its word", s, m, form, i)
					}
				}
				for i, pair := range pairs {
					requireChiSquare(t, joint[i], func(i int) float64 { return coarse.share(i/side) * coarse.share(i%side) },
						"%v m %d %s positions %v", s, m, form, pair)
				}
			}
		}
	}
	// What is off by little is found: bins that have a tenth too many or too few, and such as are
	// all equal but for a fortieth.
	counts := make([]int, bins)
	for off, found := range map[int]bool{40: true, 20: false, 10: true} {
		for i := range counts {
			counts[i] = 400 + off*(i%2*2-1)
		}
		require.Equal(t, found, chiSquareSurprise(chiSquare(counts, evenly(bins)), bins) > unlikely, "off by %d", off)
	}
}

// The same of what Blocked and Cuckoo make of the two words: lines and the bits in each word,
// buckets and fingerprints.
func TestLinesAndBucketsAreUniform(t *testing.T) {
	const bins = 256
	keys := uint64(bins * 400)
	if testing.Short() {
		keys /= 4
	}
	for _, s := range blockedSchemes {
		b := Must(NewBlocked(100_000, 1e-12, withScheme(s)))
		inWord := make([][]int, b.Hashes())
		for i := range inWord {
			inWord[i] = make([]int, 64)
		}
		lines := rangeBins{b.Bits(), make([]int, bins)}
		var pos []uint64
		for id := range keys {
			key := uint64Bytes(id)
			pos = b.Positions(pos[:0], key[:])
			lines.counts[lines.of(pos[0]/512*512)]++
			for i, p := range pos {
				inWord[i][p%64]++
			}
		}
		lines.require(t, "lines of %v", s)
		for i, counts := range inWord {
			requireChiSquare(t, counts, evenly(64), "%v position %d in its word", s, i)
		}
	}
	for _, s := range allSchemes {
		c := newTestCuckoo(s, 100_000, 0.01)
		f := &c.filters[0]
		first, second := rangeBins{f.buckets(), make([]int, bins)}, rangeBins{f.buckets(), make([]int, bins)}
		fingerprints := rangeBins{c.fingerprints(), make([]int, 85)} // a divisor of 255 and 1023
		for id := range keys {
			h1, h2 := c.DigestUint64(id).Words()
			fp := c.fingerprint(h1, h2)
			i := f.bucket(h1)
			first.counts[first.of(i)]++
			second.counts[second.of(f.alternate(i, fp))]++
			fingerprints.counts[fingerprints.of(fp-1)]++
		}
		first.require(t, "first buckets of %v", s)
		second.require(t, "second buckets of %v", s)
		fingerprints.require(t, "fingerprints of %v", s)
	}
}

// Each third of m = 3·2^29 gets a third of the positions, ± 1 %: the sigma of
// 3e6 draws is 0.08 %. At m = 1e10 the largest of 7e6 positions passes 0.999·m,
// but for a chance of 0.999^7e6.
func TestPositionsCoverTheRange(t *testing.T) {
	for _, s := range allSchemes {
		l := testLayout(Params{3 << 29, 3, s}, 0)
		var thirds [3]int
		var pos []uint64
		for i := range uint64(1_000_000) {
			b := uint64Bytes(i)
			pos = l.Positions(pos[:0], b[:])
			for _, p := range pos {
				thirds[p>>29]++
			}
		}
		for _, n := range thirds {
			require.InEpsilon(t, 1_000_000, n, 0.01, "%v %v", s, thirds)
		}

		l = testLayout(Params{10_000_000_000, 7, s}, 0)
		largest := uint64(0)
		for i := range uint64(1_000_000) {
			b := uint64Bytes(i)
			for _, p := range l.Positions(pos[:0], b[:]) {
				largest = max(largest, p)
			}
		}
		require.Greater(t, largest, uint64(9_990_000_000))
	}
}

// Keys set as many bits as random ones: n·k balls in m bins fill m·(1−e^-λ) of them, λ = k·n/m, with a
// variance of m·e^-λ·(1−(1+λ)·e^-λ), which Params.fill has relative to the mean. The count is
// close to normal; it is 5.7 sigma off with a chance of 1e-8. The k positions of one key meet
// more seldom than so many balls, by less than k²/2m bits a key, some hundredths of a sigma here.
func TestFillIsExpected(t *testing.T) {
	n := uint64(200_000)
	if testing.Short() {
		n /= 10
	}
	for _, s := range allSchemes {
		for form, key := range statisticsKeys {
			f := Must(New(n, 0.01, withScheme(s)))
			var buf []byte
			for id := range 3 * n / 2 {
				buf = key(buf[:0], id)
				f.Add(buf)
				if load := id + 1; load%(n/2) == 0 {
					mean, variance := f.params().fill(load)
					require.InDelta(t, mean, f.FillRatio(), 5.7*mean*math.Sqrt(variance), "%v %s %d keys", s, form, load)
				}
			}
		}
	}
}

// rated is what the test of rates needs of a filter of any kind.
type rated interface {
	ContainsUint64(key uint64) bool
	ErrorRate() float64
	Info() Info
}

// ratedKind makes filters of a kind, with a function that adds a key.
type ratedKind struct {
	name    string
	schemes []Scheme
	make    func(n uint64, rate float64, o Option) (rated, func(key uint64))
}

func adder(add func(uint64) bool) func(uint64) { return func(key uint64) { add(key) } }

func mustAdder(add func(uint64) (bool, error)) func(uint64) {
	return func(key uint64) { Must(add(key)) }
}

var ratedKinds = []ratedKind{
	{"Filter", allSchemes, func(n uint64, rate float64, o Option) (rated, func(uint64)) {
		f := Must(New(n, rate, o))
		return f, adder(f.AddUint64)
	}},
	{"Concurrent", allSchemes, func(n uint64, rate float64, o Option) (rated, func(uint64)) {
		f := Must(NewConcurrent(n, rate, o))
		return f, adder(f.AddUint64)
	}},
	{"Counting", allSchemes, func(n uint64, rate float64, o Option) (rated, func(uint64)) {
		f := Must(NewCounting(n, rate, o))
		return f, adder(f.AddUint64)
	}},
	{"Blocked", blockedSchemes, func(n uint64, rate float64, o Option) (rated, func(uint64)) {
		f := Must(NewBlocked(n, rate, o))
		return f, adder(f.AddUint64)
	}},
	{"Scalable", allSchemes, func(n uint64, rate float64, o Option) (rated, func(uint64)) {
		f := Must(NewScalable(n, rate, o))
		return f, mustAdder(f.AddUint64)
	}},
	{"Cuckoo", allSchemes, func(n uint64, rate float64, o Option) (rated, func(uint64)) {
		var c config
		if o(&c); c.scheme == RedisBloom {
			rate = 0 // the only one there
		}
		f := Must(NewCuckoo(n, rate, o, WithGrowth(1))) // past capacity it grows
		return f, mustAdder(f.AddUint64)
	}},
}

// Every kind in every scheme, at half its capacity, at it, and half above: the rate is
// the one that ErrorRate tells, neither more nor less. Of N absent keys, that are independent
// given the filter, each is found with that chance, so that the number of hits keeps
// within surprise's bound: with the 4,000 hits that N is chosen for, 9 % to either side. Where N
// would have to be larger than the cap, less is tested: with 1 hit to expect, that there are not 11.
//
// What a filter is asked for counts too, in the native schemes: up to capacity there are not more hits than
// the rate asked for lets one expect, and of a Scalable beyond it neither.
func TestRates(t *testing.T) {
	sizes, rates, most := []uint64{1000, 20_000, 200_000}, []float64{0.05, 0.01, 0.001, 1e-5}, 500_000.0
	if testing.Short() {
		sizes, rates, most = sizes[:2], rates[1:3], 50_000
	}
	cell := uint64(0)
	for _, kind := range ratedKinds {
		t.Run(kind.name, func(t *testing.T) {
			for _, s := range kind.schemes {
				for _, n := range sizes {
					for _, rate := range rates {
						cell++
						f, add := kind.make(n, rate, withScheme(s))
						base := splitMix64(cell) // other keys in every cell
						for step := range uint64(3) {
							for i := range n / 2 {
								add(base + step*(n/2) + i)
							}
							told := f.ErrorRate()
							absent := math.Ceil(min(most, 4000/told))
							hits := 0.0
							for i := range uint64(absent) {
								if f.ContainsUint64(base + 1<<40 + i) {
									hits++
								}
							}
							what := fmt.Sprintf("%v n %d rate %v load %d/2: %v hits of %v, %+v", s, n, rate, step+1, hits, absent, f.Info())
							require.LessOrEqual(t, surprise(hits, absent, told), float64(unlikely), what)
							if s == RedisBloom || step == 2 && kind.name != "Scalable" {
								continue
							}
							if hits > absent*rate {
								require.LessOrEqual(t, surprise(hits, absent, rate), float64(unlikely), what)
							}
						}
					}
				}
			}
		})
	}
	// A rate off by a tenth is found by so many hits.
	require.Greater(t, surprise(4400, 400_000, 0.01), float64(unlikely))
	require.Greater(t, surprise(3600, 400_000, 0.01), float64(unlikely))
}

// Filters of the same keys with other schemes or seeds err independently: of the false positives
// of one, the other takes for present what its own rate lets one expect. Seeds that differ in
// one bit do as well as any. That the bound would find the contrary shows in a filter and
// itself, and in pairs of a kind that share their hash.
func TestFalsePositivesAreIndependent(t *testing.T) {
	const n, rate = 5000, 0.03
	absent := uint64(1_000_000) // 30,000 false positives, of them 900 of the other's
	if testing.Short() {
		absent /= 10
	}
	type hashed struct {
		scheme Scheme
		seed   uint64
	}
	var hashes []hashed
	for _, s := range allSchemes {
		hashes = append(hashes, hashed{s, 0})
		for _, seed := range []uint64{1, 2, 1 << 32, 1 << 63} {
			if s != RedisBloom {
				hashes = append(hashes, hashed{s, seed})
			}
		}
	}
	for _, kind := range []ratedKind{ratedKinds[0], ratedKinds[3], ratedKinds[5]} {
		var filters []rated
		var names []string
		for _, h := range hashes {
			if kind.name == "Blocked" && h.scheme == RedisBloom {
				continue
			}
			f, add := kind.make(n, rate, withSeed(h.scheme, h.seed))
			for i := range uint64(n) {
				add(i)
			}
			filters = append(filters, f)
			names = append(names, fmt.Sprintf("%s %v seed %#x", kind.name, h.scheme, h.seed))
		}
		hits, both := make([]float64, len(filters)), make([][]float64, len(filters))
		for i := range both {
			both[i] = make([]float64, len(filters))
		}
		found := make([]bool, len(filters))
		for key := range absent {
			for i, f := range filters {
				found[i] = f.ContainsUint64(1<<40 + key)
			}
			for i, one := range found {
				if !one {
					continue
				}
				hits[i]++
				for j, other := range found[:i] {
					if other {
						both[i][j]++
					}
				}
			}
		}
		for i := range filters {
			for j := range i {
				chance := filters[j].ErrorRate()
				require.LessOrEqual(t, surprise(both[i][j], hits[i], chance), float64(unlikely),
					"%s and %s: %v of %v", names[i], names[j], both[i][j], hits[i])
			}
			require.Greater(t, surprise(hits[i], hits[i], filters[i].ErrorRate()), float64(unlikely))
		}
	}

	// A filter of the same hash and another size is not independent: both have the keys that share h1 and h2,
	// mod a common divisor of the sizes.
	a, b := Must(NewWithSize(1<<13, 3)), Must(NewWithSize(1<<14, 3))
	for i := range uint64(2000) {
		a.AddUint64(i)
		b.AddUint64(i)
	}
	one, two := 0.0, 0.0
	for i := range absent {
		if b.ContainsUint64(1<<40 + i) {
			one++
			if a.ContainsUint64(1<<40 + i) {
				two++
			}
		}
	}
	require.Greater(t, surprise(two, one, a.ErrorRate()), float64(unlikely))
}
