package goredis

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/redbloom-go/bloom/guard"
)

var redisScheme = bloom.WithScheme(bloom.RedisBloom)

func TestPushPullFilter(t *testing.T) {
	client, ctx := modded(t), t.Context()
	for name, s := range map[string]*bloom.Scalable{
		"empty": bloom.Must(bloom.NewScalable(10, 0.01, redisScheme)), "one link": bloom.Must(bloom.NewScalable(100_000, 0.001, redisScheme)),
		"chain": bloom.Must(bloom.NewScalable(10, 0.01, redisScheme)), "fixed": bloom.Must(bloom.NewScalable(5000, 0.01, redisScheme, bloom.WithNonScaling())),
		"several chunks": bloom.Must(bloom.NewScalable(2_000_000, 0.001, redisScheme)),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := NewFilter(client, freshKey(), FilterOptions{})
			require.NoError(t, err)
			if name != "empty" {
				for _, key := range keysUpTo(4000) {
					bloom.Must(s.Add(key))
				}
			}
			var done, total uint64
			require.NoError(t, f.Push(ctx, s, PushOptions{Progress: func(d, n uint64) { done, total = d, n }}))
			require.Equal(t, s.SizeBytes(), done)
			require.Equal(t, s.SizeBytes(), total)
			require.NoError(t, f.Ready(ctx))
			done = 0
			got, err := f.Pull(ctx, PullOptions{Progress: func(d, n uint64) {
				require.GreaterOrEqual(t, d, done)
				done, total = d, n
			}})
			require.NoError(t, err)
			require.True(t, s.Equal(got))
			require.Equal(t, s.SizeBytes(), done)
			require.InDelta(t, float64(done), float64(total), 2000)
			if name != "empty" {
				requireVerdicts(t, f, guard.Maybe, keysUpTo(4000))
			}
			if name != "fixed" {
				require.NoError(t, f.AddKeys(ctx, keyRange(5000, 5010)))
				requireVerdicts(t, f, guard.Maybe, keyRange(5000, 5010))
			}
			require.NoError(t, f.Drop(ctx))
		})
	}
	f, err := NewFilter(client, freshKey(), FilterOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, f.Push(ctx, nil, PushOptions{}), bloom.ErrInvalid)
	require.ErrorIs(t, f.Push(ctx, bloom.Must(bloom.NewScalable(10, 0.1)), PushOptions{}), bloom.ErrMismatch)
	boom := errors.New("boom")
	require.ErrorIs(t, f.PushFrom(ctx, func(context.Context) (*bloom.Scalable, error) { return nil, boom }, PushOptions{}), boom)
	_, err = f.Pull(ctx, PullOptions{})
	require.ErrorIs(t, err, ErrUnknown)
	_, err = f.Pull(ctx, PullOptions{Unmarked: true})
	require.ErrorIs(t, err, ErrUnknown)
	require.Zero(t, client.DBSize(ctx).Val())
	// A filter that somebody else made.
	require.NoError(t, client.BFAdd(ctx, f.Key(), "a").Err())
	_, err = f.Pull(ctx, PullOptions{})
	require.ErrorIs(t, err, ErrUnknown)
	got, err := f.Pull(ctx, PullOptions{Unmarked: true})
	require.NoError(t, err)
	require.True(t, got.ContainsString("a"))

	require.NoError(t, f.Push(ctx, bloom.Must(bloom.NewScalable(10, 0.01, redisScheme)), PushOptions{Unconfirmed: true}))
	requireVerdicts(t, f, guard.Unknown, keysUpTo(2))
	require.NoError(t, f.Confirm(ctx))
	requireVerdicts(t, f, guard.Absent, keysUpTo(2))
}

func TestPushPullCuckoo(t *testing.T) {
	client, ctx := modded(t), t.Context()
	for name, c := range map[string]*bloom.Cuckoo{
		"empty": bloom.Must(bloom.NewCuckoo(1000, 0, redisScheme, bloom.WithBucketSize(3), bloom.WithMaxIterations(7), bloom.WithGrowth(0))),
		"one":   bloom.Must(bloom.NewCuckoo(1<<22, 0, redisScheme, bloom.WithBucketSize(4))),
		"grown": bloom.Must(bloom.NewCuckoo(64, 0, redisScheme, bloom.WithGrowth(2))),
	} {
		f, err := NewCuckoo(client, freshKey(), CuckooOptions{})
		require.NoError(t, err)
		if name != "empty" {
			for _, key := range keysUpTo(2000) {
				bloom.Must(c.Add(key))
			}
		}
		require.NoError(t, f.Push(ctx, c, PushOptions{}))
		got, err := f.Pull(ctx, PullOptions{})
		require.NoError(t, err)
		require.True(t, c.Equal(got), name)
		require.Equal(t, c.MaxIterations(), got.MaxIterations())
		require.Equal(t, c.Growth(), got.Growth())
		if name != "empty" {
			requireVerdicts(t, f, guard.Maybe, keysUpTo(2000))
		}
	}
	f, err := NewCuckoo(client, freshKey(), CuckooOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, f.Push(ctx, nil, PushOptions{}), bloom.ErrInvalid)
	require.ErrorIs(t, f.Push(ctx, bloom.Must(bloom.NewCuckoo(10, 0.01)), PushOptions{}), bloom.ErrMismatch)
	_, err = f.Pull(ctx, PullOptions{})
	require.ErrorIs(t, err, ErrUnknown)
}

