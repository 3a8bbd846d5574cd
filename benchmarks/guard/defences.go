package main

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redbloom-go/bloom/guard"
	"github.com/samber/hot"
	"github.com/viccon/sturdyc"
)

// peerModules are the modules whose versions belong to the results, by the names that
// results give them.
var peerModules = map[string]string{
	"github.com/maypok86/otter/v2": "otter",
	"github.com/samber/hot":        "hot",
	"github.com/viccon/sturdyc":    "sturdyc",
}

// database is what is defended: a table, and how often it was asked.
type database[K comparable] struct {
	exists      func(K) bool
	delay       func(ctx context.Context) error // nil for none
	rows, nulls atomic.Int64                    // queries that gave a row, or none
}

func (d *database[K]) query(ctx context.Context, k K) (string, bool, error) {
	found := d.exists(k)
	if found {
		d.rows.Add(1)
	} else {
		d.nulls.Add(1)
	}
	if d.delay != nil {
		if err := d.delay(ctx); err != nil {
			return "", false, err
		}
	}
	return "row", found, nil
}

func (d *database[K]) queries() int64 { return d.rows.Load() + d.nulls.Load() }

// load is a guard's loader.
func (d *database[K]) load(ctx context.Context, k K) (string, error) {
	v, ok, err := d.query(ctx, k)
	if err == nil && !ok {
		err = guard.ErrNotFound
	}
	return v, err
}

// sleep is a delay that heeds its context, as a good driver does.
func sleep(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// defence is a way to keep lookups from the database.
type defence[K comparable] struct {
	name  string
	get   func(ctx context.Context, k K) (found bool, err error)
	nulls func() int // that are remembered; nil where that cannot be asked
	close func()
}

// ttl is how long everything may be kept: longer than a run.
const ttl = 2 * time.Hour

// cacheOnly remembers rows and no absent keys: what most caches do. It collapses nothing.
func cacheOnly[K comparable](db *database[K], entries int) defence[K] {
	m := guard.NewMemory[K, string](entries)
	return defence[K]{name: "cache-only", nulls: func() int { return 0 }, get: func(ctx context.Context, k K) (bool, error) {
		if _, ok, _ := m.Get(ctx, k); ok {
			return true, nil
		}
		v, ok, err := db.query(ctx, k)
		if ok && err == nil {
			err = m.Set(ctx, k, guard.Entry[string]{Value: v}, ttl)
		}
		return ok, err
	}}
}

// behindGuard is a guard; without a scan it has no filter, which leaves its cache of absent keys, a tenth of
// the entries.
func behindGuard[K comparable](name string, db *database[K], entries int, o guard.Options[K, string], scan guard.Scan[K]) (defence[K], *guard.Guard[K, string], error) {
	m := guard.NewMemory[K, string](entries)
	o.Cache, o.Loader, o.TTL, o.MissTTL = m, guard.LoaderFunc[K, string](db.load), ttl, ttl
	g, err := guard.New(o)
	if err == nil && scan != nil {
		_, err = g.Rebuild(context.Background(), scan, guard.RebuildOptions[K]{})
	}
	return defence[K]{
		name:  name,
		nulls: func() int { _, nulls := m.Len(); return nulls },
		get: func(ctx context.Context, k K) (bool, error) {
			_, err := g.Get(ctx, k)
			if err == nil || errors.Is(err, guard.ErrNotFound) {
				return err == nil, nil
			}
			return false, err
		},
	}, g, err
}

// inOtter is otter with its loader. It keeps no absent keys, so a nil pointer stands for one.
func inOtter[K comparable](db *database[K], entries int) (defence[K], error) {
	c, err := otter.New(&otter.Options[K, *string]{MaximumSize: entries, ExpiryCalculator: otter.ExpiryWriting[K, *string](ttl)})
	if err != nil {
		return defence[K]{}, err
	}
	loader := otter.LoaderFunc[K, *string](func(ctx context.Context, k K) (*string, error) {
		v, ok, err := db.query(ctx, k)
		if !ok || err != nil {
			return nil, err
		}
		return &v, nil
	})
	return defence[K]{
		name: "otter",
		get: func(ctx context.Context, k K) (bool, error) {
			v, err := c.Get(ctx, k, loader)
			return v != nil, err
		},
		nulls: func() (n int) {
			c.CleanUp()
			for v := range c.Values() {
				if v == nil {
					n++
				}
			}
			return n
		},
		close: func() { c.StopAllGoroutines() },
	}, nil
}

// inHot is samber/hot with a cache of absent keys of its own, as its README has it for frequent ones.
func inHot[K comparable](db *database[K], entries, nulls int) defence[K] {
	c := hot.NewHotCache[K, string](hot.LRU, entries).
		WithMissingCache(hot.LFU, nulls).
		WithTTL(ttl).
		WithLoaders(func(ks []K) (map[K]string, error) {
			found := make(map[K]string, len(ks))
			for _, k := range ks {
				v, ok, err := db.query(context.Background(), k) // its loaders have no context
				if err != nil {
					return nil, err
				}
				if ok {
					found[k] = v
				}
			}
			return found, nil
		}).
		Build()
	return defence[K]{name: "hot", get: func(_ context.Context, k K) (bool, error) {
		_, ok, err := c.Get(k)
		return ok, err
	}}
}

// inSturdyc is sturdyc with the numbers of its README. Its keys are strings.
func inSturdyc[K comparable](db *database[K], entries int, text func(K) string) defence[K] {
	c := sturdyc.New[string](entries, 10, ttl, 10, sturdyc.WithMissingRecordStorage())
	return defence[K]{name: "sturdyc", get: func(ctx context.Context, k K) (bool, error) {
		_, err := c.GetOrFetch(ctx, text(k), func(ctx context.Context) (string, error) {
			v, ok, err := db.query(ctx, k)
			if err == nil && !ok {
				err = sturdyc.ErrNotFound
			}
			return v, err
		})
		if errors.Is(err, sturdyc.ErrMissingRecord) {
			return false, nil
		}
		return err == nil, err
	}}
}

func decimal(k int64) string { return strconv.FormatInt(k, 10) }

// evens are n keys of rows: key makes them of the even numbers from 0.
func evens[K any](n int, key func(int) K) guard.Scan[K] {
	return func(context.Context, time.Time) iter.Seq2[K, error] {
		return func(yield func(K, error) bool) {
			for i := 0; i < n && yield(key(2*i), nil); i++ {
			}
		}
	}
}

// integer is the key itself.
func integer(i int) int64 { return int64(i) }

// secret is the key of the filters' hash: it is fixed, so that each run has the same false positives.
var secret = [16]byte{'m', 'e', 'a', 's', 'u', 'r', 'e', 'd'}
