package goredis

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

var (
	_ guard.Filter = (*Filter)(nil)
	_ guard.Filter = (*Cuckoo)(nil)
	_ guard.Filter = (*Bitmap)(nil)
	_ guard.Filter = (*Sync)(nil)
	_ guard.Filter = (*Rolling)(nil)

	_ guard.BatchCache[string, []byte]  = (*Cache[string, []byte])(nil)
	_ guard.SharedCache[string, []byte] = (*Cache[string, []byte])(nil)
)

func TestLife(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		keys, absent := keysUpTo(3000), keyRange(10_000, 13_000)
		// Nothing there.
		requireVerdicts(t, f, guard.Unknown, keys[:5])
		require.ErrorIs(t, f.Ready(ctx), ErrUnknown)
		require.ErrorIs(t, f.Confirm(ctx), ErrUnknown)
		require.NoError(t, f.AddKeys(ctx, keys[:5]), "does nothing")
		require.Zero(t, client.Exists(ctx, f.Key()).Val(), "adds never make a filter")

		require.NoError(t, f.Reserve(ctx))
		require.ErrorIs(t, f.Reserve(ctx), ErrExists)
		require.NoError(t, f.Ready(ctx))
		requireVerdicts(t, f, guard.Absent, keys[:5])
		require.NoError(t, f.AddKeys(ctx, keys))
		requireVerdicts(t, f, guard.Maybe, keys)
		require.Greater(t, absentShare(t, f, absent), 0.9)
		for _, none := range [][][]byte{nil, {}} {
			answers, err := f.Verdicts(ctx, nil, none)
			require.NoError(t, err)
			require.Empty(t, answers)
			require.NoError(t, f.AddKeys(ctx, none))
		}
		binary := [][]byte{nil, {0}, []byte("\r\n$5"), {0xff, 0xfe}}
		require.NoError(t, f.AddKeys(ctx, binary))
		requireVerdicts(t, f, guard.Maybe, binary)

		// Without its marker, with another's, with one of another history, from a replica: never Absent.
		gen := client.Get(ctx, genOf(f)).Val()
		m, ok := parseMarker(gen)
		require.True(t, ok)
		for name, other := range map[string]string{
			"text": "x", "empty": "", "version": "2" + gen[1:], "history": marker{m.shape, m.generation, "0123", m.size}.String(),
			"no history": marker{m.shape, m.generation, "-", m.size}.String(), "size": marker{m.shape, m.generation, m.history, 1 << 40}.String(),
		} {
			if _, bitmap := f.(*Bitmap); bitmap && name == "size" {
				continue // that of a bitmap never changes
			}
			client.Set(ctx, genOf(f), other, 0)
			requireVerdicts(t, f, guard.Unknown, append(keys[:2:2], absent[:2]...))
			require.ErrorIs(t, f.Ready(ctx), ErrUnknown, name)
		}
		client.Set(ctx, genOf(f), marker{"other:1", m.generation, m.history, m.size}.String(), 0)
		answers, err := f.Verdicts(ctx, nil, keys[:2])
		require.ErrorIs(t, err, bloom.ErrMismatch)
		require.Equal(t, []guard.Verdict{guard.Unknown, guard.Unknown}, answers)
		client.Del(ctx, genOf(f))
		requireVerdicts(t, f, guard.Unknown, absent[:5])
		require.NoError(t, f.AddKeys(ctx, absent[:5]), "adds go in all the same")
		require.NoError(t, f.Confirm(ctx))
		requireVerdicts(t, f, guard.Maybe, absent[:5])

		// Lost.
		client.Del(ctx, f.Key())
		requireVerdicts(t, f, guard.Unknown, keys[:5])
		require.NoError(t, f.AddKeys(ctx, keys[:5]))
		require.Zero(t, client.Exists(ctx, f.Key()).Val())

		// Something else at the key.
		client.Set(ctx, f.Key(), "text", 0)
		if _, bitmap := f.(*Bitmap); bitmap {
			client.Del(ctx, f.Key())
			client.SAdd(ctx, f.Key(), "a")
		}
		answers, err = f.Verdicts(ctx, nil, keys[:2])
		require.ErrorIs(t, err, ErrWrongType)
		require.Equal(t, []guard.Verdict{guard.Unknown, guard.Unknown}, answers)
		require.ErrorIs(t, f.AddKeys(ctx, keys[:2]), ErrWrongType)
		require.ErrorIs(t, f.Confirm(ctx), ErrWrongType)
		require.NoError(t, f.Drop(ctx))
		require.Zero(t, client.DBSize(ctx).Val()*boolInt(!isBitmap(f)), "nothing is left")
	})
}

