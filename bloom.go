// Package bloom has Bloom filters that live in your process: they tell in
// nanoseconds that a key is definitely absent, or that it may be present.
//
//	f := bloom.Must(bloom.New(1_000_000, 0.01)) // a million keys, 1 % false positives
//	f.AddString("user:42")
//	f.ContainsString("user:42") // true: an added key is always found
//	f.ContainsString("user:43") // false, or true for one absent key in a hundred
//
// Which filter to take:
//
//	set of a known size           Filter        9.6 bits a key at 1 %, the classic
//	  many goroutines add         Concurrent    the same bits, without locks
//	  lookups are what counts     Blocked       10.1, all of a key in one cache line
//	  keys are removed again      Cuckoo        10.5, refuses keys when it is full
//	  … and never refused         Counting      38.4, a small counter for each bit
//	stream of an unknown size     Scalable      a chain of filters that grows
//	read-only file, shared        Mapped        a Filter or a Blocked in a file
//	any of these, many writers    Locked        a lock around it
//
// Filters over time are in package rolling, and a guard against lookups of what does not exist in
// package guard. A filter never says "absent" for a key that was added and not removed. All have one core:
//
//	 key  []byte, string, uint64
//	  │   Scheme: Murmur3, XXHash, SipHash, RedisBloom
//	  ▼
//	Digest  h1, h2             one hash serves every filter of a scheme
//	  │   (h1 + i·h2 + i²) mod m   for i = 0 … k−1
//	  ▼
//	 0 0 1 0 0 0 1 0 0 1 0 0 … 0   m bits: Add sets k of them,
//	     ▲       ▲     ▲           Contains asks whether all k are set
//
// A [Scheme] is fixed at construction: [Murmur3] (the default), [XXHash],
// [RedisBloom], which sets exactly the bits that the BF.* commands of a Redis
// server set, or [SipHash], for keys that an attacker can choose. A [Digest] is a
// hashed key, for looking it up in many filters at the price of one hash. [Params] and
// [Estimate] do the sizing math.
// [ScalableLoader], [CuckooLoader], ScanDump and [FromRedisBitmap] exchange filters
// with a Redis server. [Save], [Load], [Read] and the methods of encoding/gob and
// encoding/json keep filters in a format of their own, docs/FORMAT.md, which [Mapped] shares
// between processes.
//
// # Goroutines
//
// Any number of goroutines may read a filter at once, that is call methods that
// do not change it. A method that changes it must run alone.
//
// # Errors and panics
//
// Constructors and operations on two filters return errors that wrap [ErrInvalid],
// [ErrMismatch] and so on. Three mistakes panic: handing a filter a [Digest] that
// was made with another hash or seed, adding to the zero value of a filter,
// which was never given a size, and ScanDump of a filter in a native scheme. So does a
// lookup in a [Mapped] that is closed, or was never opened. [Must] panics with the error it is
// given. Reads of any other zero value answer as an empty filter does.
package bloom

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// Errors returned by this package wrap one of these; test with [errors.Is].
// The message says what was found and what was wanted.
var (
	ErrInvalid    = errors.New("bloom: invalid argument")          // a bad parameter, or a nil operand
	ErrFull       = errors.New("bloom: filter is full")            // a filter that may not grow refused a key
	ErrMismatch   = errors.New("bloom: filters do not match")      // two, or a record and its reader, differ
	ErrCorrupt    = errors.New("bloom: corrupt data")              // bytes that no filter could have written
	ErrIncomplete = errors.New("bloom: incomplete data")           // an import that lacks bytes
	ErrVersion    = errors.New("bloom: unknown version of format") // written by a newer or another program
	ErrTooLarge   = errors.New("bloom: filter too large")          // past a limit of the machine or the caller
)

// Must returns v, or panics with err if it is not nil. It is for tests and for
// filters in package variables, whose parameters are constants.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Option changes how a filter is made. Each constructor names the options it
// takes; another one is an error.
type Option func(*config)

type config struct {
	scheme   Scheme
	seed     uint64
	key      [16]byte // SipHash
	maxBytes uint64

	growth        int     // Scalable and Cuckoo: size of the next part over that of the last
	tightening    float64 // Scalable: rate of the next link over that of the last
	bucketSize    int     // Cuckoo
	maxIterations int     // Cuckoo

	given optionSet
}