func TestPushPullBitmap(t *testing.T) {
	client, ctx := plain(t), t.Context()
	f := bloom.Must(bloom.New(8_000_000, 0.01)) // three chunks to pull
	b, err := NewBitmap(client, freshKey(), BitmapOptions{Capacity: 8_000_000, ErrorRate: 0.01})
	require.NoError(t, err)
	for _, key := range keysUpTo(50_000) {
		f.Add(key)
	}
	done := uint64(0)
	require.NoError(t, b.Push(ctx, f, PushOptions{Progress: func(d, n uint64) { done = d }}))
	require.Equal(t, f.SizeBytes(), done)
	data, err := client.Get(ctx, b.Key()).Bytes()
	require.NoError(t, err)
	require.Equal(t, f.RedisBitmap(), data)
	got, err := b.Pull(ctx, PullOptions{Progress: func(d, n uint64) { done = d; require.Equal(t, f.SizeBytes(), n) }})
	require.NoError(t, err)
	require.True(t, f.Equal(got))
	require.Equal(t, f.SizeBytes(), done)

	for _, other := range []*bloom.Filter{nil, bloom.Must(bloom.New(10, 0.1)), bloom.Must(bloom.New(8_000_000, 0.01, bloom.WithSeed(3)))} {
		err := b.Push(ctx, other, PushOptions{})
		require.True(t, errors.Is(err, bloom.ErrMismatch) || errors.Is(err, bloom.ErrInvalid), err)
	}
	got, err = b.Pull(ctx, PullOptions{})
	require.NoError(t, err)
	require.True(t, f.Equal(got), "a push that fails changes nothing")
	require.NoError(t, b.Drop(ctx))

	// A bitmap that others made by SETBIT ends where it was last written.
	small := bloom.Must(bloom.NewWithSize(10_000, 5))
	b, err = NewBitmap(client, freshKey(), BitmapOptions{Bits: 10_000, Hashes: 5})
	require.NoError(t, err)
	_, err = b.Pull(ctx, PullOptions{Unmarked: true})
	require.ErrorIs(t, err, ErrUnknown)
	small.AddString("a")
	for _, x := range small.Positions(nil, []byte("a")) {
		client.SetBit(ctx, b.Key(), int64(x), 1)
	}
	require.Less(t, client.StrLen(ctx, b.Key()).Val(), int64(10_000/8))
	requireVerdicts(t, b, guard.Unknown, [][]byte{[]byte("a")})
	got, err = b.Pull(ctx, PullOptions{Unmarked: true})
	require.NoError(t, err)
	require.True(t, small.Equal(got))
	require.NoError(t, b.Confirm(ctx))
	got, err = b.Pull(ctx, PullOptions{})
	require.NoError(t, err)
	require.True(t, small.Equal(got))
	require.NoError(t, client.Set(ctx, b.Key(), make([]byte, 10_000), 0).Err())
	require.ErrorIs(t, b.Confirm(ctx), ErrUnknown, "too long")
}

func TestTooLarge(t *testing.T) {
	s, ctx := startRedis(t, "--proto-max-bulk-len", "1048576", "--maxmemory", "30mb"), t.Context()
	client := s.client()
	before := client.DBSize(ctx).Val()
	b, err := NewBitmap(client, "b", BitmapOptions{Bits: 9 << 20, Hashes: 3})
	require.NoError(t, err)
	require.ErrorIs(t, b.Push(ctx, bloom.Must(bloom.NewWithSize(9<<20, 3)), PushOptions{}), bloom.ErrTooLarge)
	require.ErrorIs(t, b.Reserve(ctx), bloom.ErrTooLarge)
	require.NoError(t, client.ConfigSet(ctx, "proto-max-bulk-len", "536870912").Err())
	b, err = NewBitmap(client, "b", BitmapOptions{Bits: 31 << 23, Hashes: 3})
	require.NoError(t, err)
	require.ErrorIs(t, b.Push(ctx, bloom.Must(bloom.NewWithSize(31<<23, 3)), PushOptions{}), bloom.ErrTooLarge)
	require.Equal(t, before, client.DBSize(ctx).Val(), "nothing was written")

	small := connect(t, bloomdtest.Start(t, func(c *bloomd.Config) { c.MaxBulk = 1 << 19 }).Addr())
	f, err := NewFilter(small, "f", FilterOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, f.Push(ctx, bloom.Must(bloom.NewScalable(10, 0.1, redisScheme)), PushOptions{}), bloom.ErrTooLarge)
	require.Zero(t, small.DBSize(ctx).Val())
}

