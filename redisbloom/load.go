package redisbloom

import (
	"bytes"
	"errors"
	"math"

	bloom "github.com/redbloom-go/bloom"
)

// This file has the commands that carry filters between servers.
//
// A key whose header has come and some of whose bytes have not answers BF.INFO and its like, and every
// other command with ErrIncomplete. What a chunk replaces in a filter that is complete it replaces, as on
// the server.

// loading is a filter that is not all here yet.
type loading struct {
	header []byte
	parts  int                   // links or sub-filters
	total  uint64                // bytes of all parts
	chunks uint64                // that have come
	bf     *bloom.ScalableLoader // one of the two
	cf     *bloom.CuckooLoader
}

// chunkOverhead is what a chunk takes beside its bytes as long as its part has not been allocated, about.
const chunkOverhead = 96

// size is what the filter will take. It is counted from the header on, and not allocated before a quarter of a
// part is here.
func (l *loading) size() uint64 {
	return uint64(len(l.header)) + linkOverhead*uint64(l.parts) + l.total + chunkOverhead*l.chunks
}

// counted reserves the memory for one more chunk; it is given back when the key is settled.
func (l *loading) counted(m *memory) bool {
	if !m.reserve(chunkOverhead) {
		return false
	}
	l.chunks++
	return true
}

// incomplete is the reply of a command that needs the whole filter.
func (l *loading) incomplete() ErrorReply {
	if l == nil {
		return ""
	}
	var err error
	if l.bf != nil {
		_, err = l.bf.Finish()
	} else {
		_, err = l.cf.Finish()
	}
	return ErrIncomplete + ": " + ErrorReply(err.Error())
}

func bfScanDump(e *Engine, args [][]byte) Reply {
	en, err := e.forReading(args[1], kindBF)
	if err != "" {
		return errReply(err)
	}
	defer en.RUnlock()
	cursor, ok := parseInt(args[2])
	if !ok {
		return errReply("Second argument must be numeric")
	}
	if en.bf == nil {
		return errReply(en.load.incomplete())
	}
	next, chunk := int64(0), []byte(nil)
	if cursor >= 0 {
		next, chunk, _ = en.bf.ScanDumpAt(cursor, 0)
	}
	return dumpReply(next, Reply{Kind: Bulk, Str: string(chunk)})
}

func cfScanDump(e *Engine, args [][]byte) Reply {
	cursor, ok := parseInt(args[2])
	if !ok || cursor < 0 {
		return errReply("Invalid position")
	}
	en, err := e.forReading(args[1], kindCF)
	if err != "" {
		return errReply(err)
	}
	defer en.RUnlock()
	if en.cf == nil {
		return errReply(en.load.incomplete())
	}
	next, chunk, _ := en.cf.ScanDumpAt(cursor, 0)
	if next == 0 {
		return dumpReply(0, Reply{})
	}
	return dumpReply(next, Reply{Kind: Bulk, Str: string(chunk)})
}

func dumpReply(next int64, chunk Reply) Reply {
	return Reply{Kind: Array, Elems: []Reply{intReply(next), chunk}}
}

func bfLoadChunk(e *Engine, args [][]byte) Reply {
	cursor, ok := parseInt(args[2])
	if !ok {
		return errReply("ERR Second argument must be numeric")
	}
	key, chunk := args[1], args[3]
	en, created := (*entry)(nil), false
	if cursor == 1 {
		en, created = e.keys.lockOrCreate(key)
	} else if en = e.keys.lock(key); en == nil {
		return errReply(ErrNotFound)
	}
	if created {
		if err := e.bfLoadHeader(key, en, chunk); err != "" {
			e.keys.drop(key, en)
			return errReply(err)
		}
		en.Unlock()
		return replyOK
	}
	defer en.Unlock()
	if en.kind != kindBF {
		return errReply(ErrWrongType)
	}
	if cursor <= 0 || cursor < int64(len(chunk)) {
		return errReply(ErrBadData)
	}
	err := e.bfPlace(en, cursor, chunk)
	e.mem.settle(key, en)
	return errorOrOK(err)
}

