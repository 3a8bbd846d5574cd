package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
)

// Cuckoo is a cuckoo filter of RedisBloom, the CF commands, from which keys can be removed. Every
// call is one transaction and one round trip, for up to 100,000 keys. In a process, bloom.Cuckoo in
// the RedisBloom scheme has the same bytes.
//
// Remove needs care. A filter from which keys are removed takes every key by Add, once for each time that it may be
// removed: AddUnique and AddKeys do not store a key that looks as if it were there, and when the one that it was taken
// for is removed, both are gone. So do not remove from a filter that a guard, or a Sync, adds to.
type Cuckoo struct {
	module
	o CuckooOptions
}

// CuckooOptions say how [Cuckoo.Reserve] and [Cuckoo.Rebuild] make a filter. What only uses one that exists needs none
// of them but Options. A 0 is the server's default.
type CuckooOptions struct {
	Capacity      uint64
	BucketSize    uint16
	MaxIterations uint16
	Expansion     uint16
	Fixed         bool // does not grow: EXPANSION 0

	Options
}

// NewCuckoo returns the filter at key. It sends nothing. The error wraps bloom.ErrInvalid.
func NewCuckoo(client redis.UniversalClient, key string, o CuckooOptions) (*Cuckoo, error) {
	if o.Fixed && o.Expansion != 0 {
		return nil, fmt.Errorf("%w: Fixed, and Expansion is %d", bloom.ErrInvalid, o.Expansion)
	}
	c := &Cuckoo{module{prefix: "CF"}, o}
	var err error
	c.remote, err = newRemote(client, key, "cf", o.Options, c)
	return c, err
}

// probe takes the number of buckets of the first sub-filter for the size, since the number of keys falls.
func (c *Cuckoo) probe(ctx context.Context, p redis.Pipeliner, key string) func() (bool, uint64, error) {
	info := p.CFInfo(ctx, key)
	return func() (bool, uint64, error) {
		if isReply(info.Err(), notFound) {
			return false, 0, nil
		}
		return true, uint64(info.Val().NumBuckets), info.Err()
	}
}

func (c *Cuckoo) reserveArgs(key string) ([]any, error) {
	if c.o.Capacity == 0 {
		return nil, fmt.Errorf("%w: Capacity is 0, and a new filter needs one", bloom.ErrInvalid)
	}
	return cuckooArgs(key, c.o), nil
}

func cuckooArgs(key string, o CuckooOptions) []any {
	args := []any{"CF.RESERVE", key, o.Capacity}
	for _, option := range []struct {
		name  string
		value uint16
	}{{"BUCKETSIZE", o.BucketSize}, {"MAXITERATIONS", o.MaxIterations}, {"EXPANSION", o.Expansion}} {
		if option.value != 0 {
			args = append(args, option.name, option.value)
		}
	}
	if o.Fixed {
		args = append(args, "EXPANSION", 0)
	}
	return args
}

// Reserve makes an empty filter, marked as whole: there are no rows yet. It returns an error that wraps [ErrExists] if
// the key exists.
func (c *Cuckoo) Reserve(ctx context.Context) error {
	args, err := c.reserveArgs(c.key)
	if err != nil {
		return err
	}
	return c.reserve(ctx, args)
}

// Add adds keys, also those that are there: each Add can be undone by one Remove. It goes on past a key that
// finds no room, and then returns an error that wraps bloom.ErrFull. Where a Rebuild or Push is under way, it adds to
// both filters. If there is no filter, it makes none and returns an error that wraps [ErrUnknown].
func (c *Cuckoo) Add(ctx context.Context, keys ...[]byte) error {
	_, err := c.insert(ctx, "CF.INSERT", keys)
	return err
}

// AddUnique adds those keys that do not seem to be there, and appends to dst, for each, whether it was added. It is
// otherwise as Add.
func (c *Cuckoo) AddUnique(ctx context.Context, dst []bool, keys ...[]byte) ([]bool, error) {
	return c.add(ctx, dst, "INSERTNX", keys)
}

// AddKeys is AddUnique for a guard: it returns nil as well if there is no filter to add to.
func (c *Cuckoo) AddKeys(ctx context.Context, keys [][]byte) error {
	_, err := c.store(ctx, keys)
	return err
}

// Key returns the key of the filter.
func (c *Cuckoo) Key() string { return c.remote.Key() }

// Ready is [Filter.Ready].
func (c *Cuckoo) Ready(ctx context.Context) error { return c.remote.Ready(ctx) }

// Confirm is [Filter.Confirm].
func (c *Cuckoo) Confirm(ctx context.Context) error { return c.confirm(ctx, "") }

// Drop is [Filter.Drop].
func (c *Cuckoo) Drop(ctx context.Context) error { return c.remote.Drop(ctx) }

// Abort is [Filter.Abort].
func (c *Cuckoo) Abort(ctx context.Context) error { return c.remote.Abort(ctx) }

func (c *Cuckoo) store(ctx context.Context, keys [][]byte) (stored bool, err error) {
	_, err = c.insert(ctx, "CF.INSERTNX", keys)
	return ignoreUnknown(err)
}

// once is a command that the client must not send again when its reply is lost.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// Remove takes key away once and reports whether it was there. Remove only keys that were added by Add and have not
// been removed since: another one may share its fingerprint with a key that exists.
//
// On error the key may have been removed or not. Do not remove it again: it stays a false positive at worst. The client
// does not send the command twice either, whatever its MaxRetries is. A filter that is being built keeps the key.
func (c *Cuckoo) Remove(ctx context.Context, key []byte) (bool, error) {
	del := once{redis.NewCmd(ctx, "CF.DEL", c.key, key)}
	if err := c.client.Process(ctx, del); err != nil {
		if isReply(err, "Not found") || isReply(err, notFound) {
			return false, fmt.Errorf("%w: there is no filter at key %q", ErrUnknown, c.key)
		}
		return false, c.explain(err)
	}
	n, err := del.Bool()
	return n, err
}

// Count returns how often key seems to have been added and not removed: never less than it was, and 0 with an error
// that wraps [ErrUnknown] if the filter is not there, or not whole.
func (c *Cuckoo) Count(ctx context.Context, key []byte) (int, error) {
	var s *sight
	var count *redis.Cmd
	err := c.tx(ctx, func(p redis.Pipeliner) {
		s, count = c.see(ctx, p), p.Do(ctx, "CF.COUNT", c.key, key)
	})
	if err == nil {
		_, err = s.judge()
	}
	if err != nil {
		return 0, err
	}
	n, err := count.Int()
	return n, err
}
