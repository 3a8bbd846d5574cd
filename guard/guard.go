package guard

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

// Guard is a filter in front of a cache in front of a database. All methods may be called from
// several goroutines at once. Make one with [New]; it needs no closing, and has no
// goroutines but those of the loads under way.
type Guard[K comparable, V any] struct {
	opts    Options[K, V]
	hash    []bloom.Option // of all filters of the guard
	keys    *keys[K]
	filters *rolling.Overlay[K, *generation] // unused where opts.Filter is given
	bypass  atomic.Bool                      // opts.Filter is not asked
	held    atomic.Uint64                    // keys in the filter that was dropped last
	recent  *recent[K]
	flights *flights[K, V]
	fills   atomic.Int64 // entries being stored
	counts  counters
	watch   Observer

	many      BatchCache[K, V]  // opts.Cache, if it is one
	fencer    SharedCache[K, V] // the same
	loadsMany BatchLoader[K, V] // opts.Loader, if it is one
}

// New makes a guard that has no filter yet: it answers every lookup from the cache and the
// loader, within MaxLoads, until [Guard.Rebuild] or [Guard.Restore] has brought one. With
// Options.Filter it uses that from the beginning. The error wraps [bloom.ErrInvalid], or
// [bloom.ErrTooLarge] for a filter that is.
func New[K comparable, V any](o Options[K, V]) (*Guard[K, V], error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Cache == nil {
		o.Cache = NewMemory[K, V](10_000)
	}
	g := &Guard[K, V]{
		opts:    o,
		hash:    o.hashOptions(),
		filters: rolling.NewOverlay[K, *generation](o.Deletions, o.MissTTL),
		recent:  newRecent[K](o.Journal),
		flights: newFlights[K, V](o.MaxLoads),
		watch:   o.Observer,
	}
	if g.watch == nil {
		g.watch = NopObserver{}
	}
	g.many, _ = o.Cache.(BatchCache[K, V])
	g.fencer, _ = o.Cache.(SharedCache[K, V])
	g.loadsMany, _ = o.Loader.(BatchLoader[K, V])
	if g.keys, err = newKeys(o.AppendKey, o.KeyEncoding); err != nil {
		return nil, err
	}
	if o.Filter != nil {
		return g, nil
	}
	if o.Capacity == 0 {
		return nil, fmt.Errorf("%w: Capacity is 0", bloom.ErrInvalid)
	}
	if _, err := bloom.Estimate(o.Capacity, o.ErrorRate, g.hash...); err != nil {
		return nil, err
	}
	if _, err := g.newFilter(1); err != nil { // the kind takes the rate and the hash
		return nil, err
	}
	g.keys.hasher, err = bloom.NewWithSize(1, 1, g.hash...)
	return g, err
}

// Get returns the row of k: from the cache, or from the loader. For a key that the filter
// rejects it returns [ErrAbsent] and asks neither; that takes tens of nanoseconds and does not
// allocate. For one that has no row it returns [ErrNotFound], which ErrAbsent wraps. Callers who
// need the same row at the same time share one load.
//
// When ctx ends, so does the call, with ctx's error; the load goes on if others wait for it.
// Other errors are [ErrOverload], what the loader returned or a [*PanicError] in its place, an
// error that wraps [context.DeadlineExceeded] when it took longer than LoadTimeout, and with
// FailClosed those of the cache. Nothing is remembered of a load that failed.
func (g *Guard[K, V]) Get(ctx context.Context, k K) (V, error) {
	v, h := g.verdict(ctx, k)
	l := lookup[K]{key: k, hash: h, verdict: v}
	if v.rejects() {
		if !g.auditing() {
			var none V
			return none, g.reject(h, v)
		}
		l = g.audit(ctx, k)
	}
	e, how, err := g.find(ctx, k, h)
	if err != nil {
		return e.Value, g.refusal(h, l.verdict, err)
	}
	return g.answer(ctx, l, e, how)
}

// Check tells what the filter says of k, without asking cache or database: Absent when Get
// would reject it, Unknown when there is no filter or k is Fresh, otherwise Maybe. It
// does not allocate where the filter is in the process.
func (g *Guard[K, V]) Check(ctx context.Context, k K) Verdict {
	v, _ := g.verdict(ctx, k)
	if v.rejects() {
		return Absent
	}
	return v
}

// gone is the verdict on a key whose deletion is remembered.
const gone Verdict = Maybe + 1

// rejects reports whether a lookup with this verdict ends there, unless it is audited.
func (v Verdict) rejects() bool { return v == Absent || v == gone }

