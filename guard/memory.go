package guard

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"time"
)

// Memory is a [BatchCache] inside the process that holds a bounded number of entries and evicts
// the one that was used least recently. Make one with [NewMemory].
//
// A tenth of the entries is for keys that have no row, and the rest for rows, so that neither evicts
// the other: an attack with keys that do not exist, each used once, leaves the rows alone, and
// rows leave the few absent keys alone that everybody asks for. It never returns an error, takes
// well under a microsecond, and may be called from several goroutines at once, which wait for each
// other only in the same one of up to 64 shards.
type Memory[K comparable, V any] struct {
	seed   maphash.Seed
	start  time.Time
	shards []memoryShard[K, V]
}

type memoryShard[K comparable, V any] struct {
	mu            sync.Mutex
	values, nulls lru[K, V]
	_             [64]byte
}

// NewMemory makes a cache of at most the given number of entries, of which there are at least 2. It
// takes the memory for one as it is used.
func NewMemory[K comparable, V any](entries int) *Memory[K, V] {
	entries = max(entries, 2)
	shards := 1
	for shards < 64 && entries/(2*shards) >= 512 { // small ones would be filled unevenly
		shards *= 2
	}
	m := &Memory[K, V]{seed: maphash.MakeSeed(), start: time.Now(), shards: make([]memoryShard[K, V], shards)}
	for i := range m.shards {
		share := entries / shards
		if i < entries%shards {
			share++
		}
		nulls := max(1, share/10)
		m.shards[i].nulls.init(nulls)
		m.shards[i].values.init(share - nulls)
	}
	return m
}

func (m *Memory[K, V]) shard(k K) *memoryShard[K, V] {
	return &m.shards[maphash.Comparable(m.seed, k)%uint64(len(m.shards))]
}

// Get returns the entry of k, and whether there is one. It does not allocate.
func (m *Memory[K, V]) Get(_ context.Context, k K) (Entry[V], bool, error) {
	s := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.get(k, time.Since(m.start))
	return e, ok, nil
}

func (s *memoryShard[K, V]) get(k K, now time.Duration) (Entry[V], bool) {
	if v, ok := s.values.get(k, now); ok {
		return Entry[V]{Value: v}, true
	}
	_, ok := s.nulls.get(k, now)
	return Entry[V]{Missing: ok}, ok
}

// Set stores e for k. An entry that is Missing does not replace a value.
func (m *Memory[K, V]) Set(_ context.Context, k K, e Entry[V], ttl time.Duration) error {
	if k != k {
		return nil // could be neither found nor removed
	}
	s := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(m.start)
	ttl = min(ttl, math.MaxInt64-now)
	if !e.Missing {
		s.nulls.remove(k)
		s.values.set(k, e.Value, now+ttl)
	} else if _, ok := s.values.get(k, now); !ok {
		var none V
		s.nulls.set(k, none, now+ttl)
	}
	return nil
}

// Delete removes the entry of k.
func (m *Memory[K, V]) Delete(_ context.Context, k K) error {
	s := m.shard(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values.remove(k)
	s.nulls.remove(k)
	return nil
}

// GetMany returns the entries of those of ks that have one.
func (m *Memory[K, V]) GetMany(ctx context.Context, ks []K) (map[K]Entry[V], error) {
	found := make(map[K]Entry[V], len(ks))
	for _, k := range ks {
		if e, ok, _ := m.Get(ctx, k); ok {
			found[k] = e
		}
	}
	return found, nil
}

// SetMany stores items.
func (m *Memory[K, V]) SetMany(ctx context.Context, items []Item[K, V]) error {
	for _, it := range items {
		m.Set(ctx, it.Key, it.Entry, it.TTL) // never fails
	}
	return nil
}

// Len returns how many rows and how many absent keys are held, among them those that have expired
// and are not evicted yet.
func (m *Memory[K, V]) Len() (values, nulls int) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		values += len(s.values.index)
		nulls += len(s.nulls.index)
		s.mu.Unlock()
	}
	return values, nulls
}

// lru is a bounded map that evicts what was used least recently. Its nodes lie in one slice and
// are linked by their places in it; node 0 is the ring's beginning and end and holds nothing.
type lru[K comparable, V any] struct {
	limit int
	index map[K]int32
	nodes []lruNode[K, V]
	free  int32 // first of the removed nodes, linked by next; 0 = none
}

type lruNode[K comparable, V any] struct {
	key        K
	value      V
	until      time.Duration
	prev, next int32
}

func (l *lru[K, V]) init(limit int) {
	l.limit, l.index, l.nodes = limit, make(map[K]int32), make([]lruNode[K, V], 1)
}

func (l *lru[K, V]) get(k K, now time.Duration) (v V, ok bool) {
	i, ok := l.index[k]
	if !ok {
		return v, false
	}
	if l.nodes[i].until <= now {
		l.remove(k)
		return v, false
	}
	l.unlink(i)
	l.link(i)
	return l.nodes[i].value, true
}

func (l *lru[K, V]) set(k K, v V, until time.Duration) {
	i, ok := l.index[k]
	switch {
	case ok:
		l.unlink(i)
	case l.limit == 0:
		return
	default:
		if len(l.index) >= l.limit {
			l.remove(l.nodes[l.nodes[0].prev].key)
		}
		if i = l.free; i != 0 {
			l.free = l.nodes[i].next
		} else {
			i = int32(len(l.nodes))
			l.nodes = append(l.nodes, lruNode[K, V]{})
		}
		l.index[k] = i
	}
	l.nodes[i].key, l.nodes[i].value, l.nodes[i].until = k, v, until
	l.link(i)
}

func (l *lru[K, V]) remove(k K) {
	i, ok := l.index[k]
	if !ok {
		return
	}
	delete(l.index, k)
	l.unlink(i)
	l.nodes[i] = lruNode[K, V]{next: l.free} // holds on to nothing
	l.free = i
}

// link makes node i the most recently used one.
func (l *lru[K, V]) link(i int32) {
	first := l.nodes[0].next
	l.nodes[i].prev, l.nodes[i].next = 0, first
	l.nodes[first].prev, l.nodes[0].next = i, i
}

func (l *lru[K, V]) unlink(i int32) {
	n := &l.nodes[i]
	l.nodes[n.prev].next, l.nodes[n.next].prev = n.next, n.prev
}
