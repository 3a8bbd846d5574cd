package bloom

import (
	"iter"
	"math/bits"
	"slices"
)

// Cuckoo is a cuckoo filter (Fan, Andersen, Kaminsky and Mitzenmacher, 2014): a
// filter that keys can be removed from, in about a quarter of the memory of a
// [Counting], and from about 0.1 % down in less than that of a [Filter]. It holds
// a multiset: a key added twice is there until it has been removed twice.
//
// A key is kept as a fingerprint, a number of a few bits and never 0, in a slot
// of one of two buckets. When both are full, fingerprints that are in the way
// move to their own other bucket, by a fixed rule: equal operations give equal
// bytes. When that makes no room either, the filter appends a sub-filter if it
// was made [WithGrowth], or else refuses the key with [ErrFull] and stays as it
// was, byte for byte.
//
// Remove only keys that were added: if the filter takes another key for present,
// removing that one takes the fingerprint of a key that was added, which is then
// absent.
//
// In the native schemes, with h1 and h2 of the key's [Digest], B buckets, and
// fingerprints of f bits:
//
//	fingerprint = ⌊h2·(2^f − 1) / 2^64⌋ + 1
//	bucket 1    = ⌊h1 / 64⌋ mod B
//	bucket 2    = (⌊g / 64⌋ − bucket 1) mod B, g = fingerprint·0x9e3779b97f4a7c15 mod 2^64
//
// so either bucket follows from the other, whatever B is. The [RedisBloom] scheme
// does bit for bit what the CF.* commands of a Redis server do: fingerprints of 8
// bits, B a power of two, and another hash than its Bloom filters have, so that
// they share no digests.
//
// Add, Contains, Remove and Count allocate nothing, but for growth and for the
// error of a refused add. One goroutine may write while nobody reads, or many may
// read. Make one with [NewCuckoo].
type Cuckoo struct {
	hasher
	cuckooShape
	sizing     sizing
	maxBytes   uint64
	maxFilters int         // in the RedisBloom scheme
	filters    []subFilter // oldest first; none in the zero value
	len        uint64      // fingerprints held
	deletes    uint64      // removes since the last compaction
}

const cuckooOptions = optScheme | optSeed | optKey | optMaxBytes | optGrowth | optBucketSize | optMaxIterations

// WithBucketSize sets how many slots a bucket of a [Cuckoo] has: 1 to 8, by
// default 4; in the RedisBloom scheme 1 to 255, by default 2. Larger buckets can
// be filled further, but a key is compared with more fingerprints, so that a rate
// of false positives takes more bits: in the native schemes buckets of 4 usually
// take the least memory, and buckets of 1 more than twice that.
func WithBucketSize(slots int) Option {
	return func(c *config) { c.bucketSize, c.given = slots, c.given|optBucketSize }
}

// WithMaxIterations sets how many fingerprints one add to a [Cuckoo] may move
// before it gives up: 1 to 65,535, by default 2,000; in the RedisBloom scheme 20.
// A refused add has made all these moves, and taken them back. Fewer moves make a
// filter full sooner: a native one, below some 500, before its capacity.
func WithMaxIterations(moves int) Option {
	return func(c *config) { c.maxIterations, c.given = moves, c.given|optMaxIterations }
}

