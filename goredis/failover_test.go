package goredis

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/redbloom-go/bloom/guard"
)

func newTestBitmap(t testing.TB, client redis.UniversalClient, key string, o Options) *Bitmap {
	b, err := NewBitmap(client, key, BitmapOptions{Capacity: 20_000, ErrorRate: 0.001, Options: o})
	require.NoError(t, err)
	return b
}

// A server that comes back may lack writes: the filter is not relied on until somebody says so.
func TestRestart(t *testing.T) {
	s, ctx := startRedis(t, "--appendonly", "yes", "--appendfsync", "always"), t.Context()
	client := s.client(func(o *redis.Options) { o.MaxRetries, o.DialerRetries = -1, 1 })
	b := newTestBitmap(t, client, "b", Options{})
	durable := newTestBitmap(t, client, "durable", Options{Durable: true})
	keys := keysUpTo(500)
	for _, f := range []*Bitmap{b, durable} {
		require.NoError(t, f.Reserve(ctx))
		require.NoError(t, f.AddKeys(ctx, keys))
	}
	s.kill()
	answers, err := b.Verdicts(ctx, nil, keys[:2])
	require.Error(t, err)
	require.Equal(t, []guard.Verdict{guard.Unknown, guard.Unknown}, answers)
	require.Error(t, b.AddKeys(ctx, keys[:2]))
	require.True(t, s.start())
	requireVerdicts(t, b, guard.Unknown, append(keys[:5:5], keyRange(5000, 5005)...))
	require.ErrorContains(t, b.Ready(ctx), "history")
	_, err = b.Pull(ctx, PullOptions{})
	require.ErrorIs(t, err, ErrUnknown)
	requireVerdicts(t, durable, guard.Maybe, keys)
	require.Greater(t, absentShare(t, durable, keyRange(5000, 6000)), 0.9)
	require.NoError(t, b.AddKeys(ctx, keyRange(600, 610)), "adds go in, so that Confirm can follow")
	require.NoError(t, b.Confirm(ctx))
	requireVerdicts(t, b, guard.Maybe, append(keys, keyRange(600, 610)...))
}

// Pulls of a durable filter go on where they were when the server comes back.
func TestRestartDuringPull(t *testing.T) {
	s, ctx := startRedis(t, "--appendonly", "yes", "--appendfsync", "always"), t.Context()
	client := s.client(func(o *redis.Options) { o.MaxRetries = -1 })
	f := bloom.Must(bloom.New(20_000_000, 0.01)) // 6 chunks
	f.AddMany(nil, keysUpTo(50_000))
	b, err := NewBitmap(client, "b", BitmapOptions{Capacity: 20_000_000, ErrorRate: 0.01, Options: Options{Durable: true}})
	require.NoError(t, err)
	chunks := 0
	require.NoError(t, b.Push(ctx, f, PushOptions{Progress: func(done, total uint64) {
		if chunks++; chunks == 10 {
			s.kill()
			require.True(t, s.start())
		}
	}}))
	var last uint64
	got, err := b.Pull(ctx, PullOptions{Progress: func(done, total uint64) {
		require.Greater(t, done, last, "it did not begin again")
		if last = done; last == 8<<20 {
			s.kill()
			require.True(t, s.start())
		}
	}})
	require.NoError(t, err)
	require.True(t, f.Equal(got))

	// One that is not durable is no more to be relied on.
	b, err = NewBitmap(client, "c", BitmapOptions{Capacity: 20_000_000, ErrorRate: 0.01})
	require.NoError(t, err)
	require.NoError(t, b.Push(ctx, f, PushOptions{}))
	_, err = b.Pull(ctx, PullOptions{Progress: func(done, _ uint64) {
		if done == 8<<20 {
			s.kill()
			require.True(t, s.start())
		}
	}})
	require.ErrorIs(t, err, ErrUnknown)
}

// movable is a client whose server can be another from one moment to the next.
func movable(t *testing.T, addr string) (client *redis.Client, move func(addr string)) {
	var to atomic.Value
	to.Store(addr)
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	client = connect(t, "moves", func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := net.Dial("tcp", to.Load().(string))
			if err == nil {
				mu.Lock()
				conns[c] = true
				mu.Unlock()
			}
			return c, err
		}
	})
	return client, func(addr string) {
		to.Store(addr)
		mu.Lock()
		defer mu.Unlock()
		for c := range conns {
			c.Close()
		}
	}
}

