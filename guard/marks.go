package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redbloom-go/bloom"
)

// Create is the one wrapper for all writes: Announce, commit, MarkCreated. Commit writes the rows of
// ks and commits them. It serves updates as well as creations, and ks may have keys that exist.
//
// If the keys cannot be announced, which takes a filter outside of the process, commit is not
// called. When commit returns an error, or panics, the keys are marked all the same, since it may
// have committed before; that costs nothing. Its error is returned as it is. When it returns nil
// and the marking fails, the error wraps [ErrUnmarked]: the rows are there, and the caller should
// call MarkCreated again.
//
// The marking goes on when ctx ends, for LoadTimeout at most.
//
// A row whose key the database chooses cannot be announced: insert it, MarkCreated, and only then
// tell anybody the key.
func (g *Guard[K, V]) Create(ctx context.Context, ks []K, commit func(ctx context.Context) error) (err error) {
	defer g.recent.begin(ks)()
	if err := g.Announce(ctx, ks...); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := g.outlast(ctx) // it may have ended: the rows must be marked all the same
		defer cancel()
		if marked := g.MarkCreated(ctx, ks...); marked != nil && err == nil {
			err = fmt.Errorf("%w: %w", ErrUnmarked, marked)
		}
	}()
	return commit(ctx)
}

// Announce tells the guard of keys before their rows are committed, so that a reader who sees one
// of these rows the instant it is committed is not rejected. If they never are, each key is a false
// positive until the next rebuild. It adds to the filters and does not touch the cache, and fails only
// if the filter is outside of the process and cannot be reached: then do not commit, or
// readers may be rejected.
//
// A rebuild that begins and ends between Announce and MarkCreated keeps the key, as long as no more than
// Options.Journal others came in between. [Guard.Create] has no such bound.
func (g *Guard[K, V]) Announce(ctx context.Context, ks ...K) error {
	if len(ks) == 0 {
		return nil
	}
	g.recent.add(ks, g.opts.LoadTimeout+g.opts.Settle, true)
	return g.addKeys(ctx, ks)
}

// MarkCreated tells the guard of rows after they were committed, created or changed. It adds the keys
// to the filters, a second time if they were announced, since a rebuild may have begun in
// between; it sees to it that no load which began before stores what it found, waiting for those
// that are storing at this moment; and it removes what the cache has for the keys. When it has
// returned nil, every Get in this process that begins later sees the row.
//
// Call it before the row is spoken of to anybody. On error the keys are in the filters of the
// process, and what the cache says of their absence is not believed here for MissTTL; call it
// again for the sake of the others. It takes a microsecond a key and longer where a load of
// the key is under way or the cache is outside of the process.
func (g *Guard[K, V]) MarkCreated(ctx context.Context, ks ...K) error {
	if len(ks) == 0 {
		return nil
	}
	g.recent.add(ks, g.opts.Settle, false)
	return errors.Join(g.addKeys(ctx, ks), g.forget(ctx, ks, g.drop))
}

// MarkDeleted tells the guard of rows after their deletion was committed. The filter keeps their keys,
// as it must: removing one would take away bits of others. Get rejects them all the same, for
// MissTTL, and until a rebuild has left them out; where there are too many, and for keys that were
// created a moment ago, the cache has to do. It stops loads from storing the row, and removes it
// from the cache. Marking a key again, or one that never existed, is harmless.
//
// Deletion and creation of one key may reach the guard in another order than the
// database. That costs at most MissTTL: so long a row may be called absent that was created
// again.
func (g *Guard[K, V]) MarkDeleted(ctx context.Context, ks ...K) error {
	if len(ks) == 0 {
		return nil
	}
	var rest []K
	for _, k := range ks {
		if !g.recent.undoubted(k, g.filters.Delete) {
			rest = append(rest, k)
		}
	}
	err := g.forget(ctx, ks, g.deleteEach)
	unstored := protect(func() (err error) {
		for _, k := range rest {
			err = errors.Join(err, g.storeDeleted(ctx, k))
		}
		return err
	})
	if unstored != nil {
		g.failed(cacheErrors, unstored)
	}
	return errors.Join(err, unstored)
}

