package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unique"
	"unsafe"

	"github.com/cespare/xxhash/v2"
)

// Scheme says how a key becomes bit positions and how sizes are rounded.
// It is chosen at construction with [WithScheme] and never changes; filters
// combine only when their schemes are equal. The zero Scheme is [Murmur3].
type Scheme uint8

const (
	// Murmur3 hashes with MurmurHash3 x64 128 (Austin Appleby, public
	// domain) to two words h1 and h2; position i of k is
	// (h1 + i·h2 + i²) mod m. A seed replaces the initial value of both words
	// of the hash's state, so a seed below 2^32 is the seed of the reference
	// implementation, and 0 is the default there and here.
	Murmur3 Scheme = iota

	// XXHash hashes with XXH64 (Yann Collet), seeded as XXH64 is; h1 is the
	// hash and h2 is h1 passed through the finalizer of SplitMix64 (Steele, Lea
	// and Flood, 2014), increment included. Position i of k is
	// (h1 + i·h2 + i²) mod m. Both words come from 64 bits, so two of n keys
	// that collide in them cannot be told apart: a floor of n/2^64 under the rate.
	XXHash

	// RedisBloom places bits exactly where the BF.* commands of a Redis server
	// do: a is MurmurHash64A of the key with seed 0xc6a4a7935bd1e995, b is the
	// same hash with seed a, and position i of k is (a + i·b) mod m, without i².
	// A [Cuckoo] of this scheme is that of the CF.* commands.
	// It takes no seed, and its filters have the server's sizes, with the rates
	// those sizes give.
	RedisBloom

	// SipHash hashes with SipHash-2-4 (Aumasson and Bernstein) under a secret key of 128
	// bits, given with [WithKey]; h1 and h2 are the lower and the upper half of its
	// output of 128 bits. Position i of k is (h1 + i·h2 + i²) mod m. It is for keys
	// that an attacker can choose: in Murmur3 anyone can compute keys that collide
	// whatever the seed, XXHash was not made to withstand that, and RedisBloom is the same for
	// all. Such keys are found without having been added, or leave a [Cuckoo] no
	// room. Here only who knows the key can make them. It takes no seed; another
	// key does what a seed would. A short key takes some 12 to 17 ns more than in Murmur3.
	SipHash
)

var schemeNames = [...]string{Murmur3: "Murmur3", XXHash: "XXHash", RedisBloom: "RedisBloom", SipHash: "SipHash"}

// String returns the name of the constant, or "Scheme(9)" for a value that is
// no scheme.
func (s Scheme) String() string {
	if s.valid() {
		return schemeNames[s]
	}
	return fmt.Sprintf("Scheme(%d)", uint8(s))
}

func (s Scheme) valid() bool { return int(s) < len(schemeNames) }

// inc is what each step of the scheme's probe sequence grows by: 2 with the i²
// term, else 0.
func (s Scheme) inc() uint64 {
	if s == RedisBloom {
		return 0
	}
	return 2
}

// hashFunc names a way to turn a key into two words. It is finer than Scheme:
// Redis hashes keys differently for its Bloom and its cuckoo filters.
type hashFunc uint8

const (
	hashNone hashFunc = iota // of the zero Digest and the zero filter
	hashMurmur3
	hashXXHash
	hashRedisBloom
	hashRedisCuckoo
	hashSipHash
)

// schemeHashes has what each scheme hashes a key with for every kind of filter but [Cuckoo].
var schemeHashes = [...]hashFunc{Murmur3: hashMurmur3, XXHash: hashXXHash, RedisBloom: hashRedisBloom, SipHash: hashSipHash}

var hashFuncNames = [...]string{"no hash", "Murmur3", "XXHash", "RedisBloom (Bloom)", "RedisBloom (cuckoo)", "SipHash"}

// origin tells how a key was hashed: digests of one origin can be compared.
type origin struct {
	seed uint64 // of hashSipHash the fingerprint of its key
	fn   hashFunc
}

// hashing is all that decides how a key is hashed. Equal hashings give equal
// digests. The key of hashSipHash is one that the unique package keeps, so that == is right, and
// hidden, so that it does not show where a filter is printed.
type hashing struct {
	origin
	key unique.Handle[hiddenKey]
}

