package bloom

import (
	"math"
	"sync"
	"sync/atomic"
)

// Concurrent is a [Filter] that any number of goroutines may read and add to at the same
// time, without locks: nobody ever waits for another. It has the bits of a Filter with the same
// parameters, in all schemes, and converts from one with [Filter.Concurrent] and to
// one with [Concurrent.Filter].
//
// All methods may be called at any time, but for Reset. A key is found by every
// Contains that starts after an Add of it, or AddMany, has returned. Contains costs what it does in a
// Filter; Add writes only where a bit is missing, so adding what is there already
// costs little more. Neither allocates.
//
// Of several goroutines that add the same new key at the same time, at most one is
// answered true, so the number of such answers, which is Len, is never above the number of distinct
// keys. None is when the last missing bit of the key is set by another key that is added at
// that moment: the key counts as a false positive then, and is found all the same.
//
// Bits are only ever set, so there is no Intersect: convert to a Filter for it. Make
// one with [NewConcurrent]. It must not be copied.
type Concurrent struct {
	layout
	sizing
	bits      sharedBits
	estimated atomic.Bool // len is an estimate

	_   [64]byte // every add writes len: it stays off the cache lines that every call reads
	len atomic.Uint64
	_   [56]byte
}

// NewConcurrent makes an empty filter that holds capacity keys at a rate of false
// positives of at most errorRate. Sizes, options and errors are those of [New].
func NewConcurrent(capacity uint64, errorRate float64, opts ...Option) (*Concurrent, error) {
	f, err := New(capacity, errorRate, opts...)
	if err != nil {
		return nil, err
	}
	return shared(f, sharedBits(f.bits)), nil
}

// Concurrent returns a copy of the filter that goroutines can share.
func (f *Filter) Concurrent() *Concurrent { return shared(f, sharedBits(f.bits.clone())) }

// shared is f with other bits.
func shared(f *Filter, bits sharedBits) *Concurrent {
	c := &Concurrent{layout: f.layout, sizing: f.sizing, bits: bits}
	c.len.Store(f.len)
	c.estimated.Store(f.estimated)
	return c
}

// Filter returns a copy as a [Filter]. Keys that are being added meanwhile may be in it, or not,
// or only in part; Len may then be off by as many.
func (c *Concurrent) Filter() *Filter {
	return &Filter{layout: c.layout, sizing: c.sizing, bits: c.bits.copy(), len: c.len.Load(), estimated: c.estimated.Load()}
}

// Add adds key and reports whether that changed the filter. False means that
// the filter answered true for the key already, or that another goroutine added it at the same
// time.
func (c *Concurrent) Add(key []byte) bool { return c.add(c.hash.sum(key)) }

// AddString is [Concurrent.Add] of the bytes of key, without a copy.
func (c *Concurrent) AddString(key string) bool { return c.Add(stringBytes(key)) }

// AddUint64 is [Concurrent.Add] of the 8 bytes of key, least significant first.
func (c *Concurrent) AddUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Add(b[:])
}

// AddDigest is [Concurrent.Add] of the key that d was made from. It panics if d
// was made with another hash or seed.
func (c *Concurrent) AddDigest(d Digest) bool {
	c.hash.check(d)
	return c.add(d.h1, d.h2)
}

func (c *Concurrent) add(h1, h2 uint64) bool {
	if c.k == 0 {
		panic(zeroAdd)
	}
	// Most adds are of what is there already, and testAll tells that faster: its loads do not
	// wait for one another.
	p := c.probes(h1, h2)
	if c.bits.testAll(&c.mod, p) || !c.bits.setAll(&c.mod, p) {
		return false
	}
	c.len.Add(1)
	return true
}

// Contains reports whether key may have been added: false means that it
// definitely was not, true that it was, or is one of the false positives. A key that is being
// added meanwhile may be found or not.
func (c *Concurrent) Contains(key []byte) bool {
	return c.bits.testAll(&c.mod, c.probes(c.hash.sum(key)))
}

// ContainsString is [Concurrent.Contains] of the bytes of key, without a copy.
func (c *Concurrent) ContainsString(key string) bool { return c.Contains(stringBytes(key)) }

// ContainsUint64 is [Concurrent.Contains] of the 8 bytes of key, least
// significant first.
func (c *Concurrent) ContainsUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Contains(b[:])
}

// ContainsDigest is [Concurrent.Contains] of the key that d was made from. It
// panics if d was made with another hash or seed.
func (c *Concurrent) ContainsDigest(d Digest) bool {
	c.hash.check(d)
	return c.bits.testAll(&c.mod, c.probes(d.h1, d.h2))
}

// AddMany adds keys in their order and appends the answer of [Concurrent.Add] for each
// to dst. It returns the extended slice and allocates only when dst is short of
// room.
func (c *Concurrent) AddMany(dst []bool, keys [][]byte) []bool { return answers(dst, keys, c.Add) }