// NewCuckoo makes an empty cuckoo filter for capacity keys. It allocates the
// slots, zeroed.
//
// In the native schemes capacity distinct keys fit, at a rate of false
// positives of at most errorRate: a ratio, below 1 and down to about 2e-9, which
// is what fingerprints of 32 bits give. (Keys that were chosen to collide can still be refused,
// and [WithMaxBytes] or few [WithMaxIterations] can stand in the way.) The filter goes on taking keys until it
// finds no room for one, as a rule after 2 % more, and the rate rises in
// proportion. A key takes about log2(1/errorRate) + 3 bits, rounded up and at
// least 8, divided by 0.95. Should keys crowd in few buckets before there are
// capacity of them, which is rare, the filter takes more memory: as much again,
// but from some 30,000 keys on a 64th, and up to three times.
//
// In the RedisBloom scheme errorRate must be 0: the rate is what fingerprints of 8
// bits give, 1.6 % in full buckets of 2. There are capacity divided by the bucket
// size buckets, rounded up to a power of two, as on the server; they may
// be full before they hold capacity keys.
//
// [WithGrowth] sets how many times more buckets each sub-filter has than the one
// before, 1 to 32,768 (in the RedisBloom scheme rounded up to a power of two),
// or 0 for a fixed size. It is 0 by default; in the RedisBloom scheme 1. There are
// at most 32 sub-filters. A lookup goes through all of them, and each adds its own
// false positives: the rate of k full ones is up to k times errorRate.
//
// The other options are [WithScheme], [WithSeed], [WithKey], [WithBucketSize],
// [WithMaxIterations] and [WithMaxBytes], which bounds all sub-filters together.
// NewCuckoo returns an error that wraps [ErrInvalid] for a parameter out of its
// range, and [ErrTooLarge] for a size past the limits given at [New] or, in the
// RedisBloom scheme, past 2^32 slots in a sub-filter.
func NewCuckoo(capacity uint64, errorRate float64, opts ...Option) (*Cuckoo, error) {
	c, err := configure(opts, cuckooOptions)
	if err != nil {
		return nil, err
	}
	shape, err := c.cuckooShape()
	if err != nil {
		return nil, err
	}
	buckets, err := shape.size(capacity, errorRate)
	if err != nil {
		return nil, err
	}
	f := newCuckoo(shape, c, sizing{capacity, errorRate})
	if err := f.appendFilter(buckets); err != nil {
		return nil, err
	}
	return f, nil
}

func newCuckoo(s cuckooShape, c config, z sizing) *Cuckoo {
	f := &Cuckoo{hasher: newHasher(c), cuckooShape: s, sizing: z, maxBytes: c.maxBytes, maxFilters: maxSubFilters}
	if s.redis {
		f.hash.fn = hashRedisCuckoo
	}
	return f
}

// fingerprint returns what is stored of a key. Its buckets follow from h1.
func (c *Cuckoo) fingerprint(h1, h2 uint64) uint64 {
	if c.redis {
		return h1%255 + 1
	}
	fp, _ := bits.Mul64(h2, c.fingerprints())
	return fp + 1
}

// Add adds key once more and returns true. When it finds no room it returns false
// and an error that wraps [ErrFull], and nothing changes; the error wraps
// [ErrTooLarge] too if growing would pass a limit of size.
//
// A key fits twice the bucket size times in one sub-filter, once its bucket size
// if both its buckets are the same; before a native filter of fixed size holds its
// capacity, also in up to three more for what overflows. In the RedisBloom scheme a filter of 32
// sub-filters refuses every key, as the server does.
func (c *Cuckoo) Add(key []byte) (bool, error) { return c.add(c.hash.sum(key)) }

// AddString is [Cuckoo.Add] of the bytes of key, without a copy.
func (c *Cuckoo) AddString(key string) (bool, error) { return c.Add(stringBytes(key)) }

// AddUint64 is [Cuckoo.Add] of the 8 bytes of key, least significant first.
func (c *Cuckoo) AddUint64(key uint64) (bool, error) {
	b := uint64Bytes(key)
	return c.Add(b[:])
}

// AddDigest is [Cuckoo.Add] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (c *Cuckoo) AddDigest(d Digest) (bool, error) {
	c.hash.check(d)
	return c.add(d.h1, d.h2)
}

func (c *Cuckoo) add(h1, h2 uint64) (bool, error) {
	if err := c.admit(); err != nil {
		return false, err
	}
	return c.store(h1, h2)
}

// admit is the part of an add that the server does once for all keys of a command.
func (c *Cuckoo) admit() error {
	if len(c.filters) == 0 {
		panic(zeroAdd)
	}
	if c.redis && len(c.filters) >= c.maxFilters {
		return c.full("the chain has all the sub-filters it may have")
	}
	return nil
}

// store is add for a key that was admitted.
func (c *Cuckoo) store(h1, h2 uint64) (bool, error) {
	fp := c.fingerprint(h1, h2)
	for !c.place(h1, fp) {
		if err := c.grow(); err != nil {
			return false, err
		}
	}
	c.len++
	return true, nil
}

// AddUnique adds key unless the filter contains it. There are three outcomes:
// true when it was added, false and no error when it is, or seems to be, there
// already, and false with the error of [Cuckoo.Add] when it was refused.
func (c *Cuckoo) AddUnique(key []byte) (bool, error) { return c.addUnique(c.hash.sum(key)) }

// AddUniqueString is [Cuckoo.AddUnique] of the bytes of key, without a copy.
func (c *Cuckoo) AddUniqueString(key string) (bool, error) { return c.AddUnique(stringBytes(key)) }