// cutter has a hook that ends connections: every n-th transaction or script is not sent, or sent and its reply lost.
type cutter struct {
	every int64
	n     atomic.Int64
	cuts  atomic.Int64
}

func (c *cutter) cut(cmds []redis.Cmder, send func() error) error {
	n := c.n.Add(1)
	if n%c.every != 0 {
		return send()
	}
	c.cuts.Add(1)
	if n/c.every%2 == 0 {
		_ = send() // the reply is lost
	}
	return fail(cmds)
}

// Pulls, pushes and rebuilds go on over a connection that breaks all the time.
func TestBrokenConnections(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		keys := keysUpTo(5000)
		for every := int64(9); every <= 17; every += int64(shorter(2, 4)) { // the copy of a Cuckoo takes that many requests
			c := &cutter{every: every}
			o := client.Options()
			bad := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, Protocol: o.Protocol})
			defer bad.Close()
			bad.AddHook(hook(c.cut))
			remoteOf(f).client = bad
			require.NoError(t, f.Rebuild(ctx, scanOf(keys), RebuildOptions{}), every)
			push(t, f, keys, PushOptions{})
			copied, err := f.copy(ctx, PullOptions{}, nil)
			require.NoError(t, err)
			for _, key := range keys {
				require.True(t, copied.contains(key))
			}
			require.Positive(t, c.cuts.Load())
			remoteOf(f).client = client
			requireVerdicts(t, f, guard.Maybe, keys)
			require.Zero(t, client.Exists(ctx, remoteOf(f).build, remoteOf(f).next, remoteOf(f).load).Val())
		}
	})
}

// push pushes a filter with keys, made when the journal is open.
func push(t testing.TB, f tested, keys [][]byte, o PushOptions) {
	t.Helper()
	require.NoError(t, tryPush(context.Background(), f, o, func() [][]byte { return keys }))
}

func tryPush(ctx context.Context, f tested, o PushOptions, keys func() [][]byte) error {
	switch f := f.(type) {
	case *Bitmap:
		return f.PushFrom(ctx, func(context.Context) (*bloom.Filter, error) {
			local := bloom.Must(bloom.NewWithSize(f.params.Bits, f.params.Hashes))
			local.AddMany(nil, keys())
			return local, nil
		}, o)
	case *Filter:
		return f.PushFrom(ctx, func(context.Context) (*bloom.Scalable, error) {
			local := bloom.Must(bloom.NewScalable(1000, 0.001, redisScheme))
			_, err := local.AddMany(nil, keys())
			return local, err
		}, o)
	case *Cuckoo:
		return f.PushFrom(ctx, func(context.Context) (*bloom.Cuckoo, error) {
			local := bloom.Must(bloom.NewCuckoo(4096, 0, redisScheme, bloom.WithBucketSize(4)))
			_, err := local.AddMany(nil, keys())
			return local, err
		}, o)
	}
	panic("no filter")
}

// truth is the database: rows that are committed, and those whose writers have been told so.
type truth struct{ committed, acknowledged keySet }

type keySet struct {
	mu   sync.Mutex
	keys [][]byte
}

func (a *keySet) add(keys ...[]byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = append(a.keys, keys...)
}

func (a *keySet) all() [][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys[:len(a.keys):len(a.keys)]
}

// scan reads what is committed when it is called.
func (a *truth) scan(ctx context.Context) iter.Seq2[[]byte, error] {
	return scanOf(a.committed.all())(ctx)
}

// create is what guard.Guard.Create does: add, commit, add.
func (a *truth) create(add func(keys [][]byte) error, keys ...[]byte) error {
	err := add(keys)
	if err == nil {
		a.committed.add(keys...)
		err = add(keys)
	}
	if err == nil {
		a.acknowledged.add(keys...)
	}
	return err
}

