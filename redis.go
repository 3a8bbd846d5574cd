package bloom

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
)

// This file exchanges filters with a Redis server: the dumps of BF.SCANDUMP
// and CF.SCANDUMP, loaded by BF.LOADCHUNK and CF.LOADCHUNK, and plain strings used
// as bitmaps. docs/REDIS.md has the formats.

// Options in the header of a BF dump.
const (
	redisNoRounding    = 1 << iota // sizes are not rounded up to powers of two
	redisEntriesIsBits             // how the size was given once; of no effect since
	redisHash64                    // the 64-bit hash; without it the key was hashed to 32 bits
	redisNonScaling
)

const (
	maxExpansion  = 32768    // of the commands, and of the headers the server takes
	maxRedisChunk = 16 << 20 // of SCANDUMP's replies
	bloomHeader   = 20       // bytes before the links, in a BF header
	bloomLink     = 53       // bytes a link
	cuckooHeader  = 38
	legacyHeader  = 16 // RedisBloom 1.x: no expansion field,
	legacyLink    = 49 // and 32-bit entries
)

// dump is a filter as SCANDUMP gives it out: a header, and parts that chunks do not
// cross.
type dump struct {
	header []byte
	parts  []*bitset
}

// at is SCANDUMP: cursor 0 is the header, cursor t ≥ 1 byte t−1 of the parts end to
// end. next is 0 after the last byte.
func (d *dump) at(cursor int64, maxChunk int) (next int64, chunk []byte, err error) {
	if cursor < 0 {
		return 0, nil, fmt.Errorf("%w: cursor is %d, want 0 or more", ErrInvalid, cursor)
	}
	if d.header == nil {
		return 0, nil, nil
	}
	if cursor == 0 {
		return 1, d.header, nil
	}
	if maxChunk <= 0 {
		maxChunk = maxRedisChunk
	}
	at := uint64(cursor - 1)
	for _, part := range d.parts {
		size := part.byteLen()
		if at < size {
			n := min(size-at, uint64(maxChunk))
			return cursor + int64(n), part.bytes(at, at+n), nil
		}
		at -= size
	}
	return 0, nil, nil
}

func (d *dump) all(maxChunk int) iter.Seq2[int64, []byte] {
	return func(yield func(int64, []byte) bool) {
		for cursor := int64(0); ; {
			next, chunk, _ := d.at(cursor, maxChunk)
			if next == 0 || !yield(next, chunk) {
				return
			}
			cursor = next
		}
	}
}

// ScanDump iterates over the pairs that BF.LOADCHUNK takes, in its order: the
// header with cursor 1, then every chunk of at most maxChunk bytes with the
// cursor behind it. A maxChunk of 0 or less means the server's 16 MiB. A
// chunk does not cross the end of a link.
//
// On little-endian machines chunks are the filter's own memory, so that a dump takes no
// second copy of the filter: use a chunk before the filter changes, and do not write
// to it. ScanDump panics unless the scheme is [RedisBloom]: nothing else is
// a dump that a server reads, and no dump at all would be an empty filter there.
func (s *Scalable) ScanDump(maxChunk int) iter.Seq2[int64, []byte] {
	d, err := s.dump()
	if err != nil {
		panic(err)
	}
	return d.all(maxChunk)
}

// ScanDumpAt is one call of BF.SCANDUMP: cursor 0 returns the header and 1,
// any other cursor the chunk there and the cursor behind it, which is the one
// that goes with the chunk to BF.LOADCHUNK and to the next call. Past the last
// byte it returns 0 and no chunk. Chunks are as in [Scalable.ScanDump]. It returns an
// error that wraps [ErrInvalid] for a negative cursor or another scheme than
// [RedisBloom].
func (s *Scalable) ScanDumpAt(cursor int64, maxChunk int) (next int64, chunk []byte, err error) {
	d, err := s.dump()
	if err != nil {
		return 0, nil, err
	}
	return d.at(cursor, maxChunk)
}

func (s *Scalable) dump() (*dump, error) {
	if s.scheme != RedisBloom || len(s.links) == 0 {
		return nil, fmt.Errorf("%w: a dump for Redis of a filter with scheme %v and %d links", ErrInvalid, s.scheme, len(s.links))
	}
	h := binary.LittleEndian.AppendUint64(nil, s.len)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(s.links)))
	h = binary.LittleEndian.AppendUint32(h, s.redis.options)
	h = binary.LittleEndian.AppendUint32(h, s.redis.expansion)
	d := &dump{}
	for i := range s.links {
		l := &s.links[i]
		h = binary.LittleEndian.AppendUint64(h, l.bits.byteLen())
		h = binary.LittleEndian.AppendUint64(h, l.declared)
		h = binary.LittleEndian.AppendUint64(h, l.count)
		h = binary.LittleEndian.AppendUint64(h, math.Float64bits(l.rate))
		h = binary.LittleEndian.AppendUint64(h, math.Float64bits(l.bitsPerEntry))
		h = binary.LittleEndian.AppendUint32(h, uint32(l.k))
		h = binary.LittleEndian.AppendUint64(h, l.entries)
		h = append(h, l.n2)
		d.parts = append(d.parts, &l.bits)
	}
	d.header = h
	return d, nil
}

