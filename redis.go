package bloom

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
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

// scanDump iterates over the dump of a filter as it is when the iteration begins.
func scanDump(dump func() (*dump, error), maxChunk int) iter.Seq2[int64, []byte] {
	if _, err := dump(); err != nil {
		panic(err)
	}
	return func(yield func(int64, []byte) bool) {
		d, err := dump()
		for cursor := int64(0); err == nil; {
			var next int64
			var chunk []byte
			next, chunk, err = d.at(cursor, maxChunk)
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
func (s *Scalable) ScanDump(maxChunk int) iter.Seq2[int64, []byte] { return scanDump(s.dump, maxChunk) }

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
	d := &dump{header: s.appendChain(nil)}
	for i := range s.links {
		d.parts = append(d.parts, &s.links[i].bits)
	}
	return d, nil
}

// appendChain appends the header of a dump. It has all that a chain is but for its bits, in
// the native schemes too, with no options and with the growth as expansion.
func (s *Scalable) appendChain(h []byte) []byte {
	options, expansion := s.redis.options, s.redis.expansion
	if s.scheme != RedisBloom {
		expansion = uint32(s.growth)
	}
	h = binary.LittleEndian.AppendUint64(h, s.len)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(s.links)))
	h = binary.LittleEndian.AppendUint32(h, options)
	h = binary.LittleEndian.AppendUint32(h, expansion)
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
	}
	return h
}

// parseBloomHeader reads the header of a BF dump into a chain whose links have no
// bits yet, only sizes: nothing is allocated that the header's own bytes do not pay
// for. It refuses what the server refuses, and what could not work.
func parseBloomHeader(header []byte) (*Scalable, error) {
	if err := checkBloomHeaderLength(header); err != nil {
		return nil, err
	}
	s, err := parseChain(config{scheme: RedisBloom}, header)
	if err != nil {
		return nil, err
	}
	s.rate, s.tightening, s.maxBytes = s.links[0].rate, 0.5, math.MaxUint64
	if s.growth != 0 && s.redis.options&redisNoRounding != 0 {
		// Servers that rounded gave the first link the whole rate.
		s.rate = min(2*s.rate, math.Nextafter(1, 0))
	}
	return s, nil
}

// parseChain reads what appendChain wrote, whose length has been checked, without what is
// not in it.
func parseChain(c config, r headerReader) (*Scalable, error) {
	s := &Scalable{hasher: newHasher(c), inc: c.scheme.inc(), len: r.u64()}
	links := r.u32()
	options, expansion := r.u32(), r.u32()
	if links == 0 {
		return nil, fmt.Errorf("%w: a chain of no links", ErrCorrupt)
	}
	var err error
	if c.scheme == RedisBloom {
		err = s.parseRedisGrowth(options, expansion)
	} else {
		err = s.parseNativeGrowth(options, expansion, links)
	}
	if err != nil {
		return nil, err
	}
	s.links = make([]link, 0, links)
	var counts, entries, size uint64
	for i := range links {
		l, err := parseLink(&r)
		if err == nil && c.scheme == RedisBloom {
			err = l.checkRedis(options)
		} else if err == nil {
			err = l.checkNative()
		}
		if err != nil {
			return nil, fmt.Errorf("%w (link %d)", err, i)
		}
		if l.count > s.len-counts {
			return nil, fmt.Errorf("%w: the counts of the links pass that of the chain, %d", ErrCorrupt, s.len)
		}
		counts += l.count
		if entries += l.entries; entries < l.entries {
			return nil, fmt.Errorf("%w: the entries of the links pass 2^64", ErrCorrupt)
		}
		if size += l.bits.byteLen(); size > maxBits/8 {
			return nil, fmt.Errorf("%w: links of %d bytes and more", ErrTooLarge, size)
		}
		s.links = append(s.links, l)
	}
	if counts != s.len {
		return nil, fmt.Errorf("%w: the chain counts %d keys, its links %d", ErrCorrupt, s.len, counts)
	}
	return s, nil
}

