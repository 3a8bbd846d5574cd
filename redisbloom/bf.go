package redisbloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	bloom "github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/internal/ascii"
)

// bfOptions are what a BF key is made with.
type bfOptions struct {
	errorRate  float64
	capacity   int64
	expansion  int64
	nonScaling bool
}

func (e *Engine) bfDefaults() bfOptions {
	s := e.config.Load()
	return bfOptions{errorRate: s.bfErrorRate, capacity: s.bfInitialSize, expansion: s.bfExpansionFactor}
}

// bfReserve finds its keywords anywhere and passes over what it does not know.
func bfReserve(e *Engine, args [][]byte) Reply {
	o := e.bfDefaults()
	var ok bool
	if o.errorRate, ok = parseDouble(args[2]); !ok {
		return errReply("ERR bad error rate")
	}
	if !(o.errorRate > 0 && o.errorRate < 1) {
		return errReply("ERR error rate must be in the range (0.000000, 1.000000)")
	}
	if o.capacity, ok = parseInt(args[3]); !ok {
		return errReply("ERR bad capacity")
	}
	if o.capacity < 1 || o.capacity > maxCapacity {
		return errReply("ERR capacity must be in the range [1, 1073741824]")
	}
	o.nonScaling = index(args[1:], "nonscaling") >= 0
	if i := index(args[1:], "expansion"); i >= 0 {
		if i += 2; i == len(args) {
			return errReply("ERR no expansion")
		}
		if o.expansion, ok = parseInt(args[i]); !ok {
			return errReply("ERR bad expansion")
		}
		if o.expansion < 0 || o.expansion > maxExpansion {
			return errReply("ERR expansion must be in the range [0, 32768]")
		}
		if o.nonScaling {
			return errReply("Nonscaling filters cannot expand")
		}
	}
	return e.reserve(args[1], kindBF, e.bfMaker(args[1], o))
}

// reserve makes a filter where there is no key.
func (e *Engine) reserve(key []byte, k kind, create func(*entry) ErrorReply) Reply {
	en, created := e.keys.lockOrCreate(key)
	if created {
		if err := create(en); err != "" {
			e.keys.drop(key, en)
			return errReply(err)
		}
		en.Unlock()
		return replyOK
	}
	defer en.Unlock()
	if en.kind != k {
		return errReply(ErrWrongType)
	}
	return errReply(ErrExists)
}

func (e *Engine) bfMaker(key []byte, o bfOptions) func(*entry) ErrorReply {
	return func(en *entry) ErrorReply { return e.makeBF(key, en, o) }
}

// makeBF fills in an entry that was just made.
func (e *Engine) makeBF(key []byte, en *entry, o bfOptions) ErrorReply {
	rate := min(o.errorRate, maxRate)
	opts := []bloom.Option{bloom.WithScheme(bloom.RedisBloom)}
	first := rate * 0.5
	switch {
	case o.nonScaling:
		opts, first = append(opts, bloom.WithNonScaling()), rate
	case o.expansion == 0:
		first = rate
		fallthrough
	default:
		opts = append(opts, bloom.WithGrowth(int(o.expansion)))
	}
	size, err := bloom.Estimate(uint64(o.capacity), first, bloom.WithScheme(bloom.RedisBloom))
	if err != nil {
		return ErrOutOfMemory
	}
	bytes := keyOverhead + linkOverhead + uint64(len(key)) + size.Bits/8
	if !e.mem.reserve(bytes) {
		return ErrOutOfMemory
	}
	f, err := bloom.NewScalable(uint64(o.capacity), rate, opts...)
	if err != nil {
		e.mem.release(bytes)
		return ErrOutOfMemory
	}
	f.SetMaxBytes(0)
	en.set(kindBF)
	en.bf, en.bytes = f, bytes
	return ""
}

// forAdding returns the filter of key, locked. If it is not there, create fills in an entry for it;
// a nil create leaves it at that.
func (e *Engine) forAdding(key []byte, k kind, create func(*entry) ErrorReply) (*entry, ErrorReply) {
	var en *entry
	created := false
	if create != nil {
		en, created = e.keys.lockOrCreate(key)
	} else if en = e.keys.lock(key); en == nil {
		return nil, ErrNotFound
	}
	if created {
		if err := create(en); err != "" {
			e.keys.drop(key, en)
			return nil, err
		}
		return en, ""
	}
	if err := en.needs(k); err != "" {
		en.Unlock()
		return nil, err
	}
	return en, ""
}

// needs returns the error of a command for filters of kind k, if the entry is none that
// has been loaded to its end.
func (en *entry) needs(k kind) ErrorReply {
	if en.kind != k {
		return ErrWrongType
	}
	return en.load.incomplete()
}

