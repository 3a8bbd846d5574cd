package bloom

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"runtime"
)

// Params are the numbers that fix a filter's behaviour: how many bits, how
// many hashes, and by which scheme. Its methods are pure functions of them, to be called
// from any goroutine. They take some microseconds and may allocate; Capacity takes
// a few dozen times as long. A Params without bits or hashes is that of an empty filter.
type Params struct {
	Bits   uint64 // m
	Hashes int    // k
	Scheme Scheme
}

// Estimate returns the parameters that [New] with the same arguments would
// use, without allocating the filter: also for sizes this machine could not
// hold. The options are those of New; the SipHash scheme needs no key here.
//
// In the native schemes the size starts from the textbook's ([OptimalBits],
// with k = round(m/n·ln 2) hashes, at least 1), is rounded up to whole 64-bit
// words, and is raised until the rate at capacity is at most errorRate, also where the
// keys happen to set more bits than usual, by three standard deviations: by some 0.1 % in
// the usual range, since k is a whole number, and by more for filters
// of few keys or with tiny rates, where chance and what double hashing adds to the
// rate ([Params.ErrorRate]) rule.
//
// In the RedisBloom scheme the size is the server's for one link:
// ⌊capacity·b⌋ bits rounded up to words with b = |ln errorRate|/0.480453013918201,
// and ⌈0.693147180559945·b⌉ hashes. Its rate at capacity is close to errorRate for
// filters of some thousand keys and more, and well above it for tiny ones.
//
// It returns an error that wraps [ErrInvalid] for a capacity of 0, a rate that is
// not strictly between 0 and 1, or a bad option, and [ErrTooLarge] when the size
// would pass 2^48 bits or the limit of [WithMaxBytes].
func Estimate(capacity uint64, errorRate float64, opts ...Option) (Params, error) {
	c, err := configure(opts, filterOptions|optKeyless)
	if err != nil {
		return Params{}, err
	}
	p, err := size(c.scheme, capacity, errorRate)
	if err != nil {
		return Params{}, err
	}
	if err := checkBytes(p.Bits, c.maxBytes); err != nil {
		return Params{}, err
	}
	return p, nil
}

// maxBits is the largest size that is computed with, or built: far above what
// memory holds, and low enough that no sum of sizes wraps.
const maxBits = 1 << 48

// maxHashes bounds k everywhere: the smallest positive float64 as a rate asks
// for 1,075.
const maxHashes = 2000

// addressableBits is what one slice of words can hold on this machine.
const addressableBits = min(maxBits, (1<<(31+32*(^uint(0)>>63))-1)/8*64)

// checkSize refuses, before anything is allocated, bits that this machine cannot
// address or that take more than maxBytes.
func checkSize(bits, maxBytes uint64) error {
	limit := uint64(addressableBits)
	if runtime.GOARCH == "wasm" {
		limit = 8 << 32 // int has 64 bits there, memory 4 GiB
	}
	if bits > limit {
		return fmt.Errorf("%w: %d bits, this machine's limit is %d", ErrTooLarge, bits, limit)
	}
	return checkBytes(bits, maxBytes)
}

func checkBytes(bits, maxBytes uint64) error {
	if size := wordsFor(bits) * 8; size > maxBytes {
		return fmt.Errorf("%w: %d bits take %d bytes, WithMaxBytes allows %d", ErrTooLarge, bits, size, maxBytes)
	}
	return nil
}

func checkCapacityAndRate(capacity uint64, errorRate float64) error {
	if capacity == 0 {
		return fmt.Errorf("%w: capacity is 0, want at least 1", ErrInvalid)
	}
	if !(errorRate > 0 && errorRate < 1) {
		return fmt.Errorf("%w: error rate is %v, want strictly between 0 and 1", ErrInvalid, errorRate)
	}
	return nil
}

