package bloom

import (
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
)

// This file has what each kind of filter puts in the frame of encoding.go, and the methods
// that the standard library's encodings look for.

var errZeroRecord = fmt.Errorf("%w: the zero value of a filter, which was never given a size, has no encoding", ErrInvalid)

// layoutParamBytes is how many bytes of parameters the kinds with a layout have.
const layoutParamBytes = 12

func (l *layout) paramBytes() []byte {
	b := binary.LittleEndian.AppendUint64(nil, l.mod.m)
	return binary.LittleEndian.AppendUint32(b, uint32(l.k))
}

func (h *head) layout() (l layout, err error) {
	r, err := h.paramsOf(layoutParamBytes)
	if err != nil {
		return l, err
	}
	m, k := r.u64(), r.u32()
	switch {
	case m == 0:
		return l, fmt.Errorf("%w: a filter of 0 bits", ErrCorrupt)
	case m > maxBits:
		return l, fmt.Errorf("%w: %d bits, the limit is 2^48", ErrTooLarge, m)
	case k < 1 || k > maxHashes:
		return l, fmt.Errorf("%w: %d hashes, want 1 … %d", ErrCorrupt, k, maxHashes)
	}
	return newLayout(Params{m, int(k), h.scheme}, h.config), nil
}

func (l *layout) head(k kind, s sizing, n uint64, estimated bool) head {
	return head{kind: k, scheme: l.scheme, estimated: estimated, seed: l.hash.seed, sizing: s, len: n, params: l.paramBytes()}
}

func (f *Filter) kind() kind { return kindFilter }

func (f *Filter) record() (*record, error) {
	if f.k == 0 {
		return nil, errZeroRecord
	}
	return newRecord(f.head(kindFilter, f.sizing, f.len, f.estimated), &f.bits)
}

func (f *Filter) parse(h *head, _ *config) (parts iter.Seq[part], err error) {
	f.sizing, f.len, f.estimated = h.sizing, h.len, h.estimated
	f.layout, err = h.layout()
	return onePart(part{bits: f.mod.m, used: f.mod.m}), err
}

func (f *Filter) take(_ int, bits bitset) { f.bits = bits }

// onePart is for filters whose bits are one part, all used.
func onePart(p part) iter.Seq[part] { return func(yield func(part) bool) { yield(p) } }

func (c *Concurrent) kind() kind { return kindFilter }

func (c *Concurrent) record() (*record, error) {
	if c.k == 0 {
		return nil, errZeroRecord
	}
	r, err := newRecord(c.head(kindFilter, c.sizing, c.len.Load(), c.estimated.Load()), (*bitset)(&c.bits))
	if err == nil {
		r.shared = true
	}
	return r, err
}

func (c *Concurrent) parse(h *head, _ *config) (parts iter.Seq[part], err error) {
	c.sizing = h.sizing
	c.len.Store(h.len)
	c.estimated.Store(h.estimated)
	c.layout, err = h.layout()
	return onePart(part{bits: c.mod.m, used: c.mod.m}), err
}

func (c *Concurrent) take(_ int, bits bitset) { c.bits = sharedBits(bits) }

func (c *Counting) kind() kind { return kindCounting }

func (c *Counting) record() (*record, error) {
	if c.k == 0 {
		return nil, errZeroRecord
	}
	return newRecord(c.head(kindCounting, c.sizing, c.len, c.estimated), &c.counters.bitset)
}

func (c *Counting) parse(h *head, _ *config) (parts iter.Seq[part], err error) {
	c.sizing, c.len, c.estimated = h.sizing, h.len, h.estimated
	c.layout, err = h.layout()
	c.counters.width = 4
	return onePart(part{bits: 4 * c.mod.m, used: 4 * c.mod.m}), err
}

func (c *Counting) take(_ int, bits bitset) { c.counters.bitset = bits }

const blockedParamBytes = 12

func (b *Blocked) kind() kind { return kindBlocked }

