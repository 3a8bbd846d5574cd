package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/redbloom-go/bloom/guard"
)

// A rebuild, a push, and a pull end at each of their requests, by a context that is cancelled, and by a server that is
// out of reach from then on: what is there answers for all old keys, or not at all, and works again afterwards.
func TestEndsAtEachStep(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		old, keys := keysUpTo(300), keysUpTo(1500)
		good := twin(t, client, f)
		r := remoteOf(f)
		require.NoError(t, good.Rebuild(t.Context(), scanOf(old), RebuildOptions{}))
		for name, op := range map[string]func(ctx context.Context) error{
			"rebuild": func(ctx context.Context) error { return f.Rebuild(ctx, scanOf(keys), RebuildOptions{Attempts: 1}) },
			"push": func(ctx context.Context) error {
				return tryPush(ctx, f, PushOptions{Attempts: 1}, func() [][]byte {
					if err := good.AddKeys(t.Context(), keyRange(1500, 1510)); err != nil {
						panic(err)
					}
					return keys
				})
			},
			"pull": func(ctx context.Context) error {
				copied, err := f.copy(ctx, PullOptions{Attempts: 1}, nil)
				for _, key := range old {
					if err == nil && !copied.contains(key) {
						return fmt.Errorf("%s is not in the copy", key)
					}
				}
				return err
			},
		} {
			for _, cancelled := range []bool{true, false} {
				for step := int64(1); ; step++ {
					require.Less(t, step, int64(100), name)
					ctx, cancel := context.WithCancel(t.Context())
					o := client.Options()
					c := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, Protocol: o.Protocol, MaxRetries: -1})
					var requests atomic.Int64
					c.AddHook(hook(func(cmds []redis.Cmder, send func() error) error {
						switch n := requests.Add(1); {
						case cancelled && n == step:
							cancel()
						case !cancelled && n >= step:
							return fail(cmds)
						}
						return send()
					}))
					r.client = c
					err := op(ctx)
					cancel()
					c.Close()
					requireNever(t, good, guard.Absent, old)
					if requests.Load() < step { // that was all
						require.NoError(t, err)
						break
					}
					if err == nil { // it was sent all the same
						continue
					}
					if cancelled {
						require.ErrorIs(t, err, context.Canceled, "%s, step %d", name, step)
						require.Zero(t, client.Exists(t.Context(), r.build, r.next, r.load).Val(), "%s, step %d", name, step)
					} else {
						require.ErrorIs(t, err, errCut, "%s, step %d", name, step)
					}
					require.NoError(t, good.Abort(t.Context()))
					if good.Ready(t.Context()) != nil {
						require.NoError(t, good.Rebuild(t.Context(), scanOf(old), RebuildOptions{}))
					}
					requireVerdicts(t, good, guard.Maybe, old)
				}
			}
		}
	})
}

func requireNever(t testing.TB, f guard.Filter, never guard.Verdict, keys [][]byte) {
	t.Helper()
	answers, err := f.Verdicts(context.Background(), nil, keys)
	require.NoError(t, err)
	for i, v := range answers {
		require.NotEqual(t, never, v, "%s", keys[i])
	}
}

