package redisbloom

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/redbloom-go/bloom/internal/ascii"
)

// This file has the commands that are not for filters: the ones on keys, and plain strings, which
// are there because keys of another type matter to the errors.

func set(e *Engine, args [][]byte) Reply {
	if len(args) > 3 { // no expiry, and no conditions
		return errReply(errSyntax)
	}
	key, value := args[1], args[2]
	en, created := e.keys.lockOrCreate(key)
	return errorOrOK(e.store(key, en, created, len(value), func() { en.str = slices.Clone(value) }))
}

// store makes en, which is locked, a string of size bytes by calling put, and unlocks it. If there is no memory for
// that, the key is as it was.
func (e *Engine) store(key []byte, en *entry, created bool, size int, put func()) ErrorReply {
	need := keyOverhead + uint64(len(key)+size)
	if need > en.bytes && !e.mem.reserve(need-en.bytes) {
		if created {
			e.keys.drop(key, en)
		} else {
			en.Unlock()
		}
		return ErrOutOfMemory
	}
	if need < en.bytes {
		e.mem.release(en.bytes - need)
	}
	en.bytes = need
	if en.kind != kindString {
		en.set(kindString)
	}
	put()
	en.Unlock()
	return ""
}

// appendTo is APPEND.
func appendTo(e *Engine, args [][]byte) Reply {
	key, value := args[1], args[2]
	en, created := e.keys.lockOrCreate(key)
	if !created && en.kind != kindString {
		en.Unlock()
		return errReply(ErrWrongType)
	}
	size := len(en.str) + len(value)
	if err := e.store(key, en, created, size, func() { en.str = append(en.str, value...) }); err != "" {
		return errReply(err)
	}
	return intReply(size)
}

// getRange takes its bounds, both inclusive, from the end of the string where they are negative.
func getRange(e *Engine, args [][]byte) Reply {
	from, ok := parseInt(args[2])
	to, ok2 := parseInt(args[3])
	if !ok || !ok2 {
		return errReply(errNotInteger)
	}
	r := get(e, args[:2])
	switch {
	case r.Kind == Error:
		return r
	case from < 0 && to < 0 && from > to:
		return Reply{Kind: Bulk}
	}
	n := int64(len(r.Str))
	if from < 0 {
		from = max(0, from+n)
	}
	if to < 0 {
		to = max(0, to+n)
	}
	to = min(to, n-1)
	if from > to {
		return Reply{Kind: Bulk}
	}
	return Reply{Kind: Bulk, Str: r.Str[from : to+1]}
}

func strLen(e *Engine, args [][]byte) Reply {
	r := get(e, args)
	if r.Kind == Error {
		return r
	}
	return intReply(len(r.Str))
}

func get(e *Engine, args [][]byte) Reply {
	en := e.keys.rlock(args[1])
	if en == nil {
		return Reply{}
	}
	defer en.RUnlock()
	if en.kind != kindString {
		return errReply(ErrWrongType)
	}
	return Reply{Kind: Bulk, Str: string(en.str)}
}

func del(e *Engine, args [][]byte) Reply {
	n := 0
	for _, key := range args[1:] {
		if en := e.keys.remove(key); en != nil {
			e.mem.release(en.clear())
			n++
		}
	}
	return intReply(n)
}

// rename moves the value to the other key, in the place of what is there. Who holds the old entry finds it gone, and
// who reads the other key sees one value or the other.
func rename(e *Engine, args [][]byte) Reply {
	from, to := args[1], args[2]
	if bytes.Equal(from, to) {
		if e.kindOf(from) == gone {
			return errReply(ErrNoSuchKey)
		}
		return replyOK
	}
	old := e.keys.remove(from)
	if old == nil {
		return errReply(ErrNoSuchKey)
	}
	en, _ := e.keys.lockOrCreate(to)
	en.kind, en.str, en.bf, en.cf, en.load = old.kind, old.str, old.bf, old.cf, old.load
	e.mem.release(old.clear())
	e.mem.settle(to, en)
	en.Unlock()
	return replyOK
}

func exists(e *Engine, args [][]byte) Reply {
	n := 0
	for _, key := range args[1:] {
		if en := e.keys.rlock(key); en != nil {
			en.RUnlock()
			n++
		}
	}
	return intReply(n)
}

// typeName is what TYPE says of a key.
func (k kind) typeName() string {
	switch k {
	case kindString:
		return "string"
	case kindBF:
		return "MBbloom--"
	case kindCF:
		return "MBbloomCF"
	}
	return "none"
}

func (e *Engine) kindOf(key []byte) kind {
	en := e.keys.rlock(key)
	if en == nil {
		return gone
	}
	defer en.RUnlock()
	return en.kind
}

func typeOf(e *Engine, args [][]byte) Reply {
	return Reply{Kind: Simple, Str: e.kindOf(args[1]).typeName()}
}