// AddUniqueUint64 is [Cuckoo.AddUnique] of the 8 bytes of key, least significant first.
func (c *Cuckoo) AddUniqueUint64(key uint64) (bool, error) {
	b := uint64Bytes(key)
	return c.AddUnique(b[:])
}

// AddUniqueDigest is [Cuckoo.AddUnique] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (c *Cuckoo) AddUniqueDigest(d Digest) (bool, error) {
	c.hash.check(d)
	return c.addUnique(d.h1, d.h2)
}

func (c *Cuckoo) addUnique(h1, h2 uint64) (bool, error) {
	if err := c.admit(); err != nil {
		return false, err
	}
	return c.storeUnique(h1, h2)
}

func (c *Cuckoo) storeUnique(h1, h2 uint64) (bool, error) {
	if c.contains(h1, h2) {
		return false, nil
	}
	return c.store(h1, h2)
}

// Contains reports whether key may be present: false means that it definitely is
// not.
func (c *Cuckoo) Contains(key []byte) bool { return c.contains(c.hash.sum(key)) }

// ContainsString is [Cuckoo.Contains] of the bytes of key, without a copy.
func (c *Cuckoo) ContainsString(key string) bool { return c.Contains(stringBytes(key)) }

// ContainsUint64 is [Cuckoo.Contains] of the 8 bytes of key, least significant first.
func (c *Cuckoo) ContainsUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Contains(b[:])
}

// ContainsDigest is [Cuckoo.Contains] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (c *Cuckoo) ContainsDigest(d Digest) bool {
	c.hash.check(d)
	return c.contains(d.h1, d.h2)
}

func (c *Cuckoo) contains(h1, h2 uint64) bool {
	fp := c.fingerprint(h1, h2)
	for i := range c.filters {
		if c.filters[i].contains(h1, fp) {
			return true
		}
	}
	return false
}

// Count returns how often key may be present: never less than it was added and
// not removed. In the RedisBloom scheme, as on the server, a key whose two buckets
// are the same counts twice.
func (c *Cuckoo) Count(key []byte) int { return c.count(c.hash.sum(key)) }

// CountString is [Cuckoo.Count] of the bytes of key, without a copy.
func (c *Cuckoo) CountString(key string) int { return c.Count(stringBytes(key)) }

// CountUint64 is [Cuckoo.Count] of the 8 bytes of key, least significant first.
func (c *Cuckoo) CountUint64(key uint64) int {
	b := uint64Bytes(key)
	return c.Count(b[:])
}

// CountDigest is [Cuckoo.Count] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (c *Cuckoo) CountDigest(d Digest) int {
	c.hash.check(d)
	return c.count(d.h1, d.h2)
}

func (c *Cuckoo) count(h1, h2 uint64) int {
	fp := c.fingerprint(h1, h2)
	n := 0
	for i := range c.filters {
		n += c.filters[i].count(h1, fp)
	}
	return n
}

// Remove takes key away once and reports whether it was present; if it was not,
// nothing changes. Remove only keys that were added: see [Cuckoo].
//
// When there are several sub-filters and the removes since the last compaction
// pass a tenth of the keys left, it compacts, up to the first sub-filter that does
// not become empty (see [Cuckoo.Compact]).
func (c *Cuckoo) Remove(key []byte) bool { return c.remove(c.hash.sum(key)) }

// RemoveString is [Cuckoo.Remove] of the bytes of key, without a copy.
func (c *Cuckoo) RemoveString(key string) bool { return c.Remove(stringBytes(key)) }

// RemoveUint64 is [Cuckoo.Remove] of the 8 bytes of key, least significant first.
func (c *Cuckoo) RemoveUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Remove(b[:])
}

// RemoveDigest is [Cuckoo.Remove] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (c *Cuckoo) RemoveDigest(d Digest) bool {
	c.hash.check(d)
	return c.remove(d.h1, d.h2)
}

func (c *Cuckoo) remove(h1, h2 uint64) bool {
	fp := c.fingerprint(h1, h2)
	for i := range c.filters {
		if !c.finest(i).remove(h1, fp) {
			continue
		}
		c.len = max(c.len, 1) - 1 // an imported count may be too low
		c.deletes++
		if len(c.filters) > 1 && float64(c.deletes) > float64(float64(c.len)*0.10) {
			c.compact(false)
		}
		return true
	}
	return false
}

