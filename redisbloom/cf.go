package redisbloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	bloom "github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/internal/ascii"
)

// cfOptions are what a CF key is made with.
type cfOptions struct {
	capacity, bucketSize, maxIterations, expansion int64
}

func (e *Engine) cfDefaults() cfOptions {
	s := e.config.Load()
	return cfOptions{s.cfInitialSize, s.cfBucketSize, s.cfMaxIterations, s.cfExpansionFactor}
}

// cfReserve finds its keywords anywhere, each with its value behind it, and passes over
// what it does not know.
func cfReserve(e *Engine, args [][]byte) Reply {
	if len(args)%2 == 0 {
		return wrongArity("cf.reserve")
	}
	o := e.cfDefaults()
	var ok bool
	if o.capacity, ok = parseInt(args[2]); !ok {
		return errReply("Bad capacity")
	}
	for _, option := range []struct {
		word, name string
		low, high  int64
		value      *int64
	}{
		{"bucketsize", "BUCKETSIZE", 1, maxBucketSize, &o.bucketSize},
		{"maxiterations", "MAXITERATIONS", 1, maxIterations, &o.maxIterations},
		{"expansion", "EXPANSION", 0, maxExpansion, &o.expansion},
	} {
		i := index(args[1:], option.word)
		if i < 0 {
			continue
		}
		if i += 2; i == len(args) {
			return errReply(ErrorReply("Couldn't parse " + option.name))
		}
		if *option.value, ok = parseInt(args[i]); !ok {
			return errReply(ErrorReply("Couldn't parse " + option.name))
		}
		if *option.value < option.low || *option.value > option.high {
			return errReply(ErrorReply(fmt.Sprintf("%s: value must be in the range [%d, %d]", option.name, option.low, option.high)))
		}
	}
	if o.capacity < minCapacityRatio*o.bucketSize || o.capacity > maxCapacity {
		return errReply("Capacity must be in the range [2 * BUCKETSIZE, 1073741824]")
	}
	return e.reserve(args[1], kindCF, e.cfMaker(args[1], o))
}

func (e *Engine) cfMaker(key []byte, o cfOptions) func(*entry) ErrorReply {
	return func(en *entry) ErrorReply { return e.makeCF(key, en, o) }
}

// makeCF fills in an entry that was just made.
func (e *Engine) makeCF(key []byte, en *entry, o cfOptions) ErrorReply {
	// The next power of two above capacity/bucketSize buckets; slots go in words.
	slots := uint64(o.bucketSize) << bits.Len64(uint64(max(1, o.capacity/o.bucketSize))-1)
	bytes := keyOverhead + linkOverhead + uint64(len(key)) + (slots+7)/8*8
	if !e.mem.reserve(bytes) {
		return ErrOutOfMemory
	}
	f, err := bloom.NewCuckoo(uint64(o.capacity), 0, bloom.WithScheme(bloom.RedisBloom), bloom.WithBucketSize(int(o.bucketSize)),
		bloom.WithMaxIterations(int(o.maxIterations)), bloom.WithGrowth(int(o.expansion)))
	if err != nil {
		e.mem.release(bytes)
		return ErrOutOfMemory
	}
	en.setCF(f)
	en.bytes = bytes
	return ""
}

// setCF gives the entry a filter. How many sub-filters it may have depends on the settings at the time
// of a command, and what memory on what there is.
func (en *entry) setCF(f *bloom.Cuckoo) {
	f.SetMaxBytes(0)
	f.SetMaxSubFilters(math.MaxInt)
	en.set(kindCF)
	en.cf = f
}

// cfForAdding returns the filter of key, locked, unless it has all the sub-filters it may have.
func (e *Engine) cfForAdding(key []byte, create func(*entry) ErrorReply) (*entry, ErrorReply) {
	en, err := e.forAdding(key, kindCF, create)
	if err == "" && int64(en.cf.SubFilterCount()) >= e.config.Load().cfMaxExpansions {
		en.Unlock()
		return nil, ErrCFExpansions
	}
	return en, err
}

// cfAddItem adds item to the filter of a locked entry.
func (e *Engine) cfAddItem(en *entry, item []byte, unique bool) (bool, ErrorReply) {
	added, err := en.cfStore(item, unique)
	if errors.Is(err, bloom.ErrTooLarge) {
		added, err = e.growing(en, en.cf, linkOverhead, func() (bool, error) { return en.cfStore(item, unique) })
	}
	return added, refusal(err, ErrCFFull)
}