// verdict asks the filter and the deletions, and returns a hash of k for choosing stripes
// with it.
func (g *Guard[K, V]) verdict(ctx context.Context, k K) (Verdict, uint64) {
	if g.opts.Filter != nil {
		return g.ask(ctx, []K{k})[0], g.keys.hash(k)
	}
	d := g.keys.digest(k)
	h, _ := d.Words()
	gen, ok := g.filters.Load()
	if !ok {
		return Unknown, h
	}
	v := Absent
	if gen.contains(d) {
		if !g.filters.Deleted(k) {
			return Maybe, h
		}
		v = gone
	}
	if g.fresh(k) {
		return Unknown, h
	}
	return v, h
}

// ask returns the verdicts of the filter outside of the process.
func (g *Guard[K, V]) ask(ctx context.Context, ks []K) []Verdict {
	answers := make([]Verdict, 0, len(ks))
	if !g.bypass.Load() {
		var err error
		answers, err = g.opts.Filter.Verdicts(ctx, answers, g.keys.bytes(ks))
		if err == nil && len(answers) != len(ks) {
			err = fmt.Errorf("guard: %d verdicts for %d keys", len(answers), len(ks))
		}
		if err != nil {
			clear(answers) // all Unknown
			g.failed(filterErrors, err)
		}
	}
	answers = append(answers, make([]Verdict, len(ks))...)[:len(ks)]
	for i, k := range ks {
		switch {
		case answers[i] == Maybe && g.filters.Deleted(k):
			answers[i] = gone
		case answers[i] > Maybe: // no verdict
			answers[i] = Unknown
		}
		// A filter that was made anew elsewhere does not have what was announced before.
		if answers[i] == Absent && g.recent.pending(k) || answers[i].rejects() && g.fresh(k) {
			answers[i] = Unknown
		}
	}
	return answers
}

// reject counts a rejection and returns its error.
func (g *Guard[K, V]) reject(h uint64, v Verdict) error {
	g.counts.add(h, rejected)
	if v == gone {
		g.counts.add(h, deletedHits)
	}
	return ErrAbsent
}

func (g *Guard[K, V]) fresh(k K) bool { return g.opts.Fresh != nil && g.opts.Fresh(k) }

// origin says where an entry came from.
type origin uint8

const (
	fromCache origin = iota
	fromLoad
)

// auditing reports whether this rejection is to be looked up all the same.
func (g *Guard[K, V]) auditing() bool { return g.opts.Audit > 0 && rand.Float64() < g.opts.Audit }

// audit begins the lookup of a key that the filter rejected. It asks the filter again, so that its
// answer is younger than the time of the lookup.
func (g *Guard[K, V]) audit(ctx context.Context, k K) lookup[K] {
	l := lookup[K]{key: k, since: g.recent.now()}
	l.verdict, l.hash = g.verdict(ctx, k)
	return l
}

// answer counts and returns what the cache or a load has for a key.
func (g *Guard[K, V]) answer(ctx context.Context, l lookup[K], e Entry[V], how origin) (V, error) {
	if l.verdict.rejects() {
		g.counts.add(l.hash, audited)
		if e.Missing {
			return e.Value, g.reject(l.hash, l.verdict)
		}
		g.audited(ctx, l)
	}
	which := [2][2]counter{{hits, nullHits}, {found, missing}}[how]
	if !e.Missing {
		g.counts.add(l.hash, which[0])
		return e.Value, nil
	}
	g.counts.add(l.hash, which[1])
	if l.verdict == Maybe {
		g.counts.add(l.hash, passed)
	}
	return e.Value, ErrNotFound
}

// refusal is the error of a lookup that ended with err. If it was the audit of a rejection,
// the filter has answered, and that nobody could check it changes nothing.
func (g *Guard[K, V]) refusal(h uint64, v Verdict, err error) error {
	if v.rejects() {
		return g.reject(h, v)
	}
	return err
}

// audited is for a row that was found though the filter rejected its key. That is a false negative only if the database
// has the row now, for a cache, and a load that had begun before, may give one that was deleted since; and if
// nobody has told the guard of the key since the filter was asked.
func (g *Guard[K, V]) audited(ctx context.Context, l lookup[K]) {
	if g.told(ctx, l) || !g.exists(ctx, l) || g.told(ctx, l) {
		return
	}
	g.counts.add(l.hash, falseNegatives)
	_ = g.addKeys(ctx, []K{l.key}) // the next audit finds it again
	g.watch.FalseNegative(l.key)
}

// told reports whether the filter has the key of an audit by now, or had it meanwhile.
func (g *Guard[K, V]) told(ctx context.Context, l lookup[K]) bool {
	v, _ := g.verdict(ctx, l.key)
	return !v.rejects() || g.recent.addedSince(l.key, l.since)
}