// AddMany adds keys in their order and appends the answer of [Cuckoo.Add] for each
// to dst. At the first that is refused it stops: it then returns the error,
// and the answers for the keys before that one. It allocates only when dst is
// short of room, for growth, and for an error.
//
// In the RedisBloom scheme it is one command: whether there are 32 sub-filters
// already is looked at once, before the first key.
func (c *Cuckoo) AddMany(dst []bool, keys [][]byte) ([]bool, error) {
	return addMany(c, dst, keys, func(key []byte) (bool, error) { return c.store(c.hash.sum(key)) })
}

// AddManyString is [Cuckoo.AddMany] for strings.
func (c *Cuckoo) AddManyString(dst []bool, keys []string) ([]bool, error) {
	return addMany(c, dst, keys, func(key string) (bool, error) { return c.store(c.hash.sum(stringBytes(key))) })
}

// AddUniqueMany is [Cuckoo.AddMany] with [Cuckoo.AddUnique] in the place of Add.
func (c *Cuckoo) AddUniqueMany(dst []bool, keys [][]byte) ([]bool, error) {
	return addMany(c, dst, keys, func(key []byte) (bool, error) { return c.storeUnique(c.hash.sum(key)) })
}

// AddUniqueManyString is [Cuckoo.AddUniqueMany] for strings.
func (c *Cuckoo) AddUniqueManyString(dst []bool, keys []string) ([]bool, error) {
	return addMany(c, dst, keys, func(key string) (bool, error) { return c.storeUnique(c.hash.sum(stringBytes(key))) })
}

func addMany[K any](c *Cuckoo, dst []bool, keys []K, store func(K) (bool, error)) ([]bool, error) {
	if len(keys) == 0 {
		return dst, nil
	}
	if err := c.admit(); err != nil {
		return dst, err
	}
	return answersOrError(dst, keys, store)
}

// ContainsMany appends the answer of [Cuckoo.Contains] for each of keys to dst. It
// returns the extended slice and allocates only when dst is short of room.
func (c *Cuckoo) ContainsMany(dst []bool, keys [][]byte) []bool {
	return answers(dst, keys, c.Contains)
}

// ContainsManyString is [Cuckoo.ContainsMany] for strings.
func (c *Cuckoo) ContainsManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.ContainsString)
}

// RemoveMany removes keys in their order and appends the answer of
// [Cuckoo.Remove] for each to dst. It returns the extended slice and allocates
// only when dst is short of room.
func (c *Cuckoo) RemoveMany(dst []bool, keys [][]byte) []bool {
	return answers(dst, keys, c.Remove)
}

// RemoveManyString is [Cuckoo.RemoveMany] for strings.
func (c *Cuckoo) RemoveManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.RemoveString)
}

// Compact moves keys from newer sub-filters to free slots of older ones, and
// drops the newest one as long as it is empty, which makes the filter smaller after many
// removes. A key that was added stays present. It reads every slot, and
// allocates nothing.
func (c *Cuckoo) Compact() { c.compact(true) }

// Len returns how many keys the filter holds: the adds and removes that were
// answered true, the former less the latter.
func (c *Cuckoo) Len() uint64 { return c.len }

// items is Len as it is written down. A forged count could pass the slots as keys are added, and could then not be
// read again.
func (c *Cuckoo) items() uint64 { return min(c.len, c.slots()) }

// Capacity returns the number of keys the filter was made for: see [NewCuckoo].
func (c *Cuckoo) Capacity() uint64 { return c.sizing.capacity }

// TargetRate returns the rate of false positives the filter was made for, a ratio
// between 0 and 1; 0 in the RedisBloom scheme. ErrorRate tells the one it has now.
func (c *Cuckoo) TargetRate() float64 { return c.sizing.rate }

// Bits returns the number of slots of all sub-filters; one takes 8 to 32 bits.
func (c *Cuckoo) Bits() uint64 { return c.slots() }

// Hashes returns the number of buckets a key has, which is 2; 0 for the zero value.
func (c *Cuckoo) Hashes() int { return 2 * min(1, len(c.filters)) }

// BucketSize returns how many slots a bucket has.
func (c *Cuckoo) BucketSize() int { return int(c.bucketSize) }

// MaxIterations returns how many fingerprints one add may move.
func (c *Cuckoo) MaxIterations() int { return int(c.maxIterations) }