// optionSet is a set of options, a bit each.
type optionSet uint

const (
	optScheme optionSet = 1 << iota
	optSeed
	optMaxBytes
	optGrowth
	optTightening
	optNonScaling
	optBucketSize
	optMaxIterations
	optKey
	optWithoutVerify
	optKeyless // no option: nothing will be hashed, so that no key is needed
)

var optionNames = [...]string{
	"WithScheme", "WithSeed", "WithMaxBytes",
	"WithGrowth", "WithTightening", "WithNonScaling", "WithBucketSize", "WithMaxIterations", "WithKey", "WithoutVerify",
}

// filterOptions are the options of all that is made for a size that stays: New and most others.
const filterOptions = optScheme | optSeed | optKey | optMaxBytes

// WithScheme chooses how keys are hashed and placed; [Murmur3] by default.
func WithScheme(s Scheme) Option {
	return func(c *config) { c.scheme, c.given = s, c.given|optScheme }
}

// WithSeed makes the filter hash differently from filters with other seeds, so
// that their false positives are independent; 0 by default. See [Murmur3] and
// [XXHash] for its place in the hash; [RedisBloom] and [SipHash] take none. It is no
// protection against keys chosen by an attacker: MurmurHash3 has sets of keys that
// collide under every seed. SipHash with a secret key ([WithKey]) is.
func WithSeed(seed uint64) Option {
	return func(c *config) { c.seed, c.given = seed, c.given|optSeed }
}

// WithMaxBytes refuses, with [ErrTooLarge], a filter whose bits take more than
// limit bytes, before anything is allocated. A filter that grows refuses
// the growth that would pass the limit and stays usable.
func WithMaxBytes(limit uint64) Option {
	return func(c *config) { c.maxBytes, c.given = limit, c.given|optMaxBytes }
}

// WithGrowth sets how many times larger than the last one the next part of a
// [Scalable] or a [Cuckoo] is. Each constructor says its default and its limits.
func WithGrowth(factor int) Option {
	return func(c *config) { c.growth, c.given = factor, c.given|optGrowth }
}

func configure(opts []Option, allowed optionSet) (config, error) {
	c := config{maxBytes: math.MaxUint64}
	for i, o := range opts {
		if o == nil {
			return c, fmt.Errorf("%w: option %d is nil", ErrInvalid, i)
		}
		o(&c)
	}
	for i, name := range optionNames {
		if c.given&^allowed&(1<<i) != 0 {
			return c, fmt.Errorf("%w: %s has no meaning here", ErrInvalid, name)
		}
	}
	if c.given&optKey != 0 && c.key == [16]byte{} {
		return c, fmt.Errorf("%w: the key is 16 zeros, want random bytes", ErrInvalid)
	}
	if allowed&optScheme == 0 {
		return c, nil // the scheme is read, and checked there
	}
	if !c.scheme.valid() {
		return c, fmt.Errorf("%w: scheme is %v, want one of %v", ErrInvalid, c.scheme, schemeNames)
	}
	if c.scheme == RedisBloom && c.seed != 0 {
		return c, fmt.Errorf("%w: WithSeed(%#x), but the RedisBloom scheme takes no seed", ErrInvalid, c.seed)
	}
	return c, c.checkKey(allowed&optKeyless == 0)
}

// sizing is what a filter was asked to hold.
type sizing struct {
	capacity uint64
	rate     float64
}

// Capacity returns the number of keys the filter was made for: at that many
// the rate of false positives reaches TargetRate. It is no limit.
func (s *sizing) Capacity() uint64 { return s.capacity }

// TargetRate returns the rate of false positives the filter was made for, a
// ratio between 0 and 1. ErrorRate tells the one it has now.
func (s *sizing) TargetRate() float64 { return s.rate }

// Filter is a Bloom filter (Bloom, 1970): a set of keys that can be added to
// and asked, never removed from, in about 10 bits a key for 1 % false positives
// and 5 more for each factor of ten. A key is a []byte, a string, or a uint64,
// which is the same as its 8 little-endian bytes; nil, []byte{} and "" are one key.
//
// Add and Contains take tens of nanoseconds and never allocate. One goroutine
// may write while nobody reads, or many may read. Make one with [New] or
// [NewWithSize].
type Filter struct {
	layout
	sizing
	bits      bitset
	len       uint64
	estimated bool // len is an estimate
}