func isBitmap(f any) bool { _, ok := f.(*Bitmap); return ok }

func remoteOf(f any) *remote {
	switch f := f.(type) {
	case *Bitmap:
		return f.remote
	case *Filter:
		return f.remote
	case *Cuckoo:
		return f.remote
	}
	panic("no filter")
}

func genOf(f any) string { return remoteOf(f).gen }

func TestNoModule(t *testing.T) {
	client, ctx := plain(t), t.Context()
	f, err := NewFilter(client, freshKey(), FilterOptions{Capacity: 10, ErrorRate: 0.1})
	require.NoError(t, err)
	c, err := NewCuckoo(client, freshKey(), CuckooOptions{Capacity: 10})
	require.NoError(t, err)
	for _, f := range []tested{f, c} {
		answers, err := f.Verdicts(ctx, nil, keysUpTo(2))
		require.ErrorIs(t, err, ErrNoModule)
		require.Equal(t, []guard.Verdict{guard.Unknown, guard.Unknown}, answers)
		require.ErrorIs(t, f.AddKeys(ctx, keysUpTo(2)), ErrNoModule)
		require.ErrorIs(t, f.Reserve(ctx), ErrNoModule)
		require.ErrorIs(t, f.Ready(ctx), ErrNoModule)
		require.ErrorIs(t, f.Rebuild(ctx, scanOf(keysUpTo(9)), RebuildOptions{}), ErrNoModule)
		require.Zero(t, client.Exists(ctx, remoteOf(f).build).Val())
	}
	_, err = f.Pull(ctx, PullOptions{})
	require.ErrorIs(t, err, ErrNoModule)
	err = f.Push(ctx, bloom.Must(bloom.NewScalable(10, 0.1, bloom.WithScheme(bloom.RedisBloom))), PushOptions{})
	require.ErrorIs(t, err, ErrNoModule)
	_, err = c.Remove(ctx, []byte("x"))
	require.ErrorIs(t, err, ErrNoModule)
}