// A headerReader takes fields off a header whose length has been checked.
type headerReader []byte

func (r *headerReader) u8() uint8 {
	v := (*r)[0]
	*r = (*r)[1:]
	return v
}

func (r *headerReader) u16() uint16 {
	v := binary.LittleEndian.Uint16(*r)
	*r = (*r)[2:]
	return v
}

func (r *headerReader) u32() uint32 {
	v := binary.LittleEndian.Uint32(*r)
	*r = (*r)[4:]
	return v
}

func (r *headerReader) u64() uint64 {
	v := binary.LittleEndian.Uint64(*r)
	*r = (*r)[8:]
	return v
}

func (r *headerReader) f64() float64 { return math.Float64frombits(r.u64()) }

// parseBloomHeader reads the header of a BF dump into a chain whose links have no
// bits yet, only sizes: nothing is allocated that the header's own bytes do not pay
// for. It refuses what the server refuses, and what could not work.
func parseBloomHeader(header []byte) (*Scalable, error) {
	if err := checkBloomHeaderLength(header); err != nil {
		return nil, err
	}
	r := headerReader(header)
	s := &Scalable{hasher: newHasher(RedisBloom, 0), inc: RedisBloom.inc(), tightening: 0.5, maxBytes: math.MaxUint64}
	s.len = r.u64()
	links := r.u32()
	s.redis = redisChain{r.u32(), r.u32()}
	switch o := s.redis.options; {
	case o&^(redisNoRounding|redisEntriesIsBits|redisHash64|redisNonScaling) != 0:
		return nil, fmt.Errorf("%w: unknown option in %#x", ErrCorrupt, o)
	case o&redisHash64 == 0:
		return nil, fmt.Errorf("%w: a filter of an early RedisBloom 1.x, with keys hashed to 32 bits", ErrVersion)
	case o&redisNonScaling == 0:
		if s.redis.expansion == 0 || s.redis.expansion > maxExpansion {
			return nil, fmt.Errorf("%w: expansion is %d, want 1 … %d", ErrCorrupt, s.redis.expansion, maxExpansion)
		}
		s.growth = int(s.redis.expansion)
	}
	var counts, size uint64
	for i := range links {
		l, err := parseBloomLink(&r, s.redis.options)
		if err != nil {
			return nil, fmt.Errorf("link %d: %w", i, err)
		}
		if l.count > s.len-counts {
			return nil, fmt.Errorf("%w: the counts of the links pass that of the chain, %d", ErrCorrupt, s.len)
		}
		counts += l.count
		if size += l.bits.byteLen(); size > maxBits/8 {
			return nil, fmt.Errorf("%w: links of %d bytes and more", ErrTooLarge, size)
		}
		s.links = append(s.links, l)
	}
	if counts != s.len {
		return nil, fmt.Errorf("%w: the chain counts %d keys, its links %d", ErrCorrupt, s.len, counts)
	}
	s.rate = s.links[0].rate
	if s.growth != 0 && s.redis.options&redisNoRounding != 0 {
		s.rate *= 2 // servers that rounded gave the first link the whole rate
	}
	return s, nil
}

func checkBloomHeaderLength(header []byte) error {
	n := len(header)
	if n >= bloomHeader {
		links := binary.LittleEndian.Uint32(header[8:])
		if links > 0 && uint64(n) == bloomHeader+bloomLink*uint64(links) {
			return nil
		}
	}
	if n >= legacyHeader+legacyLink {
		links := binary.LittleEndian.Uint32(header[8:])
		if uint64(n) == legacyHeader+legacyLink*uint64(links) {
			return fmt.Errorf("%w: a legacy dump, of RedisBloom 1.x", ErrVersion)
		}
	}
	if n == cuckooHeader {
		return fmt.Errorf("%w: this looks like the header of a cuckoo filter (CF.SCANDUMP)", ErrCorrupt)
	}
	return fmt.Errorf("%w: a header of %d bytes, want 20 and 53 for each link", ErrCorrupt, n)
}