func errorOrOK(err ErrorReply) Reply {
	if err != "" {
		return errReply(err)
	}
	return replyOK
}

func (e *Engine) bfLoadHeader(key []byte, en *entry, header []byte) ErrorReply {
	l, err := newBFLoading(header)
	if err != nil {
		return headerRefused(err, ErrBadData)
	}
	return e.startLoading(key, en, kindBF, l)
}

// headerRefused is the reply for an error of a loader: other for what the server refuses as well.
func headerRefused(err error, other ErrorReply) ErrorReply {
	if errors.Is(err, bloom.ErrVersion) || errors.Is(err, bloom.ErrTooLarge) {
		return ErrorReply("ERR cannot load this dump: " + err.Error())
	}
	return other
}

func newBFLoading(header []byte) (*loading, error) {
	l := &loading{header: bytes.Clone(header), bf: bloom.NewScalableLoader()}
	if err := l.bf.LoadChunk(1, header); err != nil {
		return nil, err
	}
	h := parseBFHeader(l.header)
	l.parts, l.total = len(h.links), h.bytes()
	return l, nil
}

func newCFLoading(header []byte) (*loading, error) {
	l := &loading{header: bytes.Clone(header), cf: bloom.NewCuckooLoader()}
	if err := l.cf.LoadChunk(1, header); err != nil {
		return nil, err
	}
	h := parseCFHeader(l.header)
	l.parts, l.total = int(h.filters), h.slots()
	return l, nil
}

// startLoading fills in an entry that was just made.
func (e *Engine) startLoading(key []byte, en *entry, k kind, l *loading) ErrorReply {
	en.set(k)
	en.load = l
	bytes := en.size(key)
	if l.total > math.MaxInt64/2 || !e.mem.reserve(bytes) {
		en.set(gone)
		return ErrOutOfMemory
	}
	en.bytes = bytes
	return ""
}

// bfPlace puts a chunk where its cursor says.
func (e *Engine) bfPlace(en *entry, cursor int64, chunk []byte) ErrorReply {
	at := cursor - int64(len(chunk)) // 1 is the first byte
	end := uint64(0)
	for _, link := range en.bfHeader().links {
		if end += link.bytes; uint64(at) <= end {
			break
		}
	}
	switch {
	case at < 1 || uint64(at) > end:
		return "ERR invalid offset - no link found"
	case uint64(cursor)-1 > end:
		return "ERR invalid chunk - Too big for current filter"
	case len(chunk) == 0:
		return ""
	case en.bf != nil:
		return e.bfReplace(en, cursor, chunk)
	}
	if !en.load.counted(&e.mem) {
		return ErrOutOfMemory
	}
	en.bytes += chunkOverhead
	if err := en.load.bf.LoadChunk(cursor, chunk); err != nil {
		return ErrBadData
	}
	return en.finishBF()
}

// finishBF makes the entry's loader its filter, if every byte is here.
func (en *entry) finishBF() ErrorReply {
	f, err := en.load.bf.Finish()
	switch {
	case errors.Is(err, bloom.ErrIncomplete):
		return ""
	case err != nil: // bits past the size of a link of an old dump: wait for better ones
		if en.load, err = newBFLoading(en.load.header); err != nil {
			panic(err) // it was taken before
		}
		return ErrBadData
	}
	f.SetMaxBytes(0)
	en.bf, en.load = f, nil
	return ""
}