// New makes an empty filter that holds capacity keys at a rate of false
// positives of at most errorRate: a ratio, so 0.01 for 1 %. [Estimate] tells its size
// beforehand, and has the formulas. It allocates the bits, zeroed.
//
// The options are [WithScheme], [WithSeed], [WithKey] and [WithMaxBytes]. It returns an error
// that wraps [ErrInvalid] for a capacity of 0, a rate not strictly between 0 and 1,
// or a bad option, and [ErrTooLarge] for a size that passes what the machine can
// address, 2^48 bits, or WithMaxBytes. A size within these limits for which the machine
// has no memory ends the process, as any allocation does in Go: give WithMaxBytes where
// sizes come from outside.
//
// A filter to be pushed to Redis is a [Scalable], with [WithNonScaling] for this size;
// the bits are the same.
func New(capacity uint64, errorRate float64, opts ...Option) (*Filter, error) {
	c, err := configure(opts, filterOptions)
	if err != nil {
		return nil, err
	}
	p, err := size(c.scheme, capacity, errorRate)
	if err != nil {
		return nil, err
	}
	return newFilter(p, c, sizing{capacity, errorRate})
}

// NewWithSize makes an empty filter of exactly bits bits and hashes positions a
// key, for matching a filter that exists elsewhere. The number of bits is never
// rounded; one that is no multiple of 64 makes lookups slower by some nanoseconds. The
// filter's Capacity is bits/hashes·ln 2, the number of keys that sets half of the
// bits, and TargetRate the rate then.
//
// Options and errors are those of [New]; bits must be at least 1 and hashes 1 … 2,000.
func NewWithSize(bits uint64, hashes int, opts ...Option) (*Filter, error) {
	c, err := configure(opts, filterOptions)
	if err != nil {
		return nil, err
	}
	if bits == 0 {
		return nil, fmt.Errorf("%w: bits is 0, want at least 1", ErrInvalid)
	}
	if hashes < 1 || hashes > maxHashes {
		return nil, fmt.Errorf("%w: hashes is %d, want 1 … %d", ErrInvalid, hashes, maxHashes)
	}
	p := Params{bits, hashes, c.scheme}
	return newFilter(p, c, p.sizing())
}

func newFilter(p Params, c config, s sizing) (*Filter, error) {
	if err := checkSize(p.Bits, c.maxBytes); err != nil {
		return nil, err
	}
	return &Filter{layout: newLayout(p, c), sizing: s, bits: newBitset(p.Bits)}, nil
}

// Add adds key and reports whether that changed the filter. False means that
// the filter answered true for the key already: it was added before, or is a false
// positive.
func (f *Filter) Add(key []byte) bool { return f.add(f.hash.sum(key)) }

// AddString is [Filter.Add] of the bytes of key, without a copy.
func (f *Filter) AddString(key string) bool { return f.Add(stringBytes(key)) }

// AddUint64 is [Filter.Add] of the 8 bytes of key, least significant first.
func (f *Filter) AddUint64(key uint64) bool {
	b := uint64Bytes(key)
	return f.Add(b[:])
}

// AddDigest is [Filter.Add] of the key that d was made from. It panics if d was
// made with another hash or seed.
func (f *Filter) AddDigest(d Digest) bool {
	f.hash.check(d)
	return f.add(d.h1, d.h2)
}

func (f *Filter) add(h1, h2 uint64) bool {
	if f.k == 0 {
		panic(zeroAdd)
	}
	if !f.bits.setAll(&f.mod, f.probes(h1, h2)) {
		return false
	}
	f.len++
	return true
}

const zeroAdd = "bloom: Add to a zero-value filter; make filters with their constructors"

// Contains reports whether key may have been added: false means that it
// definitely was not, true that it was, or is one of the false positives.
func (f *Filter) Contains(key []byte) bool {
	return f.bits.testAll(&f.mod, f.probes(f.hash.sum(key)))
}

// ContainsString is [Filter.Contains] of the bytes of key, without a copy.
func (f *Filter) ContainsString(key string) bool { return f.Contains(stringBytes(key)) }

