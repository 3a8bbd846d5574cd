package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

// RebuildOptions change a rebuild. The zero value is a plain one.
type RebuildOptions[K comparable] struct {
	// Capacity is that of the new filter. The default is that of the filter in use, or twice as
	// much if that is RebuildAt full; without one it is that of the Options.
	Capacity uint64

	// Scans are parts of the table that are read at the same time as the scan that
	// Rebuild is given, each in a goroutine of its own.
	Scans []Scan[K]

	// MinKeep is how many keys all scans must give together, as a share of those in the
	// filter in use, or before Unload, 0.5 by default; and at least one. A scan that ends early without an
	// error, as on a table that is being restored, would else make rows vanish. A negative
	// number accepts everything, an empty table too.
	MinKeep float64

	// CatchUp is called after the scans, with the time when they were opened less Overlap, for the
	// rows that other processes created meanwhile.
	CatchUp Scan[K]

	// Overlap is how far in the past the scans may read, because they ask a replica. The keys created
	// in this process in that time before the rebuild are added from memory; if
	// there were too many of them for Options.Journal, the rebuild fails with ErrJournal. A guard that is
	// younger than Overlap waits until it is so old, for it has no memory of what was before.
	Overlap time.Duration
}

// Report tells of a rebuild or a restore.
type Report struct {
	Start    time.Time     // when the scans were opened
	Took     time.Duration // all together
	Scanned  uint64        // keys that the scans gave; of a restore, those in the snapshot
	CaughtUp uint64        // keys that CatchUp gave; of a restore, the delta
	Replayed uint64        // keys added from memory, for Overlap and because they were announced only
	Items    uint64        // in the new filter, those written meanwhile among them
	Capacity uint64        // of the new filter
}

// Rebuild replaces the filter by a new one made of the keys that scan and o.Scans give, while
// lookups and writes go on: lookups are rejected by the old filter until the new one takes over in one
// step, and are not slowed down; writes go to both. Memory holds two filters so long. Deletions from
// before the scan are forgotten, for the new filter does not have those keys.
//
// The guard calls the scan itself, when the new filter already gets the writes: what is committed
// before is seen by the scan, and what is committed later is marked. That is why no rows are lost,
// and why an iterator that is open already will not do.
//
// When a scan fails, panics, or gives too few keys ([ErrShortScan]), when ctx ends, or after
// [Guard.Unload] ([ErrUnloaded]), the old filter stays as it was. Only one Rebuild or Restore
// runs at a time; another one gets [ErrRebuilding] at once. A filter outside of the process is
// rebuilt where it lives: the error wraps [errors.ErrUnsupported].
//
// Rebuild when [Observer] Threshold is called, when rows have been deleted in great number, and
// now and then, since it heals whatever went wrong.
func (g *Guard[K, V]) Rebuild(ctx context.Context, scan Scan[K], o RebuildOptions[K]) (Report, error) {
	scans := o.Scans
	if scan != nil {
		scans = append([]Scan[K]{scan}, scans...)
	}
	switch {
	case len(scans) == 0 || slices.ContainsFunc(scans, func(s Scan[K]) bool { return s == nil }):
		return Report{}, fmt.Errorf("%w: scan is nil", bloom.ErrInvalid)
	case o.MinKeep != o.MinKeep || o.Overlap < 0:
		return Report{}, fmt.Errorf("%w: MinKeep is %v, Overlap %v", bloom.ErrInvalid, o.MinKeep, o.Overlap)
	}
	if o.MinKeep == 0 {
		o.MinKeep = 0.5
	}
	return g.replace(ctx, o.Overlap,
		func() (*generation, error) {
			capacity := g.nextCapacity(o.Capacity)
			f, err := g.newFilter(capacity)
			if err != nil {
				return nil, err
			}
			return g.newGeneration(f, capacity), nil
		},
		func(ctx context.Context, gen *generation, rep *Report) error {
			held := g.items()
			if err := g.scanAll(ctx, gen, scans, rep); err != nil {
				return err
			}
			if err := enough(rep.Scanned, gen, held, o.MinKeep); err != nil {
				return err
			}
			complete := rep.Start
			if o.CatchUp != nil {
				complete = time.Now()
				n, err := g.scanInto(ctx, gen, o.CatchUp, rep.Start.Add(-o.Overlap))
				if err != nil {
					return err
				}
				rep.CaughtUp = n
			}
			gen.setComplete(complete.Add(-o.Overlap))
			return nil
		})
}

// enough refuses scans that gave too few keys to be believed. They must be enough counted with those
// that occur twice and without, or a scan that gives one page again and again would do. A filter that
// is past its capacity cannot tell.
func enough(scanned uint64, gen *generation, held uint64, minKeep float64) error {
	if minKeep < 0 {
		return nil
	}
	distinct := scanned
	if n := gen.len(); n < gen.capacity {
		distinct = min(n, scanned)
	}
	want := max(1, minKeep*float64(held))
	if float64(distinct) < want {
		return fmt.Errorf("%w: %d, of which %d are different; the filter in use holds %d, and at least %.0f are wanted",
			ErrShortScan, scanned, distinct, held, want)
	}
	return nil
}