func (b *Blocked) record() (*record, error) {
	if len(b.lines) == 0 {
		return nil, errZeroRecord
	}
	p := binary.LittleEndian.AppendUint64(nil, uint64(len(b.lines)))
	p = binary.LittleEndian.AppendUint32(p, uint32(b.rows))
	bits := b.lines.bits()
	return newRecord(head{
		kind: kindBlocked, scheme: b.scheme, estimated: b.estimated, seed: b.hash.seed, sizing: b.sizing, len: b.len, params: p,
	}, &bits)
}

func (b *Blocked) parse(h *head, _ *config) (iter.Seq[part], error) {
	r, err := h.paramsOf(blockedParamBytes)
	if err != nil {
		return nil, err
	}
	n, rows := r.u64(), r.u32()
	switch {
	case h.scheme == RedisBloom:
		return nil, fmt.Errorf("%w: a Blocked in scheme RedisBloom, which has none", ErrCorrupt)
	case n == 0:
		return nil, fmt.Errorf("%w: a filter of 0 lines", ErrCorrupt)
	case n > maxBits/512:
		return nil, fmt.Errorf("%w: %d lines of 512 bits, the limit is 2^48 bits", ErrTooLarge, n)
	case rows < 1 || rows > maxRows:
		return nil, fmt.Errorf("%w: %d bits in each word, want 1 … %d", ErrCorrupt, rows, maxRows)
	}
	b.hasher = newHasher(h.config)
	b.sizing, b.len, b.estimated, b.rows = h.sizing, h.len, h.estimated, int(rows)
	return onePart(part{512 * n, 512 * n, true}), nil
}

func (b *Blocked) take(_ int, bits bitset) { b.lines = linesOf(bits) }

// The parameters of a Scalable are these, and its chain as the header of a dump for Redis
// has it.
const scalableParamBytes = 16

func (s *Scalable) kind() kind { return kindScalable }

func (s *Scalable) record() (*record, error) {
	if len(s.links) == 0 {
		return nil, errZeroRecord
	}
	p := binary.LittleEndian.AppendUint64(nil, math.Float64bits(s.tightening))
	p = binary.LittleEndian.AppendUint64(p, s.maxBytes)
	h := head{
		kind: kindScalable, scheme: s.scheme, seed: s.hash.seed, sizing: sizing{s.links[0].entries, s.rate}, len: s.len,
		params: s.appendChain(p),
	}
	parts := make([]*bitset, len(s.links))
	for i := range s.links {
		parts[i] = &s.links[i].bits
	}
	return newRecord(h, parts...)
}

func (s *Scalable) parse(h *head, c *config) (iter.Seq[part], error) {
	const fixed = scalableParamBytes + bloomHeader
	links := uint64(0)
	if len(h.params) >= fixed {
		links = uint64(binary.LittleEndian.Uint32(h.params[scalableParamBytes+8:]))
	}
	if links > maxHeader/bloomLink {
		return nil, fmt.Errorf("%w: a chain of %d links", ErrCorrupt, links)
	}
	r, err := h.paramsOf(fixed + bloomLink*int(links))
	if err != nil {
		return nil, err
	}
	tightening, maxBytes := r.f64(), r.u64()
	chain, err := parseChain(h.config, r)
	if err != nil {
		return nil, err
	}
	switch {
	case !(tightening > 0 && tightening < 1) || h.scheme == RedisBloom && tightening != 0.5:
		return nil, fmt.Errorf("%w: tightening is %v in scheme %v", ErrCorrupt, tightening, h.scheme)
	case !(h.rate > 0 && h.rate < 1):
		return nil, fmt.Errorf("%w: the target rate is %v", ErrCorrupt, h.rate)
	case h.len != chain.len || h.capacity != chain.links[0].entries || h.estimated:
		return nil, fmt.Errorf("%w: %d keys and a first link for %d, the chain has %d and %d",
			ErrCorrupt, h.len, h.capacity, chain.len, chain.links[0].entries)
	}
	*s = *chain
	s.rate, s.tightening, s.maxBytes = h.rate, tightening, c.growthLimit(maxBytes)
	return func(yield func(part) bool) {
		for i := range s.links {
			if l := &s.links[i]; !yield(part{bits: l.bits.n, used: l.mod.m}) {
				return
			}
		}
	}, nil
}