func scanOf(keys [][]byte) Scan {
	return func(context.Context) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			for _, key := range keys {
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

func TestKeyNames(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	for key, want := range map[string]string{
		"users": "{users}~gen", "{users}": "{users}:gen", "app:{users}:f": "app:{users}:f:gen", "a{b": "{a{b}~gen", "a{}": "", "": "", "a}b": "", "{}": "",
	} {
		f, err := NewFilter(client, key, FilterOptions{})
		if want == "" {
			require.ErrorIs(t, err, bloom.ErrInvalid, key)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, f.gen)
	}
}

func TestParameters(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	for _, o := range []BitmapOptions{
		{}, {Capacity: 10}, {ErrorRate: 0.1}, {Bits: 10}, {Hashes: 3}, {Bits: 10, Hashes: 3, Capacity: 5, ErrorRate: 0.1}, {Capacity: 10, ErrorRate: 2},
		{Bits: 64, Hashes: 9999}, {Bits: 64, Hashes: 2, Hash: []bloom.Option{bloom.WithScheme(77)}},
	} {
		_, err := NewBitmap(client, "k", o)
		require.ErrorIs(t, err, bloom.ErrInvalid, "%+v", o)
	}
	_, err := NewBitmap(client, "k", BitmapOptions{Bits: 1<<32 + 1, Hashes: 3})
	require.ErrorIs(t, err, bloom.ErrTooLarge)
	_, err = NewBitmap(client, "k", BitmapOptions{Bits: 1 << 32, Hashes: 3})
	require.NoError(t, err)
	_, err = NewBitmap(nil, "k", BitmapOptions{Bits: 64, Hashes: 3})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewFilter(client, "k", FilterOptions{NonScaling: true, Expansion: 2})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewCuckoo(client, "k", CuckooOptions{Fixed: true, Expansion: 2})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	f, err := NewFilter(client, "k", FilterOptions{})
	require.NoError(t, err)
	require.ErrorIs(t, f.Reserve(t.Context()), bloom.ErrInvalid)
	require.ErrorIs(t, f.Rebuild(t.Context(), nil, RebuildOptions{}), bloom.ErrInvalid)
}

// Who uses a key with other parameters is told, and sets no bits.
func TestBitmapMismatch(t *testing.T) {
	client, ctx, key := plain(t), t.Context(), freshKey()
	o := BitmapOptions{Bits: 1000, Hashes: 5}
	b, err := NewBitmap(client, key, o)
	require.NoError(t, err)
	require.NoError(t, b.Reserve(ctx))
	size := client.StrLen(ctx, key).Val()
	for _, o := range []BitmapOptions{
		{Bits: 1000, Hashes: 4}, {Bits: 1000, Hashes: 5, Hash: []bloom.Option{bloom.WithSeed(1)}}, {Bits: 1000, Hashes: 5, Hash: []bloom.Option{bloom.WithScheme(bloom.XXHash)}},
		{Bits: 1000, Hashes: 5, Hash: []bloom.Option{bloom.WithScheme(bloom.SipHash), bloom.WithKey([16]byte{1})}},
		{Bits: 999, Hashes: 5}, {Bits: 2000, Hashes: 5},
	} {
		other, err := NewBitmap(client, key, o)
		require.NoError(t, err)
		require.ErrorIs(t, other.AddKeys(ctx, keysUpTo(1)), bloom.ErrMismatch)
		_, err = other.Check(ctx, keysUpTo(1)[0])
		require.ErrorIs(t, err, bloom.ErrMismatch)
		require.ErrorIs(t, other.Ready(ctx), bloom.ErrMismatch)
		_, err = other.Pull(ctx, PullOptions{})
		require.ErrorIs(t, err, bloom.ErrMismatch)
		require.ErrorIs(t, other.Confirm(ctx), bloom.ErrMismatch)
		require.NoError(t, b.Ready(ctx))
	}
	require.Zero(t, client.BitCount(ctx, key, nil).Val())
	require.Equal(t, size, client.StrLen(ctx, key).Val())
}

// GETBIT of each position, and GET, agree with a filter in the process.
func TestBitmapBits(t *testing.T) {
	client, ctx := plain(t), t.Context()
	for _, scheme := range []bloom.Scheme{bloom.Murmur3, bloom.XXHash, bloom.RedisBloom} {
		for _, bits := range []uint64{8, 1000, 4096, 100_003} {
			hash := []bloom.Option{bloom.WithScheme(scheme)}
			b, err := NewBitmap(client, freshKey(), BitmapOptions{Bits: bits, Hashes: 6, Hash: hash})
			require.NoError(t, err)
			f := bloom.Must(bloom.NewWithSize(bits, 6, hash...))
			keys := keysUpTo(1500) // several scripts
			require.NoError(t, b.Reserve(ctx))
			got, err := b.Add(ctx, nil, keys...)
			require.NoError(t, err)
			require.Equal(t, f.AddMany(nil, keys), got)
			for _, key := range keys[:20] {
				for _, x := range f.Positions(nil, key) {
					require.EqualValues(t, 1, client.GetBit(ctx, b.Key(), int64(x)).Val())
				}
			}
			data, err := client.Get(ctx, b.Key()).Bytes()
			require.NoError(t, err)
			require.Equal(t, f.RedisBitmap(), data)
			pulled, err := b.Pull(ctx, PullOptions{})
			require.NoError(t, err)
			require.True(t, f.Equal(pulled))
			require.NoError(t, b.Push(ctx, f, PushOptions{}))
			for x := range min(bits, 2000) {
				require.Equal(t, int64(data[x/8]>>(7-x%8)&1), client.GetBit(ctx, b.Key(), int64(x)).Val())
			}
			require.NoError(t, b.Drop(ctx))
		}
	}
}

func TestFilterFull(t *testing.T) {
	client, ctx := modded(t), t.Context()
	f, err := NewFilter(client, "f", FilterOptions{Capacity: 10, ErrorRate: 0.001, NonScaling: true})
	require.NoError(t, err)
	require.NoError(t, f.Reserve(ctx))
	added, err := f.Add(ctx, nil, keysUpTo(12)...)
	require.ErrorIs(t, err, bloom.ErrFull)
	require.Len(t, added, 10)
	requireVerdicts(t, f, guard.Maybe, keysUpTo(10))
	require.ErrorIs(t, f.AddKeys(ctx, keyRange(20, 22)), bloom.ErrFull)

	c, err := NewCuckoo(client, "c", CuckooOptions{Capacity: 8, BucketSize: 2, Fixed: true})
	require.NoError(t, err)
	require.NoError(t, c.Reserve(ctx))
	require.ErrorIs(t, c.Add(ctx, keysUpTo(30)...), bloom.ErrFull)
	require.ErrorIs(t, c.AddKeys(ctx, keyRange(30, 60)), bloom.ErrFull)
}

func TestCuckooRemove(t *testing.T) {
	client, ctx := modded(t), t.Context()
	c, err := NewCuckoo(client, "c", CuckooOptions{Capacity: 1000})
	require.NoError(t, err)
	key := []byte("a")
	_, err = c.Remove(ctx, key)
	require.ErrorIs(t, err, ErrUnknown)
	_, err = c.Count(ctx, key)
	require.ErrorIs(t, err, ErrUnknown)
	require.NoError(t, c.Reserve(ctx))
	require.NoError(t, c.Add(ctx, key, key, key))
	added, err := c.AddUnique(ctx, nil, key, []byte("b"))
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, added)
	for want := 3; want > 0; want-- {
		n, err := c.Count(ctx, key)
		require.NoError(t, err)
		require.Equal(t, want, n)
		removed, err := c.Remove(ctx, key)
		require.NoError(t, err)
		require.True(t, removed)
	}
	removed, err := c.Remove(ctx, key)
	require.NoError(t, err)
	require.False(t, removed)
	requireVerdicts(t, c, guard.Absent, [][]byte{key})
	require.True(t, once{redis.NewCmd(ctx, "CF.DEL")}.NoRetry())
}

func TestRebuild(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		old, now := keysUpTo(500), keyRange(1000, 4000)
		require.NoError(t, f.Reserve(ctx))
		require.NoError(t, f.AddKeys(ctx, old))
		during := []byte("added during the scan")
		seen := uint64(0)
		err := f.Rebuild(ctx, func(ctx context.Context) iter.Seq2[[]byte, error] {
			require.NoError(t, f.AddKeys(ctx, [][]byte{during}))
			requireVerdicts(t, f, guard.Maybe, old) // the old filter answers
			return scanOf(now)(ctx)
		}, RebuildOptions{Progress: func(n uint64) { seen = n }})
		require.NoError(t, err)
		require.EqualValues(t, 3000, seen)
		requireVerdicts(t, f, guard.Maybe, append(now, during))
		require.Greater(t, absentShare(t, f, old), 0.9)
		r := remoteOf(f)
		require.Zero(t, client.Exists(ctx, r.next, r.load, r.log, r.build).Val())

		// Scans that end badly leave the filter as it is.
		boom := errors.New("boom")
		for name, scan := range map[string]Scan{
			"none": scanOf(nil), "few": scanOf(now[:99]),
			"error": func(context.Context) iter.Seq2[[]byte, error] {
				return func(yield func([]byte, error) bool) { _ = yield(now[0], nil) && yield(nil, boom) }
			},
		} {
			err := f.Rebuild(ctx, scan, RebuildOptions{MinKeys: 100})
			if name == "error" {
				require.ErrorIs(t, err, boom)
			} else {
				require.ErrorIs(t, err, guard.ErrShortScan)
			}
			requireVerdicts(t, f, guard.Maybe, now)
			require.Zero(t, client.Exists(ctx, r.next, r.load, r.log, r.build).Val())
		}

		// A later rebuild wins.
		err = f.Rebuild(ctx, func(ctx context.Context) iter.Seq2[[]byte, error] {
			require.NoError(t, f.Rebuild(ctx, scanOf(old), RebuildOptions{}))
			return scanOf(now)(ctx)
		}, RebuildOptions{})
		require.ErrorIs(t, err, ErrSuperseded)
		requireVerdicts(t, f, guard.Maybe, old)
		// And so does an end by hand, or the loss of what was built.
		for _, end := range []func() error{
			func() error { return f.Abort(ctx) }, func() error { return client.Del(ctx, r.next).Err() }, func() error { return client.Del(ctx, r.build).Err() },
		} {
			err = f.Rebuild(ctx, func(ctx context.Context) iter.Seq2[[]byte, error] {
				require.NoError(t, end())
				return scanOf(now)(ctx)
			}, RebuildOptions{})
			require.ErrorIs(t, err, ErrSuperseded)
			requireVerdicts(t, f, guard.Maybe, old)
		}
		// From nothing.
		require.NoError(t, f.Drop(ctx))
		require.NoError(t, f.Rebuild(ctx, scanOf(now), RebuildOptions{}))
		requireVerdicts(t, f, guard.Maybe, now)
	})
}

