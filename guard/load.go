package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxFills is how many loads may be storing their entries at once; beyond that they do not. It
// bounds what piles up behind a cache that hangs.
const maxFills = 1024

// fly runs the load l of flights fs, which has a slot, and stores what it brings.
func (g *Guard[K, V]) fly(l *load, fs []*flight[K, V]) {
	g.store(l, g.run(l, fs, g.flights.release))
}

// flyEach runs the loads of flights fs, each of its own, one after the other in each of several
// goroutines, of which every one has a slot.
func (g *Guard[K, V]) flyEach(fs []*flight[K, V], goroutines int) {
	var taken atomic.Int64
	taken.Store(int64(goroutines))
	take := func() int { return int(taken.Add(1)) - 1 }
	var work func(i int)
	work = func(i int) {
		for i < len(fs) {
			f, next := fs[i], take()
			release := func() {}
			if next >= len(fs) {
				release = g.flights.release
			}
			func() {
				finished := false
				defer func() {
					if !finished { // a loader ended the goroutine; the slot passes on
						go work(next)
					}
				}()
				landed := g.run(f.load, fs[i:i+1:i+1], release)
				finished = true
				go g.store(f.load, landed)
			}()
			i = next
		}
	}
	for i := range goroutines { // no more than there are flights
		go work(i)
	}
}

// run looks at the cache again where that is needed, calls the loader, calls release, and settles all
// flights, also if the loader panics, ends the goroutine, or does not return in time. It returns
// the flights whose entries are to be stored. Release comes before, so that a caller who has
// got his answer finds the slot free.
func (g *Guard[K, V]) run(l *load, fs []*flight[K, V], release func()) (landed []*flight[K, V]) {
	l.began = g.recent.now() // no later than that, and before anybody gets an answer
	defer l.cancel()
	ctx, cancel := context.WithTimeout(l.ctx, g.opts.LoadTimeout)
	defer cancel()
	all := fs
	defer context.AfterFunc(ctx, func() {
		err := fmt.Errorf("guard: the load took longer than %v: %w", g.opts.LoadTimeout, context.DeadlineExceeded)
		for _, f := range all {
			f.settle(Entry[V]{}, err)
		}
	})()

	var entries []Entry[V]
	var start time.Time // zero: the loader was not called
	err := errGoexit
	free := sync.OnceFunc(release)
	defer func() {
		free()
		landed = g.land(fs, entries, err)
		if !start.IsZero() {
			g.loaded(fs, entries, time.Since(start), err)
		}
	}()
	err = protect(func() (err error) {
		if fs, err = g.recheck(ctx, fs, free); err != nil || l.live.Load() == 0 {
			return err
		}
		start = time.Now()
		entries, err = g.call(ctx, fs)
		return err
	})
	return nil // the deferred function has the last word
}

// recheck settles the flights whose entry has come into the cache since their callers looked,
// and returns the others. If there are none it calls release first.
func (g *Guard[K, V]) recheck(ctx context.Context, fs []*flight[K, V], release func()) (rest []*flight[K, V], err error) {
	if !slices.ContainsFunc(fs, func(f *flight[K, V]) bool { return f.again }) {
		return fs, nil
	}
	entries := make(map[*flight[K, V]]Entry[V])
	for _, f := range fs {
		if f.again {
			e, ok, err := g.cached(ctx, f.key)
			if err != nil {
				return fs, err
			}
			if ok {
				entries[f] = e
				continue
			}
		}
		rest = append(rest, f)
	}
	if len(rest) == 0 {
		release()
	}
	for f, e := range entries {
		if f.settle(e, nil) {
			f.end()
		}
	}
	return rest, nil
}

// call calls the loader for the keys of fs and returns their entries in that order.
func (g *Guard[K, V]) call(ctx context.Context, fs []*flight[K, V]) ([]Entry[V], error) {
	entries := make([]Entry[V], len(fs))
	if len(fs) == 1 {
		v, err := g.opts.Loader.Load(ctx, fs[0].key)
		switch {
		case err == nil:
			entries[0].Value = v
		case errors.Is(err, ErrNotFound):
			entries[0].Missing = true
		default:
			return nil, err
		}
		return entries, nil
	}
	ks := make([]K, len(fs))
	for i, f := range fs {
		ks[i] = f.key
	}
	rows, err := g.loadsMany.LoadMany(ctx, ks)
	if err != nil {
		return nil, opaque(err)
	}
	for i, f := range fs {
		v, ok := rows[f.key]
		if ok {
			entries[i].Value = v
		}
		entries[i].Missing = !ok
	}
	return entries, nil
}