// ContainsUint64 is [Filter.Contains] of the 8 bytes of key, least significant
// first.
func (f *Filter) ContainsUint64(key uint64) bool {
	b := uint64Bytes(key)
	return f.Contains(b[:])
}

// ContainsDigest is [Filter.Contains] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (f *Filter) ContainsDigest(d Digest) bool {
	f.hash.check(d)
	return f.bits.testAll(&f.mod, f.probes(d.h1, d.h2))
}

// AddMany adds keys in their order and appends the answer of [Filter.Add] for each to
// dst. It returns the extended slice and allocates only when dst is short of room. In a
// filter that is much larger than the caches it takes about half the time of single adds.
func (f *Filter) AddMany(dst []bool, keys [][]byte) []bool { return addBatches(f, dst, keys) }

// AddManyString is [Filter.AddMany] for strings.
func (f *Filter) AddManyString(dst []bool, keys []string) []bool {
	return addBatches(f, dst, keys)
}

// ContainsMany appends the answer of [Filter.Contains] for each of keys to dst. It
// returns the extended slice and allocates only when dst is short of room. In a filter
// that is much larger than the caches it takes about a third of the time of single
// lookups for absent keys, and three fifths for present ones; in cache, four fifths and as
// much.
func (f *Filter) ContainsMany(dst []bool, keys [][]byte) []bool {
	return containsBatches(f, dst, keys)
}

// ContainsManyString is [Filter.ContainsMany] for strings.
func (f *Filter) ContainsManyString(dst []bool, keys []string) []bool {
	return containsBatches(f, dst, keys)
}

// bytesOf is a key as bytes. A string is the pointer and the length that a slice begins with. Passed
// as a function, the conversion would be a call for each key.
func bytesOf[K []byte | string](key *K) []byte { return stringBytes(*(*string)(unsafe.Pointer(key))) }

func containsBatches[K []byte | string](f *Filter, dst []bool, keys []K) []bool {
	dst = slices.Grow(dst, len(keys))
	var q batch
	for len(keys) > 0 {
		q.n = min(len(keys), batchSize)
		for i := range q.n {
			q.set(i, f.probes(f.hash.sum(bytesOf(&keys[i]))))
		}
		answers := dst[len(dst) : len(dst)+q.n]
		dst, keys = dst[:len(dst)+q.n], keys[q.n:]
		clear(answers)
		if f.k == 0 {
			continue // the zero filter holds nothing
		}
		f.bits.testBatch(&f.mod, &q, f.inc, f.k)
		for _, i := range q.live[:q.n] {
			answers[i] = true
		}
	}
	return dst
}

func addBatches[K []byte | string](f *Filter, dst []bool, keys []K) []bool {
	if len(f.bits.words) < largeWords {
		return answers(dst, keys, func(key K) bool { return f.Add(bytesOf(&key)) })
	}
	dst = slices.Grow(dst, len(keys))
	var q batch
	var hashes [batchSize][2]uint64
	for len(keys) > 0 {
		q.n = min(len(keys), batchSize)
		for i := range q.n {
			h1, h2 := f.hash.sum(bytesOf(&keys[i]))
			hashes[i] = [2]uint64{h1, h2}
			q.set(i, f.probes(h1, h2))
		}
		f.bits.touchBatch(&f.mod, &q, f.inc, f.k)
		for _, h := range hashes[:q.n] {
			dst = append(dst, f.add(h[0], h[1]))
		}
		keys = keys[q.n:]
	}
	return dst
}

// answers appends one answer a key to dst.
func answers[K any](dst []bool, keys []K, ask func(K) bool) []bool {
	dst = slices.Grow(dst, len(keys))
	for _, key := range keys {
		dst = append(dst, ask(key))
	}
	return dst
}

// answersOrError is answers of filters that can refuse a key; it stops there.
func answersOrError[K any](dst []bool, keys []K, ask func(K) (bool, error)) ([]bool, error) {
	dst = slices.Grow(dst, len(keys))
	for _, key := range keys {
		answer, err := ask(key)
		if err != nil {
			return dst, err
		}
		dst = append(dst, answer)
	}
	return dst, nil
}