func (s *Scalable) take(i int, bits bitset) { s.links[i].bits = bits }

// growthLimit is the bound of a filter that grows: the reader's own, where it has one.
func (c *config) growthLimit(written uint64) uint64 {
	if c.given&optMaxBytes != 0 {
		return c.maxBytes
	}
	return written
}

func (s *Scalable) limit() uint64 { return limitOf(len(s.links), s.maxBytes) }

func (c *Cuckoo) limit() uint64 { return limitOf(len(c.filters), c.maxBytes) }

// limitOf is maxBytes, but of the zero value, which has no parts, none.
func limitOf(parts int, maxBytes uint64) uint64 {
	if parts == 0 {
		return math.MaxUint64
	}
	return maxBytes
}

const cuckooParamBytes = 40

func (c *Cuckoo) kind() kind { return kindCuckoo }

func (c *Cuckoo) record() (*record, error) {
	if len(c.filters) == 0 {
		return nil, errZeroRecord
	}
	var p []byte
	for _, v := range []uint64{c.filters[0].buckets(), c.deletes, uint64(len(c.filters)), c.maxBytes} {
		p = binary.LittleEndian.AppendUint64(p, v)
	}
	for _, v := range []uint64{c.bucketSize, c.maxIterations, c.growth, c.width} {
		p = binary.LittleEndian.AppendUint16(p, uint16(v))
	}
	h := head{kind: kindCuckoo, scheme: c.scheme, seed: c.hash.seed, sizing: c.sizing, len: c.items(), params: p}
	parts := make([]*bitset, len(c.filters))
	for i := range c.filters {
		parts[i] = &c.filters[i].slots.bitset
	}
	return newRecord(h, parts...)
}

func (c *Cuckoo) parse(h *head, conf *config) (iter.Seq[part], error) {
	r, err := h.paramsOf(cuckooParamBytes)
	if err != nil {
		return nil, err
	}
	p := cuckooParams{items: h.len, buckets: r.u64(), deletes: r.u64(), filters: r.u64()}
	maxBytes := r.u64()
	p.bucketSize, p.maxIterations, p.expansion = r.u16(), r.u16(), r.u16()
	width := uint64(r.u16())
	var chain *Cuckoo
	if h.scheme == RedisBloom {
		if h.rate != 0 || width != 8 {
			return nil, fmt.Errorf("%w: target rate %v and %d-bit fingerprints in scheme RedisBloom, want 0 and 8", ErrCorrupt, h.rate, width)
		}
		chain, err = newCuckooRedis(p)
	} else {
		chain, err = newCuckooNative(p, width, h)
	}
	if err != nil {
		return nil, err
	}
	if h.estimated || h.capacity == 0 {
		return nil, fmt.Errorf("%w: capacity %d, and a Len that is estimated: %v", ErrCorrupt, h.capacity, h.estimated)
	}
	*c = *chain
	c.sizing, c.maxBytes = h.sizing, conf.growthLimit(maxBytes)
	return func(yield func(part) bool) {
		for _, buckets := range c.chainBuckets(p.buckets, p.filters) {
			if n := buckets * c.bucketSize * c.width; !yield(part{bits: n, used: n}) {
				return
			}
		}
	}, nil
}

func (c *Cuckoo) take(_ int, bits bitset) {
	c.filters = append(c.filters, newSubFilter(c.cuckooShape, bits.n/(c.bucketSize*c.width), bits))
}

func (s *Scalable) parseNativeGrowth(options, expansion, links uint32) error {
	switch {
	case options != 0:
		return fmt.Errorf("%w: options %#x in a native scheme", ErrCorrupt, options)
	case expansion > math.MaxInt32:
		return fmt.Errorf("%w: growth is %d, want 0 … %d", ErrCorrupt, expansion, math.MaxInt32)
	case links > maxLinks:
		return fmt.Errorf("%w: %d links, want 1 … %d", ErrCorrupt, links, maxLinks)
	}
	s.growth = int(expansion)
	return nil
}

