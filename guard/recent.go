package guard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// recent remembers the keys that were announced or created last, exactly and bounded. It
// answers which nulls are not to be believed, and what a rebuild has to add that its scan may not
// see. Times are since start, by the monotonic clock.
type recent[K comparable] struct {
	start time.Time
	limit int

	// Beyond this nobody is doubted; it spares lookups the lock.
	doubtful atomic.Int64

	mu      sync.Mutex
	records map[K]record
	queue   []dated[K] // ring of the latest calls of add, oldest at head once it is full
	head    int
	reach   time.Duration // all keys added after it are in records
	allTill time.Duration // until then every null is doubted, for keys that had to leave

	creates  atomic.Int64 // calls of Create under way
	creating map[K]int    // in how many of them a key is
}

// A null from a load that began before until, or before announced, is not believed.
type record struct {
	at        time.Duration // when it was added last
	until     time.Duration // since it was created
	announced time.Duration // since it was announced; 0 = it was not, or has been created
}

func (rec record) doubtful() time.Duration { return max(rec.until, rec.announced) }

type dated[K comparable] struct {
	key K
	at  time.Duration
}

func newRecent[K comparable](limit int) *recent[K] {
	return &recent[K]{start: time.Now(), limit: limit, records: make(map[K]record), reach: -1, creating: make(map[K]int)}
}

// now is the time as add and doubts take it.
func (r *recent[K]) now() time.Duration { return time.Since(r.start) }

// check panics if one of ks cannot be the key of a map: an interface that holds a slice. Half of an
// entry would make later calls panic, of others.
func (r *recent[K]) check(ks []K) {
	for _, k := range ks {
		_ = r.records[k]
	}
}

// add remembers ks, and doubts nulls of loads that begin within the next hold. A creation ends
// what an announcement has said; nothing else makes the time shorter that is there already, since
// the cache may have a null until then. Keys that are not equal to themselves are passed over:
// they would never leave a map, and nobody can look them up.
func (r *recent[K]) add(ks []K, hold time.Duration, announced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.check(ks)
	at := r.now()
	until := at + hold
	for _, k := range ks {
		if k != k {
			continue
		}
		rec := r.records[k]
		entry := dated[K]{k, at}
		if len(r.queue) < r.limit {
			r.queue = append(r.queue, entry)
		} else {
			r.evict(r.queue[r.head])
			r.queue[r.head] = entry
			r.head = (r.head + 1) % r.limit
		}
		rec.at = at
		if announced {
			rec.announced = max(rec.announced, until)
		} else {
			rec.until, rec.announced = max(rec.until, until), 0
		}
		r.records[k] = rec
	}
	// Raised before the caller goes on to show the rows to anybody.
	if int64(until) > r.doubtful.Load() {
		r.doubtful.Store(int64(until))
	}
}

// evict forgets a call of add, unless the key was added again since. What it would have doubted
// is doubted for every key: that costs some loads, the contrary could hide a row.
func (r *recent[K]) evict(old dated[K]) {
	rec, ok := r.records[old.key]
	if !ok || rec.at != old.at {
		return
	}
	delete(r.records, old.key)
	r.reach = max(r.reach, rec.at)
	r.allTill = max(r.allTill, rec.doubtful())
}

// doubts reports whether a null for k is not to be believed, that came from a load which began
// at began.
func (r *recent[K]) doubts(k K, began time.Duration) bool {
	if int64(began) >= r.doubtful.Load() && r.creates.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doubtsLocked(k, began)
}

func (r *recent[K]) doubtsLocked(k K, began time.Duration) bool {
	return began < r.allTill || r.creating[k] > 0 || began < r.records[k].doubtful()
}

// addedSince reports whether k was announced or created at since or later, or is being created; where that is
// forgotten, it may have been.
func (r *recent[K]) addedSince(k K, since time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.records[k]
	return ok && rec.at >= since || r.creating[k] > 0 || r.reach >= since
}

// pending reports whether k is announced, or being created, and not marked yet.
func (r *recent[K]) pending(k K) bool {
	now := r.now()
	if int64(now) >= r.doubtful.Load() && r.creates.Load() == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.creating[k] > 0 || now < r.records[k].announced
}

// undoubted calls do, unless a null for k would be doubted now, and returns what it says. Nobody
// announces or creates k in between.
func (r *recent[K]) undoubted(k K, do func(K) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.doubtsLocked(k, r.now()) && do(k)
}

// begin holds on to the keys of a call of Create until the function that it returns is called:
// however long that takes, nulls for them are doubted, and a rebuild adds them.
func (r *recent[K]) begin(ks []K) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.check(ks)
	ks = slices.Clone(ks)
	for _, k := range ks {
		if k == k {
			r.creating[k]++
		}
	}
	r.creates.Add(1)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, k := range ks {
			if k != k {
				continue
			}
			if r.creating[k]--; r.creating[k] == 0 {
				delete(r.creating, k)
			}
		}
		r.creates.Add(-1)
	}
}

// grow waits until there is a memory of the last d.
func (r *recent[K]) grow(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d - r.now()):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// unseen returns the keys that a scan which begins now, and sees what was committed before from, need
// not see though their rows may soon be visible: those created since from, and those announced and
// not yet created. All says that none of the first was forgotten.
func (r *recent[K]) unseen(from time.Duration) (ks []K, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, rec := range r.records {
		if rec.announced > 0 || rec.at >= from {
			ks = append(ks, k)
		}
	}
	for k := range r.creating {
		ks = append(ks, k)
	}
	return ks, r.reach < from
}
