package redisbloom

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	bloom "github.com/redbloom-go/bloom"
)

// This file has the keys: how they are found, locked, made and dropped. Two commands wait for one
// another only if they are for the same key and one of them writes, or while the
// map of a shard is looked into.

const shardCount = 256

type keyspace struct {
	seed   maphash.Seed
	shards [shardCount]shard
}

type shard struct {
	sync.RWMutex
	entries map[string]*entry
	_       [64]byte // keeps the locks of two shards on two cache lines
}

type kind uint8

const (
	gone kind = iota // the entry is no longer in the keyspace: look again
	kindString
	kindBF
	kindCF
)

// entry is a key's value. Its lock is held while a command works on it.
type entry struct {
	sync.RWMutex
	kind    kind
	version uint64 // counts the commands that may have changed it
	bytes   uint64 // what it is counted with in memory.used
	str     []byte
	bf      *bloom.Scalable // nil while load is not
	cf      *bloom.Cuckoo   // the same
	load    *loading
}

func (k *keyspace) init() {
	k.seed = maphash.MakeSeed()
	for i := range k.shards {
		k.shards[i].entries = map[string]*entry{}
	}
}

func (k *keyspace) shard(key []byte) *shard {
	return &k.shards[maphash.Bytes(k.seed, key)%shardCount]
}

func (s *shard) find(key []byte) *entry {
	s.RLock()
	en := s.entries[string(key)]
	s.RUnlock()
	return en
}

// rlock returns the entry of key, locked for reading, or nil.
func (k *keyspace) rlock(key []byte) *entry {
	s := k.shard(key)
	for {
		en := s.find(key)
		if en == nil {
			return nil
		}
		if en.RLock(); en.kind != gone {
			return en
		}
		en.RUnlock()
	}
}

// lock returns the entry of key, locked for writing, or nil.
func (k *keyspace) lock(key []byte) *entry {
	s := k.shard(key)
	for {
		en := s.find(key)
		if en == nil {
			return nil
		}
		if en.Lock(); en.kind != gone {
			en.version++
			return en
		}
		en.Unlock()
	}
}

// lockOrCreate returns the entry of key, locked for writing. Where there is none it makes
// one, whose kind is gone as long as the caller has not filled it in, so that
// others wait for this key and no other meanwhile; a caller that cannot calls drop.
func (k *keyspace) lockOrCreate(key []byte) (en *entry, created bool) {
	s := k.shard(key)
	for {
		if en = k.lock(key); en != nil {
			return en, false
		}
		en = &entry{version: 1}
		en.Lock()
		s.Lock()
		if s.entries[string(key)] == nil {
			s.entries[string(key)] = en
			s.Unlock()
			return en, true
		}
		s.Unlock()
	}
}

// drop takes a locked entry out of the keyspace and unlocks it.
func (k *keyspace) drop(key []byte, en *entry) {
	s := k.shard(key)
	s.Lock()
	if s.entries[string(key)] == en {
		delete(s.entries, string(key))
	}
	s.Unlock()
	en.Unlock()
}

// remove takes the entry of key out of the keyspace, and returns it locked, or nil.
func (k *keyspace) remove(key []byte) *entry {
	s := k.shard(key)
	s.Lock()
	en := s.entries[string(key)]
	delete(s.entries, string(key))
	s.Unlock()
	if en == nil {
		return nil
	}
	if en.Lock(); en.kind == gone { // it was being made, and could not be
		en.Unlock()
		return nil
	}
	return en
}

// clear empties the entry, which is locked and no longer in the keyspace, and unlocks it. It returns
// the bytes that are free then.
func (en *entry) clear() uint64 {
	bytes := en.bytes
	en.set(gone)
	en.bytes = 0
	en.Unlock()
	return bytes
}

// set makes the entry one of another kind and without a value.
func (en *entry) set(k kind) { en.kind, en.str, en.bf, en.cf, en.load = k, nil, nil, nil, nil }

// len is the number of keys.
func (k *keyspace) len() int {
	n := 0
	for i := range k.shards {
		s := &k.shards[i]
		s.RLock()
		n += len(s.entries)
		s.RUnlock()
	}
	return n
}

// appendKeys appends the keys of a shard to dst.
func (s *shard) appendKeys(dst []string) []string {
	s.RLock()
	defer s.RUnlock()
	for key := range s.entries {
		dst = append(dst, key)
	}
	return dst
}

// memory counts what all keys take, against a limit. Whoever is about to allocate reserves
// first, so that commands for different keys together cannot pass the limit.
type memory struct {
	used  atomic.Uint64
	limit atomic.Uint64 // 0: none
}

// What a key, a link or a sub-filter takes beside its bits, about: the structs, and the
// key's place in the map.
const (
	keyOverhead  = 400
	linkOverhead = 160
)

func (m *memory) reserve(n uint64) bool {
	for {
		used, limit := m.used.Load(), m.limit.Load()
		if used+n < used || limit != 0 && used+n > limit {
			return false
		}
		if m.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

func (m *memory) release(n uint64) { m.used.Add(-n) }

// settle counts en with what it takes now, after a command that was for less than it had reserved
// or gave memory back.
func (m *memory) settle(key []byte, en *entry) {
	bytes := en.size(key)
	m.used.Add(bytes - en.bytes)
	en.bytes = bytes
}

// size is what an entry takes.
func (en *entry) size(key []byte) uint64 {
	bytes := keyOverhead + uint64(len(key)+len(en.str))
	switch {
	case en.load != nil:
		bytes += en.load.size()
	case en.bf != nil:
		h := en.bfHeader()
		bytes += linkOverhead*uint64(len(h.links)) + en.bf.SizeBytes()
	case en.cf != nil:
		bytes += linkOverhead*uint64(en.cf.SubFilterCount()) + en.cf.SizeBytes()
	}
	return bytes
}