func (c *config) hashing() hashing {
	switch c.scheme {
	case XXHash:
		return hashing{origin: origin{c.seed, hashXXHash}}
	case RedisBloom:
		return hashing{origin: origin{0, hashRedisBloom}}
	case SipHash:
		return keyedHashing(c.key)
	default:
		return hashing{origin: origin{c.seed, hashMurmur3}}
	}
}

func (o origin) String() string {
	switch {
	case o.fn == hashSipHash:
		return fmt.Sprintf("SipHash with the key of fingerprint %#x", o.seed)
	case o.seed != 0:
		return fmt.Sprintf("%s with seed %#x", hashFuncNames[o.fn], o.seed)
	}
	return hashFuncNames[o.fn]
}

// sum hashes key, which it neither keeps nor changes. The default scheme's hash,
// MurmurHash3_x64_128 with the two words of its state starting at the seed, stands here
// and not in a function of its own: the call took a twelfth of a lookup.
func (h hashing) sum(key []byte) (h1, h2 uint64) {
	if h.fn != hashMurmur3 {
		return h.sumOther(key)
	}
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	h1, h2 = h.seed, h.seed
	n := uint64(len(key))
	for len(key) >= 16 {
		h1 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(key)*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(binary.LittleEndian.Uint64(key[8:])*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
		key = key[16:]
	}
	if len(key) > 8 {
		h2 ^= bits.RotateLeft64(partial(key[8:])*c2, 33) * c1
		key = key[:8]
	}
	if len(key) > 0 {
		h1 ^= bits.RotateLeft64(partial(key)*c1, 31) * c2
	}
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	h1, h2 = fmix64(h1), fmix64(h2)
	h1 += h2
	return h1, h2 + h1
}

func (h hashing) sumOther(key []byte) (h1, h2 uint64) {
	switch h.fn {
	case hashXXHash:
		return xxhash64(key, h.seed)
	case hashRedisBloom:
		a := murmur64A(key, redisSeed)
		return a, murmur64A(key, a)
	case hashRedisCuckoo:
		return murmur64A(key, 0), 0
	case hashSipHash:
		return h.key.Value().key().sum(key)
	}
	return 0, 0
}

// Digest is a hashed key. One Digest serves every filter that hashes alike, so
// a key looked up in many filters is hashed once. It comes only from hashing a
// key, by the Digest, DigestString and DigestUint64 methods of a filter, and
// it remembers the hash and the seed it was made with, for [SipHash] the fingerprint of
// the key: a filter that hashes otherwise panics when it is handed one, since any
// answer would be wrong. The zero Digest belongs to no filter. Digests are
// comparable with ==.
type Digest struct {
	h1, h2 uint64
	from   origin
}

// Words returns the two words of the hashed key, h1 and h2 in the formulas of
// [Murmur3], [XXHash] and [SipHash], a and b in those of [RedisBloom]. A [Cuckoo] of
// that scheme has one word, and h2 is 0.
func (d Digest) Words() (h1, h2 uint64) { return d.h1, d.h2 }

func (h hashing) digest(key []byte) Digest {
	h1, h2 := h.sum(key)
	return Digest{h1, h2, h.origin}
}

// check panics unless d was made by h. The zero filter, which holds nothing,
// takes any digest.
func (h hashing) check(d Digest) {
	if d.from != h.origin && h.fn != hashNone {
		panic(fmt.Sprintf("bloom: Digest made by %v used with a filter that hashes by %v", d.from, h.origin))
	}
}

// hasher is the part of a filter that hashes keys. Filters embed it for the
// methods it exports.
type hasher struct {
	hash   hashing
	scheme Scheme
}

func newHasher(c config) hasher { return hasher{c.hashing(), c.scheme} }

func (h *hasher) hashing() hashing { return h.hash }

// limit is that of filters that do not grow.
func (*hasher) limit() uint64 { return math.MaxUint64 }

// Scheme returns how the filter hashes and places keys.
func (h *hasher) Scheme() Scheme { return h.scheme }

// Digest hashes key for every filter with the same scheme and seed, or key of [SipHash];
// in the RedisBloom scheme a [Cuckoo] hashes differently from the others. It does
// not allocate, and may be called from several goroutines at any time.
func (h *hasher) Digest(key []byte) Digest { return h.hash.digest(key) }

// DigestString is Digest of the bytes of key, without a copy.
func (h *hasher) DigestString(key string) Digest { return h.hash.digest(stringBytes(key)) }

// DigestUint64 is Digest of the 8 bytes of key, least significant first.
func (h *hasher) DigestUint64(key uint64) Digest {
	b := uint64Bytes(key)
	return h.hash.digest(b[:])
}

// layout decides the bit positions of a key: which hash, how many positions,
// and in how many bits. Filters embed it for the methods it exports.
type layout struct {
	hasher
	k   int
	inc uint64 // scheme.inc(), at hand for every lookup
	mod modulus
}

func newLayout(p Params, c config) layout {
	return layout{newHasher(c), p.Hashes, p.Scheme.inc(), newModulus(p.Bits)}
}

func (l *layout) params() Params { return Params{l.mod.m, l.k, l.scheme} }

// The next four are the hasher's. Documentation lists the methods of what a type embeds, but not of what that
// embeds in turn.

// Scheme returns how the filter hashes and places keys.
func (l *layout) Scheme() Scheme { return l.scheme }

// Digest hashes key for every filter with the same scheme and seed, or key of [SipHash]; in the RedisBloom
// scheme a [Cuckoo] hashes differently from the others. It does not allocate, and may be called from several
// goroutines at any time.
func (l *layout) Digest(key []byte) Digest { return l.hasher.Digest(key) }

// DigestString is Digest of the bytes of key, without a copy.
func (l *layout) DigestString(key string) Digest { return l.hasher.DigestString(key) }

// DigestUint64 is Digest of the 8 bytes of key, least significant first.
func (l *layout) DigestUint64(key uint64) Digest { return l.hasher.DigestUint64(key) }

// Bits returns m, the number of bit positions (of counters in a [Counting]).
func (l *layout) Bits() uint64 { return l.mod.m }

// Hashes returns k, the number of positions a key has.
func (l *layout) Hashes() int { return l.k }

// Positions appends the k positions of key to dst, in the order they are
// probed, each below Bits, and returns the extended slice. Positions may
// repeat. It is there for other implementations to be checked against; it
// allocates only when dst is short of room.
func (l *layout) Positions(dst []uint64, key []byte) []uint64 {
	return l.positions(dst, l.probes(l.hash.sum(key)))
}

func (l *layout) positions(dst []uint64, p probes) []uint64 {
	dst = slices.Grow(dst, p.k)
	for range p.k {
		dst = append(dst, l.mod.of(p.x))
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return dst
}

// Positions appends the positions that the key of d has in a filter with these
// parameters, in the order they are probed, and returns the extended slice: those of
// the method Positions of that filter, which need not be here. It allocates only when
// dst is short of room, and panics if d was made in another scheme. A Params without
// bits has no positions.
func (p Params) Positions(dst []uint64, d Digest) []uint64 {
	if p.Bits == 0 {
		return dst
	}
	if !p.Scheme.valid() || d.from.fn != schemeHashes[p.Scheme] {
		panic(fmt.Sprintf("bloom: Digest made by %v used with the parameters of scheme %v", d.from, p.Scheme))
	}
	l := layout{k: p.Hashes, inc: p.Scheme.inc(), mod: newModulus(p.Bits)}
	return l.positions(dst, l.probes(d.h1, d.h2))
}

// sameAs returns an error that names the first property in which the layouts
// differ.
func (l *layout) sameAs(o *layout) error {
	switch {
	case l.scheme != o.scheme:
		return fmt.Errorf("%w: scheme %v here, %v there", ErrMismatch, l.scheme, o.scheme)
	case l.hash != o.hash && l.scheme == SipHash:
		return fmt.Errorf("%w: key of fingerprint %#x here, %#x there", ErrMismatch, l.hash.seed, o.hash.seed)
	case l.hash.seed != o.hash.seed:
		return fmt.Errorf("%w: seed %#x here, %#x there", ErrMismatch, l.hash.seed, o.hash.seed)
	case l.mod.m != o.mod.m:
		return fmt.Errorf("%w: %d bits here, %d there", ErrMismatch, l.mod.m, o.mod.m)
	case l.k != o.k:
		return fmt.Errorf("%w: %d hashes here, %d there", ErrMismatch, l.k, o.k)
	}
	return nil
}

// probes is a key's probe sequence before the reduction mod m: k values, the
// first x, each next one step further, the step growing by inc. With
// step = h2 + 1 and inc = 2 value i is h1 + i·h2 + i²; with step = h2 and
// inc = 0 it is h1 + i·h2. Sums wrap at 2^64.
//
// Whoever walks a sequence writes the recurrence out in local variables: as an
// iterator function it costs half a lookup more (docs/TUNING.md).
type probes struct {
	x, step, inc uint64
	k            int
}

func newProbes(h1, h2, inc uint64, k int) probes { return probes{h1, h2 + inc/2, inc, k} }

func (l *layout) probes(h1, h2 uint64) probes { return newProbes(h1, h2, l.inc, l.k) }

// modulus reduces mod m exactly. When m is w whole words of 64, x mod m is
// 64·(y mod w) + x%64 with y = x/64 < 2^58, and y mod w needs no division:
// with shift = max(0, ⌈log2 w⌉−6), F = 64+shift and magic = ⌊2^F/w⌋+1 we have
// magic·w = 2^F + e with 0 < e ≤ w ≤ 2^(F−58), so y·e < 2^F and
// ⌊y·magic/2^F⌋ is ⌊y/w⌋.
type modulus struct {
	m     uint64
	w     uint64
	magic uint64 // 0 when m is not at least two whole words: then plain division serves
	shift uint8
}

func newModulus(m uint64) modulus {
	d := modulus{m: m, w: m / 64}
	if m%64 != 0 || d.w < 2 {
		return d
	}
	d.shift = uint8(max(0, bits.Len64(d.w-1)-6))
	q, _ := bits.Div64(1<<d.shift, 0, d.w)
	d.magic = q + 1
	return d
}

// of returns x mod m.
func (d *modulus) of(x uint64) uint64 {
	if d.magic == 0 {
		return x % d.m
	}
	return wordOf(x, d.magic, d.w, d.shift)<<6 | x&63
}

// wordOf returns the word of x mod 64w, without the bit inside it, which is
// x&63. It takes a modulus apart so that callers keep the parts in registers.
func wordOf(x, magic, w uint64, shift uint8) uint64 {
	y := x >> 6
	hi, _ := bits.Mul64(y, magic)
	return y - hi>>(shift&63)*w
}

// fmix64 is MurmurHash3's finalizer.
func fmix64(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// redisSeed is the seed of the first of the two hashes of a key in Redis's
// Bloom filters; it happens to be murmur64A's multiplier.
const redisSeed = 0xc6a4a7935bd1e995

// murmur64A is MurmurHash64A, the 64-bit MurmurHash2, with a 64-bit seed.
func murmur64A(key []byte, seed uint64) uint64 {
	const mul = 0xc6a4a7935bd1e995
	h := seed ^ uint64(len(key))*mul
	for len(key) >= 8 {
		k := binary.LittleEndian.Uint64(key) * mul
		k ^= k >> 47
		h = (h ^ k*mul) * mul
		key = key[8:]
	}
	if len(key) > 0 {
		h = (h ^ partial(key)) * mul
	}
	h ^= h >> 47
	h *= mul
	return h ^ h>>47
}

// partial reads 1 to 8 bytes as a little-endian number, without reading past
// them: two loads that overlap or touch, or three single bytes.
func partial(b []byte) uint64 {
	n := len(b)
	if n >= 4 {
		lo := uint64(binary.LittleEndian.Uint32(b))
		hi := uint64(binary.LittleEndian.Uint32(b[n-4:]))
		return lo | hi<<(8*(n-4))
	}
	return uint64(b[0]) | uint64(b[n/2])<<(8*(n/2)) | uint64(b[n-1])<<(8*(n-1))
}

func xxhash64(key []byte, seed uint64) (h1, h2 uint64) {
	if seed == 0 {
		h1 = xxhash.Sum64(key)
	} else {
		var d xxhash.Digest
		d.ResetWithSeed(seed)
		d.Write(key) // never fails
		h1 = d.Sum64()
	}
	return h1, splitMix64(h1)
}

// splitMix64 is one step of the generator: its increment, then its finalizer.
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// stringBytes is s as bytes, to be read only.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

func uint64Bytes(x uint64) (b [8]byte) {
	binary.LittleEndian.PutUint64(b[:], x)
	return b
}
