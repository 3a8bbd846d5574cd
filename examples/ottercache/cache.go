// Package ottercache lets a guard keep its rows in otter. Copy it into your program.
//
// It uses no loader of otter's: collapsing of loads, and keeping out answers that a write has overtaken, is
// the guard's part.
package ottercache

import (
	"context"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/redbloom-go/bloom/guard"
)

// Cache is a [guard.Cache] of two otter caches, one for rows and one for keys that have none. One
// would not do: otter bounds a cache as a whole, by number or by weight, and has no bound for a kind of
// entries, so in an attack the keys without a row would take the places of rows. Its admission policy makes
// that slower; it is no bound.
//
// The methods may be called from several goroutines at once, allocate an entry for each Set, and return
// no errors.
type Cache[K comparable, V any] struct {
	rows  *otter.Cache[K, row[V]]
	nulls *otter.Cache[K, time.Duration]
}

// row is a value with the time that otter keeps it for.
type row[V any] struct {
	value V
	ttl   time.Duration
}

// New makes a cache of at most so many rows, and keys that have none; at least one of each, since to
// otter 0 means that there is no limit.
func New[K comparable, V any](rows, nulls int) (*Cache[K, V], error) {
	if rows < 1 || nulls < 1 {
		return nil, fmt.Errorf("ottercache: room for %d rows and %d keys without one, want at least 1", rows, nulls)
	}
	c := new(Cache[K, V])
	var err error
	if c.rows, err = otter.New(&otter.Options[K, row[V]]{
		MaximumSize: rows,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[K, row[V]]) time.Duration {
			return e.Value.ttl
		}),
	}); err != nil {
		return nil, err
	}
	c.nulls, err = otter.New(&otter.Options[K, time.Duration]{
		MaximumSize: nulls,
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[K, time.Duration]) time.Duration {
			return e.Value
		}),
	})
	if err != nil {
		c.rows.StopAllGoroutines()
		return nil, err
	}
	return c, nil
}

// Get returns the entry of k, and whether there is one.
func (c *Cache[K, V]) Get(_ context.Context, k K) (guard.Entry[V], bool, error) {
	if r, ok := c.rows.GetIfPresent(k); ok {
		return guard.Entry[V]{Value: r.value}, true, nil
	}
	_, missing := c.nulls.GetIfPresent(k)
	return guard.Entry[V]{Missing: missing}, missing, nil
}

// Set stores e for k. An entry that is Missing does not replace a row: all changes of a key are made under
// the lock that the cache of rows has for it.
func (c *Cache[K, V]) Set(_ context.Context, k K, e guard.Entry[V], ttl time.Duration) error {
	c.rows.Compute(k, func(old row[V], found bool) (row[V], otter.ComputeOp) {
		switch {
		case !e.Missing:
			c.nulls.Invalidate(k)
			return row[V]{e.Value, ttl}, otter.WriteOp
		case !found:
			c.nulls.Set(k, ttl)
		}
		return old, otter.CancelOp
	})
	return nil
}

// Delete removes what there is of k.
func (c *Cache[K, V]) Delete(_ context.Context, k K) error {
	c.rows.Compute(k, func(old row[V], _ bool) (row[V], otter.ComputeOp) {
		c.nulls.Invalidate(k)
		return old, otter.InvalidateOp
	})
	return nil
}

// Len returns about how many rows there are, and how many keys that have none.
func (c *Cache[K, V]) Len() (rows, nulls int) {
	return c.rows.EstimatedSize(), c.nulls.EstimatedSize()
}

// Close ends the goroutines of otter. The cache must not be used any more.
func (c *Cache[K, V]) Close() {
	c.rows.StopAllGoroutines()
	c.nulls.StopAllGoroutines()
}