// Growth returns how many times more buckets each sub-filter has than the one
// before, 0 for a filter of fixed size. In the RedisBloom scheme it is a power of two.
func (c *Cuckoo) Growth() int { return int(c.growth) }

// Deletes returns how many removes there were since the last compaction.
func (c *Cuckoo) Deletes() uint64 { return c.deletes }

// SubFilterCount returns how many sub-filters there are, without reading them.
func (c *Cuckoo) SubFilterCount() int { return len(c.filters) }

// Buckets returns the number of buckets of the first sub-filter, which CF.INFO calls
// the number of buckets; 0 for the zero value.
func (c *Cuckoo) Buckets() uint64 {
	if len(c.filters) == 0 {
		return 0
	}
	return c.filters[0].buckets()
}

// SubFilter describes one sub-filter of a [Cuckoo].
type SubFilter struct {
	Buckets   uint64 // of two of which a key has one slot
	Slots     uint64 // in all buckets
	Len       uint64 // slots that hold a key
	SizeBytes uint64
	ErrorRate float64 // expected now
}

// SubFilters iterates over the sub-filters, oldest first. It reads every slot of
// those it yields.
func (c *Cuckoo) SubFilters() iter.Seq[SubFilter] {
	return func(yield func(SubFilter) bool) {
		for i := range c.filters {
			s := &c.filters[i]
			n := s.slots.nonzero()
			if !yield(SubFilter{
				Buckets: s.buckets(), Slots: s.buckets() * c.bucketSize, Len: n,
				SizeBytes: s.slots.sizeBytes(), ErrorRate: c.rate(n, s.buckets()),
			}) {
				return
			}
		}
	}
}

// FillRatio returns the fraction of slots, of all sub-filters, that hold a key. It
// reads every slot.
func (c *Cuckoo) FillRatio() float64 { return c.Info().FillRatio }

// ErrorRate returns the rate of false positives to expect now: for a sub-filter
// that holds n keys in B buckets, as fingerprints of f bits,
// 1 − e^(−n·(2 − 1/B) / (B·(2^f − 1))), and over all sub-filters the probability
// that at least one errs. It is an average over keys; keys added
// more than once make the real rate lower. It reads every slot.
func (c *Cuckoo) ErrorRate() float64 { return c.Info().ErrorRate }

// SizeBytes returns the memory that the slots take, in bytes.
func (c *Cuckoo) SizeBytes() uint64 {
	n := uint64(0)
	for i := range c.filters {
		n += c.filters[i].slots.sizeBytes()
	}
	return n
}

// Info describes the filter. Its Bits are the slots of all sub-filters, its Hashes
// the two buckets of a key. It reads every slot.
func (c *Cuckoo) Info() Info {
	used, rate := uint64(0), 0.0
	for s := range c.SubFilters() {
		used += s.Len
		rate += float64((1 - rate) * s.ErrorRate)
	}
	return Info{
		Kind: "Cuckoo", Scheme: c.scheme, Seed: c.hash.seed, Bits: c.Bits(), Hashes: c.Hashes(), SizeBytes: c.SizeBytes(),
		Capacity: c.sizing.capacity, Len: c.len, FillRatio: float64(used) / float64(max(1, c.slots())),
		TargetRate: c.sizing.rate, ErrorRate: rate,
	}
}

// Reset empties the filter. It keeps its parameters and the memory of its first
// sub-filter, and drops the others.
func (c *Cuckoo) Reset() {
	if len(c.filters) > 0 {
		clear(c.filters[1:]) // frees their memory
		c.filters = c.filters[:1]
		c.filters[0].slots.clear()
	}
	c.len, c.deletes = 0, 0
}

// Clone returns a copy that shares nothing with the filter.
func (c *Cuckoo) Clone() *Cuckoo {
	d := *c
	d.filters = slices.Clone(c.filters)
	for i := range d.filters {
		d.filters[i].slots = c.filters[i].slots.clone()
	}
	return &d
}

// Equal reports whether the filters have the same scheme, seed, bucket size,
// fingerprint size and sub-filters, slot for slot, so that they answer alike for
// every key. Capacity, TargetRate, and how they grow play no part. No filter
// equals nil.
func (c *Cuckoo) Equal(other *Cuckoo) bool {
	return other != nil && c.hash == other.hash && c.bucketSize == other.bucketSize && c.width == other.width &&
		slices.EqualFunc(c.filters, other.filters, func(a, b subFilter) bool { return a.slots.equal(&b.slots.bitset) })
}
