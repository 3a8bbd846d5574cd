package guard

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// hookedCache is a cache with faults and delays. It has no batches.
type hookedCache struct {
	memory            *Memory[int, string]
	beforeGet         func(ctx context.Context, k int) error
	afterGet          func(k int, ok bool)
	beforeSet         func(ctx context.Context, k int, e Entry[string]) error
	beforeDelete      func(ctx context.Context, k int) error
	gets, sets, nulls atomic.Int64
	mu                sync.Mutex
	ttls              []time.Duration
}

func newHookedCache() *hookedCache { return &hookedCache{memory: NewMemory[int, string](10_000)} }

func (c *hookedCache) Get(ctx context.Context, k int) (e Entry[string], ok bool, err error) {
	c.gets.Add(1)
	if c.beforeGet != nil {
		if err := c.beforeGet(ctx, k); err != nil {
			return e, false, err
		}
	}
	e, ok, err = c.memory.Get(ctx, k)
	if c.afterGet != nil {
		c.afterGet(k, ok)
	}
	return e, ok, err
}

func (c *hookedCache) Set(ctx context.Context, k int, e Entry[string], ttl time.Duration) error {
	c.mu.Lock()
	c.ttls = append(c.ttls, ttl)
	c.mu.Unlock()
	if c.beforeSet != nil {
		if err := c.beforeSet(ctx, k, e); err != nil {
			return err
		}
	}
	c.sets.Add(1)
	if e.Missing {
		c.nulls.Add(1)
	}
	return c.memory.Set(ctx, k, e, ttl)
}

func (c *hookedCache) Delete(ctx context.Context, k int) error {
	if c.beforeDelete != nil {
		if err := c.beforeDelete(ctx, k); err != nil {
			return err
		}
	}
	return c.memory.Delete(ctx, k)
}

// has reports what the cache has for k.
func (c *hookedCache) has(k int) (value, null bool) {
	e, ok, _ := c.memory.Get(context.Background(), k)
	return ok && !e.Missing, ok && e.Missing
}

// sharedFake is what two processes share: a store with tombstones, as an adapter for Redis has it.
type sharedFake struct {
	mu     sync.Mutex
	slots  map[int]sharedSlot
	fences []time.Duration
}

type sharedSlot struct {
	entry     Entry[string]
	tombstone bool
	until     time.Time
}

func newSharedFake() *sharedFake { return &sharedFake{slots: map[int]sharedSlot{}} }

func (c *sharedFake) live(k int) (sharedSlot, bool) {
	s, ok := c.slots[k]
	return s, ok && time.Now().Before(s.until)
}

func (c *sharedFake) Get(_ context.Context, k int) (Entry[string], bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.live(k)
	return s.entry, ok && !s.tombstone, nil
}

func (c *sharedFake) Set(_ context.Context, k int, e Entry[string], ttl time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.live(k); e.Missing && taken { // SET NX
		return nil
	}
	c.slots[k] = sharedSlot{e, false, time.Now().Add(ttl)}
	return nil
}

func (c *sharedFake) Delete(_ context.Context, k int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.slots, k)
	return nil
}

func (c *sharedFake) Fence(_ context.Context, ks []int, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fences = append(c.fences, d)
	for _, k := range ks {
		c.slots[k] = sharedSlot{tombstone: true, until: time.Now().Add(d)}
	}
	return nil
}

// remoteFake is a filter elsewhere, as an adapter for Redis has it: the keys and the marker of their
// generation can be lost together at any time, and a lookup sees both at once.
type remoteFake struct {
	mu      sync.Mutex
	keys    map[string]bool
	marker  bool // the filter is there, and whole
	fault   error
	lookups atomic.Int64
	adds    atomic.Int64
}

func (f *remoteFake) Verdicts(_ context.Context, dst []Verdict, keys [][]byte) ([]Verdict, error) {
	f.lookups.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		return dst, f.fault
	}
	for _, key := range keys {
		switch {
		case !f.marker:
			dst = append(dst, Unknown)
		case f.keys[string(key)]:
			dst = append(dst, Maybe)
		default:
			dst = append(dst, Absent)
		}
	}
	return dst, nil
}

func (f *remoteFake) AddKeys(_ context.Context, keys [][]byte) error {
	f.adds.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil {
		return f.fault
	}
	for _, key := range keys {
		if f.marker {
			f.keys[string(key)] = true
		}
	}
	return nil
}

// flush is DEL, FLUSHALL, eviction or a failover to an empty replica.
func (f *remoteFake) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys, f.marker = nil, false
}

// fill makes the filter anew, of all the keys that exist at one moment.
func (f *remoteFake) fill(keys func() [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys, f.marker = map[string]bool{}, true
	for _, key := range keys() {
		f.keys[string(key)] = true
	}
}

// watcher is an Observer that keeps what it is told.
type watcher struct {
	mu             sync.Mutex
	loads          []LoadEvent
	thresholds     []ThresholdEvent
	rebuilds       []error
	falseNegatives []any
	failures       []string
}

func (w *watcher) Loaded(e LoadEvent) { w.locked(func() { w.loads = append(w.loads, e) }) }
func (w *watcher) Threshold(e ThresholdEvent) {
	w.locked(func() { w.thresholds = append(w.thresholds, e) })
}
func (w *watcher) Rebuilt(_ Report, err error) {
	w.locked(func() { w.rebuilds = append(w.rebuilds, err) })
}
func (w *watcher) FalseNegative(k any) {
	w.locked(func() { w.falseNegatives = append(w.falseNegatives, k) })
}
func (w *watcher) Failed(part string, err error) {
	w.locked(func() { w.failures = append(w.failures, part+": "+err.Error()) })
}

func (w *watcher) locked(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// rest waits until everything that was loaded is stored.
func rest[K comparable, V any](g *Guard[K, V]) {
	for i := range g.flights.shards {
		s := &g.flights.shards[i]
		eventually(func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.flying) == 0
		})
	}
	eventually(func() bool { return g.flights.slots.Load() == 0 && g.fills.Load() == 0 })
}

// eventually waits for what another goroutine is about to do, by the clock of the test.
func eventually(what func() bool) {
	for !what() {
		runtime.Gosched()
	}
}