func parseBloomLink(r *headerReader, options uint32) (link, error) {
	bytes, bits := r.u64(), r.u64()
	l := link{count: r.u64(), rate: r.f64(), bitsPerEntry: r.f64()}
	hashes := r.u32()
	l.entries, l.n2 = r.u64(), r.u8()
	m := bits
	if l.n2 != 0 {
		m = 1 << (l.n2 & 63)
	}
	switch {
	case !(l.rate > 0 && l.rate < 1):
		return l, fmt.Errorf("%w: error rate is %v", ErrCorrupt, l.rate)
	case !(l.bitsPerEntry > 0 && l.bitsPerEntry <= math.MaxFloat64):
		return l, fmt.Errorf("%w: %v bits an entry", ErrCorrupt, l.bitsPerEntry)
	case hashes == 0 || hashes > maxHashes || float64(hashes) != math.Ceil(0.693147180559945*l.bitsPerEntry):
		return l, fmt.Errorf("%w: %d hashes at %v bits an entry", ErrCorrupt, hashes, l.bitsPerEntry)
	case l.entries == 0:
		return l, fmt.Errorf("%w: a link for 0 entries", ErrCorrupt)
	// Older servers did not round bits up to whole words, and some not the bytes.
	case bits == 0 || bytes > maxBits/8 || bytes != wordsFor(bits)*8 && bytes != (bits+7)/8:
		return l, fmt.Errorf("%w: %d bits in %d bytes", ErrCorrupt, bits, bytes)
	case l.n2 != 0 && (l.n2 > 63 || options&redisNoRounding != 0 || bits < m):
		return l, fmt.Errorf("%w: a size of 2^%d with %d bits and options %#x", ErrCorrupt, l.n2, bits, options)
	}
	if err := checkSize(8*bytes, math.MaxUint64); err != nil {
		return l, err
	}
	l.k, l.mod, l.declared = int(hashes), newModulus(m), bits
	l.bits.n = 8 * bytes
	return l, nil
}

// ScanDump iterates over the pairs that CF.LOADCHUNK takes, as [Scalable.ScanDump]
// does for BF.LOADCHUNK; a chunk does not cross the end of a sub-filter. A filter
// that holds nothing has no dump, on the server neither: it yields no pair at all.
func (c *Cuckoo) ScanDump(maxChunk int) iter.Seq2[int64, []byte] {
	d, err := c.dump()
	if err != nil {
		panic(err)
	}
	return d.all(maxChunk)
}

// ScanDumpAt is one call of CF.SCANDUMP, as [Scalable.ScanDumpAt] is of BF.SCANDUMP.
// For a filter that holds nothing it returns 0 and no chunk at once.
func (c *Cuckoo) ScanDumpAt(cursor int64, maxChunk int) (next int64, chunk []byte, err error) {
	d, err := c.dump()
	if err != nil {
		return 0, nil, err
	}
	return d.at(cursor, maxChunk)
}

func (c *Cuckoo) dump() (*dump, error) {
	if !c.redis {
		return nil, fmt.Errorf("%w: a dump for Redis of a filter with scheme %v", ErrInvalid, c.scheme)
	}
	d := &dump{}
	if c.len == 0 {
		return d, nil
	}
	h := binary.LittleEndian.AppendUint64(nil, c.len)
	for _, v := range []uint64{c.filters[0].buckets(), c.deletes, uint64(len(c.filters))} {
		h = binary.LittleEndian.AppendUint64(h, v)
	}
	for _, v := range []uint64{c.bucketSize, c.maxIterations, c.growth} {
		h = binary.LittleEndian.AppendUint16(h, uint16(v))
	}
	d.header = h
	for i := range c.filters {
		d.parts = append(d.parts, &c.filters[i].slots.bitset)
	}
	return d, nil
}

func parseCuckooHeader(header []byte) (cuckooParams, error) {
	if len(header) != cuckooHeader {
		if err := checkBloomHeaderLength(header); err == nil {
			return cuckooParams{}, fmt.Errorf("%w: this looks like the header of a Bloom filter (BF.SCANDUMP)", ErrCorrupt)
		}
		return cuckooParams{}, fmt.Errorf("%w: a header of %d bytes, want %d", ErrCorrupt, len(header), cuckooHeader)
	}
	r := headerReader(header)
	return cuckooParams{
		items: r.u64(), buckets: r.u64(), deletes: r.u64(), filters: r.u64(),
		bucketSize: r.u16(), maxIterations: r.u16(), expansion: r.u16(),
	}, nil
}