func (l *link) checkNative() error {
	if math.Float64bits(l.bitsPerEntry) != 0 || l.n2 != 0 || l.declared%64 != 0 || l.count > l.entries {
		return fmt.Errorf("%w: %d keys of %d, %d bits, 2^%d, %v an entry: not a link of a native scheme",
			ErrCorrupt, l.count, l.entries, l.declared, l.n2, l.bitsPerEntry)
	}
	return nil
}

// newCuckooNative is newCuckooRedis for the native schemes.
func newCuckooNative(p cuckooParams, width uint64, h *head) (*Cuckoo, error) {
	most := uint64(maxSubFilters)
	if p.expansion == 0 {
		most = 1 + maxOverflows
	}
	switch {
	case !(h.rate > 0 && h.rate < 1):
		return nil, fmt.Errorf("%w: the target rate is %v", ErrCorrupt, h.rate)
	case p.bucketSize < 1 || int(p.bucketSize) >= len(designLoad):
		return nil, fmt.Errorf("%w: bucket size is %d, want 1 … %d", ErrCorrupt, p.bucketSize, len(designLoad)-1)
	case p.maxIterations < 1:
		return nil, fmt.Errorf("%w: max iterations is 0, want 1 … %d", ErrCorrupt, maxCuckooMoves)
	case p.expansion > maxExpansion:
		return nil, fmt.Errorf("%w: growth is %d, want 0 … %d", ErrCorrupt, p.expansion, maxExpansion)
	case width < minFingerprintBits || width > maxFingerprintBits:
		return nil, fmt.Errorf("%w: fingerprints of %d bits, want %d … %d", ErrCorrupt, width, minFingerprintBits, maxFingerprintBits)
	case p.filters < 1 || p.filters > most:
		return nil, fmt.Errorf("%w: %d sub-filters, want 1 … %d", ErrCorrupt, p.filters, most)
	case p.buckets == 0:
		return nil, fmt.Errorf("%w: no buckets", ErrCorrupt)
	case p.expansion == 0 && p.buckets >= overflowSplit && p.buckets%overflowShare != 0:
		return nil, fmt.Errorf("%w: %d buckets, want a multiple of %d", ErrCorrupt, p.buckets, overflowShare)
	}
	c := newCuckoo(cuckooShape{
		bucketSize: uint64(p.bucketSize), width: width, maxIterations: uint64(p.maxIterations), growth: uint64(p.expansion),
	}, h.config, sizing{})
	slots := uint64(0)
	for _, buckets := range c.chainBuckets(p.buckets, p.filters) {
		if buckets > maxBits/(c.bucketSize*width) {
			return nil, fmt.Errorf("%w: %d buckets of %d slots of %d bits, the limit is 2^48 bits", ErrTooLarge, buckets, c.bucketSize, width)
		}
		slots += buckets * c.bucketSize
	}
	if p.items > slots {
		return nil, fmt.Errorf("%w: %d items in %d slots", ErrCorrupt, p.items, slots)
	}
	c.len, c.deletes = p.items, p.deletes
	return c, nil
}

// AppendBinary appends the filter in the binary format, docs/FORMAT.md, to dst and returns the extended
// slice: SizeBytes and 132 bytes more, allocated at once where dst is short of room. Filters that are Equal and
// agree in Len, Capacity and TargetRate, in whether Len is an estimate, and in what bounds their growth give equal
// bytes, on every machine. The zero value has no encoding: the error wraps [ErrInvalid].
//
// Receivers of the methods that encode are values so that encoding/json and encoding/gob find them in a
// filter that is not addressable; but for those of a Concurrent, which may not be copied.
func (f Filter) AppendBinary(dst []byte) ([]byte, error) { return appendRecord(dst, &f) }

// MarshalBinary is [Filter.AppendBinary] to a new slice. encoding/gob calls it.
func (f Filter) MarshalBinary() ([]byte, error) { return appendRecord(nil, &f) }

// UnmarshalBinary makes the filter the one that MarshalBinary or WriteTo wrote, whatever it was. It
// refuses bytes that follow; else it is [Filter.ReadFrom].
func (f *Filter) UnmarshalBinary(data []byte) error { return unmarshalRecord(f, data) }

