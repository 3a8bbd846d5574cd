package bloom

import (
	"fmt"
	"math"
	"slices"
)

// Blocked is a Bloom filter in which all positions of a key lie in one cache
// line (a blocked Bloom filter: Putze, Sanders and Singler, 2007, in the split form, with
// the same number of bits in each word of the block). A lookup waits for memory once
// instead of once a position, and takes 0.6 to 0.8 of the time of one in a [Filter];
// [Blocked.ContainsMany] takes a fifth of that where the filter is larger than the
// caches.
//
// The price is size. Some lines get more keys than others, and those answer wrongly more
// often than the even ones make up for, so the same rate takes more bits. For a million
// keys:
//
//	rate       0.05   0.01  0.001   1e-4   1e-6   1e-9
//	Blocked    7.06  10.11  15.75  22.98  39.34  84.92  bits a key
//	Filter     6.25   9.60  14.39  19.18  28.77  43.19
//	extra      0.80   0.51   1.37   3.80  10.58  41.73
//	extra %      13      5     10     20     37     97
//
// It takes one line at least, 64 bytes.
//
// With h1 and h2 as [Murmur3], [XXHash] and [SipHash] have them, L lines of 512 bits and r bits in
// each word, 8·r being Hashes, the line of a key is ⌊h1·L/2^64⌋. In row i of r rows and
// word w of 8 its bit is ⌊(x·c·2^(6i) mod 2^32)/2^26⌋, where x is the lower half of h2
// for w < 4 and the upper half for w ≥ 4, and c is number w mod 4 of
//
//	0xe220a839, 0x6e789e6b, 0x06c45d19, 0xf88bb8a9
//
// (the upper halves of the first outputs of SplitMix64 from 0, made odd). Bit b of word w of
// line l is position 512·l + 64·w + b.
//
// Add and Contains take from some nanoseconds to the time of one access to memory and never
// allocate. One goroutine may write while nobody reads, or many may read. Make one
// with [NewBlocked].
type Blocked struct {
	hasher
	sizing
	lines     lines
	rows      int // bits a key has in each word of its line
	len       uint64
	estimated bool // len is an estimate
}

// The multipliers of the positions in a line.
const line0, line1, line2, line3 uint32 = 0xe220a839, 0x6e789e6b, 0x06c45d19, 0xf88bb8a9

// NewBlocked makes an empty filter that holds capacity keys at a rate of false
// positives of at most errorRate, a ratio between 1e-12 and 1. Its size is the smallest
// number of lines at which the expected rate, over the numbers of keys that lines
// get (a binomial distribution, close to Poisson's), and three standard deviations of what
// one filter's rate is off that, stay within errorRate, with the best of 8, 16 and 24
// positions a key. It allocates the bits, zeroed, 64 bytes a line and at most 56 more, so that
// lines are cache lines.
//
// The options are [WithScheme], with a native scheme, [WithSeed], [WithKey] and [WithMaxBytes]. It
// returns an error that wraps [ErrInvalid] for a capacity of 0, a rate out of range, the
// RedisBloom scheme, in which no such layout exists, or a bad option, and [ErrTooLarge] as
// [New] does.
func NewBlocked(capacity uint64, errorRate float64, opts ...Option) (*Blocked, error) {
	c, err := configure(opts, filterOptions)
	if err != nil {
		return nil, err
	}
	if c.scheme == RedisBloom {
		return nil, fmt.Errorf("%w: the RedisBloom scheme has no blocked layout, want %v, %v or %v", ErrInvalid, Murmur3, XXHash, SipHash)
	}
	n, rows, err := sizeBlocked(capacity, errorRate)
	if err != nil {
		return nil, err
	}
	if err := checkSize(n*512, c.maxBytes); err != nil {
		return nil, err
	}
	return &Blocked{newHasher(c), sizing{capacity, errorRate}, newLines(n), rows, 0, false}, nil
}

// Bits returns the number of bit positions, 512 a line.
func (b *Blocked) Bits() uint64 { return uint64(len(b.lines)) * 512 }

// Hashes returns the number of positions a key has: 8, 16 or 24.
func (b *Blocked) Hashes() int { return 8 * b.rows }

// Positions appends the positions of key to dst, row by row, each below Bits, and returns
// the extended slice. Positions may repeat, of different rows. It is there for other
// implementations to be checked against; it allocates only when dst is short of
// room.
func (b *Blocked) Positions(dst []uint64, key []byte) []uint64 {
	h1, h2 := b.hash.sum(key)
	first := b.lines.of(h1) * 512
	dst = slices.Grow(dst, b.Hashes())
	for i := range b.rows {
		for w := range uint64(8) {
			x := uint32(h2 >> (w / 4 * 32))
			bit := x * [...]uint32{line0, line1, line2, line3}[w%4] << (6 * i) >> 26
			dst = append(dst, first+64*w+uint64(bit))
		}
	}
	return dst
}

