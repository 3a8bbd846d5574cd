package goredis

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// Cache keeps values, and that there is no row, in Redis for a guard.Guard: a guard.BatchCache, and a guard.SharedCache
// for several processes. A string holds a header byte and then the value:
//
//	'v' value   a row
//	'n'         there is no row; set only where there is nothing (SET NX)
//	't'         there is a row since a moment ago: what was found before is not stored
//
// A process that looked for a row just before another created it comes late with its 'n', and finds the 't' that
// the other has left: it stays for the time that the guard asks for, and the time that a SET of the client may take
// on its way, with all its retries (Linger).
type Cache[K comparable, V any] struct {
	client redis.UniversalClient
	o      CacheOptions[K, V]
	single *redis.Client // nil for a cluster, where MGET cannot cross slots
}

// CacheOptions say how a [Cache] stores. The zero value is fit for use.
type CacheOptions[K comparable, V any] struct {
	// Prefix begins every key in Redis, "" by default. Caches of different types must not share one.
	Prefix string

	// AppendKey appends what stands for k in Redis. The default is for strings and integers: the string, or its decimal
	// digits.
	AppendKey func(dst []byte, k K) []byte

	// Encode and Decode turn values into bytes and back. By default strings and []byte are stored as they are and others
	// as JSON.
	Encode func(V) ([]byte, error)
	Decode func([]byte) (V, error)

	// Linger is how long a SET may take on its way to the server after its context has ended. The default follows from the
	// client's timeouts and retries; it is a minute or so where those are not set.
	Linger time.Duration
}

const (
	headerValue     = 'v'
	headerNull      = 'n'
	headerTombstone = 't'
)

// NewCache returns a cache. It sends nothing. The error wraps bloom.ErrInvalid: keys of another type without AppendKey,
// one of Encode and Decode without the other, a negative Linger, or none where the client has no timeout.
func NewCache[K comparable, V any](client redis.UniversalClient, o CacheOptions[K, V]) (*Cache[K, V], error) {
	if client == nil {
		return nil, fmt.Errorf("%w: the client is nil", bloom.ErrInvalid)
	}
	if (o.Encode == nil) != (o.Decode == nil) {
		return nil, fmt.Errorf("%w: Encode and Decode go together", bloom.ErrInvalid)
	}
	if o.Encode == nil {
		o.Encode, o.Decode = encode[V], decode[V]
	}
	if o.AppendKey == nil {
		if o.AppendKey = appendKey[K](); o.AppendKey == nil {
			return nil, fmt.Errorf("%w: keys of type %v need AppendKey", bloom.ErrInvalid, reflect.TypeFor[K]())
		}
	}
	if o.Linger == 0 {
		o.Linger = linger(client)
	}
	if o.Linger <= 0 {
		return nil, fmt.Errorf("%w: Linger is %v; a client without timeouts needs one", bloom.ErrInvalid, o.Linger)
	}
	single, _ := client.(*redis.Client)
	return &Cache[K, V]{client, o, single}, nil
}

// linger is the longest time that the client spends on a command, or 0 if it has no bound.
func linger(client redis.UniversalClient) time.Duration {
	bound := func(dial, read, write, pool, backoff time.Duration, retries int) time.Duration {
		for _, d := range []time.Duration{read, write} {
			if d <= 0 { // the client's way to say none
				return 0
			}
		}
		return time.Duration(max(0, retries)+1) * (max(0, dial) + read + write + max(0, pool) + max(0, backoff))
	}
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		return bound(o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.MaxRetryBackoff, o.MaxRetries)
	case *redis.ClusterClient:
		o := c.Options()
		return bound(o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.MaxRetryBackoff, max(o.MaxRetries, o.MaxRedirects))
	case *redis.Ring:
		for _, shard := range c.GetShardClients() { // they have the defaults filled in
			o, ring := shard.Options(), c.Options()
			return bound(o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, ring.MaxRetryBackoff, ring.MaxRetries)
		}
	}
	return time.Minute
}

func appendKey[K comparable]() func([]byte, K) []byte {
	switch kind := reflect.TypeFor[K]().Kind(); {
	case kind == reflect.String:
		return func(dst []byte, k K) []byte { return append(dst, reflect.ValueOf(k).String()...) }
	case kind >= reflect.Int && kind <= reflect.Int64:
		return func(dst []byte, k K) []byte { return strconv.AppendInt(dst, reflect.ValueOf(k).Int(), 10) }
	case kind >= reflect.Uint && kind <= reflect.Uintptr:
		return func(dst []byte, k K) []byte { return strconv.AppendUint(dst, reflect.ValueOf(k).Uint(), 10) }
	}
	return nil
}