// storeDeleted makes the cache say that k has no row, unless k is created meanwhile.
func (g *Guard[K, V]) storeDeleted(ctx context.Context, k K) error {
	began := g.recent.now()
	if g.recent.doubts(k, began) {
		return nil
	}
	err := g.opts.Cache.Set(ctx, k, Entry[V]{Missing: true}, g.ttl(g.opts.MissTTL))
	if g.recent.doubts(k, began) {
		err = errors.Join(err, g.drop(ctx, []K{k}))
	}
	return err
}

// CatchUp adds the keys that other processes created: delta is called with since, as a rule the
// last [Guard.CompleteAt] less what clocks may differ and transactions may take, and every key that it
// yields is marked as by MarkCreated. Call it in an interval, or make a delta of the
// events of a feed; between two calls, rows of other processes are rejected, unless
// Options.Fresh knows better.
//
// When it succeeds and since was not after CompleteAt, CompleteAt becomes the time of the call of delta. On
// error the keys before it are marked.
func (g *Guard[K, V]) CatchUp(ctx context.Context, since time.Time, delta Scan[K]) error {
	if delta == nil {
		return fmt.Errorf("%w: delta is nil", bloom.ErrInvalid)
	}
	opened := time.Now()
	gen, loaded := g.filters.Load()
	err := inBatches(ctx, delta, since, func(ks []K) error { return g.MarkCreated(ctx, ks...) })
	if err == nil && loaded && !since.After(gen.completeAt()) {
		gen.setComplete(opened)
	}
	return err
}

// addKeys adds ks to the filter and to the one that is being built, and forgets their deletion. It
// counts and tells what it returns.
func (g *Guard[K, V]) addKeys(ctx context.Context, ks []K) error {
	defer func() {
		for _, k := range ks {
			g.filters.Undelete(k)
		}
	}()
	if g.opts.Filter != nil {
		err := g.opts.Filter.AddKeys(ctx, g.keys.bytes(ks))
		if err != nil {
			g.failed(filterErrors, err)
		}
		return err
	}
	var few [4]bloom.Digest // most calls are for one key
	ds := few[:0]
	for _, k := range ks {
		ds = append(ds, g.keys.digest(k))
	}
	err := g.filters.Write(func(gen *generation) error { return gen.add(ds) })
	if err != nil {
		// The filter lacks a key that exists: better none.
		g.dropFilter()
		g.failed(filterErrors, fmt.Errorf("guard: the filter could not take a key and was unloaded: %w", err))
	}
	if gen, ok := g.filters.Load(); ok {
		g.checkThreshold(gen)
	}
	return nil
}

// checkThreshold tells the observer, once, that gen fills up.
func (g *Guard[K, V]) checkThreshold(gen *generation) {
	if n := gen.len(); n >= gen.full && gen.told.CompareAndSwap(false, true) {
		g.watch.Threshold(ThresholdEvent{Items: n, Capacity: gen.capacity})
	}
}

// forget keeps loads under way from storing what they find for ks, and calls remove for all of
// them. If ctx ends while a load is storing, remove is called all the same.
func (g *Guard[K, V]) forget(ctx context.Context, ks []K, remove func(context.Context, []K) error) error {
	var err error
	for _, k := range ks {
		for _, storing := range g.flights.shard(g.keys.hash(k)).fence(k) {
			select {
			case <-storing:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	}
	if err = errors.Join(err, protect(func() error { return remove(ctx, ks) })); err != nil {
		g.recent.add(ks, g.opts.MissTTL+2*g.opts.LoadTimeout, false)
		g.failed(cacheErrors, err)
	}
	return err
}

// drop removes ks from the cache and keeps other processes from storing that they have no
// row, for as long as a load may take that began before, or in the time a replica may be behind.
func (g *Guard[K, V]) drop(ctx context.Context, ks []K) error {
	if g.fencer == nil {
		return g.deleteEach(ctx, ks)
	}
	return g.fencer.Fence(ctx, ks, g.opts.Settle+2*g.opts.LoadTimeout+time.Second)
}

// deleteEach removes ks from the cache.
func (g *Guard[K, V]) deleteEach(ctx context.Context, ks []K) (err error) {
	for _, k := range ks {
		err = errors.Join(err, g.opts.Cache.Delete(ctx, k))
	}
	return err
}