// Add adds key and reports whether that changed the filter. False means that
// the filter answered true for the key already: it was added before, or is a false
// positive.
func (b *Blocked) Add(key []byte) bool { return b.add(b.hash.sum(key)) }

// AddString is [Blocked.Add] of the bytes of key, without a copy.
func (b *Blocked) AddString(key string) bool { return b.Add(stringBytes(key)) }

// AddUint64 is [Blocked.Add] of the 8 bytes of key, least significant first.
func (b *Blocked) AddUint64(key uint64) bool {
	k := uint64Bytes(key)
	return b.Add(k[:])
}

// AddDigest is [Blocked.Add] of the key that d was made from. It panics if d was
// made with another hash or seed.
func (b *Blocked) AddDigest(d Digest) bool {
	b.hash.check(d)
	return b.add(d.h1, d.h2)
}

func (b *Blocked) add(h1, h2 uint64) bool {
	if len(b.lines) == 0 {
		panic(zeroAdd)
	}
	if !b.lines.setAll(h1, h2, b.rows) {
		return false
	}
	b.len++
	return true
}

// Contains reports whether key may have been added: false means that it
// definitely was not, true that it was, or is one of the false positives.
func (b *Blocked) Contains(key []byte) bool {
	h1, h2 := b.hash.sum(key)
	return b.lines.testAll(h1, h2, b.rows)
}

// ContainsString is [Blocked.Contains] of the bytes of key, without a copy.
func (b *Blocked) ContainsString(key string) bool { return b.Contains(stringBytes(key)) }

// ContainsUint64 is [Blocked.Contains] of the 8 bytes of key, least significant
// first.
func (b *Blocked) ContainsUint64(key uint64) bool {
	k := uint64Bytes(key)
	return b.Contains(k[:])
}

// ContainsDigest is [Blocked.Contains] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (b *Blocked) ContainsDigest(d Digest) bool {
	b.hash.check(d)
	return b.lines.testAll(d.h1, d.h2, b.rows)
}

// AddMany adds keys in their order and appends the answer of [Blocked.Add] for each to
// dst. It returns the extended slice and allocates only when dst is short of room. In a
// filter larger than the caches it takes a fraction of the time of single adds.
func (b *Blocked) AddMany(dst []bool, keys [][]byte) []bool {
	return addBlocks(b, dst, keys)
}

// AddManyString is [Blocked.AddMany] for strings.
func (b *Blocked) AddManyString(dst []bool, keys []string) []bool {
	return addBlocks(b, dst, keys)
}

// ContainsMany appends the answer of [Blocked.Contains] for each of keys to dst. It
// returns the extended slice and allocates only when dst is short of room. In a filter larger
// than the caches it takes a fraction of the time of single lookups.
func (b *Blocked) ContainsMany(dst []bool, keys [][]byte) []bool {
	return containsBlocks(b, dst, keys)
}

// ContainsManyString is [Blocked.ContainsMany] for strings.
func (b *Blocked) ContainsManyString(dst []bool, keys []string) []bool {
	return containsBlocks(b, dst, keys)
}

func addBlocks[K []byte | string](b *Blocked, dst []bool, keys []K) []bool {
	dst = slices.Grow(dst, len(keys))
	var s staged
	for len(keys) > 0 {
		n := stage(b, &s, keys)
		for i := range n {
			dst = append(dst, b.add(s.h1[i], s.h2[i]))
		}
		keys = keys[n:]
	}
	return dst
}

func containsBlocks[K []byte | string](b *Blocked, dst []bool, keys []K) []bool {
	dst = slices.Grow(dst, len(keys))
	var s staged
	for len(keys) > 0 {
		n := stage(b, &s, keys)
		for i := range n {
			dst = append(dst, b.lines.testAll(s.h1[i], s.h2[i], b.rows))
		}
		keys = keys[n:]
	}
	return dst
}

// staged are keys that have been hashed: enough of them to keep the memory busy, and few
// enough for their lines to be in the first level of cache still when they are used.
type staged struct{ h1, h2 [64]uint64 }