// The server comes back in the middle of a push or a rebuild, as it was some requests before: what it lost is not taken
// for there.
func TestSetBackDuringBuild(t *testing.T) {
	s, ctx := startRedis(t), t.Context()
	client := s.client(func(o *redis.Options) { o.MaxRetries = -1 })
	f := bloom.Must(bloom.New(5_000_000, 0.01)) // 6 chunks
	f.AddMany(nil, keysUpTo(50_000))
	for _, confirmed := range []bool{true, false} {
		b, err := NewBitmap(client, "b", BitmapOptions{Capacity: 5_000_000, ErrorRate: 0.01})
		require.NoError(t, err)
		chunks := 0
		err = b.Push(ctx, f, PushOptions{Unconfirmed: !confirmed, Progress: func(done, total uint64) {
			switch chunks++; chunks {
			case 2:
				require.NoError(t, client.Save(ctx).Err())
			case 4:
				s.kill()
				require.True(t, s.start())
			}
		}})
		require.Greater(t, chunks, 4)
		require.ErrorIs(t, err, ErrSuperseded)
		requireVerdicts(t, b, guard.Unknown, keysUpTo(10))
		require.Zero(t, client.DBSize(ctx).Val())
	}
	for _, name := range []string{"Filter", "Cuckoo"} {
		first, second := bloomdtest.Start(t), bloomdtest.Start(t)
		client, move := movable(t, first.Addr())
		var f tested
		var err error
		if name == "Filter" {
			f, err = NewFilter(client, "f", FilterOptions{Capacity: 10_000, ErrorRate: 0.01})
		} else {
			f, err = NewCuckoo(client, "f", CuckooOptions{Capacity: 10_000})
		}
		require.NoError(t, err)
		seen := 0
		err = f.Rebuild(ctx, scanOf(keysUpTo(4000)), RebuildOptions{Progress: func(uint64) {
			file := t.TempDir() + "/keys"
			switch seen++; seen {
			case 1:
				require.NoError(t, first.Engine().Save(file))
				require.NoError(t, second.Engine().Load(file))
			case 3:
				move(second.Addr())
			}
		}})
		require.ErrorIs(t, err, ErrSuperseded)
		requireVerdicts(t, f, guard.Unknown, keysUpTo(10))
		require.Zero(t, client.DBSize(ctx).Val())
	}
}

// There is no filter, one is being pushed, and the reply to an add breaks off where it would say so: the add does not
// count as done.
func TestReplyBreaksOff(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		if isBitmap(f) {
			return // has a reply of one piece
		}
		writer := twin(t, client, f)
		c := connect(t, client.Options().Addr, func(o *redis.Options) { o.Protocol, o.MaxRetries = client.Options().Protocol, -1 })
		c.AddHook(hook(func(cmds []redis.Cmder, send func() error) error {
			err := send()
			for _, cmd := range cmds { // the answers to the adds come first, and the rest is lost
				if get, ok := cmd.(*redis.StringCmd); ok {
					get.SetVal("")
					get.SetErr(errCut)
				}
			}
			return err
		}))
		remoteOf(writer).client = c
		require.NoError(t, tryPush(t.Context(), f, PushOptions{}, func() [][]byte {
			require.ErrorIs(t, writer.AddKeys(t.Context(), keyRange(100, 110)), errCut)
			return keysUpTo(100)
		}))
	})
}

// A server that evicts keys may evict the journal of a push.
func TestJournalLost(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		if isBitmap(f) {
			return // has no journal
		}
		ctx, r := t.Context(), remoteOf(f)
		require.NoError(t, f.Reserve(ctx))
		require.NoError(t, f.AddKeys(ctx, keysUpTo(100)))
		for _, later := range [][][]byte{nil, keyRange(210, 220)} { // the next add would begin another
			err := tryPush(ctx, f, PushOptions{}, func() [][]byte {
				require.NoError(t, f.AddKeys(ctx, keyRange(200, 210)))
				require.NoError(t, client.Del(ctx, r.log).Err())
				require.NoError(t, f.AddKeys(ctx, later))
				return keysUpTo(100)
			})
			require.ErrorIs(t, err, ErrSuperseded)
			requireVerdicts(t, f, guard.Maybe, append(keysUpTo(100), keyRange(200, 210)...))
		}
	})
}