// Union adds all that other holds: the filter becomes, bit for bit, the one that
// both sets of keys would have made. Len becomes an estimate. The filters must
// have the same scheme, seed, bits and hashes, else the error wraps [ErrMismatch] and
// names the property; a nil other is [ErrInvalid]. Nothing changes on error.
func (f *Filter) Union(other *Filter) error {
	return f.combine(other, (*bitset).union)
}

// Intersect keeps the bits that other has too. What both held is still found; of what only
// one held, more may be than the rate of either filter suggests. Len becomes an
// estimate. Errors are those of [Filter.Union].
func (f *Filter) Intersect(other *Filter) error {
	return f.combine(other, (*bitset).intersect)
}

func (f *Filter) combine(other *Filter, op func(dst, src *bitset)) error {
	if other == nil {
		return errNilOperand
	}
	if err := f.sameAs(&other.layout); err != nil {
		return err
	}
	op(&f.bits, &other.bits)
	f.len, f.estimated = f.params().estimateLen(f.bits.count()), true
	return nil
}

var errNilOperand = fmt.Errorf("%w: the other filter is nil", ErrInvalid)

// Equal reports whether the filters have the same scheme, seed, size and bits,
// so that they answer alike for every key. Capacity, TargetRate and Len play no part. No
// filter equals nil.
func (f *Filter) Equal(other *Filter) bool {
	return other != nil && f.sameAs(&other.layout) == nil && f.bits.equal(&other.bits)
}

// Clone returns a copy that shares nothing with the filter.
func (f *Filter) Clone() *Filter {
	c := *f
	c.bits = f.bits.clone()
	return &c
}

// Reset empties the filter and keeps its size, its memory and its parameters.
func (f *Filter) Reset() {
	f.bits.clear()
	f.len, f.estimated = 0, false
}

// Len returns how many adds changed the filter: the number of distinct keys
// less the few that were false positives when added. After [Filter.Union] and
// [Filter.Intersect] it is an estimate.
func (f *Filter) Len() uint64 { return f.len }

// EstimateLen estimates how many distinct keys the filter holds from the bits
// that are set ([Params.EstimateLen]); +Inf when all are. It reads every word.
func (f *Filter) EstimateLen() float64 { return f.params().EstimateLen(f.bits.count()) }

// FillRatio returns the fraction of bits that are set. About half are when the
// filter holds its capacity. It reads every word.
func (f *Filter) FillRatio() float64 {
	return float64(f.bits.count()) / math.Max(1, float64(f.mod.m))
}

// ErrorRate returns the rate of false positives to expect now, from the bits
// that are really set ([Params.ErrorRateAtFill]). It reads every word.
func (f *Filter) ErrorRate() float64 { return f.params().ErrorRateAtFill(f.bits.count()) }

// SizeBytes returns the memory that the bits take, in bytes; the rest of
// the filter takes some 200.
func (f *Filter) SizeBytes() uint64 { return f.bits.sizeBytes() }

// Info describes the filter. It reads every word.
func (f *Filter) Info() Info {
	set := f.bits.count()
	return f.info("Filter", set, f.len, f.estimated, f.SizeBytes(), f.sizing)
}

// Info is a description of a filter at one moment.
type Info struct {
	Kind         string // the name of the type
	Scheme       Scheme
	Seed         uint64 // SipHash: the fingerprint of the key
	Bits         uint64 // positions: bits, counters, or slots
	Hashes       int
	SizeBytes    uint64  // of the bits, counters or slots in memory
	Capacity     uint64  // keys it was made for
	Len          uint64  // keys; each filter's Len says which are counted
	LenEstimated bool    // Len is an estimate, since a count was not to be had
	FillRatio    float64 // share of the positions in use, 0 to 1
	TargetRate   float64 // of false positives, as asked for, 0 to 1
	ErrorRate    float64 // of false positives, as expected now, 0 to 1
}

func (l *layout) info(kind string, set, n uint64, estimated bool, bytes uint64, s sizing) Info {
	return Info{
		Kind: kind, Scheme: l.scheme, Seed: l.hash.seed, Bits: l.mod.m, Hashes: l.k, SizeBytes: bytes,
		Capacity: s.capacity, Len: n, LenEstimated: estimated,
		FillRatio:  float64(set) / float64(max(1, l.mod.m)),
		TargetRate: s.rate, ErrorRate: l.params().ErrorRateAtFill(set),
	}
}