func encode[V any](v V) ([]byte, error) {
	switch v := any(v).(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return json.Marshal(v)
}

func decode[V any](data []byte) (v V, err error) {
	switch p := any(&v).(type) {
	case *[]byte:
		*p = data
	case *string:
		*p = string(data)
	default:
		err = json.Unmarshal(data, p)
	}
	return v, err
}

func (c *Cache[K, V]) name(k K) string { return string(c.o.AppendKey([]byte(c.o.Prefix), k)) }

// entry reads a string of the cache.
func (c *Cache[K, V]) entry(data []byte) (e guard.Entry[V], ok bool, err error) {
	if len(data) > 0 {
		switch data[0] {
		case headerValue:
			e.Value, err = c.o.Decode(data[1:])
			return e, err == nil, err
		case headerNull:
			return guard.Entry[V]{Missing: true}, true, nil
		case headerTombstone:
			return e, false, nil
		}
	}
	return e, false, fmt.Errorf("%w: a string in the cache that begins with %.10q", bloom.ErrCorrupt, data)
}

// Get is one GET. ok is false where there is nothing, or a tombstone. It returns an error, and ok
// false, for what is no entry of a cache, too.
func (c *Cache[K, V]) Get(ctx context.Context, k K) (e guard.Entry[V], ok bool, err error) {
	data, err := c.client.Get(ctx, c.name(k)).Bytes()
	if err == redis.Nil {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	return c.entry(data)
}

// Set is one SET: of a value with PX, and of Missing with NX and PX. A ttl of less than a millisecond is
// bloom.ErrInvalid.
func (c *Cache[K, V]) Set(ctx context.Context, k K, e guard.Entry[V], ttl time.Duration) error {
	return c.SetMany(ctx, []guard.Item[K, V]{{Key: k, Entry: e, TTL: ttl}})
}

// Delete is one DEL. It removes a tombstone too.
func (c *Cache[K, V]) Delete(ctx context.Context, k K) error {
	return c.client.Del(ctx, c.name(k)).Err()
}

// GetMany is one MGET; in a cluster, GETs that are sent to all nodes at once. What is not in the map is not in the
// cache. On error, which is one of those that there were, the map has what could be read.
func (c *Cache[K, V]) GetMany(ctx context.Context, ks []K) (map[K]guard.Entry[V], error) {
	entries := make(map[K]guard.Entry[V], len(ks))
	if len(ks) == 0 {
		return entries, nil
	}
	var failed error
	put := func(k K, data []byte) {
		e, ok, err := c.entry(data)
		if ok {
			entries[k] = e
		} else if err != nil {
			failed = err
		}
	}
	if c.single != nil {
		names := make([]string, len(ks))
		for i, k := range ks {
			names[i] = c.name(k)
		}
		values, err := c.single.MGet(ctx, names...).Result()
		if err != nil {
			return entries, err
		}
		for i, v := range values {
			if s, ok := v.(string); ok {
				put(ks[i], []byte(s))
			}
		}
		return entries, failed
	}
	cmds := make([]*redis.StringCmd, len(ks))
	c.client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its error
		for i, k := range ks {
			cmds[i] = p.Get(ctx, c.name(k))
		}
		return nil
	})
	for i, cmd := range cmds {
		switch data, err := cmd.Bytes(); err {
		case nil:
			put(ks[i], data)
		case redis.Nil:
		default:
			failed = err
		}
	}
	return entries, failed
}

// SetMany is a SET for each item, in one round trip. If an item cannot be encoded, or its TTL is too short, none is
// sent.
func (c *Cache[K, V]) SetMany(ctx context.Context, items []guard.Item[K, V]) error {
	for _, it := range items {
		if it.TTL < time.Millisecond { // 0 would be for ever
			return fmt.Errorf("%w: a TTL of %v", bloom.ErrInvalid, it.TTL)
		}
	}
	return c.each(ctx, len(items), func(p redis.Pipeliner, i int) (redis.Cmder, error) {
		it := items[i]
		px := it.TTL.Milliseconds()
		if it.Entry.Missing {
			return p.Do(ctx, "SET", c.name(it.Key), []byte{headerNull}, "PX", px, "NX"), nil
		}
		value, err := c.o.Encode(it.Entry.Value)
		if err != nil {
			return nil, err
		}
		data := append(append(make([]byte, 0, 1+len(value)), headerValue), value...)
		return p.Do(ctx, "SET", c.name(it.Key), data, "PX", px), nil
	})
}

// Fence sets a tombstone for each key, in one round trip, for d and Linger.
func (c *Cache[K, V]) Fence(ctx context.Context, ks []K, d time.Duration) error {
	px := (max(0, d) + c.o.Linger + time.Millisecond - 1).Milliseconds()
	return c.each(ctx, len(ks), func(p redis.Pipeliner, i int) (redis.Cmder, error) {
		return p.Do(ctx, "SET", c.name(ks[i]), []byte{headerTombstone}, "PX", px), nil
	})
}

// each sends n commands in one round trip, or none if one cannot be made, and returns the first error.
func (c *Cache[K, V]) each(ctx context.Context, n int, command func(p redis.Pipeliner, i int) (redis.Cmder, error)) error {
	cmds, err := c.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			if _, err := command(p, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err == redis.Nil { // of SET NX, where there is something; other commands may have failed
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil && err != redis.Nil {
				return err
			}
		}
		return nil
	}
	return err
}