func (en *entry) cfStore(item []byte, unique bool) (bool, error) {
	if unique {
		return en.cf.AddUnique(item)
	}
	return en.cf.Add(item)
}

func cfAdd(e *Engine, args [][]byte) Reply   { return e.cfAddOne(args, false) }
func cfAddNX(e *Engine, args [][]byte) Reply { return e.cfAddOne(args, true) }

func (e *Engine) cfAddOne(args [][]byte, unique bool) Reply {
	en, err := e.cfForAdding(args[1], e.cfMaker(args[1], e.cfDefaults()))
	if err != "" {
		return errReply(err)
	}
	added, err := e.cfAddItem(en, args[2], unique)
	en.Unlock()
	if err != "" {
		return errReply(err)
	}
	return boolReply(added)
}

func cfInsert(e *Engine, args [][]byte) Reply   { return e.cfInsert(args, false) }
func cfInsertNX(e *Engine, args [][]byte) Reply { return e.cfInsert(args, true) }

// cfInsert tells options by their first letters.
func (e *Engine) cfInsert(args [][]byte, unique bool) Reply {
	name := either(unique, "cf.insertnx", "cf.insert")
	o := e.cfDefaults()
	noCreate := false
	for i := 2; i < len(args); i++ {
		switch ascii.Letter(args[i], 0) {
		case 'c':
			if i++; i == len(args) {
				return wrongArity(name)
			}
			var ok bool
			if o.capacity, ok = parseInt(args[i]); !ok {
				return errReply("Bad capacity")
			}
			if o.capacity < minCapacityRatio*o.bucketSize || o.capacity > maxCapacity {
				return errReply("Capacity must be in the range [cf-bucket-size * 2, 1073741824]")
			}
		case 'n':
			noCreate = true
		case 'i':
			if i+1 == len(args) {
				return wrongArity(name)
			}
			create := e.cfMaker(args[1], o)
			if noCreate {
				create = nil
			}
			return e.cfAddAll(args[1], args[i+1:], create, unique)
		default:
			return errReply("Unknown argument received")
		}
	}
	return wrongArity(name)
}

// cfAddAll tries every item; −1 is one that was refused.
func (e *Engine) cfAddAll(key []byte, items [][]byte, create func(*entry) ErrorReply, unique bool) Reply {
	en, err := e.cfForAdding(key, create)
	if err != "" {
		return errReply(err)
	}
	defer en.Unlock()
	r := Reply{Kind: Array, Elems: make([]Reply, 0, len(items))}
	for _, item := range items {
		added, err := e.cfAddItem(en, item, unique)
		answer := boolReply(added)
		if err != "" {
			answer.Int = -1
		}
		if unique {
			answer.Kind = Int // in RESP3 too
		}
		r.Elems = append(r.Elems, answer)
	}
	return r
}

// cfReading calls read with the filter of key, under its lock. Like the server it takes a key
// of another type for one that is not there.
func (e *Engine) cfReading(key []byte, read func(*bloom.Cuckoo)) ErrorReply {
	en := e.keys.rlock(key)
	if en == nil {
		return ""
	}
	defer en.RUnlock()
	switch {
	case en.cf != nil:
		read(en.cf)
	case en.kind == kindCF:
		return en.load.incomplete()
	}
	return ""
}

func cfExists(e *Engine, args [][]byte) Reply {
	found := false
	if err := e.cfReading(args[1], func(f *bloom.Cuckoo) { found = f.Contains(args[2]) }); err != "" {
		return errReply(err)
	}
	return boolReply(found)
}

func cfMExists(e *Engine, args [][]byte) Reply {
	items := args[2:]
	r := Reply{Kind: Array, Elems: make([]Reply, len(items))}
	for i := range r.Elems {
		r.Elems[i] = boolReply(false)
	}
	err := e.cfReading(args[1], func(f *bloom.Cuckoo) {
		for i, item := range items {
			r.Elems[i] = boolReply(f.Contains(item))
		}
	})
	if err != "" {
		return errReply(err)
	}
	return r
}

func cfCount(e *Engine, args [][]byte) Reply {
	n := 0
	if err := e.cfReading(args[1], func(f *bloom.Cuckoo) { n = f.Count(args[2]) }); err != "" {
		return errReply(err)
	}
	return intReply(n)
}

