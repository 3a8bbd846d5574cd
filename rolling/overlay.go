package rolling

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Overlay is a [Swap] from which keys can be deleted: beside the filter, which never loses a key,
// it has the exact set of the keys that were deleted since the filter was built. A rebuild merges
// the two: a key whose row was gone before the scan is not in the new filter, so it leaves the
// set.
//
// The set is exact because an approximate one would call some other key deleted that
// exists. It is bounded, because it is exact. When it is full, a deletion is refused, and
// the key stays what a filter alone would call it until the next rebuild.
//
// Delete after the commit of a deletion, Add before and after the commit of a creation. What
// Swap says of goroutines and of the order of writes holds here too.
type Overlay[K comparable, F any] struct {
	Swap[F]
	limit int
	ttl   time.Duration
	start time.Time

	count   atomic.Int64 // len(deleted), so that lookups need no lock while there is none
	mu      sync.RWMutex
	deleted map[K]deletion
	rebuild uint64        // how many rebuilds have begun
	oldest  time.Duration // no deletion expires before
}

type deletion struct {
	until   time.Duration // since start; 0 = for ever
	rebuild uint64        // the rebuilds that had begun before it
}

// NewOverlay returns an Overlay without a filter, as the zero [Swap] is, that holds up to limit
// deletions, each of which takes the memory of an entry of a map. A deletion is forgotten
// after ttl, or only by a rebuild if ttl is 0; a limit of 0 or less refuses all. A
// ttl heals what a wrong order of marks does: a key whose deletion is marked after
// its re-creation stays deleted for ttl, not until the next rebuild.
func NewOverlay[K comparable, F any](limit int, ttl time.Duration) *Overlay[K, F] {
	ttl = min(ttl, math.MaxInt64/2) // a sum with the time since start does not overflow
	return &Overlay[K, F]{limit: limit, ttl: ttl, start: time.Now(), deleted: make(map[K]deletion)}
}

// Add is [Swap.Write] of what adds k, and k is not deleted any more, even if it fails.
func (o *Overlay[K, F]) Add(k K, add func(F) error) error {
	defer o.Undelete(k)
	return o.Write(add)
}

// Undelete forgets the deletion of k, if there is one.
func (o *Overlay[K, F]) Undelete(k K) {
	if o.count.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.deleted, k)
	o.count.Store(int64(len(o.deleted)))
}

// Delete records that k is deleted, whether or not the filter has it, and reports whether
// there was room for that. There is none for a key that is not equal to itself, such as a NaN,
// which could never be taken out again.
func (o *Overlay[K, F]) Delete(k K) bool {
	if k != k {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	d := deletion{rebuild: o.rebuild}
	now := time.Since(o.start)
	if o.ttl > 0 {
		d.until = now + o.ttl
	}
	if _, again := o.deleted[k]; !again && len(o.deleted) >= o.limit && !o.expire(now) {
		return false
	}
	o.deleted[k] = d
	o.count.Store(int64(len(o.deleted)))
	return true
}

// expire forgets what is too old and reports whether there is room then. The caller holds mu.
func (o *Overlay[K, F]) expire(now time.Duration) bool {
	if o.ttl <= 0 || now < o.oldest {
		return false
	}
	o.oldest = now + o.ttl // of what is yet to come; the look below lowers it
	for k, d := range o.deleted {
		if d.until <= now {
			delete(o.deleted, k)
		} else {
			o.oldest = min(o.oldest, d.until)
		}
	}
	o.count.Store(int64(len(o.deleted)))
	return len(o.deleted) < o.limit
}

// Deleted reports whether k is deleted. It takes a lock, which readers share, only while there
// are deletions.
func (o *Overlay[K, F]) Deleted(k K) bool {
	if o.count.Load() == 0 {
		return false
	}
	o.mu.RLock()
	d, ok := o.deleted[k]
	o.mu.RUnlock()
	return ok && (d.until == 0 || time.Since(o.start) < d.until)
}

// Contains asks the active filter by calling in, and the deletions where it says yes. It reports
// whether k may exist, which without a filter every key may.
func (o *Overlay[K, F]) Contains(k K, in func(F) bool) bool {
	for {
		st := o.state.Load()
		if st != nil && st.loaded && !in(st.active) {
			return false
		}
		if o.Deleted(k) {
			return false
		}
		// A filter that was replaced since it was asked may have a key whose deletion has been
		// forgotten with it.
		if o.state.Load() == st {
			return true
		}
	}
}

// Deletions returns how many deletions are held, among them those that have expired and
// are not forgotten yet.
func (o *Overlay[K, F]) Deletions() int { return int(o.count.Load()) }

// Rebuild is [Swap.Rebuild]. When it succeeds, deletions from before the call are forgotten; those
// made meanwhile stay, since the scan may have read the row before.
func (o *Overlay[K, F]) Rebuild(ctx context.Context, f F, fill func(ctx context.Context) error) error {
	// Marked before the standby is published: a key that is added to that and then deleted, all before
	// the scan, is in the new filter.
	o.mu.Lock()
	o.rebuild++
	mark := o.rebuild
	o.mu.Unlock()
	err := o.Swap.Rebuild(ctx, f, fill)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, d := range o.deleted {
		if d.rebuild < mark {
			delete(o.deleted, k)
		}
	}
	o.count.Store(int64(len(o.deleted)))
	return nil
}
