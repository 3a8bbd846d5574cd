package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

type row struct {
	ID   int
	Name string
}

func value[V any](v V) guard.Entry[V] { return guard.Entry[V]{Value: v} }

func missing[V any]() guard.Entry[V] { return guard.Entry[V]{Missing: true} }

func TestCache(t *testing.T) {
	client, ctx := plain(t), t.Context()
	prefix := freshKey() + ":"
	c, err := NewCache[int, row](client, CacheOptions[int, row]{Prefix: prefix})
	require.NoError(t, err)
	_, ok, err := c.Get(ctx, 1)
	require.NoError(t, err)
	require.False(t, ok)

	require.NoError(t, c.Set(ctx, 1, missing[row](), time.Minute))
	e, ok, err := c.Get(ctx, 1)
	require.NoError(t, err)
	require.True(t, ok && e.Missing)
	require.Equal(t, "n", client.Get(ctx, prefix+"1").Val())
	require.NoError(t, c.Set(ctx, 1, value(row{1, "one"}), time.Minute))
	require.Equal(t, `v{"ID":1,"Name":"one"}`, client.Get(ctx, prefix+"1").Val())
	require.NoError(t, c.Set(ctx, 1, missing[row](), time.Minute), "never replaces a value")
	e, ok, err = c.Get(ctx, 1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, value(row{1, "one"}), e)

	// A tombstone refuses missing rows and takes values.
	require.NoError(t, c.Fence(ctx, []int{1, 2}, time.Minute))
	for k := 1; k <= 2; k++ {
		_, ok, err = c.Get(ctx, k)
		require.NoError(t, err)
		require.False(t, ok)
		require.NoError(t, c.Set(ctx, k, missing[row](), time.Minute))
		_, ok, _ = c.Get(ctx, k)
		require.False(t, ok)
	}
	require.NoError(t, c.Set(ctx, 2, value(row{2, "two"}), time.Minute))
	_, ok, _ = c.Get(ctx, 2)
	require.True(t, ok)
	require.NoError(t, c.Delete(ctx, 2))
	_, ok, _ = c.Get(ctx, 2)
	require.False(t, ok)

	require.NoError(t, c.SetMany(ctx, nil))
	require.NoError(t, c.Fence(ctx, nil, time.Second))
	require.NoError(t, c.SetMany(ctx, []guard.Item[int, row]{
		{Key: 1, Entry: missing[row](), TTL: time.Minute}, {Key: 3, Entry: value(row{3, ""}), TTL: time.Minute}, {Key: 4, Entry: missing[row](), TTL: time.Minute},
	}))
	got, err := c.GetMany(ctx, []int{1, 3, 4, 5, 3})
	require.NoError(t, err)
	require.Equal(t, map[int]guard.Entry[row]{3: value(row{3, ""}), 4: missing[row]()}, got)
	got, err = c.GetMany(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, got)

	// What is no entry of this cache, or of another type, is an error and never a missing row.
	for i, text := range []string{"", "x", "v{", "V{}"} {
		client.Set(ctx, prefix+"9", text, 0)
		_, ok, err = c.Get(ctx, 9)
		require.Error(t, err, i)
		require.False(t, ok)
		got, err = c.GetMany(ctx, []int{3, 9})
		require.Error(t, err)
		require.Len(t, got, 1)
	}
	client.Del(ctx, prefix+"9")
	client.SAdd(ctx, prefix+"9", "a")
	_, _, err = c.Get(ctx, 9)
	require.Error(t, err)
}

func TestCacheTTL(t *testing.T) {
	client, ctx := plain(t), t.Context()
	prefix := freshKey() + ":"
	c, err := NewCache[string, []byte](client, CacheOptions[string, []byte]{Prefix: prefix, Linger: time.Hour})
	require.NoError(t, err)
	for ttl, want := range map[time.Duration]time.Duration{
		time.Millisecond: time.Millisecond, 1500 * time.Millisecond: 1500 * time.Millisecond, time.Second: time.Second, time.Hour: time.Hour, 2*time.Second + 999*time.Microsecond: 2 * time.Second,
	} {
		for _, e := range []guard.Entry[[]byte]{value([]byte("x")), missing[[]byte]()} {
			client.Del(ctx, prefix+"k")
			require.NoError(t, c.Set(ctx, "k", e, ttl))
			left := client.PTTL(ctx, prefix+"k").Val()
			require.LessOrEqual(t, left, want)
			require.NotEqual(t, time.Duration(-1), left, "for ever")
		}
	}
	for _, ttl := range []time.Duration{0, -1, time.Microsecond} {
		require.ErrorIs(t, c.Set(ctx, "k", value([]byte("x")), ttl), bloom.ErrInvalid)
	}
	require.NoError(t, c.Fence(ctx, []string{"k"}, 10*time.Second))
	left := client.PTTL(ctx, prefix+"k").Val()
	require.LessOrEqual(t, left, 10*time.Second+time.Hour)
	require.Greater(t, left, time.Hour-time.Minute)
	// It is over in its time.
	c.o.Linger = time.Millisecond
	require.NoError(t, c.Fence(ctx, []string{"short"}, time.Millisecond))
	require.Eventually(t, func() bool {
		require.NoError(t, c.Set(ctx, "short", missing[[]byte](), time.Minute))
		e, ok, err := c.Get(ctx, "short")
		return err == nil && ok && e.Missing
	}, 10*time.Second, time.Millisecond)
}