func keys(e *Engine, args [][]byte) Reply {
	var found []string
	for i := range e.keys.shards {
		found = e.keys.shards[i].appendKeys(found)
	}
	return keyList(slices.DeleteFunc(found, func(key string) bool { return !Match(string(args[1]), key) }))
}

func keyList(keys []string) Reply {
	r := Reply{Kind: Array, Elems: make([]Reply, 0, len(keys))}
	for _, key := range keys {
		r.Elems = append(r.Elems, Reply{Kind: Bulk, Str: key})
	}
	return r
}

// scan goes through the shards, some a call: the cursor is the next one. A key that is there
// all the time is returned once; one that comes or goes meanwhile may be or not.
func scan(e *Engine, args [][]byte) Reply {
	cursor, err := strconv.ParseUint(string(args[1]), 10, 64)
	if err != nil {
		return errReply("ERR invalid cursor")
	}
	pattern, count, typeName := "*", int64(10), ""
	for i := 2; i < len(args); i += 2 {
		if i+1 == len(args) {
			return errReply(errSyntax)
		}
		switch value := args[i+1]; {
		case ascii.Is(args[i], "match"):
			pattern = string(value)
		case ascii.Is(args[i], "type"):
			typeName = string(value)
		case ascii.Is(args[i], "count"):
			var ok bool
			if count, ok = parseInt(value); !ok {
				return errReply(errNotInteger)
			}
			if count < 1 {
				return errReply(errSyntax)
			}
		default:
			return errReply(errSyntax)
		}
	}
	var found []string
	seen := int64(0)
	for ; cursor < shardCount && seen < count; cursor++ {
		inShard := e.keys.shards[cursor].appendKeys(nil)
		seen += int64(len(inShard))
		found = append(found, inShard...)
	}
	if cursor >= shardCount {
		cursor = 0
	}
	found = slices.DeleteFunc(found, func(key string) bool {
		return !Match(pattern, key) || typeName != "" && e.kindOf(asBytes(key)).typeName() != typeName
	})
	return Reply{Kind: Array, Elems: []Reply{{Kind: Bulk, Str: strconv.FormatUint(cursor, 10)}, keyList(found)}}
}

func dbSize(e *Engine, _ [][]byte) Reply { return intReply(e.Len()) }

func flushAll(e *Engine, args [][]byte) Reply {
	if len(args) > 2 || len(args) == 2 && !ascii.Is(args[1], "sync") && !ascii.Is(args[1], "async") {
		return errReply(errSyntax)
	}
	for i := range e.keys.shards {
		for _, key := range e.keys.shards[i].appendKeys(nil) {
			del(e, [][]byte{nil, asBytes(key)})
		}
	}
	return replyOK
}

func memoryCommand(e *Engine, args [][]byte) Reply {
	if !ascii.Is(args[1], "usage") {
		return unknownSubcommand("MEMORY", args[1])
	}
	switch {
	case len(args) < 3:
		return wrongArity("memory|usage")
	case len(args) == 3:
	case len(args) != 5 || !ascii.Is(args[3], "samples"):
		return errReply(errSyntax)
	default:
		if _, ok := parseInt(args[4]); !ok {
			return errReply(errNotInteger)
		}
	}
	return memoryUsage(e, args[2])
}

// memoryUsage is what a Redis 7 server says: the size that BF.INFO and CF.INFO give, or of a
// string, and what the key takes there, in blocks of its allocator.
func memoryUsage(e *Engine, key []byte) Reply {
	en := e.keys.rlock(key)
	if en == nil {
		return Reply{}
	}
	defer en.RUnlock()
	size := uint64(0)
	switch en.kind {
	case kindString:
		size = stringSize(en.str)
	case kindBF:
		h := en.bfHeader()
		size = h.size()
	case kindCF:
		h := en.cfHeader()
		size = h.size()
	}
	return intReply(size + allocated(sdsSize(len(key))) + 24)
}

// stringSize is what a server's value takes: the object, with short strings in it and integers
// in the place of its pointer.
func stringSize(value []byte) uint64 {
	const object = 16
	if _, ok := parseInt(value); ok {
		return object
	}
	if len(value) <= 44 {
		return allocated(object + 4 + uint64(len(value)))
	}
	return object + allocated(sdsSize(len(value)))
}

// sdsSize is what a server's string of n bytes takes: a header by its length, and a zero at the end.
func sdsSize(n int) uint64 {
	switch {
	case n < 32:
		return uint64(n) + 2
	case n < 1<<8:
		return uint64(n) + 4
	case n < 1<<16:
		return uint64(n) + 6
	case uint64(n) < 1<<32:
		return uint64(n) + 10
	}
	return uint64(n) + 18
}

// allocated rounds a size up to one that the server's allocator, jemalloc, has.
func allocated(n uint64) uint64 {
	if n <= 8 {
		return 8
	}
	step := uint64(16)
	for n > 8*step {
		step *= 2
	}
	return (n + step - 1) / step * step
}