func cfDel(e *Engine, args [][]byte) Reply {
	en := e.keys.lock(args[1])
	if en == nil {
		return errReply(ErrCFDelNotFound)
	}
	defer en.Unlock()
	switch {
	case en.kind != kindCF:
		return errReply(ErrCFDelNotFound)
	case en.cf == nil:
		return errReply(en.load.incomplete())
	}
	filters := en.cf.SubFilterCount()
	removed := en.cf.Remove(args[2])
	if en.cf.SubFilterCount() < filters {
		e.mem.settle(args[1], en)
	}
	return boolReply(removed)
}

func cfCompact(e *Engine, args [][]byte) Reply {
	en := e.keys.lock(args[1])
	if en == nil {
		return errReply(errCompactNotFound)
	}
	defer en.Unlock()
	switch {
	case en.kind != kindCF:
		return errReply(errCompactNotFound)
	case en.cf == nil:
		return errReply(en.load.incomplete())
	}
	en.cf.Compact()
	e.mem.settle(args[1], en)
	return replyOK
}

func cfInfoCommand(e *Engine, args [][]byte) Reply {
	en, err := e.forReading(args[1], kindCF)
	if err != "" {
		return errReply(err)
	}
	h := en.cfHeader()
	en.RUnlock()
	r := Reply{Kind: Map}
	r.Elems = field(r.Elems, "Size", intReply(h.size()))
	r.Elems = field(r.Elems, "Number of buckets", intReply(h.buckets))
	r.Elems = field(r.Elems, "Number of filters", intReply(h.filters))
	r.Elems = field(r.Elems, "Number of items inserted", intReply(h.items))
	r.Elems = field(r.Elems, "Number of items deleted", intReply(h.deletes))
	r.Elems = field(r.Elems, "Bucket size", intReply(uint64(h.bucketSize)))
	r.Elems = field(r.Elems, "Expansion rate", intReply(uint64(h.expansion)))
	r.Elems = field(r.Elems, "Max iterations", intReply(uint64(h.maxIterations)))
	return r
}

func cfDebug(e *Engine, args [][]byte) Reply {
	en, err := e.forReading(args[1], kindCF)
	if err != "" {
		return errReply(err)
	}
	h := en.cfHeader()
	en.RUnlock()
	return Reply{Kind: Bulk, Str: fmt.Sprintf("bktsize:%d buckets:%d items:%d deletes:%d filters:%d max_iterations:%d expansion:%d",
		h.bucketSize, h.buckets, h.items, h.deletes, h.filters, h.maxIterations, h.expansion)}
}

// cfHeader is the header of a dump: all that there is to say of a filter but its slots.
type cfHeader struct {
	items, buckets, deletes, filters     uint64 // buckets of the first sub-filter
	bucketSize, maxIterations, expansion uint16
}

// cfHeader returns the header of the entry's filter: also of one that is being loaded.
func (en *entry) cfHeader() cfHeader {
	f := en.cf
	if f == nil {
		return parseCFHeader(en.load.header)
	}
	return cfHeader{
		f.Len(), f.Buckets(), f.Deletes(), uint64(f.SubFilterCount()),
		uint16(f.BucketSize()), uint16(f.MaxIterations()), uint16(f.Growth()),
	}
}

// parseCFHeader reads a header that a loader has taken.
func parseCFHeader(b []byte) cfHeader {
	le := binary.LittleEndian
	return cfHeader{le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint16(b[32:]), le.Uint16(b[34:]), le.Uint16(b[36:])}
}

func (h *cfHeader) bytes() []byte {
	le := binary.LittleEndian
	var b []byte
	for _, v := range []uint64{h.items, h.buckets, h.deletes, h.filters} {
		b = le.AppendUint64(b, v)
	}
	for _, v := range []uint16{h.bucketSize, h.maxIterations, h.expansion} {
		b = le.AppendUint16(b, v)
	}
	return b
}

// filterSlots is the number of slots of sub-filter i. Expansion is a power of two, or 0.
func (h *cfHeader) filterSlots(i uint64) uint64 {
	return h.buckets << (i * uint64(bits.TrailingZeros16(max(1, h.expansion)))) * uint64(h.bucketSize)
}

func (h *cfHeader) slots() (n uint64) {
	for i := range h.filters {
		n += h.filterSlots(i)
	}
	return n
}

// size is what CF.INFO says.
func (h *cfHeader) size() uint64 { return 40 + 16*h.filters + h.slots() }
