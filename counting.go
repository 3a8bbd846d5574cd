package bloom

import (
	"fmt"
	"math"
	"unsafe"
)

// maxCount is the largest value of a 4-bit counter, where it sticks.
const maxCount = 15

// Counting is a counting Bloom filter (Fan et al., 2000): a Filter with a 4-bit
// counter in the place of each bit, so four times the memory, from which keys can be
// removed. It holds a multiset: a key added twice is there until it has been
// removed twice.
//
// Counters saturate at 15 and then stick: a key added 15 times or more, or that
// shares all its counters with enough others, can no longer be removed. That errs
// on the safe side: removing a key that was added never makes another one
// absent. Removing a key that was not added, but is a false positive, takes counts away
// from other keys and can make them absent: remove only what you know was added.
//
// The positions are those of a [Filter] of the same scheme, bits and hashes, and [Counting.Filter]
// converts to one. Goroutines: as for Filter, one writer alone or many readers. Make one
// with [NewCounting].
type Counting struct {
	layout
	sizing
	counters  fields
	len       uint64
	estimated bool
}

// NewCounting makes an empty counting filter for capacity keys at a rate of false positives of
// at most errorRate. Sizes, options and errors are those of [New]; the memory is
// half a byte for each of Bits counters.
func NewCounting(capacity uint64, errorRate float64, opts ...Option) (*Counting, error) {
	c, err := configure(opts, filterOptions)
	if err != nil {
		return nil, err
	}
	p, err := size(c.scheme, capacity, errorRate)
	if err != nil {
		return nil, err
	}
	if err := checkSize(p.Bits*4, c.maxBytes); err != nil {
		return nil, fmt.Errorf("%w (4 for each of %d counters)", err, p.Bits)
	}
	return &Counting{layout: newLayout(p, c), sizing: sizing{capacity, errorRate}, counters: newFields(p.Bits, 4)}, nil
}

// Add adds key once more and reports whether it was absent before.
func (c *Counting) Add(key []byte) bool { return c.add(c.hash.sum(key)) }

// AddString is [Counting.Add] of the bytes of key, without a copy.
func (c *Counting) AddString(key string) bool { return c.Add(stringBytes(key)) }

// AddUint64 is [Counting.Add] of the 8 bytes of key, least significant first.
func (c *Counting) AddUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Add(b[:])
}

// AddDigest is [Counting.Add] of the key that d was made from. It panics if d was
// made with another hash or seed.
func (c *Counting) AddDigest(d Digest) bool {
	c.hash.check(d)
	return c.add(d.h1, d.h2)
}

func (c *Counting) add(h1, h2 uint64) bool {
	if c.k == 0 {
		panic(zeroAdd)
	}
	c.len++
	return c.bump(c.probes(h1, h2), 1)
}

// Contains reports whether key may be present: false means that it definitely
// is not.
func (c *Counting) Contains(key []byte) bool {
	return c.counters.nonzeroAll(&c.mod, c.probes(c.hash.sum(key)))
}

// ContainsString is [Counting.Contains] of the bytes of key, without a copy.
func (c *Counting) ContainsString(key string) bool { return c.Contains(stringBytes(key)) }

// ContainsUint64 is [Counting.Contains] of the 8 bytes of key, least
// significant first.
func (c *Counting) ContainsUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Contains(b[:])
}

// ContainsDigest is [Counting.Contains] of the key that d was made from. It
// panics if d was made with another hash or seed.
func (c *Counting) ContainsDigest(d Digest) bool {
	c.hash.check(d)
	return c.counters.nonzeroAll(&c.mod, c.probes(d.h1, d.h2))
}

// Count returns how often key may be present: the smallest of its counters, which is
// never less than the number of times it was added and not removed, up to 15, where
// counters stick.
func (c *Counting) Count(key []byte) int { return c.count(c.probes(c.hash.sum(key))) }

// CountString is [Counting.Count] of the bytes of key, without a copy.
func (c *Counting) CountString(key string) int { return c.Count(stringBytes(key)) }

// CountUint64 is [Counting.Count] of the 8 bytes of key, least significant first.
func (c *Counting) CountUint64(key uint64) int {
	b := uint64Bytes(key)
	return c.Count(b[:])
}