// add adds item to the filter of a locked entry.
func (e *Engine) add(en *entry, item []byte) (bool, ErrorReply) {
	added, err := en.bf.Add(item)
	if errors.Is(err, bloom.ErrTooLarge) {
		added, err = e.growing(en, en.bf, linkOverhead, func() (bool, error) { return en.bf.Add(item) })
	}
	return added, refusal(err, ErrBFFull)
}

// growing repeats an add that needs to grow, with leave to.
func (e *Engine) growing(en *entry, f interface {
	GrowthBytes() uint64
	SizeBytes() uint64
	SetMaxBytes(uint64)
}, overhead uint64, add func() (bool, error)) (bool, error) {
	size := f.GrowthBytes()
	if size == 0 || !e.mem.reserve(size+overhead) {
		return false, bloom.ErrTooLarge
	}
	f.SetMaxBytes(f.SizeBytes() + size)
	added, err := add()
	f.SetMaxBytes(0)
	if err != nil {
		e.mem.release(size + overhead)
		return false, err
	}
	en.bytes += size + overhead
	return added, nil
}

// refusal returns the reply for the error of an add, full where the filter is.
func refusal(err error, full ErrorReply) ErrorReply {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, bloom.ErrTooLarge):
		return ErrOutOfMemory
	}
	return full
}

func bfAdd(e *Engine, args [][]byte) Reply {
	en, err := e.forAdding(args[1], kindBF, e.bfMaker(args[1], e.bfDefaults()))
	if err != "" {
		return errReply(err)
	}
	added, err := e.add(en, args[2])
	en.Unlock()
	if err != "" {
		return errReply(err)
	}
	return boolReply(added)
}

func bfMAdd(e *Engine, args [][]byte) Reply {
	return e.bfAddAll(args[1], args[2:], e.bfMaker(args[1], e.bfDefaults()))
}

// bfAddAll adds items up to the first that is refused, whose error ends the array.
func (e *Engine) bfAddAll(key []byte, items [][]byte, create func(*entry) ErrorReply) Reply {
	en, err := e.forAdding(key, kindBF, create)
	if err != "" {
		return errReply(err)
	}
	defer en.Unlock()
	r := Reply{Kind: Array, Elems: make([]Reply, 0, len(items))}
	for _, item := range items {
		added, err := e.add(en, item)
		if err != "" {
			r.Elems = append(r.Elems, errReply(err))
			break
		}
		r.Elems = append(r.Elems, boolReply(added))
	}
	return r
}

// bfInsert tells options by their letters.
func bfInsert(e *Engine, args [][]byte) Reply {
	o := e.bfDefaults()
	noCreate := false
	for i := 2; i < len(args); i++ {
		name := args[i]
		switch first := ascii.Letter(name, 0); {
		case first == 'i':
			if i+1 == len(args) {
				return wrongArity("bf.insert")
			}
			create := e.bfMaker(args[1], o)
			if noCreate {
				create = nil
			}
			return e.bfAddAll(args[1], args[i+1:], create)
		case first == 'n' && ascii.Letter(name, 2) == 'c':
			noCreate = true
			continue
		case first == 'n':
			o.nonScaling = true
			continue
		case first != 'c' && first != 'e':
			return errReply("Unknown argument received")
		}
		if i++; i == len(args) {
			break
		}
		if err := o.set(name, args[i]); err != "" {
			return errReply(err)
		}
	}
	return wrongArity("bf.insert")
}

// set takes a value of BF.INSERT's CAPACITY, ERROR or EXPANSION.
func (o *bfOptions) set(name, value []byte) ErrorReply {
	var ok bool
	switch {
	case ascii.Letter(name, 0) == 'c':
		if o.capacity, ok = parseInt(value); !ok || o.capacity < 1 || o.capacity > maxCapacity {
			return "Bad capacity"
		}
	case ascii.Letter(name, 1) == 'r':
		if o.errorRate, ok = parseDouble(value); !ok || !(o.errorRate > 0 && o.errorRate < 1) {
			return "Bad error rate"
		}
	default:
		if o.expansion, ok = parseInt(value); !ok || o.expansion < 0 || o.expansion > maxExpansion {
			return "Bad expansion"
		}
	}
	return ""
}

// bfExists says 0 for a key of another type, as the server does.
func bfExists(e *Engine, args [][]byte) Reply {
	en := e.keys.rlock(args[1])
	if en == nil {
		return boolReply(false)
	}
	defer en.RUnlock()
	switch {
	case en.bf != nil:
		return boolReply(en.bf.Contains(args[2]))
	case en.kind == kindBF:
		return errReply(en.load.incomplete())
	}
	return boolReply(false)
}

