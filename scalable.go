package bloom

import (
	"fmt"
	"iter"
	"math"
	"slices"
)

// Scalable is a scalable Bloom filter (Almeida et al., 2007): a chain of links, each a
// Bloom filter of its own. When the newest link holds as many keys as it was made
// for, the next one is larger by the growth factor and has a lower rate of
// false positives, so that the rate of the whole chain stays bounded however many keys
// come. A key is hashed once for all links.
//
// In the RedisBloom scheme the chain is the server's, bit for bit: the first link has
// half the rate asked for, each later one half of the link's before it, and the
// size is multiplied by the growth, 2 unless [WithGrowth] says otherwise. Since the
// server rounds the number of hashes up but not the bits, its chain can reach 1.015 times the
// rate asked for. In the native schemes the rates of all links add up to at most
// the rate asked for; [WithTightening] sets their ratio, 0.8 by default, down to a
// millionth of the rate asked for. A native chain has at most 1,024 links.
//
// A filter of unknown size costs more than a [Filter] of a known one: more bits a key, since
// later links have lower rates, and more probes a lookup, a few for each link. Goroutines:
// one writer alone, or many readers. Make one with [NewScalable]. BF.RESERVE's
// defaults, good ones for streams, are 100 keys at 0.01.
type Scalable struct {
	hasher
	inc        uint64 // scheme.inc()
	links      []link // oldest first
	rate       float64
	growth     int // 0: the filter does not grow
	tightening float64
	maxBytes   uint64
	len        uint64
	redis      redisChain
}

// redisChain is what a dump says of a chain beyond its links.
type redisChain struct {
	options   uint32
	expansion uint32
}

// link is one filter of a chain.
type link struct {
	entries      uint64 // keys it was made for
	rate         float64
	bitsPerEntry float64 // RedisBloom scheme only
	k            int
	mod          modulus
	declared     uint64 // RedisBloom scheme only: bits in the header of a dump
	n2           uint8  // the same: not 0 in old dumps, where mod is 2^n2
	bits         bitset
	count        uint64 // keys it holds
}

// DefaultTightening is the ratio of the rates of two successive links where
// [WithTightening] is not given, in the native schemes. Values of 0.8 to 0.9 cost
// the fewest bits in long chains (Almeida et al., section 4).
const DefaultTightening = 0.8

const scalableOptions = optScheme | optSeed | optKey | optMaxBytes | optGrowth | optTightening | optNonScaling

// WithTightening sets the rate of each link of a native [Scalable] to ratio times that of the link before;
// strictly between 0 and 1, [DefaultTightening] by default. The first link gets 1 − ratio of the whole rate:
// a low ratio makes it small, a high one makes later links cheaper, and one very close to 1 makes all of them
// large. The RedisBloom scheme always has 0.5 and takes no other.
func WithTightening(ratio float64) Option {
	return func(c *config) { c.tightening, c.given = ratio, c.given|optTightening }
}

// WithNonScaling makes a [Scalable] of one link that refuses keys with [ErrFull]
// when it holds its capacity, as BF.RESERVE … NONSCALING does. The link has
// the whole rate that was asked for.
func WithNonScaling() Option {
	return func(c *config) { c.given |= optNonScaling }
}

// NewScalable makes an empty filter whose first link is made for capacity keys, and which
// keeps the rate of false positives at errorRate as it grows (see [Scalable] for
// what the RedisBloom scheme does).
//
// The options are [WithScheme], [WithSeed], [WithKey], [WithGrowth] (2 by default; at least 1 in the native
// schemes, 0 … 32,768 in the RedisBloom scheme, where 0 means fixed size, as EXPANSION 0
// does), [WithTightening], [WithNonScaling] (not together with WithGrowth) and
// [WithMaxBytes], which bounds all links together. It returns an error that wraps
// [ErrInvalid] for bad parameters, and [ErrTooLarge] where [New] does.
func NewScalable(capacity uint64, errorRate float64, opts ...Option) (*Scalable, error) {
	c, err := configure(opts, scalableOptions)
	if err != nil {
		return nil, err
	}
	if err := checkCapacityAndRate(capacity, errorRate); err != nil {
		return nil, err
	}
	s := &Scalable{
		hasher: newHasher(c), inc: c.scheme.inc(), rate: errorRate,
		growth: 2, tightening: DefaultTightening, maxBytes: c.maxBytes,
	}
	if err := s.configureGrowth(c); err != nil {
		return nil, err
	}
	first, err := s.newLink(capacity, s.firstRate())
	if err != nil {
		return nil, err
	}
	s.links = []link{first}
	return s, nil
}