// exists asks the database for the key of an audit, by a load that began after the audit. It reports
// false where that cannot be had.
func (g *Guard[K, V]) exists(ctx context.Context, l lookup[K]) bool {
	shard := g.flights.shard(g.keys.hash(l.key))
	for {
		f, _, err := g.fetch(ctx, l.key, l.hash, shard, shard.ended.Load())
		if err != nil {
			return false
		}
		switch e, _, err := f.wait(ctx); {
		case err != nil || e.Missing:
			return false
		case !f.again && f.load.began >= l.since:
			return true
		}
		f.expire()
	}
}

func (g *Guard[K, V]) failed(which counter, err error) {
	g.counts.add(0, which)
	part := "cache"
	if which == filterErrors {
		part = "filter"
	}
	g.watch.Failed(part, err)
}

// find looks k up in the cache, and loads it if it is not there.
func (g *Guard[K, V]) find(ctx context.Context, k K, h uint64) (Entry[V], origin, error) {
	shard := g.flights.shard(g.keys.hash(k))
	seen := shard.ended.Load()
	e, ok, err := g.cached(ctx, k)
	if ok || err != nil {
		return e, fromCache, err
	}
	e, err = g.load(ctx, k, h, shard, seen)
	return e, fromLoad, err
}

// load joins the flight of k or begins one, and waits for it.
func (g *Guard[K, V]) load(ctx context.Context, k K, h uint64, shard *flightShard[K, V], seen uint64) (e Entry[V], err error) {
	for {
		joined := g.recent.now()
		f, mine, err := g.fetch(ctx, k, h, shard, seen)
		if err != nil {
			return e, err
		}
		e, _, err = f.wait(ctx)
		if mine || err != nil || !g.outdated(f, joined) {
			return e, err
		}
	}
}

// fetch joins the flight of k or begins one.
func (g *Guard[K, V]) fetch(ctx context.Context, k K, h uint64, shard *flightShard[K, V], seen uint64) (f *flight[K, V], mine bool, err error) {
	f, mine, err = shard.join(k, seen, func() (*load, error) {
		if err := g.acquire(h); err != nil {
			return nil, err
		}
		return newLoad(ctx), nil
	})
	switch {
	case err != nil:
	case mine:
		go g.fly(f.load, []*flight[K, V]{f})
	default:
		g.counts.add(h, shared)
	}
	return f, mine, err
}

// outdated reports whether the null that f has brought may be older than a row which was committed
// before the caller joined f, though it is not marked yet. If so, f is taken away: whoever joins
// the next one does so after it has begun.
func (g *Guard[K, V]) outdated(f *flight[K, V], joined time.Duration) bool {
	if !f.entry.Missing || f.load.began > joined || !g.recent.doubts(f.key, joined) {
		return false
	}
	f.expire()
	return true
}

// acquire takes a slot for a load.
func (g *Guard[K, V]) acquire(h uint64) error {
	if !g.flights.acquire() {
		g.counts.add(h, overloads)
		return ErrOverload
	}
	return nil
}

// cached returns what the cache has for k, if it is to be believed.
func (g *Guard[K, V]) cached(ctx context.Context, k K) (e Entry[V], ok bool, err error) {
	e, ok, err = g.opts.Cache.Get(ctx, k)
	if err != nil {
		return Entry[V]{}, false, g.cacheError(err)
	}
	return e, ok && g.believed(k, e), nil
}

// cacheError counts an error of reading the cache, and returns what the caller gets of it.
func (g *Guard[K, V]) cacheError(err error) error {
	if err == nil {
		return nil
	}
	g.failed(cacheErrors, err)
	if g.opts.FailClosed {
		return opaque(err)
	}
	return nil
}

// believed reports whether e, which the cache has for k, may be given to a caller.
func (g *Guard[K, V]) believed(k K, e Entry[V]) bool {
	return !e.Missing || !g.recent.doubts(k, g.recent.now())
}

// CompleteAt returns the time before which every row that was committed, by whomever, is in the
// filter: the beginning of the last Rebuild, Restore or CatchUp, less the Overlap of
// a rebuild. Later ones of other processes may be missing. It is the zero time
// without a filter in the process, and takes some nanoseconds: see Options.Fresh.
func (g *Guard[K, V]) CompleteAt() time.Time {
	if gen, ok := g.filters.Load(); ok {
		return gen.completeAt()
	}
	return time.Time{}
}

// Unload is the kill switch: the filter is not asked any more, so that nothing is rejected. A filter
// in the process is dropped, a rebuild or restore under way ends with [ErrUnloaded], and
// the next one brings the guard back. Options.Filter is left alone: [Guard.Resume] ends that.
func (g *Guard[K, V]) Unload() {
	g.bypass.Store(true)
	g.dropFilter()
}

func (g *Guard[K, V]) dropFilter() {
	g.held.Store(g.items())
	g.filters.Drop()
}

// Resume asks Options.Filter again after [Guard.Unload]. Without Options.Filter it does nothing.
func (g *Guard[K, V]) Resume() { g.bypass.Store(false) }