// loader gathers the parts of a dump. It keeps chunks as they came until a
// quarter of a part is here, and only then allocates the part: a header's claim costs
// its sender that much.
type loader struct {
	count uint64
	size  func(part uint64) uint64 // in bytes
	parts map[uint64]*loadPart
}

type loadPart struct {
	bits     bitset // once allocated
	pending  []pendingChunk
	received uint64
	have     spans
}

type pendingChunk struct {
	at   uint64
	data []byte
}

// load places a chunk, whose cursor is the one of the byte behind it.
func (l *loader) load(cursor int64, chunk []byte) error {
	n := int64(len(chunk))
	if n == 0 {
		return fmt.Errorf("%w: an empty chunk, with cursor %d", ErrCorrupt, cursor)
	}
	if cursor <= n {
		return fmt.Errorf("%w: cursor %d with a chunk of %d bytes; a chunk goes with the cursor that came with it, not the one sent for it",
			ErrCorrupt, cursor, n)
	}
	at, end := uint64(cursor-1-n), uint64(cursor-1)
	start := uint64(0) // of the part
	for i := range l.count {
		size := l.size(i)
		if at >= start+size {
			start += size
			continue
		}
		if end > start+size {
			return fmt.Errorf("%w: a chunk of bytes %d to %d crosses the end of part %d at %d", ErrCorrupt, at, end, i, start+size)
		}
		return l.place(i, size, at-start, chunk)
	}
	return fmt.Errorf("%w: a chunk of bytes %d to %d of a filter of %d", ErrCorrupt, at, end, start)
}

func (l *loader) place(i, size, at uint64, chunk []byte) error {
	p := l.parts[i]
	if p == nil {
		p = &loadPart{}
		l.parts[i] = p
	}
	p.received += uint64(len(chunk))
	p.have.add(at, at+uint64(len(chunk)))
	if p.bits.n == 0 && p.received < (size+3)/4 {
		p.pending = append(p.pending, pendingChunk{at, slices.Clone(chunk)})
		return nil
	}
	if p.bits.n == 0 {
		p.bits = newBitset(8 * size)
		for _, c := range p.pending {
			p.bits.putBytes(c.at, c.data)
		}
		p.pending = nil
	}
	p.bits.putBytes(at, chunk)
	return nil
}

// missing returns an error that wraps ErrIncomplete unless every byte is here.
func (l *loader) missing() error {
	start := uint64(0)
	for i := range l.count {
		size := l.size(i)
		have := spans{}
		if p := l.parts[i]; p != nil {
			have = p.have
		}
		if from, to := have.gap(size); from < to {
			return fmt.Errorf("%w: bytes %d to %d have not arrived", ErrIncomplete, start+from, start+to)
		}
		start += size
	}
	return nil
}

var errNoHeader = fmt.Errorf("%w: the header, which comes first and with cursor 1, has not arrived", ErrIncomplete)

// spans are the ranges [from, to) that have arrived, ascending and apart.
type spans []span

type span struct{ from, to uint64 }

