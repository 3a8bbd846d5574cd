package guard

import (
	"context"
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
	creates map[*creation[K]]struct{}
}

type record struct {
	at        time.Duration // when it was added last
	until     time.Duration // a null from a load that began before is not believed
	announced bool          // and not created yet
}

// creation is a call of Create under way.
type creation[K comparable] struct{ keys []K }

type dated[K comparable] struct {
	key K
	at  time.Duration
}

func newRecent[K comparable](limit int) *recent[K] {
	return &recent[K]{start: time.Now(), limit: limit, records: make(map[K]record), reach: -1, creates: make(map[*creation[K]]struct{})}
}

// now is the time as add and doubts take it.
func (r *recent[K]) now() time.Duration { return time.Since(r.start) }

// add remembers ks, and doubts nulls of loads that begin within the next hold.
func (r *recent[K]) add(ks []K, hold time.Duration, announced bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now()
	until := at + hold
	for _, k := range ks {
		entry := dated[K]{k, at}
		if len(r.queue) < r.limit {
			r.queue = append(r.queue, entry)
		} else {
			r.evict(r.queue[r.head])
			r.queue[r.head] = entry
			r.head = (r.head + 1) % r.limit
		}
		r.records[k] = record{at, until, announced}
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
	r.allTill = max(r.allTill, rec.until)
}

// doubts reports whether a null for k is not to be believed, that came from a load which began
// at began.
func (r *recent[K]) doubts(k K, began time.Duration) bool {
	if int64(began) >= r.doubtful.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return began < r.allTill || began < r.records[k].until
}

// addedSince reports whether k was announced or created at since or later; where that is forgotten, it may have been.
func (r *recent[K]) addedSince(k K, since time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.records[k]
	return ok && rec.at >= since || r.reach >= since
}

// begin holds on to the keys of a creation until end.
func (r *recent[K]) begin(ks []K) *creation[K] {
	c := &creation[K]{ks}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.creates[c] = struct{}{}
	return c
}

func (r *recent[K]) end(c *creation[K]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.creates, c)
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
		if rec.announced || rec.at >= from {
			ks = append(ks, k)
		}
	}
	for c := range r.creates {
		ks = append(ks, c.keys...)
	}
	return ks, r.reach < from
}