// CountDigest is [Counting.Count] of the key that d was made from. It panics if
// d was made with another hash or seed.
func (c *Counting) CountDigest(d Digest) int {
	c.hash.check(d)
	return c.count(c.probes(d.h1, d.h2))
}

// count returns the smallest counter of a probe sequence.
func (c *Counting) count(p probes) int {
	if p.k == 0 {
		return 0
	}
	least := uint64(maxCount)
	for range p.k {
		v := c.counters.nibble(c.mod.of(p.x))
		if v == 0 {
			return 0
		}
		least = min(least, v)
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return int(least)
}

// Remove takes one count of key away and reports whether it was present; if it
// was not, nothing changes. Remove only keys that were added: see [Counting].
func (c *Counting) Remove(key []byte) bool { return c.remove(c.hash.sum(key)) }

// RemoveString is [Counting.Remove] of the bytes of key, without a copy.
func (c *Counting) RemoveString(key string) bool { return c.Remove(stringBytes(key)) }

// RemoveUint64 is [Counting.Remove] of the 8 bytes of key, least significant
// first.
func (c *Counting) RemoveUint64(key uint64) bool {
	b := uint64Bytes(key)
	return c.Remove(b[:])
}

// RemoveDigest is [Counting.Remove] of the key that d was made from. It panics if
// d was made with another hash or seed.
func (c *Counting) RemoveDigest(d Digest) bool {
	c.hash.check(d)
	return c.remove(d.h1, d.h2)
}

func (c *Counting) remove(h1, h2 uint64) bool {
	p := c.probes(h1, h2)
	if !c.counters.nonzeroAll(&c.mod, p) {
		return false
	}
	c.bump(p, -1)
	c.len = max(c.len, 1) - 1 // an estimate may have been too low
	return true
}

// bump adds delta, 1 or −1, to each counter of a probe sequence that is not
// stuck, once where positions repeat, and reports whether one was zero.
func (c *Counting) bump(p probes, delta int) (absent bool) {
	if c.mod.magic == 0 || uint64(len(c.counters.words)) < 4*c.mod.w {
		return c.bumpAny(p, delta)
	}
	words := unchecked{unsafe.SliceData(c.counters.words)}
	magic, w, shift := c.mod.magic, c.mod.w, c.mod.shift
	x, step, seen, all := p.x, p.step, uint64(0), uint64(maxCount+1)
	for i := range p.k {
		at, bit := wordOf(x, magic, w, shift), x&63
		x, step = x+step, step+p.inc
		// Repeats are rare, and so is a second position with the same low bits.
		if mask := uint64(1) << bit; seen&mask != 0 && c.visited(p, i, at<<6|bit) {
			continue
		}
		seen |= 1 << bit
		word, s := words.word(at<<2|bit>>4), bit&15*4
		v := *word >> s & maxCount
		all &= v + maxCount // a carry into bit 4, unless v is 0
		if v != maxCount {
			*word += uint64(delta) << s
		}
	}
	return all == 0
}

// bumpAny is bump for any number of counters.
func (c *Counting) bumpAny(p probes, delta int) (absent bool) {
	x, step := p.x, p.step
	for i := range p.k {
		pos := x % c.mod.m
		x, step = x+step, step+p.inc
		if c.visited(p, i, pos) {
			continue
		}
		v := c.counters.nibble(pos)
		absent = absent || v == 0
		if v != maxCount {
			c.counters.bumpNibble(pos, delta)
		}
	}
	return absent
}

// visited reports whether pos is among the first i positions of a probe sequence.
func (c *Counting) visited(p probes, i int, pos uint64) bool {
	for range i {
		if c.mod.of(p.x) == pos {
			return true
		}
		p.x, p.step = p.x+p.step, p.step+p.inc
	}
	return false
}

// AddMany adds keys in their order and appends the answer of [Counting.Add] for each
// to dst. It returns the extended slice and allocates only when dst is short of
// room.
func (c *Counting) AddMany(dst []bool, keys [][]byte) []bool { return answers(dst, keys, c.Add) }

// AddManyString is [Counting.AddMany] for strings.
func (c *Counting) AddManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.AddString)
}

// ContainsMany appends the answer of [Counting.Contains] for each of keys to dst.
// It returns the extended slice and allocates only when dst is short of room.
func (c *Counting) ContainsMany(dst []bool, keys [][]byte) []bool {
	return answers(dst, keys, c.Contains)
}