// The master dies with writes that its replica has not: nothing that was acknowledged is called
// absent, before, during and after the failover.
func TestFailoverUnderLoad(t *testing.T) {
	ctx := t.Context()
	master, replica := startRedis(t), startRedis(t)
	second := replica.client()
	require.NoError(t, second.ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(master.port)).Err())
	require.Eventually(t, func() bool { // the first replica of a server gives it another history
		return strings.Contains(second.Info(ctx, "replication").Val(), "master_link_status:up")
	}, 20*time.Second, 10*time.Millisecond)
	client, move := movable(t, master.addr())
	b := newTestBitmap(t, client, "b", Options{})
	rows := &truth{}
	rows.committed.add(keysUpTo(300)...)
	rows.acknowledged.add(keysUpTo(300)...)
	require.NoError(t, b.Rebuild(ctx, rows.scan, RebuildOptions{}))
	onReplica := newTestBitmap(t, second, "b", Options{})
	require.Eventually(t, func() bool { return second.Exists(ctx, "b", b.gen).Val() == 2 }, 20*time.Second, 10*time.Millisecond)
	requireVerdicts(t, onReplica, guard.Unknown, keysUpTo(3))
	require.ErrorContains(t, onReplica.Ready(ctx), "role")

	var over atomic.Bool
	var load sync.WaitGroup
	t.Cleanup(func() { over.Store(true); load.Wait() })
	var maybe, unknown atomic.Int64
	for w := range 4 {
		load.Go(func() {
			for i := 0; !over.Load(); i++ {
				// An error means that the writer has not been told that the row is there.
				_ = rows.create(func(keys [][]byte) error { return b.AddKeys(ctx, keys) }, keyRange(1_000_000*(w+1)+i, 1_000_000*(w+1)+i+1)...)
				keys := rows.acknowledged.all()
				for _, keys := range [][][]byte{keys[:20], keys[len(keys)-20:]} {
					answers, _ := b.Verdicts(ctx, nil, keys)
					for i, v := range answers {
						switch v {
						case guard.Absent:
							t.Errorf("%s was acknowledged and is called absent", keys[i])
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
	require.Eventually(t, func() bool { return len(rows.acknowledged.all()) > 500 }, 20*time.Second, time.Millisecond)
	require.NoError(t, second.ReplicaOf(ctx, "127.0.0.1", "1").Err()) // where nobody is: it falls behind
	n := len(rows.acknowledged.all())
	require.Eventually(t, func() bool { return len(rows.acknowledged.all()) > n+200 }, 20*time.Second, time.Millisecond)
	lost := rows.acknowledged.all()[n+100:]
	master.kill()
	require.NoError(t, second.ReplicaOf(ctx, "NO", "ONE").Err())
	move(replica.addr())
	before := unknown.Load()
	require.Eventually(t, func() bool { return unknown.Load() > before+100 }, 20*time.Second, time.Millisecond)
	// The writes are lost indeed, as what trusts the server would see.
	trusting := newTestBitmap(t, second, "b", Options{Durable: true})
	require.Positive(t, absentShare(t, trusting, lost))

	require.NoError(t, b.Rebuild(ctx, rows.scan, RebuildOptions{}))
	before = maybe.Load()
	require.Eventually(t, func() bool { return maybe.Load() > before+100 }, 20*time.Second, time.Millisecond)
	over.Store(true)
	load.Wait()
	requireVerdicts(t, b, guard.Maybe, rows.acknowledged.all())

	// It is shut down as one of a master again that has the marker of old: of another history all the same.
	require.True(t, master.start())
	require.NoError(t, master.client().ReplicaOf(ctx, "127.0.0.1", fmt.Sprint(replica.port)).Err())
	old := newTestBitmap(t, master.client(), "b", Options{})
	require.Eventually(t, func() bool { return master.client().Exists(ctx, "b", b.gen).Val() == 2 }, 20*time.Second, 10*time.Millisecond)
	requireVerdicts(t, old, guard.Unknown, keysUpTo(3))
	require.NoError(t, master.client().ReplicaOf(ctx, "NO", "ONE").Err())
	requireVerdicts(t, old, guard.Unknown, keysUpTo(3))
}

// The server is killed and started again, empty, in the middle of everything.
func TestKilledUnderLoad(t *testing.T) {
	s, ctx := startRedis(t), t.Context()
	client := s.client()
	b := newTestBitmap(t, client, "b", Options{})
	rows := &truth{}
	rows.committed.add(keysUpTo(300)...)
	rows.acknowledged.add(keysUpTo(300)...)
	require.NoError(t, b.Rebuild(ctx, rows.scan, RebuildOptions{}))
	var over atomic.Bool
	var load sync.WaitGroup
	t.Cleanup(func() { over.Store(true); load.Wait() })
	for w := range 4 {
		load.Go(func() {
			for i := 0; !over.Load(); i++ {
				_ = rows.create(func(keys [][]byte) error { return b.AddKeys(ctx, keys) }, keyRange(1_000_000*(w+1)+i, 1_000_000*(w+1)+i+1)...)
				keys := rows.acknowledged.all()
				keys = keys[len(keys)-20:]
				answers, _ := b.Verdicts(ctx, nil, keys)
				for i, v := range answers {
					if v == guard.Absent {
						t.Errorf("%s was acknowledged and is called absent", keys[i])
					}
				}
			}
		})
	}
	for range 5 {
		time.Sleep(20 * time.Millisecond)
		s.kill()
		require.True(t, s.start())
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, b.Rebuild(ctx, rows.scan, RebuildOptions{}))
	}
	over.Store(true)
	load.Wait()
	requireVerdicts(t, b, guard.Maybe, rows.acknowledged.all())
}

// The same against a server with the BF and CF commands: another server at the address has another history, whatever
// its data.
func TestModuleServerReplaced(t *testing.T) {
	ctx := t.Context()
	first, second := bloomdtest.Start(t), bloomdtest.Start(t)
	client, move := movable(t, first.Addr())
	f, err := NewFilter(client, "f", FilterOptions{Capacity: 1000, ErrorRate: 0.01})
	require.NoError(t, err)
	c, err := NewCuckoo(client, "c", CuckooOptions{Capacity: 1000})
	require.NoError(t, err)
	for _, f := range []tested{f, c} {
		require.NoError(t, f.Reserve(ctx))
		require.NoError(t, f.AddKeys(ctx, keysUpTo(100)))
		requireVerdicts(t, f, guard.Maybe, keysUpTo(100))
	}
	file := t.TempDir() + "/keys"
	require.NoError(t, first.Engine().Save(file))
	require.NoError(t, second.Engine().Load(file))
	move(second.Addr())
	for _, f := range []tested{f, c} {
		require.Eventually(t, func() bool { return isUnknown(f.Ready(ctx)) }, 10*time.Second, time.Millisecond)
		requireVerdicts(t, f, guard.Unknown, keysUpTo(5))
		require.NoError(t, f.Confirm(ctx))
		requireVerdicts(t, f, guard.Maybe, keysUpTo(100))
	}
}