// MarshalText is [Filter.MarshalBinary] in base64. encoding/json calls it.
func (f Filter) MarshalText() ([]byte, error) { return recordText(&f) }

// UnmarshalText is [Filter.UnmarshalBinary] of what MarshalText wrote.
func (f *Filter) UnmarshalText(text []byte) error { return unmarshalRecordText(f, text) }

// WriteTo writes what [Filter.AppendBinary] appends, in pieces of a quarter of a megabyte and without a
// second copy of the filter. It returns the number of bytes written and the first error of w.
func (f *Filter) WriteTo(w io.Writer) (int64, error) { return writeRecord(w, f) }

// ReadFrom makes the filter the one that was written, whatever it was; on error it stays as it was. It reads
// one record and not a byte more, and returns the number of bytes read. [Read] returns a new filter, takes
// options, and says which errors there are.
//
// A record in the [SipHash] scheme is read by a filter that has its key, and such a filter reads no other:
// make one with the same key first, or use Read. A [Scalable] or a [Cuckoo] made WithMaxBytes keeps that
// limit, and refuses records that pass it.
//
// What the record claims is checked before it is believed: from an [*os.File], [*bytes.Reader],
// [*bytes.Buffer] or [*strings.Reader], whose length is known, the bits are allocated once; from other
// readers when half of them are here, so that never more than three times what has arrived is in use.
func (f *Filter) ReadFrom(r io.Reader) (int64, error) { return readRecord(f, r) }

// AppendBinary is [Filter.AppendBinary] for a Concurrent. It is written as a [Filter] is, and either reads
// it. Keys that are being added meanwhile may be in it, or not, or only in part.
//
// Encode a Concurrent by its pointer: of one in a struct that is passed by value, encoding/json writes {}.
func (c *Concurrent) AppendBinary(dst []byte) ([]byte, error) { return appendRecord(dst, c) }

// MarshalBinary is [Filter.MarshalBinary] for a Concurrent.
func (c *Concurrent) MarshalBinary() ([]byte, error) { return appendRecord(nil, c) }

// UnmarshalBinary is [Filter.UnmarshalBinary] for a Concurrent. Nobody may use the filter meanwhile.
func (c *Concurrent) UnmarshalBinary(data []byte) error { return unmarshalRecord(c, data) }

// MarshalText is [Filter.MarshalText] for a Concurrent.
func (c *Concurrent) MarshalText() ([]byte, error) { return recordText(c) }

// UnmarshalText is [Filter.UnmarshalText] for a Concurrent. Nobody may use the filter meanwhile.
func (c *Concurrent) UnmarshalText(text []byte) error { return unmarshalRecordText(c, text) }

// WriteTo is [Filter.WriteTo] for a Concurrent. Others may use the filter meanwhile,
// as in AppendBinary.
func (c *Concurrent) WriteTo(w io.Writer) (int64, error) { return writeRecord(w, c) }

// ReadFrom is [Filter.ReadFrom] for a Concurrent. Nobody may use the filter meanwhile.
func (c *Concurrent) ReadFrom(r io.Reader) (int64, error) { return readRecord(c, r) }

// AppendBinary is [Filter.AppendBinary] for a Scalable, which takes 53 bytes more for each link. What bounds its
// growth is written with it.
func (s Scalable) AppendBinary(dst []byte) ([]byte, error) { return appendRecord(dst, &s) }

// MarshalBinary is [Filter.MarshalBinary] for a Scalable.
func (s Scalable) MarshalBinary() ([]byte, error) { return appendRecord(nil, &s) }

// UnmarshalBinary is [Filter.UnmarshalBinary] for a Scalable.
func (s *Scalable) UnmarshalBinary(data []byte) error { return unmarshalRecord(s, data) }

// MarshalText is [Filter.MarshalText] for a Scalable.
func (s Scalable) MarshalText() ([]byte, error) { return recordText(&s) }

// UnmarshalText is [Filter.UnmarshalText] for a Scalable.
func (s *Scalable) UnmarshalText(text []byte) error { return unmarshalRecordText(s, text) }