// A bitmap is rebuilt with other parameters while processes that have the old ones add to it: what they add is not
// lost.
func TestOtherParametersDuringRebuild(t *testing.T) {
	client, ctx, key := plain(t), t.Context(), freshKey()
	old, err := NewBitmap(client, key, BitmapOptions{Bits: 20_000, Hashes: 5})
	require.NoError(t, err)
	for _, o := range []BitmapOptions{{Bits: 20_000, Hashes: 5, Hash: []bloom.Option{bloom.WithSeed(7)}}, {Bits: 40_000, Hashes: 5}} {
		require.NoError(t, old.Reserve(ctx))
		require.NoError(t, old.AddKeys(ctx, keysUpTo(100)))
		b, err := NewBitmap(client, key, o)
		require.NoError(t, err)
		next := bloom.Must(bloom.NewWithSize(o.Bits, o.Hashes, o.Hash...))
		push := func(during func(), unconfirmed bool) error {
			return b.PushFrom(ctx, func(context.Context) (*bloom.Filter, error) { during(); return next, nil }, PushOptions{Unconfirmed: unconfirmed})
		}
		require.ErrorIs(t, push(func() { require.NoError(t, old.AddKeys(ctx, keyRange(100, 110))) }, false), ErrSuperseded)
		requireVerdicts(t, old, guard.Maybe, keysUpTo(110))
		for _, unconfirmed := range []bool{false, true} {
			require.NoError(t, push(func() {}, unconfirmed))
			require.ErrorIs(t, old.AddKeys(ctx, keysUpTo(1)), bloom.ErrMismatch)
			_, err = old.Check(ctx, keysUpTo(1)[0])
			require.ErrorIs(t, err, bloom.ErrMismatch)
			require.ErrorIs(t, old.Ready(ctx), bloom.ErrMismatch)
			if unconfirmed {
				require.ErrorIs(t, b.Ready(ctx), ErrUnknown)
				require.NoError(t, b.Confirm(ctx))
			}
			require.NoError(t, b.Ready(ctx))
		}
		// There is none to add to but the one that is built.
		require.ErrorIs(t, push(func() {
			require.NoError(t, b.Drop(ctx))
			require.NoError(t, old.AddKeys(ctx, keysUpTo(1)))
		}, false), ErrSuperseded)
		require.ErrorIs(t, push(func() {
			require.NoError(t, client.Del(ctx, key, old.gen).Err())
			require.NoError(t, old.AddKeys(ctx, keysUpTo(1)), "there is nothing")
		}, false), ErrSuperseded)
		require.NoError(t, b.Drop(ctx))
	}
}

// A filter goes and comes back, by RENAME or from a backup: what was added in between is not called absent.
func TestComesBack(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		require.NoError(t, f.Reserve(ctx))
		require.NoError(t, f.AddKeys(ctx, keysUpTo(100)))
		require.NoError(t, client.Rename(ctx, f.Key(), "away"+f.Key()).Err())
		requireVerdicts(t, f, guard.Unknown, keysUpTo(5))
		require.NoError(t, f.AddKeys(ctx, keyRange(100, 110)))
		require.NoError(t, client.Rename(ctx, "away"+f.Key(), f.Key()).Err())
		requireVerdicts(t, f, guard.Unknown, keyRange(100, 110))
		require.NoError(t, f.AddKeys(ctx, keyRange(100, 110)))
		require.NoError(t, f.Confirm(ctx))
		requireVerdicts(t, f, guard.Maybe, keysUpTo(110))
		if isBitmap(f) {
			return // one script
		}
		// It comes back between the add and the look at what it has found.
		require.NoError(t, client.Rename(ctx, f.Key(), "away"+f.Key()).Err())
		called := interrupted(t, client, f, "exists"+f.Key(), func() {
			require.NoError(t, client.Rename(ctx, "away"+f.Key(), f.Key()).Err())
		})
		require.NoError(t, f.AddKeys(ctx, keyRange(110, 120)))
		require.True(t, called())
		requireVerdicts(t, f, guard.Maybe, keysUpTo(120))
	})
}

// The server's memory is used up in the middle of a push: the filter in use stays, and nothing is left behind.
func TestOutOfMemory(t *testing.T) {
	s, ctx := startRedis(t, "--maxmemory", "24mb", "--maxmemory-policy", "noeviction"), t.Context()
	client := s.client()
	f := bloom.Must(bloom.NewWithSize(16<<23, 3)) // 16 MiB
	for _, key := range keysUpTo(50_000) {
		f.Add(key)
	}
	b, err := NewBitmap(client, "b", BitmapOptions{Bits: 16 << 23, Hashes: 3})
	require.NoError(t, err)
	require.NoError(t, b.Push(ctx, f, PushOptions{}))
	for range 2 {
		require.ErrorContains(t, b.Push(ctx, f, PushOptions{}), "OOM")
		require.EqualValues(t, 2, client.DBSize(ctx).Val())
		requireVerdicts(t, b, guard.Maybe, keysUpTo(1000))
		require.NoError(t, b.AddKeys(ctx, keyRange(60_000, 60_010)))
		requireVerdicts(t, b, guard.Maybe, keyRange(60_000, 60_010))
		require.NoError(t, b.Ready(ctx))
	}
}

