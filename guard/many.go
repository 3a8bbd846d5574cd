package guard

import (
	"context"
	"errors"
	"slices"
	"time"
)

// lookup is a key that is being looked up.
type lookup[K comparable] struct {
	key     K
	hash    uint64
	verdict Verdict       // one that rejects: an audit
	since   time.Duration // of an audit: the filter was asked after it
}

// seat is a lookup that may need a flight.
type seat[K comparable, V any] struct {
	lookup[K]
	shard  *flightShard[K, V]
	seen   uint64 // for join
	joined time.Duration
	flight *flight[K, V] // nil: none could be had
	mine   bool
}

// GetMany returns the rows of ks; a key that is not in the map has none. Keys that occur twice
// count once. It asks filter and cache once for all where they can, and a [BatchLoader] once for
// all that are left, which other callers, of Get and GetMany, then wait for key by key. Any other
// loader is called for a few keys at a time.
//
// On error it returns the rows that it got all the same; which other keys have no row is then
// unknown. The errors are those of Get, joined where loads failed in different ways. Without keys
// it does nothing and returns an empty map.
func (g *Guard[K, V]) GetMany(ctx context.Context, ks []K) (map[K]V, error) {
	rows := make(map[K]V, len(ks))
	answer := func(l lookup[K], e Entry[V], how origin) {
		if v, err := g.answer(ctx, l, e, how); err == nil {
			rows[l.key] = v
		}
	}
	misses, err := g.cachedMany(ctx, g.admitted(ctx, ks), answer)
	if err != nil {
		return rows, err
	}
	seated, errs := g.join(ctx, misses)
	left := false
	failed := map[*load]bool{}
	collect := func(s seat[K, V]) {
		e, waited, err := s.flight.wait(ctx)
		if err == nil && !s.mine && g.outdated(s.flight, s.joined) {
			e, err = g.load(ctx, s.key, s.hash, s.shard, s.seen)
		}
		switch {
		case err == nil:
			answer(s.lookup, e, fromLoad)
		case g.refusal(s.hash, s.verdict, err) != err:
			// An audit that failed is none.
		case !waited:
			left = true
		case !failed[s.flight.load]:
			failed[s.flight.load] = true
			errs = append(errs, err)
		}
	}
	for i, s := range seated {
		select {
		case <-s.flight.done:
			collect(s)
			continue
		case <-ctx.Done():
		}
		// From the end, where loads have not begun: those in the front stand in their way until they
		// are called off.
		for _, s := range slices.Backward(seated[i:]) {
			collect(s)
		}
		break
	}
	if left {
		errs = append(errs, ctx.Err())
	}
	if len(errs) == 1 {
		return rows, errs[0]
	}
	return rows, errors.Join(errs...)
}

// admitted returns those of ks, each once, that the filter does not reject, or that are to be
// audited.
func (g *Guard[K, V]) admitted(ctx context.Context, ks []K) []lookup[K] {
	once := make(map[K]struct{}, len(ks))
	look := make([]lookup[K], 0, len(ks))
	for _, k := range ks {
		if _, twice := once[k]; !twice {
			once[k] = struct{}{}
			look = append(look, lookup[K]{key: k})
		}
	}
	if g.opts.Filter == nil {
		for i, l := range look {
			look[i].verdict, look[i].hash = g.verdict(ctx, l.key)
		}
	} else if len(look) > 0 {
		for i, v := range g.ask(ctx, keysOf(look)) {
			look[i].verdict, look[i].hash = v, g.keys.hash(look[i].key)
		}
	}
	kept := look[:0]
	for _, l := range look {
		if l.verdict.rejects() {
			if !g.auditing() {
				_ = g.reject(l.hash, l.verdict)
				continue
			}
			l = g.audit(ctx, l.key)
		}
		kept = append(kept, l)
	}
	return kept
}

func keysOf[K comparable](look []lookup[K]) []K {
	ks := make([]K, len(look))
	for i, l := range look {
		ks[i] = l.key
	}
	return ks
}

// cachedMany calls answer for what the cache has, and returns the rest.
func (g *Guard[K, V]) cachedMany(ctx context.Context, look []lookup[K], answer func(lookup[K], Entry[V], origin)) ([]seat[K, V], error) {
	misses := make([]seat[K, V], 0, len(look))
	for _, l := range look {
		shard := g.flights.shard(g.keys.hash(l.key))
		misses = append(misses, seat[K, V]{lookup: l, shard: shard, seen: shard.ended.Load()})
	}
	one := func(l lookup[K]) (Entry[V], bool, error) { return g.cached(ctx, l.key) }
	if g.many != nil && len(look) > 1 {
		entries, err := g.many.GetMany(ctx, keysOf(look))
		if err = g.cacheError(err); err != nil {
			return nil, err
		}
		one = func(l lookup[K]) (Entry[V], bool, error) {
			e, ok := entries[l.key]
			return e, ok && g.believed(l.key, e), nil
		}
	}
	kept := misses[:0]
	for _, m := range misses {
		e, ok, err := one(m.lookup)
		switch {
		case err != nil:
			return nil, err
		case ok:
			answer(m.lookup, e, fromCache)
		default:
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// join joins or begins a flight for each of misses, and returns those that have one, with the errors of
// the others.
func (g *Guard[K, V]) join(ctx context.Context, misses []seat[K, V]) (seated []seat[K, V], errs []error) {
	const goroutines = 8 // of one call, for a loader of single rows
	var own []*flight[K, V]
	var batch *load
	var refused error
	begin := func() (*load, error) {
		if len(own) == 0 { // the first one takes the slot
			if refused == nil {
				refused = g.acquire(misses[0].hash)
			}
			if refused != nil {
				return nil, refused
			}
		}
		if g.loadsMany == nil {
			return newLoad(ctx), nil
		}
		if batch == nil {
			batch = newLoad(ctx)
		}
		return batch, nil
	}
	for _, s := range misses {
		s.joined = g.recent.now()
		f, mine, err := s.shard.join(s.key, s.seen, begin)
		if err != nil {
			// An audit that cannot be had is none.
			if g.refusal(s.hash, s.verdict, err) == err && (len(errs) == 0 || err != refused) {
				errs = append(errs, err)
			}
			continue
		}
		s.flight, s.mine = f, mine
		seated = append(seated, s)
		if mine {
			own = append(own, f)
		} else {
			g.counts.add(s.hash, shared)
		}
	}
	switch {
	case len(own) == 0:
	case batch != nil:
		go g.fly(batch, own)
	default:
		n := 1
		for n < min(len(own), goroutines) && g.flights.acquire() {
			n++
		}
		g.flyEach(own, n)
	}
	return seated, errs
}