// items returns how many keys the filter in use holds, or the one that was used last.
func (g *Guard[K, V]) items() uint64 {
	if gen, ok := g.filters.Load(); ok {
		return gen.len()
	}
	return g.held.Load()
}

var errElsewhere = fmt.Errorf("guard: the filter is not in this process: %w", errors.ErrUnsupported)

// replace puts a generation that newGen makes in the place of the active one, after fill has
// filled it from what was committed an overlap ago.
func (g *Guard[K, V]) replace(ctx context.Context, overlap time.Duration, newGen func() (*generation, error), fill func(context.Context, *generation, *Report) error) (rep Report, err error) {
	if g.opts.Filter != nil {
		return rep, errElsewhere
	}
	if g.filters.Rebuilding() { // asked before any memory is taken
		return rep, ErrRebuilding
	}
	start := time.Now()
	gen, err := newGen()
	if err == nil {
		err = g.filters.Rebuild(ctx, gen, func(ctx context.Context) error {
			if err := g.recent.grow(ctx, overlap); err != nil {
				return err
			}
			rep.Start = time.Now()
			// The standby gets what is written from now on. What was announced before may be
			// committed after the scan and marked after the swap.
			unseen, all := g.recent.unseen(g.recent.now() - overlap)
			if overlap > 0 && !all {
				return fmt.Errorf("%w: more than %d keys in %v", ErrJournal, g.opts.Journal, overlap)
			}
			switch err := fill(ctx, gen, &rep); {
			case context.Cause(ctx) == rolling.ErrDropped: // and err is only what follows from it
				return rolling.ErrDropped
			case err != nil:
				return err
			}
			rep.Replayed = uint64(len(unseen))
			return g.addTo(gen, unseen)
		})
	}
	switch {
	case errors.Is(err, rolling.ErrRebuilding):
		return Report{}, ErrRebuilding
	case errors.Is(err, rolling.ErrDropped):
		err = ErrUnloaded
	}
	rep.Took = time.Since(start)
	if gen != nil {
		rep.Items, rep.Capacity = gen.len(), gen.capacity
	}
	g.watch.Rebuilt(rep, err)
	if err == nil {
		g.checkThreshold(gen)
	}
	return rep, err
}

func (g *Guard[K, V]) nextCapacity(asked uint64) uint64 {
	old, ok := g.filters.Load()
	switch {
	case asked > 0:
		return asked
	case !ok:
		return g.opts.Capacity
	case old.len() >= old.full:
		return 2 * max(old.capacity, old.len())
	}
	return old.capacity
}

// scanAll runs the scans at the same time. The first error ends them all.
func (g *Guard[K, V]) scanAll(ctx context.Context, gen *generation, scans []Scan[K], rep *Report) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	run := func(scan Scan[K]) {
		n, failed := uint64(0), errGoexit
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			rep.Scanned += n
			if failed != nil && err == nil {
				err = failed
				cancel()
			}
		}()
		n, failed = g.scanInto(ctx, gen, scan, time.Time{})
	}
	var wg sync.WaitGroup
	for _, scan := range scans[1:] {
		wg.Go(func() { run(scan) })
	}
	run(scans[0])
	wg.Wait()
	return err
}

// scanInto adds the keys of a scan to gen, and returns how many there were.
func (g *Guard[K, V]) scanInto(ctx context.Context, gen *generation, scan Scan[K], since time.Time) (n uint64, err error) {
	err = inBatches(ctx, scan, since, func(ks []K) error {
		n += uint64(len(ks))
		return g.addTo(gen, ks)
	})
	return n, err
}

// addTo adds ks to gen alone.
func (g *Guard[K, V]) addTo(gen *generation, ks []K) error {
	ds := make([]bloom.Digest, len(ks))
	for i, k := range ks {
		ds[i] = g.keys.digest(k)
	}
	return gen.add(ds)
}

// inBatches calls use with the keys of a scan, some hundred at a time, in a slice that use must
// not keep.
func inBatches[K any](ctx context.Context, scan Scan[K], since time.Time, use func([]K) error) error {
	const size = 512
	ks := make([]K, 0, size)
	return protect(func() error {
		all := scan(ctx, since)
		if all == nil {
			return fmt.Errorf("%w: the scan returned no iterator", bloom.ErrInvalid)
		}
		for k, err := range all {
			if err != nil {
				return err
			}
			if ks = append(ks, k); len(ks) < size {
				continue
			}
			if err := use(ks); err != nil {
				return err
			}
			ks = ks[:0]
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if len(ks) > 0 {
			if err := use(ks); err != nil {
				return err
			}
		}
		return ctx.Err() // a scan that ends early for this reason must not look like one that is done
	})
}