func (s *Scalable) parseRedisGrowth(options, expansion uint32) error {
	s.redis = redisChain{options, expansion}
	switch {
	case options&^(redisNoRounding|redisEntriesIsBits|redisHash64|redisNonScaling) != 0:
		return fmt.Errorf("%w: unknown option in %#x", ErrCorrupt, options)
	case options&redisHash64 == 0:
		return fmt.Errorf("%w: a filter of an early RedisBloom 1.x, with keys hashed to 32 bits", ErrVersion)
	case options&redisNonScaling == 0:
		if expansion == 0 || expansion > maxExpansion {
			return fmt.Errorf("%w: expansion is %d, want 1 … %d", ErrCorrupt, expansion, maxExpansion)
		}
		s.growth = int(expansion)
	}
	return nil
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

// parseLink reads a link and checks what all schemes have in common.
func parseLink(r *headerReader) (l link, err error) {
	bytes := r.u64()
	l = link{declared: r.u64(), count: r.u64(), rate: r.f64(), bitsPerEntry: r.f64()}
	hashes := r.u32()
	l.entries, l.n2 = r.u64(), r.u8()
	switch {
	case !(l.rate > 0 && l.rate < 1):
		return l, fmt.Errorf("%w: error rate is %v", ErrCorrupt, l.rate)
	case hashes == 0 || hashes > maxHashes:
		return l, fmt.Errorf("%w: %d hashes, want 1 … %d", ErrCorrupt, hashes, maxHashes)
	case l.entries == 0:
		return l, fmt.Errorf("%w: a link for 0 entries", ErrCorrupt)
	// Older servers did not round bits up to whole words, and some not the bytes.
	case l.declared == 0 || bytes > maxBits/8 || bytes != wordsFor(l.declared)*8 && bytes != l.declared/8+(l.declared%8+7)/8:
		return l, fmt.Errorf("%w: %d bits in %d bytes", ErrCorrupt, l.declared, bytes)
	}
	if err := checkSize(8*bytes, math.MaxUint64); err != nil {
		return l, err
	}
	l.k, l.bits.n, l.mod = int(hashes), 8*bytes, newModulus(l.declared)
	return l, nil
}

func (l *link) checkRedis(options uint32) error {
	switch {
	case !(l.bitsPerEntry > 0 && l.bitsPerEntry <= math.MaxFloat64):
		return fmt.Errorf("%w: %v bits an entry", ErrCorrupt, l.bitsPerEntry)
	case float64(l.k) != math.Ceil(0.693147180559945*l.bitsPerEntry):
		return fmt.Errorf("%w: %d hashes at %v bits an entry", ErrCorrupt, l.k, l.bitsPerEntry)
	case l.n2 == 0:
		return nil
	case l.n2 > 63 || options&redisNoRounding != 0 || l.declared < 1<<l.n2:
		return fmt.Errorf("%w: a size of 2^%d with %d bits and options %#x", ErrCorrupt, l.n2, l.declared, options)
	}
	l.mod = newModulus(1 << l.n2)
	return nil
}

// ScanDump iterates over the pairs that CF.LOADCHUNK takes, as [Scalable.ScanDump]
// does for BF.LOADCHUNK; a chunk does not cross the end of a sub-filter. A filter
// that holds nothing has no dump, on the server neither: it yields no pair at all.
// It panics unless the scheme is [RedisBloom].
func (c *Cuckoo) ScanDump(maxChunk int) iter.Seq2[int64, []byte] { return scanDump(c.dump, maxChunk) }

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
	h := binary.LittleEndian.AppendUint64(nil, c.items())
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

// cuckooParams is the header of a CF dump.
type cuckooParams struct {
	items, buckets, deletes, filters     uint64 // buckets of the first sub-filter
	bucketSize, maxIterations, expansion uint16
}

// filterBuckets returns the number of buckets of sub-filter i.
func (p *cuckooParams) filterBuckets(i uint64) uint64 {
	return p.buckets << (i * uint64(bits.TrailingZeros16(max(1, p.expansion))))
}

// newCuckooRedis makes the filter that a header describes, but for its sub-filters,
// so that it allocates nothing of what the header claims: the caller appends each
// newSubFilter(c.cuckooShape, p.filterBuckets(i), slots). It refuses what the server
// refuses, and an expansion that is no power of two (sub-filters would be none
// either), sub-filters past 2^32 slots, and more items than slots.
func newCuckooRedis(p cuckooParams) (*Cuckoo, error) {
	switch {
	case p.bucketSize < 1 || p.bucketSize > maxRedisBucketSize:
		return nil, fmt.Errorf("%w: bucket size is %d, want 1 … %d", ErrCorrupt, p.bucketSize, maxRedisBucketSize)
	case p.maxIterations < 1:
		return nil, fmt.Errorf("%w: max iterations is 0, want 1 … %d", ErrCorrupt, maxCuckooMoves)
	case p.expansion > maxExpansion || p.expansion&(p.expansion-1) != 0:
		return nil, fmt.Errorf("%w: expansion is %d, want 0 or a power of two up to %d", ErrCorrupt, p.expansion, maxExpansion)
	case p.filters < 1 || p.filters > 1<<16:
		return nil, fmt.Errorf("%w: %d sub-filters, want 1 … 65536", ErrCorrupt, p.filters)
	case p.expansion == 0 && p.filters > 1:
		return nil, fmt.Errorf("%w: %d sub-filters with expansion 0", ErrCorrupt, p.filters)
	case p.buckets == 0 || p.buckets&(p.buckets-1) != 0:
		return nil, fmt.Errorf("%w: %d buckets, want a power of two", ErrCorrupt, p.buckets)
	}
	s := cuckooShape{
		redis: true, bucketSize: uint64(p.bucketSize), width: 8,
		maxIterations: uint64(p.maxIterations), growth: uint64(p.expansion),
	}
	slots := uint64(0)
	for _, buckets := range s.chainBuckets(p.buckets, p.filters) {
		if err := s.checkRedisSlots(buckets); err != nil {
			return nil, err
		}
		slots += buckets * s.bucketSize
	}
	if p.items > slots {
		return nil, fmt.Errorf("%w: %d items in %d slots", ErrCorrupt, p.items, slots)
	}
	if err := checkSize(slots*s.width, math.MaxUint64); err != nil {
		return nil, err
	}
	c := newCuckoo(s, config{scheme: RedisBloom, maxBytes: math.MaxUint64}, sizing{p.buckets * s.bucketSize, 0})
	c.len, c.deletes = p.items, p.deletes
	return c, nil
}

// RedisBitmap returns the filter's bits as a Redis string: bit i is the one
// that GETBIT key i reads, so the positions of a key can be asked for, one
// GETBIT each, where the string was SET. It is a new slice of Bits/8 bytes, rounded
// up. A Redis string holds 2^32 bits; a larger filter's has no place there.
func (f *Filter) RedisBitmap() []byte { return f.bits.appendRedisString(nil, 0, f.bits.byteLen()) }

// AppendRedisBitmap appends bytes from … to−1 of [Filter.RedisBitmap] to dst, as many as there are,
// and returns the extended slice: for a large filter that is sent in pieces. It allocates only when dst
// is short of room.
func (f *Filter) AppendRedisBitmap(dst []byte, from, to uint64) []byte {
	if to = min(to, f.bits.byteLen()); from >= to {
		return dst
	}
	return f.bits.appendRedisString(dst, from, to)
}

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