// size is Estimate after the options.
func size(s Scheme, capacity uint64, errorRate float64) (Params, error) {
	if err := checkCapacityAndRate(capacity, errorRate); err != nil {
		return Params{}, err
	}
	if s == RedisBloom {
		return sizeRedis(capacity, errorRate).params()
	}
	raw := rawBits(capacity, errorRate)
	if raw > maxBits {
		return Params{}, tooManyBits(capacity, errorRate, raw)
	}
	p := Params{Scheme: s, Hashes: max(1, int(math.Round(float64(raw/float64(capacity))*math.Ln2)))}
	// The rate falls as the size grows, but for jumps where the odd part of the
	// size is small (see repeated and folded). So: the smallest size that is enough
	// without the jumps, then past the jump if it landed on one.
	words := search(wordsFor(uint64(raw)), maxBits/64, func(words uint64) bool {
		p.Bits = words * 64
		return p.highRate(capacity, noJump) <= errorRate
	})
	for p.Bits = words * 64; p.highRate(capacity, p.oddPart()) > errorRate; p.Bits += 64 {
		if p.Bits >= maxBits {
			return Params{}, fmt.Errorf("%w: no size up to 2^48 bits brings the rate of %d keys down to %v in scheme %v",
				ErrTooLarge, capacity, errorRate, s)
		}
	}
	return p, nil
}