// A call takes more keys than a command has arguments.
func TestManyKeys(t *testing.T) {
	client, ctx := modded(t), t.Context()
	f, err := NewFilter(client, "f", FilterOptions{Capacity: 150_000, ErrorRate: 0.01})
	require.NoError(t, err)
	require.NoError(t, f.Reserve(ctx))
	keys := keysUpTo(maxKeys + 1)
	added, err := f.Add(ctx, nil, keys...)
	require.NoError(t, err)
	require.Len(t, added, len(keys))
	requireVerdicts(t, f, guard.Maybe, keys)
	// It is lost after a part of it.
	c := connect(t, client.Options().Addr)
	require.NoError(t, c.Ping(ctx).Err())
	requests := 0
	c.AddHook(hook(func(_ []redis.Cmder, send func() error) error {
		if requests++; requests == 2 {
			client.FlushAll(ctx)
		}
		return send()
	}))
	f.client = c
	answers, err := f.Verdicts(ctx, nil, keys)
	require.NoError(t, err)
	require.Len(t, answers, len(keys))
	require.Equal(t, guard.Maybe, answers[maxKeys-1])
	for _, v := range answers[maxKeys:] {
		require.Equal(t, guard.Unknown, v)
	}
}

// A Ring sends keys to another server while one is down: a filter would be without them when that comes back.
func TestNoRing(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "localhost:1"}, HeartbeatFrequency: time.Hour})
	defer ring.Close()
	_, err := NewBitmap(ring, "k", BitmapOptions{Bits: 64, Hashes: 3})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewRolling(ring, "k", RollingOptions{Span: time.Hour, Keep: 3, Capacity: 10, ErrorRate: 0.1})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewFilter(ring, "k", FilterOptions{})
	require.ErrorContains(t, err, "GetShardClientForKey")
	cache, err := NewCache[int, int](ring, CacheOptions[int, int]{})
	require.NoError(t, err)
	require.Greater(t, cache.o.Linger, 30*time.Second)
}

// Long and odd keys and names.
func TestOddKeys(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		keys := [][]byte{nil, {0}, []byte("\r\n"), []byte("{}"), []byte("{a}b"), []byte(strings.Repeat("long", 100_000)), []byte("\xff\xfe")}
		for _, name := range []string{"a b", "{a b}", "x{y", "{\x00}", "a\r\nb{t}", "~gen", "{~}~gen"} {
			r, err := newRemote(client, name+"{"+freshKey()+"}", remoteOf(f).shape, Options{}, remoteOf(f).kind)
			require.NoError(t, err)
			f := withRemote(f, r)
			require.NoError(t, f.Reserve(ctx), name)
			require.NoError(t, f.AddKeys(ctx, keys))
			requireVerdicts(t, f, guard.Maybe, keys)
			require.NoError(t, tryPush(ctx, f, PushOptions{}, func() [][]byte {
				require.NoError(t, f.AddKeys(ctx, keys[:4]))
				return keys[4:]
			}))
			requireVerdicts(t, f, guard.Maybe, keys)
			require.NoError(t, f.Drop(ctx))
		}
	})
}

// withRemote returns a filter of the kind and size of f with the keys of r.
func withRemote(f tested, r *remote) tested {
	switch f := f.(type) {
	case *Bitmap:
		other := *f
		other.remote = r
		return &other
	case *Filter:
		other := *f
		other.remote = r
		return &other
	case *Cuckoo:
		other := *f
		other.remote = r
		return &other
	}
	panic("no filter")
}

// A hostile server answers a dump with cursors that do not end.
func TestEndlessDump(t *testing.T) {
	client, ctx := modded(t), t.Context()
	f, err := NewFilter(client, "f", FilterOptions{Capacity: 100, ErrorRate: 0.01})
	require.NoError(t, err)
	require.NoError(t, f.Reserve(ctx))
	o := client.Options()
	c := redis.NewClient(&redis.Options{Addr: o.Addr})
	defer c.Close()
	c.AddHook(hook(func(cmds []redis.Cmder, send func() error) error {
		for _, cmd := range cmds {
			if args := cmd.Args(); args[0] == "BF.SCANDUMP" && args[2] != int64(0) {
				args[2] = int64(1) // the first chunk again and again
			}
		}
		return send()
	}))
	f.client = c
	_, err = f.Pull(ctx, PullOptions{})
	require.True(t, errors.Is(err, bloom.ErrCorrupt) || errors.Is(err, ErrChanging), err)
}