// bfReplace puts a chunk in the place of a part of a complete filter.
func (e *Engine) bfReplace(en *entry, cursor int64, chunk []byte) ErrorReply {
	at := cursor - int64(len(chunk))
	if _, old, _ := en.bf.ScanDumpAt(at, len(chunk)); bytes.Equal(old, chunk) {
		return "" // sent again
	}
	size := en.bf.SizeBytes()
	if !e.mem.reserve(size) { // for as long as there are two
		return ErrOutOfMemory
	}
	defer e.mem.release(size)
	l := bloom.NewScalableLoader()
	for cursor, chunk := range en.bf.ScanDump(0) {
		if err := l.LoadChunk(cursor, chunk); err != nil {
			return ErrBadData
		}
	}
	if err := l.LoadChunk(cursor, chunk); err != nil {
		return ErrBadData
	}
	f, err := l.Finish()
	if err != nil {
		return ErrBadData
	}
	f.SetMaxBytes(0)
	en.bf = f
	return ""
}

const (
	errPosition  ErrorReply = "Invalid position"
	errLoadChunk ErrorReply = "Couldn't load chunk!"
)

func cfLoadChunk(e *Engine, args [][]byte) Reply {
	cursor, ok := parseInt(args[2])
	if !ok || cursor < 1 {
		return errReply(errPosition)
	}
	key, chunk := args[1], args[3]
	if cursor == 1 {
		return e.reserve(key, kindCF, func(en *entry) ErrorReply { return e.cfLoadHeader(key, en, chunk) })
	}
	en := e.keys.lock(key)
	if en == nil {
		return errReply(ErrNotFound)
	}
	defer en.Unlock()
	if en.kind != kindCF {
		return errReply(ErrWrongType)
	}
	err := e.cfPlace(en, cursor, chunk)
	e.mem.settle(key, en)
	return errorOrOK(err)
}

func (e *Engine) cfLoadHeader(key []byte, en *entry, header []byte) ErrorReply {
	l, err := newCFLoading(header)
	if err != nil {
		return headerRefused(err, "Invalid header")
	}
	return e.startLoading(key, en, kindCF, l)
}

func (e *Engine) cfPlace(en *entry, cursor int64, chunk []byte) ErrorReply {
	if len(chunk) == 0 || cursor <= int64(len(chunk)) {
		return errLoadChunk
	}
	l := en.load
	if en.cf != nil {
		next, old, _ := en.cf.ScanDumpAt(cursor-int64(len(chunk)), len(chunk))
		if next == cursor && bytes.Equal(old, chunk) {
			return "" // sent again
		}
		size := en.cf.SizeBytes()
		if !e.mem.reserve(size) { // for as long as there are two
			return ErrOutOfMemory
		}
		defer e.mem.release(size)
		l = en.reload()
	} else if l.counted(&e.mem) {
		en.bytes += chunkOverhead
	} else {
		return ErrOutOfMemory
	}
	if err := l.cf.LoadChunk(cursor, chunk); err != nil {
		return errLoadChunk
	}
	f, err := l.cf.Finish()
	switch {
	case err == nil:
		en.setCF(f)
	case en.cf != nil || !errors.Is(err, bloom.ErrIncomplete):
		return errLoadChunk
	}
	return ""
}

// reload returns a loader that has all of a complete cuckoo filter.
func (en *entry) reload() *loading {
	l := &loading{cf: bloom.NewCuckooLoader()}
	h := en.cfHeader()
	load := func(cursor int64, chunk []byte) {
		if err := l.cf.LoadChunk(cursor, chunk); err != nil {
			panic(err) // what it gave out itself
		}
	}
	load(1, h.bytes())
	if en.cf.Len() > 0 {
		for cursor, chunk := range en.cf.ScanDump(0) {
			if cursor > 1 {
				load(cursor, chunk)
			}
		}
		return l
	}
	// There is no dump of a filter that holds nothing: all its slots are zero.
	zeros := make([]byte, min(h.slots(), 1<<20))
	cursor := int64(1)
	for i := range h.filters {
		for left := h.filterSlots(i); left > 0; {
			n := min(left, uint64(len(zeros)))
			left -= n
			cursor += int64(n)
			load(cursor, zeros[:n])
		}
	}
	return l
}