func (s *spans) add(from, to uint64) {
	old := *s
	// The spans i … j−1 touch the new one and merge with it.
	i, _ := slices.BinarySearchFunc(old, from, func(a span, from uint64) int {
		if a.to < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(old) && old[j].from <= to; j++ {
		from, to = min(from, old[j].from), max(to, old[j].to)
	}
	*s = slices.Replace(old, i, j, span{from, to})
}

// gap returns the first range below size that is missing.
func (s spans) gap(size uint64) (from, to uint64) {
	to = size
	for _, have := range s {
		if have.from > from {
			return from, have.from
		}
		from = have.to
	}
	return from, to
}

// ScalableLoader puts a [Scalable] together from the pairs of cursor and chunk that
// BF.SCANDUMP returns. It is for one goroutine.
type ScalableLoader struct {
	chain *Scalable
	loader
}

// NewScalableLoader returns a loader that waits for a header.
func NewScalableLoader() *ScalableLoader { return &ScalableLoader{} }

// LoadChunk takes a chunk with the cursor that came with it, as BF.LOADCHUNK
// does: the header first, with cursor 1, then the others in any order and size, also
// again. It copies what it keeps; memory grows with the bytes that came, not
// with what the header says. An error wraps [ErrCorrupt] for what no dump
// contains or the server would refuse, [ErrVersion] for dumps of early versions with other
// hashes or layouts, [ErrTooLarge] for sizes past this machine, and [ErrIncomplete] for
// a chunk before the header; the loader is then as before and can go on.
func (l *ScalableLoader) LoadChunk(cursor int64, chunk []byte) error {
	if l.chain != nil {
		return l.load(cursor, chunk)
	}
	if cursor != 1 {
		return fmt.Errorf("%w; this is cursor %d", errNoHeader, cursor)
	}
	chain, err := parseBloomHeader(chunk)
	if err != nil {
		return err
	}
	l.chain = chain
	l.loader = loader{
		uint64(len(chain.links)),
		func(i uint64) uint64 { return chain.links[i].bits.byteLen() },
		map[uint64]*loadPart{},
	}
	return nil
}

// Finish returns the filter, once every byte is here, and makes the loader wait for
// another header. Before that it returns an error that wraps [ErrIncomplete] and
// tells the first missing bytes, and the loader goes on. Bits past the size of a link are
// [ErrCorrupt].
func (l *ScalableLoader) Finish() (*Scalable, error) {
	if l.chain == nil {
		return nil, errNoHeader
	}
	if err := l.missing(); err != nil {
		return nil, err
	}
	for i := range l.chain.links {
		k := &l.chain.links[i]
		bits := l.parts[uint64(i)].bits
		if !bits.zeroFrom(k.mod.m) {
			return nil, fmt.Errorf("%w: link %d has bits past its %d", ErrCorrupt, i, k.mod.m)
		}
		k.bits = bits
	}
	chain := l.chain
	*l = ScalableLoader{}
	return chain, nil
}

// CuckooLoader puts a [Cuckoo] together from the pairs of cursor and chunk that
// CF.SCANDUMP returns. It is for one goroutine.
type CuckooLoader struct {
	params cuckooParams
	filter *Cuckoo
	loader
}

// NewCuckooLoader returns a loader that waits for a header.
func NewCuckooLoader() *CuckooLoader { return &CuckooLoader{} }

// LoadChunk takes a chunk with the cursor that came with it, as CF.LOADCHUNK
// does. Order, memory and errors are those of [ScalableLoader.LoadChunk].
func (l *CuckooLoader) LoadChunk(cursor int64, chunk []byte) error {
	if l.filter != nil {
		return l.load(cursor, chunk)
	}
	if cursor != 1 {
		return fmt.Errorf("%w; this is cursor %d", errNoHeader, cursor)
	}
	p, err := parseCuckooHeader(chunk)
	if err != nil {
		return err
	}
	filter, err := newCuckooRedis(p, math.MaxUint64)
	if err != nil {
		return err
	}
	*l = CuckooLoader{p, filter, loader{
		p.filters,
		func(i uint64) uint64 { return p.filterBuckets(i) * filter.bucketSize },
		map[uint64]*loadPart{},
	}}
	return nil
}

// Finish returns the filter, once every byte is here, and makes the loader wait for
// another header. Before that it returns an error that wraps [ErrIncomplete] and
// tells the first missing bytes, and the loader goes on.
func (l *CuckooLoader) Finish() (*Cuckoo, error) {
	if l.filter == nil {
		return nil, errNoHeader
	}
	if err := l.missing(); err != nil {
		return nil, err
	}
	for i := range l.count {
		l.filter.filters = append(l.filter.filters, newSubFilter(l.filter.cuckooShape, l.params.filterBuckets(i), l.parts[i].bits))
	}
	filter := l.filter
	*l = CuckooLoader{}
	return filter, nil
}

// RedisBitmap returns the filter's bits as a Redis string: bit i is the one
// that GETBIT key i reads, so the positions of a key can be asked for, one
// GETBIT each, where the string was SET. It is a new slice of Bits/8 bytes, rounded
// up. A Redis string holds 2^32 bits; a larger filter's has no place there.
func (f *Filter) RedisBitmap() []byte { return f.bits.appendRedisString(nil) }

// FromRedisBitmap makes a filter from a Redis string whose bit i, by GETBIT, is
// bit i of the filter: what [Filter.RedisBitmap] returns, or what SETBIT made at the
// positions of [Filter.Positions]. Redis strings end at the last byte that was written, so a
// shorter one is filled with zeros, as GETBIT does: make sure that data is the
// whole value. Len is an estimate. Errors are those of [NewWithSize], and
// [ErrCorrupt] for data longer than bits or with bits set past them.
func FromRedisBitmap(data []byte, bits uint64, hashes int, opts ...Option) (*Filter, error) {
	f, err := NewWithSize(bits, hashes, opts...)
	if err != nil {
		return nil, err
	}
	if short := f.bits.byteLen(); uint64(len(data)) < short {
		data = append(make([]byte, 0, short), data...)[:short]
	}
	if err := f.bits.setRedisString(data); err != nil {
		return nil, err
	}
	f.len, f.estimated = f.params().estimateLen(f.bits.count()), true
	return f, nil
}