// A user with the permissions that docs/GOREDIS.md names can do everything.
func TestPermissions(t *testing.T) {
	s, ctx := startRedis(t), t.Context()
	rules := []string{"on", ">secret", "~*"}
	for command := range strings.FieldsSeq("get set del exists strlen getrange rename watch unwatch multi exec info eval evalsha setrange setbit getbit bitcount bitop time pexpire") {
		rules = append(rules, "+"+command)
	}
	require.NoError(t, s.client().ACLSetUser(ctx, "app", rules...).Err())
	client := s.client(func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	b := newTestBitmap(t, client, "b", Options{})
	require.NoError(t, b.Reserve(ctx))
	require.NoError(t, b.AddKeys(ctx, keysUpTo(1000)))
	require.NoError(t, b.Rebuild(ctx, scanOf(keysUpTo(500)), RebuildOptions{}))
	f, err := b.Pull(ctx, PullOptions{})
	require.NoError(t, err)
	require.NoError(t, b.PushFrom(ctx, func(context.Context) (*bloom.Filter, error) {
		return f, b.AddKeys(ctx, keyRange(500, 1000))
	}, PushOptions{}))
	requireVerdicts(t, b, guard.Maybe, keysUpTo(1000))
	require.NoError(t, b.Confirm(ctx))
	require.NoError(t, b.Abort(ctx))
	require.NoError(t, b.Ready(ctx))
	require.NoError(t, b.Drop(ctx))
	r, err := NewRolling(client, "r", RollingOptions{Span: time.Minute, Keep: 3, Capacity: 1000, ErrorRate: 0.01})
	require.NoError(t, err)
	require.NoError(t, r.Start(ctx))
	require.NoError(t, r.AddKeys(ctx, keysUpTo(10)))
	requireVerdicts(t, r, guard.Maybe, keysUpTo(10))
	require.NoError(t, r.Drop(ctx))
}