func (s *Scalable) configureGrowth(c config) error {
	redis := c.scheme == RedisBloom
	if c.given&optGrowth != 0 {
		low, high := 1, math.MaxInt32
		if redis {
			low, high = 0, maxExpansion
		}
		if c.growth < low || c.growth > high {
			return fmt.Errorf("%w: growth is %d, want %d … %d in scheme %v", ErrInvalid, c.growth, low, high, c.scheme)
		}
		s.growth = c.growth
	}
	if redis {
		s.tightening = 0.5
		s.redis = redisChain{redisNoRounding | redisHash64, uint32(s.growth)}
		if s.growth == 0 {
			s.redis.options |= redisNonScaling
		}
	}
	if c.given&optNonScaling != 0 {
		if c.given&optGrowth != 0 {
			return fmt.Errorf("%w: WithNonScaling together with WithGrowth(%d)", ErrInvalid, c.growth)
		}
		s.growth = 0
		if redis {
			s.redis.options |= redisNonScaling
		}
	}
	if c.given&optTightening != 0 {
		if !(c.tightening > 0 && c.tightening < 1) {
			return fmt.Errorf("%w: tightening is %v, want strictly between 0 and 1", ErrInvalid, c.tightening)
		}
		if redis && c.tightening != 0.5 {
			return fmt.Errorf("%w: tightening is %v, the RedisBloom scheme has 0.5", ErrInvalid, c.tightening)
		}
		s.tightening = c.tightening
	}
	return nil
}

const (
	// A native chain has at most maxLinks links. A link has rateFloor of the chain's rate
	// at least: for less, double hashing needs sizes out of all proportion. The first
	// link's rate leaves room for maxLinks such links.
	maxLinks  = 1 << 10
	rateFloor = 1.0 / (1 << 20)
)

// firstRate leaves room for all later links: rate·(1 + t + t² + …) is the
// rate asked for.
func (s *Scalable) firstRate() float64 {
	switch {
	case s.growth == 0:
		return s.rate
	case s.scheme == RedisBloom:
		return float64(s.rate * 0.5)
	}
	return float64(s.rate * (1 - s.tightening) * (1 - maxLinks*rateFloor))
}

func (s *Scalable) nextRate(last float64) float64 {
	next := float64(last * s.tightening)
	if s.scheme != RedisBloom {
		next = max(next, float64(s.rate*rateFloor))
	}
	return next
}

// newLink makes a link, within the limit that WithMaxBytes set for all.
func (s *Scalable) newLink(entries uint64, rate float64) (link, error) {
	l, bits, err := s.sizeLink(entries, rate)
	if err != nil {
		return l, err
	}
	used := s.SizeBytes()
	if s.maxBytes < used || s.maxBytes-used < wordsFor(bits)*8 {
		return l, fmt.Errorf("%w: %d bytes in use and %d for a link of %d keys, the limit is %d",
			ErrTooLarge, used, wordsFor(bits)*8, entries, s.maxBytes)
	}
	if err := checkSize(bits, math.MaxUint64); err != nil {
		return l, err
	}
	l.mod, l.bits, l.declared = newModulus(bits), newBitset(bits), bits
	return l, nil
}

// sizeLink is a link without its bits, and how many those are.
func (s *Scalable) sizeLink(entries uint64, rate float64) (l link, bits uint64, err error) {
	if !(rate > 0) {
		return l, 0, fmt.Errorf("%w: the rate of the next link is below what a float64 holds", ErrTooLarge)
	}
	l = link{entries: entries, rate: rate}
	if s.scheme == RedisBloom {
		r := sizeRedis(entries, rate)
		if s.redis.options&redisNoRounding == 0 {
			r, l.n2 = r.roundedToPowerOfTwo()
		}
		if _, err := r.params(); err != nil {
			return l, 0, err
		}
		l.entries, l.bitsPerEntry, l.k = r.entries, r.bitsPerEntry, r.hashes
		return l, r.bits, nil
	}
	p, err := size(s.scheme, entries, rate)
	l.k = p.Hashes
	return l, p.Bits, err
}