func TestCacheOptions(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	type name string
	type small uint8
	texts, err := NewCache[name, string](client, CacheOptions[name, string]{})
	require.NoError(t, err)
	require.Equal(t, "a", texts.name("a"))
	// Four attempts of dialling, waiting, writing and reading, by the client's defaults.
	require.Greater(t, texts.o.Linger, 30*time.Second)
	numbers, err := NewCache[small, string](client, CacheOptions[small, string]{Prefix: "p:"})
	require.NoError(t, err)
	require.Equal(t, "p:200", numbers.name(200))
	negative, err := NewCache[int, string](client, CacheOptions[int, string]{})
	require.NoError(t, err)
	require.Equal(t, "-5", negative.name(-5))
	pairs, err := NewCache[[2]int, string](client, CacheOptions[[2]int, string]{AppendKey: func(dst []byte, k [2]int) []byte { return fmt.Appendf(dst, "%d/%d", k[0], k[1]) }})
	require.NoError(t, err)
	require.Equal(t, "1/2", pairs.name([2]int{1, 2}))

	_, err = NewCache[[2]int, string](client, CacheOptions[[2]int, string]{})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewCache[int, string](nil, CacheOptions[int, string]{})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewCache[int, string](client, CacheOptions[int, string]{Linger: -1})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewCache[int, string](client, CacheOptions[int, string]{Encode: func(string) ([]byte, error) { return nil, nil }})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	endless := redis.NewClient(&redis.Options{WriteTimeout: -1})
	defer endless.Close()
	_, err = NewCache[int, string](endless, CacheOptions[int, string]{})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewCache[int, string](endless, CacheOptions[int, string]{Linger: time.Second})
	require.NoError(t, err)
}

// An entry that cannot be encoded keeps the others from being sent.
func TestCacheEncoding(t *testing.T) {
	client, ctx := plain(t), t.Context()
	boom := errors.New("boom")
	c, err := NewCache[int, string](client, CacheOptions[int, string]{
		Prefix: freshKey(), Decode: func(b []byte) (string, error) { return string(b), nil },
		Encode: func(s string) ([]byte, error) {
			if s == "bad" {
				return nil, boom
			}
			return []byte(s), nil
		},
	})
	require.NoError(t, err)
	err = c.SetMany(ctx, []guard.Item[int, string]{{Key: 1, Entry: value("good"), TTL: time.Minute}, {Key: 2, Entry: value("bad"), TTL: time.Minute}})
	require.ErrorIs(t, err, boom)
	got, err := c.GetMany(ctx, []int{1, 2})
	require.NoError(t, err)
	require.Empty(t, got)
	for _, v := range []string{"", "\x00n", "t"} {
		require.NoError(t, c.Set(ctx, 3, value(v), time.Minute))
		e, ok, err := c.Get(ctx, 3)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, v, e.Value)
	}
}

// Two processes share a cache. One has looked for a row, in vain, when the other creates it; what the first found comes
// late and is refused (case 16 of the guard's).
func TestCacheLateNull(t *testing.T) {
	client, ctx := plain(t), t.Context()
	o := CacheOptions[string, string]{Prefix: freshKey() + ":"}
	cache, err := NewCache[string, string](client, o)
	require.NoError(t, err)
	looked, created := make(chan bool), make(chan bool)
	var exists atomic.Bool
	slow := guard.LoaderFunc[string, string](func(context.Context, string) (string, error) {
		if exists.Load() {
			return "row", nil
		}
		looked <- true
		<-created
		return "", guard.ErrNotFound
	})
	b, err := guard.New(guard.Options[string, string]{Loader: slow, Cache: cache, Capacity: 10, ErrorRate: 0.1})
	require.NoError(t, err)
	a, err := guard.New(guard.Options[string, string]{Loader: slow, Cache: cache, Capacity: 10, ErrorRate: 0.1})
	require.NoError(t, err)
	answered := make(chan error)
	go func() {
		_, err := b.Get(ctx, "k")
		answered <- err
	}()
	<-looked
	require.NoError(t, a.Create(ctx, []string{"k"}, func(context.Context) error { exists.Store(true); return nil }))
	close(created)
	require.ErrorIs(t, <-answered, guard.ErrNotFound)
	for range 200 { // the null is stored behind the answer
		e, ok, err := cache.Get(ctx, "k")
		require.NoError(t, err)
		require.False(t, ok && e.Missing)
		time.Sleep(time.Millisecond)
	}
	v, err := a.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "row", v)
	v, err = b.Get(ctx, "k")
	require.NoError(t, err)
	require.Equal(t, "row", v)
}

func TestCacheDown(t *testing.T) {
	s, ctx := startRedis(t), t.Context()
	c, err := NewCache[string, string](s.client(func(o *redis.Options) { o.MaxRetries = -1; o.DialerRetries = 1 }), CacheOptions[string, string]{})
	require.NoError(t, err)
	require.NoError(t, c.Set(ctx, "a", value("1"), time.Minute))
	s.kill()
	_, ok, err := c.Get(ctx, "a")
	require.Error(t, err)
	require.False(t, ok)
	_, err = c.GetMany(ctx, []string{"a", "b"})
	require.Error(t, err)
	require.Error(t, c.Set(ctx, "a", value("1"), time.Minute))
	require.Error(t, c.Set(ctx, "a", missing[string](), time.Minute))
	require.Error(t, c.Fence(ctx, []string{"a"}, time.Minute))
	require.Error(t, c.Delete(ctx, "a"))
}