// WriteTo is [Filter.WriteTo] for a Scalable.
func (s *Scalable) WriteTo(w io.Writer) (int64, error) { return writeRecord(w, s) }

// ReadFrom is [Filter.ReadFrom] for a Scalable.
func (s *Scalable) ReadFrom(r io.Reader) (int64, error) { return readRecord(s, r) }

// AppendBinary is [Filter.AppendBinary] for a Counting.
func (c Counting) AppendBinary(dst []byte) ([]byte, error) { return appendRecord(dst, &c) }

// MarshalBinary is [Filter.MarshalBinary] for a Counting.
func (c Counting) MarshalBinary() ([]byte, error) { return appendRecord(nil, &c) }

// UnmarshalBinary is [Filter.UnmarshalBinary] for a Counting.
func (c *Counting) UnmarshalBinary(data []byte) error { return unmarshalRecord(c, data) }

// MarshalText is [Filter.MarshalText] for a Counting.
func (c Counting) MarshalText() ([]byte, error) { return recordText(&c) }

// UnmarshalText is [Filter.UnmarshalText] for a Counting.
func (c *Counting) UnmarshalText(text []byte) error { return unmarshalRecordText(c, text) }

// WriteTo is [Filter.WriteTo] for a Counting.
func (c *Counting) WriteTo(w io.Writer) (int64, error) { return writeRecord(w, c) }

// ReadFrom is [Filter.ReadFrom] for a Counting.
func (c *Counting) ReadFrom(r io.Reader) (int64, error) { return readRecord(c, r) }

// AppendBinary is [Filter.AppendBinary] for a Cuckoo. What bounds its growth is written with it.
func (c Cuckoo) AppendBinary(dst []byte) ([]byte, error) { return appendRecord(dst, &c) }

// MarshalBinary is [Filter.MarshalBinary] for a Cuckoo.
func (c Cuckoo) MarshalBinary() ([]byte, error) { return appendRecord(nil, &c) }

// UnmarshalBinary is [Filter.UnmarshalBinary] for a Cuckoo.
func (c *Cuckoo) UnmarshalBinary(data []byte) error { return unmarshalRecord(c, data) }

// MarshalText is [Filter.MarshalText] for a Cuckoo.
func (c Cuckoo) MarshalText() ([]byte, error) { return recordText(&c) }

// UnmarshalText is [Filter.UnmarshalText] for a Cuckoo.
func (c *Cuckoo) UnmarshalText(text []byte) error { return unmarshalRecordText(c, text) }

// WriteTo is [Filter.WriteTo] for a Cuckoo.
func (c *Cuckoo) WriteTo(w io.Writer) (int64, error) { return writeRecord(w, c) }

// ReadFrom is [Filter.ReadFrom] for a Cuckoo.
func (c *Cuckoo) ReadFrom(r io.Reader) (int64, error) { return readRecord(c, r) }

// AppendBinary is [Filter.AppendBinary] for a Blocked.
func (b Blocked) AppendBinary(dst []byte) ([]byte, error) { return appendRecord(dst, &b) }

// MarshalBinary is [Filter.MarshalBinary] for a Blocked.
func (b Blocked) MarshalBinary() ([]byte, error) { return appendRecord(nil, &b) }

// UnmarshalBinary is [Filter.UnmarshalBinary] for a Blocked.
func (b *Blocked) UnmarshalBinary(data []byte) error { return unmarshalRecord(b, data) }

// MarshalText is [Filter.MarshalText] for a Blocked.
func (b Blocked) MarshalText() ([]byte, error) { return recordText(&b) }

// UnmarshalText is [Filter.UnmarshalText] for a Blocked.
func (b *Blocked) UnmarshalText(text []byte) error { return unmarshalRecordText(b, text) }

// WriteTo is [Filter.WriteTo] for a Blocked.
func (b *Blocked) WriteTo(w io.Writer) (int64, error) { return writeRecord(w, b) }

// ReadFrom is [Filter.ReadFrom] for a Blocked.
func (b *Blocked) ReadFrom(r io.Reader) (int64, error) { return readRecord(b, r) }