// nextSize returns how many keys the next link is made for, and its rate.
func (s *Scalable) nextSize() (entries uint64, rate float64, err error) {
	last := &s.links[len(s.links)-1]
	if s.growth == 0 {
		return 0, 0, fmt.Errorf("%w: a filter that does not grow holds its %d keys", ErrFull, last.count)
	}
	if s.scheme != RedisBloom && len(s.links) == maxLinks {
		return 0, 0, fmt.Errorf("%w: %d links, the limit", ErrTooLarge, maxLinks)
	}
	entries = last.entries * uint64(s.growth)
	if entries/uint64(s.growth) != last.entries {
		return 0, 0, fmt.Errorf("%w: a link of %d times %d keys", ErrTooLarge, s.growth, last.entries)
	}
	return entries, s.nextRate(last.rate), nil
}

// grow appends the next link, or says why it cannot.
func (s *Scalable) grow() error {
	entries, rate, err := s.nextSize()
	if err != nil {
		return err
	}
	next, err := s.newLink(entries, rate)
	if err != nil {
		return err
	}
	s.links = append(s.links, next)
	return nil
}

// Add adds key and reports whether that changed the filter; false without an
// error means that the filter answered true for it already. It allocates only when it
// grows. The error wraps [ErrFull] when the filter holds its capacity and does not
// grow, or [ErrTooLarge] when growing would pass a limit; the filter is then as it
// was, and stays usable. A key that is present is never refused.
func (s *Scalable) Add(key []byte) (bool, error) { return s.add(s.hash.sum(key)) }

// AddString is [Scalable.Add] of the bytes of key, without a copy.
func (s *Scalable) AddString(key string) (bool, error) { return s.Add(stringBytes(key)) }

// AddUint64 is [Scalable.Add] of the 8 bytes of key, least significant first.
func (s *Scalable) AddUint64(key uint64) (bool, error) {
	b := uint64Bytes(key)
	return s.Add(b[:])
}

// AddDigest is [Scalable.Add] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (s *Scalable) AddDigest(d Digest) (bool, error) {
	s.hash.check(d)
	return s.add(d.h1, d.h2)
}

func (s *Scalable) add(h1, h2 uint64) (bool, error) {
	if len(s.links) == 0 {
		panic(zeroAdd)
	}
	if s.contains(h1, h2) {
		return false, nil
	}
	if newest := &s.links[len(s.links)-1]; newest.count >= newest.entries {
		if err := s.grow(); err != nil {
			return false, err
		}
	}
	newest := &s.links[len(s.links)-1]
	newest.bits.setAll(&newest.mod, s.probes(h1, h2, newest.k))
	newest.count++
	s.len++
	return true, nil
}

// Contains reports whether key may have been added: false means that it
// definitely was not. Links are asked from the newest, as a rule the largest, to the
// oldest; an absent key is out of most of them after four probes.
func (s *Scalable) Contains(key []byte) bool { return s.contains(s.hash.sum(key)) }

// ContainsString is [Scalable.Contains] of the bytes of key, without a copy.
func (s *Scalable) ContainsString(key string) bool { return s.Contains(stringBytes(key)) }

// ContainsUint64 is [Scalable.Contains] of the 8 bytes of key, least
// significant first.
func (s *Scalable) ContainsUint64(key uint64) bool {
	b := uint64Bytes(key)
	return s.Contains(b[:])
}

// ContainsDigest is [Scalable.Contains] of the key that d was made from. It panics if
// d was made with another hash or seed.
func (s *Scalable) ContainsDigest(d Digest) bool {
	s.hash.check(d)
	return s.contains(d.h1, d.h2)
}

func (s *Scalable) contains(h1, h2 uint64) bool {
	for i := len(s.links) - 1; i >= 0; i-- {
		l := &s.links[i]
		if l.bits.testAll(&l.mod, s.probes(h1, h2, l.k)) {
			return true
		}
	}
	return false
}

func (s *Scalable) probes(h1, h2 uint64, k int) probes { return newProbes(h1, h2, s.inc, k) }

// AddMany adds keys in their order and appends the answer of [Scalable.Add] for
// each to dst. It stops at the first refusal and returns its error; dst then holds
// the answers for the keys before it. It allocates only when dst is short of room, to
// grow, and for an error.
func (s *Scalable) AddMany(dst []bool, keys [][]byte) ([]bool, error) {
	return answersOrError(dst, keys, s.Add)
}

// AddManyString is [Scalable.AddMany] for strings.
func (s *Scalable) AddManyString(dst []bool, keys []string) ([]bool, error) {
	return answersOrError(dst, keys, s.AddString)
}

// ContainsMany appends the answer of [Scalable.Contains] for each of keys to dst. It
// returns the extended slice and allocates only when dst is short of room.
func (s *Scalable) ContainsMany(dst []bool, keys [][]byte) []bool {
	return answers(dst, keys, s.Contains)
}

