package guard

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// flights collapses loads of one key into one, and fences off those that a write has
// overtaken.
//
// A flight is in the map from when somebody wants a key loaded until its entry is in the cache,
// so that whoever misses the cache finds one or the other. It leaves early, and its entry is then
// neither stored nor given to newcomers, when it is fenced: because its key was
// written, because nobody waits for it any more, or because it took too long.
type flights[K comparable, V any] struct {
	shards [64]flightShard[K, V]
	slots  atomic.Int64 // loads under way
	limit  int64        // of slots; 0 = none
}

type flightShard[K comparable, V any] struct {
	mu     sync.Mutex // held for some map operations, never while anything is waited for
	flying map[K]*flight[K, V]
	late   map[K][]*flight[K, V] // fenced while their entries were being stored, which goes on

	// ended counts the flights whose entry was stored. A caller that missed the cache and then
	// finds no flight need look at the cache again only if it has moved.
	ended atomic.Uint64
	_     [64]byte
}

type flight[K comparable, V any] struct {
	key   K
	shard *flightShard[K, V]
	load  *load
	again bool // look at the cache once more before loading

	done  chan struct{} // closed when entry and err are there
	entry Entry[V]
	err   error

	// Under shard.mu:
	waiters int
	settled bool
	fenced  bool
	stored  chan struct{} // closed when the entry is stored; nil before that begins
	ended   bool          // stored is closed
}

// load is one call of the loader, for one flight or for a batch of them. Its context ends
// when none of them is waited for any more.
type load struct {
	ctx    context.Context
	cancel context.CancelFunc
	live   atomic.Int64  // flights that are not settled
	began  time.Duration // by recent's clock
}

// newLoad returns a load that has the values of ctx and not its end.
func newLoad(ctx context.Context) *load {
	l := new(load)
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

func newFlights[K comparable, V any](limit int) *flights[K, V] {
	f := &flights[K, V]{limit: int64(limit)}
	for i := range f.shards {
		f.shards[i].flying = make(map[K]*flight[K, V])
		f.shards[i].late = make(map[K][]*flight[K, V])
	}
	return f
}

func (fs *flights[K, V]) shard(hash uint64) *flightShard[K, V] {
	return &fs.shards[hash%uint64(len(fs.shards))]
}

// acquire takes a slot for a load and reports whether there was one.
func (fs *flights[K, V]) acquire() bool {
	if fs.slots.Add(1) > fs.limit && fs.limit > 0 {
		fs.slots.Add(-1)
		return false
	}
	return true
}

func (fs *flights[K, V]) release() { fs.slots.Add(-1) }

// errNotSelf is for keys such as a NaN, which would stay in every map for ever.
var errNotSelf = errors.New("guard: the key is not equal to itself")

// join makes the caller wait for the flight of k. If there is none it begins one, provided
// that allowed says so, and mine is true: the caller must then see to its being loaded. Seen is
// what ended was before the caller looked at the cache.
func (s *flightShard[K, V]) join(k K, seen uint64, allowed func() (*load, error)) (f *flight[K, V], mine bool, err error) {
	if k != k {
		return nil, false, errNotSelf
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flying[k]; f != nil {
		f.waiters++
		return f, false, nil
	}
	l, err := allowed()
	if err != nil {
		return nil, false, err
	}
	l.live.Add(1)
	f = &flight[K, V]{key: k, shard: s, load: l, again: s.ended.Load() != seen, done: make(chan struct{}), waiters: 1}
	s.flying[k] = f
	return f, true, nil
}

// wait returns what f brings. If ctx ends before, it leaves f and returns false and ctx's error.
func (f *flight[K, V]) wait(ctx context.Context) (e Entry[V], waited bool, err error) {
	select {
	case <-f.done:
		return f.entry, true, f.err
	case <-ctx.Done():
	}
	select {
	case <-f.done: // both at once: the caller has waited for it
		return f.entry, true, f.err
	default:
		f.leave()
		return e, false, ctx.Err()
	}
}

// leave is for a caller who does not wait any more. The last one ends the flight.
func (f *flight[K, V]) leave() {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	f.waiters--
	if f.waiters == 0 {
		f.settleLocked(Entry[V]{}, context.Canceled)
	}
}

// settle gives e, or err, to all who wait, and reports whether e is to be stored: then the
// caller must do that and call f.end. Only the first call does anything.
func (f *flight[K, V]) settle(e Entry[V], err error) (store bool) {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	return f.settleLocked(e, err)
}

func (f *flight[K, V]) settleLocked(e Entry[V], err error) (store bool) {
	if f.settled {
		return false
	}
	f.settled, f.entry, f.err = true, e, err
	close(f.done)
	if f.load.live.Add(-1) == 0 && err != nil {
		f.load.cancel() // nobody waits for the loader
	}
	if err != nil {
		f.fenceLocked()
	}
	if f.fenced {
		return false
	}
	f.stored = make(chan struct{})
	return true
}

// fenceLocked takes f out of the map and marks its entry as not to be stored, or, where that has begun, to be
// deleted again.
func (f *flight[K, V]) fenceLocked() {
	if f.fenced {
		return
	}
	f.fenced = true
	if f.shard.flying[f.key] == f {
		delete(f.shard.flying, f.key)
	}
	if f.stored != nil && !f.ended {
		f.shard.late[f.key] = append(f.shard.late[f.key], f)
	}
}

// fence takes the flight of k away, if there is one. It returns channels that are closed when the
// entries which are being stored at this moment, its own and those of earlier flights, are
// stored: then the entry is to be deleted. A cache may take longer to store than anybody has
// patience, so there can be several.
func (s *flightShard[K, V]) fence(k K) (storing []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.flying[k]; f != nil {
		f.fenceLocked()
	}
	for _, f := range s.late[k] {
		storing = append(storing, f.stored)
	}
	return storing
}

// isFenced reports whether f was fenced, which it may be while its entry is being stored.
func (f *flight[K, V]) isFenced() bool {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	return f.fenced
}

// end is called after the entry was stored, or deleted again.
func (f *flight[K, V]) end() {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	f.ended = true
	if f.shard.flying[f.key] == f {
		delete(f.shard.flying, f.key)
	}
	if rest := slices.DeleteFunc(f.shard.late[f.key], func(l *flight[K, V]) bool { return l == f }); len(rest) > 0 {
		f.shard.late[f.key] = rest
	} else {
		delete(f.shard.late, f.key)
	}
	f.shard.ended.Add(1)
	close(f.stored)
}

// expire is for an entry that takes too long to store, or that is too old.
func (f *flight[K, V]) expire() {
	f.shard.mu.Lock()
	defer f.shard.mu.Unlock()
	f.fenceLocked()
}

var errGoexit = errors.New("guard: the callback ended its goroutine (runtime.Goexit)")

// protect calls f and turns a panic into an error. It does not return if f ends the goroutine.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return f()
}
