package bloom

import (
	"fmt"
	"slices"
)

// This file puts filters together from the chunks of a dump.

// loader gathers the parts of a dump. It keeps chunks as they came until a
// quarter of a part is here, and only then allocates the part: a header's claim costs
// its sender that much.
type loader struct {
	count uint64
	size  func(part uint64) uint64             // in bytes
	find  func(at uint64) (part, start uint64) // part count and the size of all where at is past the end
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
	part, start := l.find(at)
	if part == l.count {
		return fmt.Errorf("%w: a chunk of bytes %d to %d of a filter of %d", ErrCorrupt, at, end, start)
	}
	size := l.size(part)
	if end > start+size {
		return fmt.Errorf("%w: a chunk of bytes %d to %d crosses the end of part %d at %d", ErrCorrupt, at, end, part, start+size)
	}
	if p := l.parts[part]; p != nil && len(p.have) > maxGaps {
		return fmt.Errorf("%w: %d gaps between the chunks of part %d", ErrInvalid, len(p.have), part)
	}
	l.place(part, size, at-start, chunk)
	return nil
}

// maxGaps is how many pieces of a part may lie apart. Servers send theirs in order; without a bound, many
// small ones would take memory and time out of proportion.
const maxGaps = 1 << 10

func (l *loader) place(i, size, at uint64, chunk []byte) {
	p := l.parts[i]
	if p == nil {
		p = &loadPart{}
		l.parts[i] = p
	}
	p.received += uint64(len(chunk))
	p.have.add(at, at+uint64(len(chunk)))
	if p.bits.n == 0 && p.received < (size+3)/4 {
		if n := len(p.pending); n > 0 && p.pending[n-1].at+uint64(len(p.pending[n-1].data)) == at {
			p.pending[n-1].data = append(p.pending[n-1].data, chunk...)
		} else {
			p.pending = append(p.pending, pendingChunk{at, slices.Clone(chunk)})
		}
		return
	}
	if p.bits.n == 0 {
		p.bits = newBitset(8 * size)
		for _, c := range p.pending {
			p.bits.putBytes(c.at, c.data)
		}
		p.pending = nil
	}
	p.bits.putBytes(at, chunk)
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
	starts := make([]uint64, len(chain.links)+1)
	for i := range chain.links {
		starts[i+1] = starts[i] + chain.links[i].bits.byteLen()
	}
	*l = ScalableLoader{chain, loader{
		count: uint64(len(chain.links)),
		size:  func(i uint64) uint64 { return starts[i+1] - starts[i] },
		find: func(at uint64) (part, start uint64) {
			i, _ := slices.BinarySearch(starts[1:], at+1) // the first that ends past at
			return uint64(i), starts[i]
		},
		parts: map[uint64]*loadPart{},
	}}
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
	filter, err := newCuckooRedis(p)
	if err != nil {
		return err
	}
	size := func(i uint64) uint64 { return p.filterBuckets(i) * filter.bucketSize }
	*l = CuckooLoader{p, filter, loader{
		count: p.filters,
		size:  size,
		find: func(at uint64) (part, start uint64) {
			if p.expansion <= 1 {
				part = min(at/size(0), p.filters)
				return part, part * size(0)
			}
			for ; part < p.filters && at >= start+size(part); part++ { // some 30 at most: sizes double
				start += size(part)
			}
			return part, start
		},
		parts: map[uint64]*loadPart{},
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