// writers runs n writers that create rows, until stop.
func writers(t *testing.T, n int, rows *truth, add func(keys [][]byte) error) (stop func()) {
	var done atomic.Bool
	var wg sync.WaitGroup
	for w := range n {
		wg.Go(func() {
			for i := 0; !done.Load() && i < 2500; i++ {
				first := 1_000_000*(w+1) + 3*i
				if err := rows.create(add, keyRange(first, first+1+i%3)...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	stop = func() { done.Store(true); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// Every key that was acknowledged before or while a filter was pulled, pushed and rebuilt is found afterwards.
func TestWritersDuringMoves(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		require.NoError(t, f.Reserve(ctx))
		rows := &truth{}
		require.NoError(t, rows.create(func(keys [][]byte) error { return f.AddKeys(ctx, keys) }, keysUpTo(10)...))
		stop := writers(t, 4, rows, func(keys [][]byte) error { return f.AddKeys(ctx, keys) })
		var moves sync.WaitGroup
		var over atomic.Bool
		t.Cleanup(func() { over.Store(true); moves.Wait() })
		moves.Go(func() { // what is asked meanwhile is never wrong
			for !over.Load() {
				keys := rows.acknowledged.all()
				keys = keys[max(0, len(keys)-50):]
				answers, err := f.Verdicts(ctx, nil, keys)
				if err != nil {
					t.Error(err)
				}
				for i, v := range answers {
					if v == guard.Absent {
						t.Errorf("%s was acknowledged and is called absent", keys[i])
					}
				}
			}
		})
		for round := range shorter(12, 4) {
			before := rows.acknowledged.all()
			copied, err := f.copy(ctx, PullOptions{}, nil)
			require.NoError(t, err)
			for _, key := range before {
				require.True(t, copied.contains(key), "round %d: %s", round, key)
			}
			require.NoError(t, tryPush(ctx, f, PushOptions{}, rows.committed.all))
			requireVerdicts(t, f, guard.Maybe, before)
			err = f.Rebuild(ctx, rows.scan, RebuildOptions{})
			require.NoError(t, err)
			requireVerdicts(t, f, guard.Maybe, rows.acknowledged.all())
		}
		stop()
		over.Store(true)
		moves.Wait()
		require.NotEmpty(t, rows.acknowledged.all())
		requireVerdicts(t, f, guard.Maybe, rows.acknowledged.all())
		require.Zero(t, client.Exists(ctx, remoteOf(f).build, remoteOf(f).next, remoteOf(f).load).Val())
	})
}

// DEL, FLUSHALL, expiry and a filter that others make anew, under load: nothing that exists is called absent.
func TestLossUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		r := remoteOf(f)
		rows := &truth{}
		rows.committed.add(keysUpTo(1000)...)
		rows.acknowledged.add(keysUpTo(1000)...)
		require.NoError(t, f.Rebuild(ctx, rows.scan, RebuildOptions{}))
		stop := writers(t, 4, rows, func(keys [][]byte) (err error) {
			for err = f.AddKeys(ctx, keys); errors.Is(err, ErrWrongType); err = f.AddKeys(ctx, keys) {
			}
			return err
		})
		var over atomic.Bool
		var readers sync.WaitGroup
		var unknown, maybe atomic.Int64
		t.Cleanup(func() { over.Store(true); readers.Wait() })
		for range 4 {
			readers.Go(func() {
				for !over.Load() {
					keys := rows.acknowledged.all()
					for _, keys := range [][][]byte{keys[:40], keys[len(keys)-40:]} {
						answers, err := f.Verdicts(ctx, nil, keys)
						if err != nil && !errors.Is(err, ErrWrongType) {
							t.Error(err)
						}
						for i, v := range answers {
							switch v {
							case guard.Absent:
								t.Errorf("%s exists and is called absent", keys[i])
							case guard.Maybe:
								maybe.Add(1)
							default:
								unknown.Add(1)
							}
						}
					}
				}
			})
		}
		losses := []func() error{
			func() error { return client.Del(ctx, f.Key()).Err() },
			func() error { return client.Del(ctx, r.gen).Err() },
			func() error { return client.Rename(ctx, f.Key(), f.Key()+"2").Err() },
			func() error { return client.Set(ctx, f.Key(), "other", 0).Err() },
			func() error { return client.FlushAll(ctx).Err() }, // tests run one after the other
		}
		if !isBitmap(f) {
			losses = append(losses, func() error { // another client makes it anew
				client.Del(ctx, f.Key())
				return client.Do(ctx, r.shape+".ADD", f.Key(), "x").Err()
			})
		} else {
			losses = append(losses, func() error { return client.PExpire(ctx, f.Key(), time.Millisecond).Err() }, func() error {
				client.Del(ctx, f.Key())
				return client.SetBit(ctx, f.Key(), 77, 1).Err()
			})
		}
		for i := range shorter(4, 2) * len(losses) {
			require.NoError(t, losses[i%len(losses)]())
			time.Sleep(2 * time.Millisecond)
			client.Del(ctx, f.Key())
			require.NoError(t, f.Rebuild(ctx, rows.scan, RebuildOptions{}))
			time.Sleep(2 * time.Millisecond)
		}
		stop()
		over.Store(true)
		readers.Wait()
		require.Positive(t, unknown.Load())
		require.Positive(t, maybe.Load())
	})
}