// opaque hides that err is ErrNotFound where it does not mean that one key has no row: no
// caller may take it for that.
func opaque(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("guard: not the answer of a load: %v", err)
	}
	return err
}

// land settles the flights and returns those whose entries are to be stored.
func (g *Guard[K, V]) land(fs []*flight[K, V], entries []Entry[V], err error) (landed []*flight[K, V]) {
	for i, f := range fs {
		if err != nil || i >= len(entries) {
			f.settle(Entry[V]{}, err)
		} else if f.settle(entries[i], nil) {
			landed = append(landed, f)
		}
	}
	return landed
}

// loaded counts a call of the loader.
func (g *Guard[K, V]) loaded(fs []*flight[K, V], entries []Entry[V], took time.Duration, err error) {
	event := LoadEvent{Keys: len(fs), Took: took, Err: err}
	for _, e := range entries {
		if e.Missing {
			event.Missing++
		}
	}
	h := g.keys.hash(fs[0].key)
	g.counts.add(h, loads)
	if err != nil {
		g.counts.add(h, loadErrors)
	}
	g.watch.Loaded(event)
}

// store puts the entries of fs into the cache, unless a write has overtaken them, and ends the
// flights. What is overtaken while it is being stored is deleted again.
func (g *Guard[K, V]) store(l *load, fs []*flight[K, V]) {
	if len(fs) == 0 {
		return
	}
	defer g.fills.Add(-1)
	tooMany := g.fills.Add(1) > maxFills
	ctx, cancel := g.patience(l.ctx)
	defer cancel()
	var items []Item[K, V]
	defer func() { // also if the cache ends the goroutine
		g.unstore(l.ctx, fs)
		for _, f := range fs {
			f.end()
		}
	}()
	defer context.AfterFunc(ctx, func() {
		for _, f := range fs {
			f.expire()
		}
	})()
	for _, f := range fs {
		switch e := f.entry; {
		case tooMany || e.Missing && g.recent.doubts(f.key, l.began):
			g.counts.add(0, notStored)
		case e.Missing:
			items = append(items, Item[K, V]{f.key, e, g.ttl(g.opts.MissTTL)})
		default:
			items = append(items, Item[K, V]{f.key, e, g.ttl(g.opts.TTL)})
		}
	}
	err := protect(func() (err error) {
		if g.many != nil && len(items) > 1 {
			return g.many.SetMany(ctx, items)
		}
		for _, it := range items {
			err = errors.Join(err, g.opts.Cache.Set(ctx, it.Key, it.Entry, it.TTL))
		}
		return err
	})
	if err != nil {
		g.failed(cacheErrors, err)
	}
}

// unstore deletes what was fenced.
func (g *Guard[K, V]) unstore(ctx context.Context, fs []*flight[K, V]) {
	var ks []K
	for _, f := range fs {
		if f.isFenced() {
			ks = append(ks, f.key)
		}
	}
	if len(ks) == 0 {
		return
	}
	ctx, cancel := g.patience(ctx)
	defer cancel()
	if err := protect(func() error { return g.drop(ctx, ks) }); err != nil {
		g.failed(cacheErrors, err)
	}
}

// patience is a context for cache work that nobody waits for: it has the values of ctx, and as
// long as a load.
func (g *Guard[K, V]) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), g.opts.LoadTimeout)
}

// outlast is a context that has the values of ctx and ends LoadTimeout after it.
func (g *Guard[K, V]) outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(g.opts.LoadTimeout, cancel)
		context.AfterFunc(longer, func() { late.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// ttl shortens d at random, to whole milliseconds, of which there is at least one.
func (g *Guard[K, V]) ttl(d time.Duration) time.Duration {
	d -= time.Duration(rand.Float64() * g.opts.Jitter * float64(d))
	return max(d.Truncate(time.Millisecond), time.Millisecond)
}