// stage hashes the first of keys, loads their lines, all at once, and returns how many
// they are. In filters that are in cache the loads cost next to nothing.
func stage[K []byte | string](b *Blocked, s *staged, keys []K) int {
	n := min(len(keys), len(s.h1))
	for i := range keys[:n] {
		s.h1[i], s.h2[i] = b.hash.sum(bytesOf(&keys[i]))
	}
	touched(b.lines.touch(s.h1[:n]))
	return n
}

// Union adds all that other holds: the filter becomes, bit for bit, the one that
// both sets of keys would have made. Len becomes an estimate. The filters must
// have the same scheme, seed, bits and hashes, else the error wraps [ErrMismatch] and
// names the property; a nil other is [ErrInvalid]. Nothing changes on error.
func (b *Blocked) Union(other *Blocked) error { return b.combine(other, (*bitset).union) }

// Intersect keeps the bits that other has too. What both held is still found; of what only
// one held, more may be than the rate of either filter suggests. Len becomes an
// estimate. Errors are those of [Blocked.Union].
func (b *Blocked) Intersect(other *Blocked) error { return b.combine(other, (*bitset).intersect) }

func (b *Blocked) combine(other *Blocked, op func(dst, src *bitset)) error {
	if other == nil {
		return errNilOperand
	}
	if err := b.sizes().sameAs(other.sizes()); err != nil {
		return err
	}
	dst, src := b.lines.bits(), other.lines.bits()
	op(&dst, &src)
	set := dst.count()
	if set > 0 && set == b.Bits() {
		set-- // the least that can be said of a filter with all bits set
	}
	b.len, b.estimated = uint64(math.Round(b.estimateLen(set))), true
	return nil
}

// sizes is a layout for comparing; its positions are not those of b.
func (b *Blocked) sizes() *layout {
	return &layout{hasher: b.hasher, k: b.Hashes(), mod: modulus{m: b.Bits()}}
}

// Equal reports whether the filters have the same scheme, seed, size and bits,
// so that they answer alike for every key. Capacity, TargetRate and Len play no part. No
// filter equals nil.
func (b *Blocked) Equal(other *Blocked) bool {
	return other != nil && b.sizes().sameAs(other.sizes()) == nil && slices.Equal(b.lines, other.lines)
}

// Clone returns a copy that shares nothing with the filter.
func (b *Blocked) Clone() *Blocked {
	c := *b
	c.lines = b.lines.clone()
	return &c
}

// Reset empties the filter and keeps its size, its memory and its parameters.
func (b *Blocked) Reset() {
	clear(b.lines)
	b.len, b.estimated = 0, false
}

// Len returns how many adds changed the filter: the number of distinct keys
// less the few that were false positives when added. After [Blocked.Union] and
// [Blocked.Intersect] it is an estimate.
func (b *Blocked) Len() uint64 { return b.len }

// EstimateLen estimates how many distinct keys the filter holds from the bits that are
// set: ln(1 − set/Bits) / ln(1 − (1 − (63/64)^r)/L), with L lines and r bits a word; +Inf when
// all are. It reads every word.
func (b *Blocked) EstimateLen() float64 { return b.estimateLen(b.set()) }

func (b *Blocked) estimateLen(set uint64) float64 {
	return estimateBlockedLen(set, uint64(len(b.lines)), b.rows)
}

// set is how many bits are set.
func (b *Blocked) set() uint64 {
	all := b.lines.bits()
	return all.count()
}

// FillRatio returns the fraction of bits that are set. At capacity it is less than in
// a [Filter], from about half at 1 % down to an eighth at 1e-12. It reads every word.
func (b *Blocked) FillRatio() float64 { return float64(b.set()) / math.Max(1, float64(b.Bits())) }

// ErrorRate returns the rate of false positives to expect now: the mean over the lines
// of the product of the fractions of bits that are set in each word, each to the power of the
// positions in a word. That is exact but for the hash. It reads every word.
func (b *Blocked) ErrorRate() float64 { return b.lines.hitRate(b.rows) }

// SizeBytes returns the memory that the bits take, in bytes, 64 a line; the rest
// of the filter takes some 200.
func (b *Blocked) SizeBytes() uint64 { return uint64(len(b.lines)) * 64 }

// Info describes the filter. It reads every word.
func (b *Blocked) Info() Info {
	return Info{
		Kind: "Blocked", Scheme: b.scheme, Seed: b.hash.seed, Bits: b.Bits(), Hashes: b.Hashes(), SizeBytes: b.SizeBytes(),
		Capacity: b.capacity, Len: b.len, LenEstimated: b.estimated,
		FillRatio: b.FillRatio(), TargetRate: b.rate, ErrorRate: b.ErrorRate(),
	}
}