// ContainsManyString is [Counting.ContainsMany] for strings.
func (c *Counting) ContainsManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.ContainsString)
}

// RemoveMany removes keys in their order and appends the answer of
// [Counting.Remove] for each to dst. It returns the extended slice and allocates
// only when dst is short of room.
func (c *Counting) RemoveMany(dst []bool, keys [][]byte) []bool {
	return answers(dst, keys, c.Remove)
}

// RemoveManyString is [Counting.RemoveMany] for strings.
func (c *Counting) RemoveManyString(dst []bool, keys []string) []bool {
	return answers(dst, keys, c.RemoveString)
}

// Union adds the counts of other, each counter up to 15, where it sticks: the
// filter then holds both multisets, and Len is the sum of both. The filters must have the same scheme, seed,
// bits and hashes, else the error wraps [ErrMismatch] and names the property; a nil other
// is [ErrInvalid]. Nothing changes on error.
func (c *Counting) Union(other *Counting) error {
	if err := c.combinable(other); err != nil {
		return err
	}
	c.len += other.len
	c.estimated = c.estimated || other.estimated
	c.counters.addNibbles(&other.counters)
	return nil
}

// Intersect keeps the smaller of each two counters: what both held is still
// found, as often as in the filter that held it less often; remove only such keys
// afterwards. Len becomes an estimate, of distinct keys. Errors are those of [Counting.Union].
func (c *Counting) Intersect(other *Counting) error {
	if err := c.combinable(other); err != nil {
		return err
	}
	c.counters.minNibbles(&other.counters)
	c.len, c.estimated = c.params().estimateLen(c.counters.nonzeroNibbles()), true
	return nil
}

func (c *Counting) combinable(other *Counting) error {
	if other == nil {
		return errNilOperand
	}
	return c.sameAs(&other.layout)
}

// Filter returns a new [Filter] with a bit set wherever a counter is not zero: it
// answers as c does. Its Len is an estimate. The zero value gives a zero Filter.
func (c *Counting) Filter() *Filter {
	f := &Filter{layout: c.layout, sizing: c.sizing, bits: c.counters.nonzeroBits(), estimated: true}
	f.len = f.params().estimateLen(f.bits.count())
	return f
}

// Equal reports whether the filters have the same scheme, seed, size and
// counters. Capacity, TargetRate and Len play no part. No filter equals nil.
func (c *Counting) Equal(other *Counting) bool {
	return other != nil && c.sameAs(&other.layout) == nil && c.counters.equal(&other.counters.bitset)
}

// Clone returns a copy that shares nothing with the filter.
func (c *Counting) Clone() *Counting {
	d := *c
	d.counters = c.counters.clone()
	return &d
}

// Reset empties the filter and keeps its size, its memory and its parameters.
func (c *Counting) Reset() {
	c.counters.clear()
	c.len, c.estimated = 0, false
}

// Len returns the number of adds less the number of removes that were answered
// true: the size of the multiset. After [Counting.Intersect] it is an estimate.
func (c *Counting) Len() uint64 { return c.len }

// EstimateLen estimates how many distinct keys the filter holds from the counters that
// are not zero ([Params.EstimateLen]); +Inf when all are set. It reads every word.
func (c *Counting) EstimateLen() float64 { return c.params().EstimateLen(c.counters.nonzeroNibbles()) }

// FillRatio returns the fraction of counters that are not zero. It reads every
// word.
func (c *Counting) FillRatio() float64 {
	return float64(c.counters.nonzeroNibbles()) / math.Max(1, float64(c.mod.m))
}

// ErrorRate returns the rate of false positives to expect now
// ([Params.ErrorRateAtFill]). It reads every word.
func (c *Counting) ErrorRate() float64 {
	return c.params().ErrorRateAtFill(c.counters.nonzeroNibbles())
}

// SizeBytes returns the memory that the counters take, in bytes.
func (c *Counting) SizeBytes() uint64 { return c.counters.sizeBytes() }

// Info describes the filter. It reads every word.
func (c *Counting) Info() Info {
	return c.info("Counting", c.counters.nonzeroNibbles(), c.len, c.estimated, c.SizeBytes(), c.sizing)
}