// AddManyString is [Concurrent.AddMany] for strings.
func (c *Concurrent) AddManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.AddString)
}

// ContainsMany appends the answer of [Concurrent.Contains] for each of keys to dst.
// It returns the extended slice and allocates only when dst is short of room.
func (c *Concurrent) ContainsMany(dst []bool, keys [][]byte) []bool {
	return answers(dst, keys, c.Contains)
}

// ContainsManyString is [Concurrent.ContainsMany] for strings.
func (c *Concurrent) ContainsManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.ContainsString)
}

// Union adds all that other holds, while others add to both: the filter gets every bit that other
// has when the call begins, and perhaps some that it gets meanwhile. Len becomes an estimate. The
// filters must have the same scheme, seed, bits and hashes, else the error wraps
// [ErrMismatch] and names the property; a nil other is [ErrInvalid]. Nothing
// changes on error. Two filters may be united with each other, or one with itself.
func (c *Concurrent) Union(other *Concurrent) error {
	if other == nil {
		return errNilOperand
	}
	return c.union(&other.layout, &other.bits)
}

// UnionFilter is [Concurrent.Union] with a [Filter], which nobody may change meanwhile.
func (c *Concurrent) UnionFilter(other *Filter) error {
	if other == nil {
		return errNilOperand
	}
	return c.union(&other.layout, (*sharedBits)(&other.bits))
}

func (c *Concurrent) union(l *layout, bits *sharedBits) error {
	if err := c.sameAs(l); err != nil {
		return err
	}
	c.bits.union(bits)
	c.estimated.Store(true)
	c.len.Store(c.params().estimateLen(c.bits.count()))
	return nil
}

// Equal reports whether the filters have the same scheme, seed, size and bits, so
// that they answer alike for every key. Capacity, TargetRate and Len play no part. No
// filter equals nil. Keys that are added meanwhile may count or not.
func (c *Concurrent) Equal(other *Concurrent) bool {
	return other != nil && c.sameAs(&other.layout) == nil && c.bits.equal(&other.bits)
}

// Clone returns a copy that shares nothing with the filter; as to keys that are being
// added meanwhile see [Concurrent.Filter].
func (c *Concurrent) Clone() *Concurrent {
	f := c.Filter()
	return shared(f, sharedBits(f.bits))
}

// Reset empties the filter and keeps its size, its memory and its parameters. Others may
// read meanwhile, but nobody may add: of a key added at that time a part could remain, so that it
// would not be found.
func (c *Concurrent) Reset() {
	c.bits.clear()
	c.len.Store(0)
	c.estimated.Store(false)
}

// Len returns how many adds were answered true: the number of distinct keys less the
// few that were false positives when added, or raced with keys that share their bits. After
// [Concurrent.Union] it is an estimate, in which adds that ran meanwhile may be missing.
func (c *Concurrent) Len() uint64 { return c.len.Load() }

// EstimateLen estimates how many distinct keys the filter holds from the bits
// that are set ([Params.EstimateLen]); +Inf when all are. It reads every word.
func (c *Concurrent) EstimateLen() float64 { return c.params().EstimateLen(c.bits.count()) }

// FillRatio returns the fraction of bits that are set. It reads every word.
func (c *Concurrent) FillRatio() float64 {
	return float64(c.bits.count()) / math.Max(1, float64(c.mod.m))
}

// ErrorRate returns the rate of false positives to expect now, from the bits
// that are really set ([Params.ErrorRateAtFill]). It reads every word.
func (c *Concurrent) ErrorRate() float64 { return c.params().ErrorRateAtFill(c.bits.count()) }

// SizeBytes returns the memory that the bits take, in bytes; the rest of the
// filter takes some 300.
func (c *Concurrent) SizeBytes() uint64 { return (*bitset)(&c.bits).sizeBytes() }

// Info describes the filter. It reads every word.
func (c *Concurrent) Info() Info {
	return c.info("Concurrent", c.bits.count(), c.Len(), c.estimated.Load(), c.SizeBytes(), c.sizing)
}

// Locked lets goroutines share a value of any type, such as a [*Counting] or a
// [*Scalable], under a [sync.RWMutex]. Make one with [NewLocked]. It must not be copied.
type Locked[F any] struct {
	mu sync.RWMutex
	f  F
}

// NewLocked returns f with a lock. From then on f must be used in Read and Write only.
func NewLocked[F any](f F) *Locked[F] { return &Locked[F]{f: f} }

// Read calls use with the value while others may read it too; use must not change it,
// nor keep it, nor call Write, which would wait for ever. A panic of use passes, with
// the lock released. To add and ask for many keys in one call costs one lock.
func (l *Locked[F]) Read(use func(F)) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	use(l.f)
}

// Write calls use with the value while nobody else has it. The rest is as in Read; use
// must call neither Read nor Write.
func (l *Locked[F]) Write(use func(F)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	use(l.f)
}