// search returns the smallest of low … high that is enough, high if none is; if
// one number is enough, so are those above it.
func search(low, high uint64, enough func(uint64) bool) uint64 {
	for low < high {
		if mid := low + (high-low)/2; enough(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

func tooManyBits(capacity uint64, errorRate, bits float64) error {
	return fmt.Errorf("%w: %d keys at %v take %.0f bits, the limit is 2^48", ErrTooLarge, capacity, errorRate, bits)
}

// OptimalBits returns the textbook size of a Bloom filter for capacity keys at
// errorRate, m = ⌈−n·ln p / ln²2⌉, before any rounding to words (Bloom 1970, with
// k at its best real value). The result is the same on every platform. It
// returns 0 where the arguments are out of range (a capacity of 0, a rate not
// strictly between 0 and 1) and [math.MaxUint64] where the result is at least 2^64.
func OptimalBits(capacity uint64, errorRate float64) uint64 {
	if checkCapacityAndRate(capacity, errorRate) != nil {
		return 0
	}
	raw := rawBits(capacity, errorRate)
	if raw >= 1<<64 {
		return math.MaxUint64
	}
	return uint64(raw)
}

func rawBits(capacity uint64, errorRate float64) float64 {
	const ln2Squared = math.Ln2 * math.Ln2
	return math.Ceil(float64(float64(capacity)*-ln(errorRate)) / ln2Squared)
}

// OptimalHashes returns round(m/n·ln 2), at least 1: the number of hashes at
// which bits hold capacity keys at the lowest rate. It returns 1 for a capacity
// of 0, and at most 2,000.
func OptimalHashes(bits, capacity uint64) int {
	if capacity == 0 {
		return 1
	}
	return int(min(max(1, math.Round(float64(float64(bits)/float64(capacity))*math.Ln2)), maxHashes))
}

// redisLink is the size of one link of a RedisBloom chain: all that the header of
// a dump says of it but its count. REDIS.md in docs/ has the rules.
type redisLink struct {
	entries      uint64
	rate         float64
	bitsPerEntry float64
	bits         uint64
	hashes       int
}

// sizeRedis computes a link as the server does: in float64, in this order, with
// the decimals the server has for ln²2 and ln 2.
func sizeRedis(entries uint64, rate float64) redisLink {
	l := redisLink{entries: entries, rate: rate}
	l.bitsPerEntry = math.Abs(ln(rate) / 0.480453013918201)
	raw := float64(float64(entries) * l.bitsPerEntry)
	switch {
	case raw >= maxBits:
		l.bits = math.MaxUint64 // past every limit
	case raw < 1:
		l.bits = 64
	default:
		l.bits = wordsFor(uint64(raw)) * 64
	}
	l.hashes = int(math.Ceil(0.693147180559945 * l.bitsPerEntry))
	return l
}

// roundedToPowerOfTwo is a link as servers made it before they had the no-rounding
// option: bits raised to a power of two, and entries by what that gains. n2 is its
// logarithm.
func (l redisLink) roundedToPowerOfTwo() (rounded redisLink, n2 uint8) {
	want := float64(float64(l.entries) * l.bitsPerEntry)
	n2 = uint8(math.Ilogb(max(1, want)) + 1)
	l.bits = 1 << min(n2, 63)
	l.entries += uint64((float64(l.bits) - want) / l.bitsPerEntry)
	return l, n2
}

func (l redisLink) params() (Params, error) {
	if l.bits > maxBits {
		return Params{}, tooManyBits(l.entries, l.rate, float64(l.entries)*l.bitsPerEntry)
	}
	return Params{Bits: l.bits, Hashes: l.hashes, Scheme: RedisBloom}, nil
}

// none reports whether these are no filter's parameters.
func (p Params) none() bool { return p.Bits == 0 || p.Hashes < 1 }

// ErrorRate returns the rate of false positives expected of a filter that
// holds n distinct keys: the fraction of bits set, 1 − e^(−k·n/m), to the power
// of k, and the term that double hashing adds (docs/SIZING.md). It is an
// average over keys; in [0, 1], also far past capacity, and 0 for n = 0 or a zero
// Params.
func (p Params) ErrorRate(n uint64) float64 {
	fill, variance := p.fill(n)
	return p.rate(fill, variance, n, p.oddPart())
}

// ErrorRateAtFill is [Params.ErrorRate] of a filter that is seen to have setBits
// bits set, whatever number of keys set them.
func (p Params) ErrorRateAtFill(setBits uint64) float64 {
	if p.none() {
		return 0
	}
	if setBits >= p.Bits {
		return 1
	}
	n := uint64(math.Round(p.EstimateLen(setBits)))
	return p.rate(float64(setBits)/float64(p.Bits), 0, max(1, n), p.oddPart())
}

// highRate is the rate of a filter whose keys happen to set more bits than n keys
// do on average, by three standard deviations: what sizes are made for, so that
// nearly every filter keeps the rate asked for, and not one in two. From some
// thousand keys on the difference is nothing.
func (p Params) highRate(n, odd uint64) float64 {
	fill, variance := p.fill(n)
	return p.rate(fill*(1+float64(3*math.Sqrt(variance))), 0, n, odd)
}

// fill is the fraction of bits that n keys are expected to set, and the variance of
// that fraction relative to its square.
func (p Params) fill(n uint64) (mean, variance float64) {
	if p.none() || n == 0 {
		return 0, 0
	}
	k, m := float64(p.Hashes), float64(p.Bits)
	load := float64(k * float64(n) / m)
	mean = -expm1(-load)
	if load < 1e-3 {
		return mean, 0.5 / m // the limit, where the line below cancels
	}
	clear := 1 - mean
	return mean, clear * (1 - float64((1+load)*clear)) / m / (mean * mean)
}

// Capacity returns the largest number of keys at which [Params.ErrorRate] is at
// most errorRate, 0 if already one key passes it, for a zero Params or a rate that is
// not above 0, and the largest uint64 for a rate of 1 and more.
func (p Params) Capacity(errorRate float64) uint64 {
	if p.none() || !(errorRate > 0) {
		return 0
	}
	if errorRate >= 1 {
		return math.MaxUint64
	}
	// Past 64·m keys the fill is 1 in float64.
	return search(1, min(p.Bits, maxBits)*64, func(n uint64) bool { return p.ErrorRate(n) > errorRate }) - 1
}

// sizing is what a filter of these sizes is best for: half of the bits set.
func (p Params) sizing() sizing {
	n := max(1, uint64(math.Round(float64(float64(p.Bits)/float64(p.Hashes))*math.Ln2)))
	return sizing{n, p.ErrorRate(n)}
}

// EstimateLen returns how many distinct keys are likely to have set setBits bits,
// −m/k·ln(1 − setBits/m) (Swamidass and Baldi, 2007): 0 for none, +Inf once all bits
// are set. The result is the same on every platform.
func (p Params) EstimateLen(setBits uint64) float64 {
	switch {
	case setBits == 0 || p.none():
		return 0
	case setBits >= p.Bits:
		return math.Inf(1)
	}
	m := new(big.Float).SetPrec(lnPrec).SetUint64(p.Bits)
	clear := new(big.Float).SetPrec(lnPrec).SetUint64(p.Bits - setBits)
	return float64(p.Bits) / float64(p.Hashes) * lnBig(m.Quo(m, clear))
}

// estimateLen is EstimateLen as a count. With all bits set it takes the estimate for
// all but one, which is the least that can be said.
func (p Params) estimateLen(setBits uint64) uint64 {
	if setBits > 0 && setBits == p.Bits {
		setBits--
	}
	return uint64(math.Round(p.EstimateLen(setBits)))
}

// noJump stands for the odd part of a size that is not special (see repeated).
const noJump = 5

// oddPart is m without its factors of two.
func (p Params) oddPart() uint64 { return p.Bits >> bits.TrailingZeros64(p.Bits) }

// rate estimates the mean rate of false positives, over random keys in the filter and
// random absent keys, of a filter of which the fraction fill is set by n keys. To fill^k,
// which holds for k independent positions, it adds what double hashing
// makes of them (docs/SIZING.md has the derivation and measurements):
//
//   - a query can repeat the positions of a key, shifted or in reverse
//     (repeated, of the order n/m²);
//   - its own positions can fall together (folded, of the order 1/m);
//   - i−j divisible by 2^a makes the difference of positions i and j so too, for a size
//     of whole words, so that pairs of positions meet too often, which raises fill^k by a
//     factor of about e^pairs;
//   - with XXHash, a query can have the very hash of a key.
//
// Of a fill that is a mean, its relative variance raises the mean of fill^k likewise.
// odd is the odd part of the size, or noJump. From 50 keys up the estimate is 0.97 to 1.4 times what was
// measured, below 1.0 to 2.3 times, in the native schemes.
func (p Params) rate(fill, variance float64, n, odd uint64) float64 {
	switch {
	case p.none() || n == 0 || fill <= 0:
		return 0
	case fill >= 1:
		return 1
	}
	p.Hashes = min(p.Hashes, maxHashes) // no filter has more
	ideal := pow(fill, p.Hashes)
	if p.Hashes < 2 {
		return ideal
	}
	k, m := float64(p.Hashes), float64(p.Bits)
	lines := float64(float64(n)/m*repeated(fill, p.Hashes, odd)) + p.folded(fill, odd)
	// Positions outside the match hit a little more often than fill; fitted.
	outside := k * k / m
	if odd == 1 {
		outside = float64(outside * 0.6)
	}
	lines = float64(lines * (1 + outside) / m)
	if p.Scheme == XXHash {
		lines += float64(n) * 0x1p-64 // keys whose 64-bit hashes collide
	}
	// The bound matters for a handful of keys only, where powers of e^pairs mean
	// nothing any more; fitted.
	met := max(5*ideal, lines/4)
	exponent := p.pairs(fill, n) + float64(k*(k-1)/2*variance)
	if shrunk := 1 + expm1(-exponent); ideal < float64(met*shrunk) {
		met = ideal / shrunk
	}
	return min(1, met+lines)
}

// pairs is the exponent by which meetings of two positions raise the rate.
func (p Params) pairs(fill float64, n uint64) float64 {
	r := 1/fill - 1
	k, m := p.Hashes, float64(p.Bits)
	var twoKeys, oneKey float64
	for a := 1; 1<<a < k && p.Bits%(1<<a) == 0; a++ {
		c, rest := k>>a, k&(1<<a-1)
		q := float64(rest*(c+1)*c + (1<<a-rest)*c*(c-1)) // pairs i ≠ j with 2^a | i−j
		w := float64(q * float64(int(1)<<(a-1)))
		oneKey += w
		twoKeys += float64(w * q)
	}
	return float64(r*r*float64(n)/m/m*twoKeys/2) + float64(r/m*oneKey/2)
}

// beyond is the rate at which a query hits that shares t of its k positions, less what
// the first terms of fill^k count already: matches of none, one and (deep) two.
func beyond(fill, rest float64, k, t int, deep bool) float64 {
	r := 1/fill - 1
	tf := float64(t)
	counted := 1 + float64(tf*r)
	if deep {
		counted += float64(tf * (tf - 1) / 2 * r * r)
	}
	return max(0, rest-float64(pow(fill, k)*counted))
}

// repeated is c in a term c·n/m²: queries that share three or more positions with a
// key. With i → i+s or i → s−i the i² sequence goes over into itself with other h1
// and h2 mod m, so each shift s and direction gives one pair of residues that shares
// k−|s| positions. For a power of two that is all, and c nears 2(1+f)/(1−f). For other
// sizes the sums must also wrap at 2^64 alike, and c falls to about
// 3(1+f)/(1−f)/k²; the constants are fitted to a simulation of the wraps. The sequence
// without i² has the same shifts and directions.
func repeated(fill float64, k int, odd uint64) float64 {
	if k < 3 {
		return 0
	}
	c, rest := 0.0, 1.0
	for t := k; t >= 3 && rest > 1e-6; t-- {
		w := 4 * beyond(fill, rest, k, t, true)
		if t == k {
			w /= 2
		}
		c += w
		rest *= fill
	}
	if odd == 1 || c == 0 {
		return 1.05 * c
	}
	kf, g := float64(k), 1-fill
	wraps := float64(112*fill/g*(1+float64(2.6*fill*fill))) + 32
	tail := (1 + fill) / g * (3.9 + float64(wraps/kf)) / (kf * kf)
	low := 0.4 * c
	alike := low * tail / math.Sqrt(float64(low*low)+float64(tail*tail))
	if odd == 3 {
		alike *= 1.3
	}
	return min(alike, c)
}

// folded is d in a term d/m: queries whose own positions fall together. With
// i² that is by reflection about s/2, without it when h2 has a small order mod m.
func (p Params) folded(fill float64, odd uint64) float64 {
	if p.Scheme == RedisBloom {
		return foldedLinear(fill, p.Hashes, odd)
	}
	k, d := p.Hashes, 0.0
	for s := k - 1; s >= 3; s-- {
		half := (s + 1) / 2 // pairs that fall together
		w := beyond(fill, pow(fill, k-half), k, half, false)
		if s&1 == 0 {
			w *= 2 // h2 + s is 0 or m/2
		}
		if s < k-1 {
			w *= 2 // 2(k−1)−s does the same
		}
		d += w
		if w <= 1e-6*d {
			break
		}
	}
	if odd > 1 {
		d *= min(0.375, 2.5/float64(k))
		if odd == 3 {
			d *= 1.2
		}
	}
	return float64(d)
}

func foldedLinear(fill float64, k int, odd uint64) float64 {
	// orders adds up queries whose positions number first, 2·first, 4·first, …
	orders := func(first uint64) float64 {
		d, weight := 0.0, float64(first)
		for e := first; e < uint64(k)-1; e *= 2 {
			d += float64(weight * beyond(fill, pow(fill, int(e)), k, k-int(e), false))
			if e != first {
				weight *= 2
			}
		}
		return d
	}
	d := orders(odd)
	if odd > 1 {
		g := 1 - fill
		d = min(orders(1), d+float64(1.3*fill/(g*g*g*float64(k))))
	}
	return d
}

// pow is x^k by squaring. Unlike math.Pow it is the same on every platform.
func pow(x float64, k int) float64 {
	r := 1.0
	for ; k > 0; k >>= 1 {
		if k&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

// expm1 is e^x − 1 for x ≤ 0, to about 1e-15, the same on every platform: a Taylor
// series near 0 after halvings of x, undone by e^2x − 1 = (e^x − 1)·(e^x − 1 + 2).
// The conversions keep compilers from fusing products into sums.
func expm1(x float64) float64 {
	if x < -64 {
		return -1
	}
	halvings := 0
	for ; x < -1.0/16; halvings++ {
		x /= 2
	}
	t := 0.0
	for i := 12; i > 0; i-- {
		t = float64(x / float64(i) * (1 + t))
	}
	for range halvings {
		t = float64(t * (t + 2))
	}
	return t
}

// lnPrec is the precision in bits of the sums that give ln. With 53 wanted it
// leaves no input of interest so close to a tie that the rounding could err.
const lnPrec = 192

var lnTwo, _ = new(big.Float).SetPrec(lnPrec).SetString(
	"0.693147180559945309417232121458176568075500134360255254120680009493393621969694715605863")

// ln is the natural logarithm of a finite x > 0, correctly rounded: the same
// on every platform, and the one that RedisBloom's headers hold. math.Log differs
// by platform and from both in the last bit for about one rate in sixty.
func ln(x float64) float64 { return lnBig(new(big.Float).SetPrec(lnPrec).SetFloat64(x)) }

// lnBig is ln of x > 0. With x = f·2^e and f in [√½, √2) it
// is e·ln 2 + 2·artanh z with z = (f−1)/(f+1), and artanh z = z + z³/3 + z⁵/5 + …, each
// term at most 0.03 of the one before.
func lnBig(x *big.Float) float64 {
	num := func() *big.Float { return new(big.Float).SetPrec(lnPrec) }
	f := num()
	e := x.MantExp(f)
	if f.Cmp(big.NewFloat(math.Sqrt2/2)) < 0 {
		f.Add(f, f)
		e--
	}
	one := big.NewFloat(1)
	z := num().Quo(num().Sub(f, one), num().Add(f, one))
	zz := num().Mul(z, z)
	sum, power := num().Set(z), num().Set(z)
	for i := 3; power.Sign() != 0 && power.MantExp(nil) > sum.MantExp(nil)-lnPrec; i += 2 {
		power.Mul(power, zz)
		sum.Add(sum, num().Quo(power, big.NewFloat(float64(i))))
	}
	sum.Add(sum, sum)
	sum.Add(sum, num().Mul(lnTwo, big.NewFloat(float64(e))))
	r, _ := sum.Float64()
	return r
}