func bfMExists(e *Engine, args [][]byte) Reply {
	items := args[2:]
	r := Reply{Kind: Array, Elems: make([]Reply, len(items))}
	en := e.keys.rlock(args[1])
	if en != nil {
		defer en.RUnlock()
		if en.kind == kindBF && en.bf == nil {
			return errReply(en.load.incomplete())
		}
	}
	for i, item := range items {
		r.Elems[i] = boolReply(en != nil && en.bf != nil && en.bf.Contains(item))
	}
	return r
}

func bfCard(e *Engine, args [][]byte) Reply {
	en := e.keys.rlock(args[1])
	if en == nil {
		return intReply(0)
	}
	defer en.RUnlock()
	if en.kind != kindBF {
		return errReply(ErrWrongType)
	}
	if en.bf != nil {
		return intReply(en.bf.Len())
	}
	return intReply(en.bfHeader().count)
}

// forReading returns the entry of key, locked for reading, if it is of kind k.
func (e *Engine) forReading(key []byte, k kind) (*entry, ErrorReply) {
	en := e.keys.rlock(key)
	if en == nil {
		return nil, ErrNotFound
	}
	if en.kind != k {
		en.RUnlock()
		return nil, ErrWrongType
	}
	return en, ""
}

func bfInfo(e *Engine, args [][]byte) Reply {
	en, err := e.forReading(args[1], kindBF)
	if err != "" {
		return errReply(err)
	}
	h := en.bfHeader()
	en.RUnlock()
	var all []Reply
	all = field(all, "Capacity", intReply(h.capacity()))
	all = field(all, "Size", intReply(h.size()))
	all = field(all, "Number of filters", intReply(len(h.links)))
	all = field(all, "Number of items inserted", intReply(h.count))
	expansion := Reply{}
	if h.options&optionNonScaling == 0 {
		expansion = intReply(uint64(h.expansion))
	}
	all = field(all, "Expansion rate", expansion)
	if len(args) == 2 {
		return Reply{Kind: Map, Elems: all}
	}
	for i, word := range []string{"capacity", "size", "filters", "items", "expansion"} {
		if ascii.Is(args[2], word) {
			return Reply{Kind: Fields, Elems: all[2*i : 2*i+2]}
		}
	}
	return errReply("Invalid information value")
}

func bfDebug(e *Engine, args [][]byte) Reply {
	en, err := e.forReading(args[1], kindBF)
	if err != "" {
		return errReply(err)
	}
	h := en.bfHeader()
	en.RUnlock()
	r := Reply{Kind: Array, Elems: []Reply{{Kind: Bulk, Str: fmt.Sprint("size:", h.count)}}}
	for _, l := range h.links {
		r.Elems = append(r.Elems, Reply{Kind: Bulk, Str: fmt.Sprintf(
			"bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%s",
			l.bytes, l.bits, l.hashes, l.entries, l.count, strconv.FormatFloat(l.rate, 'g', 6, 64))})
	}
	return r
}

// bfHeader is the header of a dump: all that there is to say of a chain but its bits.
type bfHeader struct {
	count     uint64
	options   uint32
	expansion uint32
	links     []bfLink
}

type bfLink struct {
	bytes, bits, count uint64
	rate               float64
	hashes             uint32
	entries            uint64
}

const optionNonScaling = 8

// bfHeader returns the header of the entry's filter: also of one that is being loaded.
func (en *entry) bfHeader() bfHeader {
	if en.bf == nil {
		return parseBFHeader(en.load.header)
	}
	_, header, err := en.bf.ScanDumpAt(0, 0)
	if err != nil {
		panic(err) // every filter here has the scheme of dumps
	}
	return parseBFHeader(header)
}

// parseBFHeader reads a header that a loader has taken.
func parseBFHeader(b []byte) bfHeader {
	le := binary.LittleEndian
	h := bfHeader{count: le.Uint64(b), options: le.Uint32(b[12:]), expansion: le.Uint32(b[16:])}
	for b = b[20:]; len(b) > 0; b = b[53:] {
		h.links = append(h.links, bfLink{
			le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:]), math.Float64frombits(le.Uint64(b[24:])), le.Uint32(b[40:]), le.Uint64(b[44:]),
		})
	}
	return h
}

func (h *bfHeader) capacity() (n uint64) {
	for _, l := range h.links {
		n += l.entries
	}
	return n
}

func (h *bfHeader) bytes() (n uint64) {
	for _, l := range h.links {
		n += l.bytes
	}
	return n
}

// size is what BF.INFO says.
func (h *bfHeader) size() uint64 { return 32 + 64*uint64(len(h.links)) + h.bytes() }