// ContainsManyString is [Scalable.ContainsMany] for strings.
func (s *Scalable) ContainsManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, s.ContainsString)
}

// Link describes one link of a [Scalable].
type Link struct {
	Capacity   uint64 // keys it was made for
	Len        uint64 // adds that changed it
	Bits       uint64
	Hashes     int
	SizeBytes  uint64
	TargetRate float64
	ErrorRate  float64 // expected now, from the bits set
	FillRatio  float64
}

// Growth returns how many times larger than the last one the next link is, 0 for a
// filter of fixed size.
func (s *Scalable) Growth() int { return s.growth }

// Links iterates over the links, oldest first. It reads every word of those it
// yields.
func (s *Scalable) Links() iter.Seq[Link] {
	return func(yield func(Link) bool) {
		for i := range s.links {
			l := &s.links[i]
			set := l.bits.count()
			if !yield(Link{
				Capacity: l.entries, Len: l.count, Bits: l.mod.m, Hashes: l.k, SizeBytes: l.bits.sizeBytes(),
				TargetRate: l.rate, ErrorRate: s.params(l).ErrorRateAtFill(set), FillRatio: float64(set) / float64(l.mod.m),
			}) {
				return
			}
		}
	}
}

func (s *Scalable) params(l *link) Params { return Params{l.mod.m, l.k, s.scheme} }

// Len returns how many adds changed the filter.
func (s *Scalable) Len() uint64 { return s.len }

// Capacity returns the number of keys that the links there are were made for.
func (s *Scalable) Capacity() uint64 {
	n := uint64(0)
	for i := range s.links {
		n += s.links[i].entries
	}
	return n
}

// TargetRate returns the rate of false positives the filter was made for.
func (s *Scalable) TargetRate() float64 { return s.rate }

// ErrorRate returns the rate of false positives to expect now: that an absent
// key is one of at least one link, from the bits that are set. It reads every word.
func (s *Scalable) ErrorRate() float64 { return s.Info().ErrorRate }

// FillRatio returns the fraction of all bits that are set. It reads every word.
func (s *Scalable) FillRatio() float64 { return s.Info().FillRatio }

// Bits returns the number of bits of all links.
func (s *Scalable) Bits() uint64 {
	n := uint64(0)
	for i := range s.links {
		n += s.links[i].mod.m
	}
	return n
}

// Hashes returns the number of positions a key has in the newest link, which has
// the most unless the chain was loaded from elsewhere.
func (s *Scalable) Hashes() int {
	if len(s.links) == 0 {
		return 0
	}
	return s.links[len(s.links)-1].k
}

// SizeBytes returns the memory that the bits of all links take, in bytes.
func (s *Scalable) SizeBytes() uint64 {
	n := uint64(0)
	for i := range s.links {
		n += s.links[i].bits.sizeBytes()
	}
	return n
}

// Info describes the filter. It reads every word.
func (s *Scalable) Info() Info {
	set, rate := 0.0, 0.0
	for l := range s.Links() {
		set += l.FillRatio * float64(l.Bits)
		rate += float64((1 - rate) * l.ErrorRate)
	}
	return Info{
		Kind: "Scalable", Scheme: s.scheme, Seed: s.hash.seed, Bits: s.Bits(), Hashes: s.Hashes(), SizeBytes: s.SizeBytes(),
		Capacity: s.Capacity(), Len: s.len, FillRatio: set / math.Max(1, float64(s.Bits())), TargetRate: s.rate, ErrorRate: rate,
	}
}

// Reset empties the filter. It keeps the first link and its memory and drops
// the others.
func (s *Scalable) Reset() {
	if len(s.links) > 0 {
		clear(s.links[1:])
		s.links = s.links[:1]
		s.links[0].bits.clear()
		s.links[0].count = 0
	}
	s.len = 0
}

// Clone returns a copy that shares nothing with the filter.
func (s *Scalable) Clone() *Scalable {
	c := *s
	c.links = make([]link, len(s.links))
	for i, l := range s.links {
		l.bits = l.bits.clone()
		c.links[i] = l
	}
	return &c
}

// Equal reports whether the filters have the same scheme, seed and links, bit for
// bit, so that they answer alike for every key. Counts, rates and how they grow play no
// part. No filter equals nil.
func (s *Scalable) Equal(other *Scalable) bool {
	return other != nil && s.hasher == other.hasher && slices.EqualFunc(s.links, other.links, func(a, b link) bool {
		return a.k == b.k && a.mod == b.mod && a.bits.equal(&b.bits)
	})
}
