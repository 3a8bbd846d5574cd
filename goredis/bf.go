package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
)

// Filter is a Bloom filter of RedisBloom: the BF commands of Redis 8, Redis Stack, and servers with the
// module. Every call is one transaction and one round trip, for up to 100,000 keys. In a process,
// bloom.Scalable in the RedisBloom scheme has the same bits.
type Filter struct {
	module
	o FilterOptions
}

// FilterOptions say how [Filter.Reserve] and [Filter.Rebuild] make a filter. What only uses one
// that exists needs none of them but Options.
type FilterOptions struct {
	Capacity   uint64  // 1 … 2^30
	ErrorRate  float64 // the server takes more than 0.25 as 0.25
	Expansion  uint32  // how many times larger each further link is; 0 is the server's default, 2
	NonScaling bool    // of fixed size: a full filter refuses keys, with bloom.ErrFull

	Options
}

// NewFilter returns the filter at key. It sends nothing. The error wraps bloom.ErrInvalid.
func NewFilter(client redis.UniversalClient, key string, o FilterOptions) (*Filter, error) {
	if o.NonScaling && o.Expansion != 0 {
		return nil, fmt.Errorf("%w: NonScaling, and Expansion is %d", bloom.ErrInvalid, o.Expansion)
	}
	f := &Filter{module{prefix: "BF"}, o}
	var err error
	f.remote, err = newRemote(client, key, "bf", o.Options, f)
	return f, err
}

func (f *Filter) probe(ctx context.Context, p redis.Pipeliner, key string) func() (bool, uint64, error) {
	exists, card := p.Exists(ctx, key), p.Do(ctx, "BF.CARD", key) // BF.CARD is 0 where there is no key
	return func() (bool, uint64, error) {
		if err := exists.Err(); err != nil {
			return false, 0, err
		}
		n, err := card.Uint64()
		return exists.Val() == 1, n, err
	}
}

func (f *Filter) reserveArgs(key string) ([]any, error) {
	if f.o.Capacity == 0 || f.o.ErrorRate == 0 {
		return nil, fmt.Errorf("%w: Capacity is %d and ErrorRate %v, and a new filter needs both", bloom.ErrInvalid, f.o.Capacity, f.o.ErrorRate)
	}
	args := []any{"BF.RESERVE", key, f.o.ErrorRate, f.o.Capacity}
	if f.o.NonScaling {
		args = append(args, "NONSCALING")
	} else if f.o.Expansion != 0 {
		args = append(args, "EXPANSION", f.o.Expansion)
	}
	return args, nil
}

// Reserve makes an empty filter, marked as whole: there are no rows yet. It returns an error that wraps [ErrExists] if
// the key exists.
func (f *Filter) Reserve(ctx context.Context) error {
	args, err := f.reserveArgs(f.key)
	if err != nil {
		return err
	}
	return f.reserve(ctx, args)
}

// Add adds keys and appends to dst, for each, whether that changed the filter. Where a Rebuild or Push is under way, it
// adds to both filters. If there is no filter, it makes none and returns an error that wraps [ErrUnknown]; if a filter
// of fixed size is full, one that wraps bloom.ErrFull, and the keys before are in.
func (f *Filter) Add(ctx context.Context, dst []bool, keys ...[]byte) ([]bool, error) {
	return f.add(ctx, dst, "INSERT", keys)
}

// AddKeys is Add for a guard: it returns nil as well if there is no filter to add to.
func (f *Filter) AddKeys(ctx context.Context, keys [][]byte) error {
	_, err := f.store(ctx, keys)
	return err
}

// Key returns the key of the filter.
func (f *Filter) Key() string { return f.remote.Key() }

// Ready returns nil if lookups answer Absent and Maybe, and otherwise why they answer Unknown. It takes one round trip.
// The error wraps [ErrUnknown], or is one that lookups return too.
func (f *Filter) Ready(ctx context.Context) error { return f.remote.Ready(ctx) }

// Confirm marks the filter as whole: the caller knows that it has every key up to now. That is so after a restart or a
// failover once the keys have been added again that may have been lost (guard.Guard.CatchUp), and for a filter that was
// made elsewhere. It returns an error that wraps [ErrUnknown] if there is no filter, bloom.ErrMismatch if it was marked
// as one with other parameters, and [ErrSuperseded] while a Rebuild or Push is about to finish.
func (f *Filter) Confirm(ctx context.Context) error { return f.confirm(ctx, "") }

// Drop deletes the filter and all that belongs to it, and ends a Rebuild or Push under way.
func (f *Filter) Drop(ctx context.Context) error { return f.remote.Drop(ctx) }

// Abort ends a Rebuild or Push, wherever it runs, and deletes what it has written. The filter in use stays as it is.
// Call it to clean up after a process that died in one; until then every add goes to both filters.
func (f *Filter) Abort(ctx context.Context) error { return f.remote.Abort(ctx) }

func (f *Filter) store(ctx context.Context, keys [][]byte) (stored bool, err error) {
	_, err = f.insert(ctx, "BF.INSERT", keys)
	return ignoreUnknown(err)
}
