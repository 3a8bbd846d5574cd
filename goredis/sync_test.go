package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

func newTestSync(t testing.TB, f Source, o SyncOptions) *Sync {
	s, err := NewSync(f, o)
	require.NoError(t, err)
	return s
}

func TestSync(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		s := newTestSync(t, f, SyncOptions{})
		requireVerdicts(t, s, guard.Unknown, keysUpTo(3))
		require.Equal(t, guard.Unknown, s.Check([]byte("a")))
		require.ErrorIs(t, s.Refresh(ctx), ErrUnknown)
		st := s.Status()
		require.False(t, st.Ready)
		require.EqualValues(t, 1, st.Failures)
		require.ErrorIs(t, st.Err, ErrUnknown)

		require.NoError(t, f.Reserve(ctx))
		require.NoError(t, f.AddKeys(ctx, keysUpTo(1000)))
		before := time.Now()
		require.NoError(t, s.Refresh(ctx))
		requireVerdicts(t, s, guard.Maybe, keysUpTo(1000))
		require.Equal(t, guard.Maybe, s.Check(keysUpTo(1)[0]))
		require.Greater(t, absentShare(t, s, keyRange(5000, 8000)), 0.9)
		st = s.Status()
		require.True(t, st.Ready)
		require.NoError(t, st.Err)
		require.Zero(t, st.Failures)
		require.EqualValues(t, 1, st.Pulls)
		require.False(t, st.CompleteAt.Before(before))
		require.Positive(t, st.SizeBytes)
		require.NoError(t, s.Refresh(ctx))
		_, isFilter := f.(*Filter)
		require.EqualValues(t, boolInt(isFilter), s.Status().Unchanged)

		// Keys go to both.
		require.NoError(t, s.AddKeys(ctx, keyRange(1000, 1100)))
		requireVerdicts(t, s, guard.Maybe, keyRange(1000, 1100))
		requireVerdicts(t, f, guard.Maybe, keyRange(1000, 1100))
		require.NoError(t, f.AddKeys(ctx, keyRange(2000, 2100))) // by another process
		require.NoError(t, s.Refresh(ctx))
		requireVerdicts(t, s, guard.Maybe, append(keyRange(1000, 1100), keyRange(2000, 2100)...))

		// Flushed: the copy stays, and so do keys that come now.
		require.NoError(t, f.Drop(ctx))
		require.ErrorIs(t, s.Refresh(ctx), ErrUnknown)
		require.NoError(t, s.AddKeys(ctx, keyRange(3000, 3010)))
		require.ErrorIs(t, s.Refresh(ctx), ErrUnknown)
		requireVerdicts(t, s, guard.Maybe, append(keysUpTo(1100), keyRange(3000, 3010)...))
		require.Equal(t, 10, s.Status().Unsent)
		require.ErrorIs(t, s.Status().Err, ErrUnknown)
		// Another process makes the filter anew, without them: they are sent before it is copied.
		require.NoError(t, f.Rebuild(ctx, scanOf(keysUpTo(1100)), RebuildOptions{}))
		require.NoError(t, s.Refresh(ctx))
		require.Zero(t, s.Status().Unsent)
		requireVerdicts(t, s, guard.Maybe, append(keysUpTo(1100), keyRange(3000, 3010)...))
		requireVerdicts(t, f, guard.Maybe, append(keysUpTo(1100), keyRange(3000, 3010)...))
	})
	_, err := NewSync(nil, SyncOptions{})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	_, err = NewSync(&Bitmap{}, SyncOptions{Every: -1})
	require.ErrorIs(t, err, bloom.ErrInvalid)
}

// Redis is down: answers come from the copy, whose age is told, and bounded where that was asked for.
func TestSyncWithoutRedis(t *testing.T) {
	server, ctx := startRedis(t), t.Context()
	client := server.client(func(o *redis.Options) { o.MaxRetries = -1; o.DialerRetries = 1 })
	b := newTestBitmap(t, client, "b", Options{})
	require.NoError(t, b.Reserve(ctx))
	require.NoError(t, b.AddKeys(ctx, keysUpTo(500)))
	s := newTestSync(t, b, SyncOptions{MaxUnsent: 15, Pull: PullOptions{Attempts: 1}})
	bounded := newTestSync(t, b, SyncOptions{MaxStale: time.Nanosecond, Pull: PullOptions{Attempts: 1}})
	require.NoError(t, s.Refresh(ctx))
	require.NoError(t, bounded.Refresh(ctx))
	server.kill()
	require.Error(t, s.Refresh(ctx))
	requireVerdicts(t, s, guard.Maybe, keysUpTo(500))
	require.Greater(t, absentShare(t, s, keyRange(5000, 8000)), 0.9)
	requireVerdicts(t, bounded, guard.Maybe, keysUpTo(500))
	require.Equal(t, guard.Unknown, bounded.Check([]byte("absent")))
	requireVerdicts(t, bounded, guard.Unknown, [][]byte{[]byte("absent")})
	st := s.Status()
	require.True(t, st.Ready)
	require.Positive(t, st.Stale)
	require.Error(t, st.Err)

	require.Error(t, s.AddKeys(ctx, keyRange(600, 610)), "the writer is told")
	requireVerdicts(t, s, guard.Maybe, keyRange(600, 610))
	err := s.AddKeys(ctx, keyRange(610, 620))
	require.ErrorIs(t, err, bloom.ErrFull)
	require.Equal(t, 10, s.Status().Unsent)
	requireVerdicts(t, s, guard.Maybe, keyRange(600, 620))
	require.True(t, server.start())
	require.ErrorIs(t, s.Refresh(ctx), ErrUnknown)
	requireVerdicts(t, s, guard.Maybe, append(keysUpTo(500), keyRange(600, 610)...))
	require.NoError(t, b.Rebuild(ctx, scanOf(keysUpTo(500)), RebuildOptions{}))
	require.NoError(t, s.Refresh(ctx))
	requireVerdicts(t, s, guard.Maybe, append(keysUpTo(500), keyRange(600, 610)...))
	requireVerdicts(t, b, guard.Maybe, keyRange(600, 610))
}

// Two processes, 4 writers, refreshes all the time, the filter pushed and rebuilt and lost: a key that was acknowledged
// by a process is never absent there, and in the other one after its next refresh.
func TestSyncUnderLoad(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		require.NoError(t, f.Reserve(ctx))
		rows := &truth{}
		here, there := newTestSync(t, f, SyncOptions{Every: time.Millisecond}), newTestSync(t, f, SyncOptions{})
		require.NoError(t, here.Refresh(ctx))
		require.NoError(t, rows.create(func(keys [][]byte) error { return here.AddKeys(ctx, keys) }, keysUpTo(10)...))
		var running sync.WaitGroup
		var over atomic.Bool
		t.Cleanup(func() { over.Store(true); cancel(); running.Wait() })
		stop := writers(t, 4, rows, func(keys [][]byte) error { return here.AddKeys(ctx, keys) })
		running.Go(func() { _ = here.Run(ctx) })
		running.Go(func() {
			for !over.Load() {
				keys := rows.acknowledged.all()
				keys = keys[max(0, len(keys)-50):]
				answers, _ := here.Verdicts(ctx, nil, keys)
				for i, v := range answers {
					if v != guard.Maybe {
						t.Errorf("%s was acknowledged and is called %v", keys[i], v)
					}
				}
			}
		})
		for round := range 6 {
			time.Sleep(5 * time.Millisecond)
			switch round % 3 {
			case 0:
				require.NoError(t, f.Rebuild(ctx, rows.scan, RebuildOptions{}))
			case 1:
				require.NoError(t, tryPush(ctx, f, PushOptions{}, rows.committed.all))
			case 2:
				client.Del(ctx, f.Key())
				time.Sleep(3 * time.Millisecond)
				require.NoError(t, f.Rebuild(ctx, rows.scan, RebuildOptions{}))
			}
			before := rows.acknowledged.all()
			require.NoError(t, there.Refresh(ctx))
			requireVerdicts(t, there, guard.Maybe, before)
		}
		stop()
		over.Store(true)
		cancel()
		running.Wait()
		requireVerdicts(t, here, guard.Maybe, rows.acknowledged.all())
	})
}

func TestSyncRun(t *testing.T) {
	client, ctx := plain(t), t.Context()
	b := newTestBitmap(t, client, freshKey(), Options{})
	ctx, cancel := context.WithCancel(ctx)
	calls := 0
	s := newTestSync(t, b, SyncOptions{Every: time.Millisecond, Refreshed: func(st Status) {
		calls++
		switch {
		case calls == 1:
			require.Error(t, st.Err)
			require.NoError(t, b.Reserve(ctx))
		case st.Pulls == 5:
			cancel()
		}
	}})
	require.ErrorIs(t, s.Run(ctx), context.Canceled)
	require.EqualValues(t, 5, s.Status().Pulls)
}

// Answers of the copy take no memory.
func TestSyncAllocations(t *testing.T) {
	client, ctx := plain(t), t.Context()
	b := newTestBitmap(t, client, freshKey(), Options{})
	require.NoError(t, b.Reserve(ctx))
	s := newTestSync(t, b, SyncOptions{MaxStale: time.Hour})
	require.NoError(t, s.Refresh(ctx))
	keys, dst := keysUpTo(100), make([]guard.Verdict, 0, 100)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		dst, _ = s.Verdicts(ctx, dst[:0], keys)
		s.Check(keys[0])
	}))
}

// A guard with a filter in Redis, or a copy of one, and a cache in Redis.
func TestGuard(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		require.NoError(t, f.Reserve(ctx))
		synced := newTestSync(t, f, SyncOptions{})
		require.NoError(t, synced.Refresh(ctx))
		cache, err := NewCache[string, string](plain(t), CacheOptions[string, string]{Prefix: freshKey() + ":"})
		require.NoError(t, err)
		for name, filter := range map[string]guard.Filter{"remote": f, "synced": synced} {
			var mu sync.Mutex
			db := map[string]string{}
			loads := 0
			g, err := guard.New(guard.Options[string, string]{
				Filter: filter, Cache: cache,
				Loader: guard.LoaderFunc[string, string](func(_ context.Context, k string) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					loads++
					if v, ok := db[k]; ok {
						return v, nil
					}
					return "", guard.ErrNotFound
				}),
			})
			require.NoError(t, err)
			key := func(i int) string { return fmt.Sprint(name, i) }
			for i := range 50 {
				require.NoError(t, g.Create(ctx, []string{key(i)}, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					db[key(i)] = fmt.Sprint("row", i)
					return nil
				}))
			}
			for i := range 50 {
				v, err := g.Get(ctx, key(i))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint("row", i), v)
			}
			rejected := 0
			for i := range 200 {
				_, err := g.Get(ctx, key(1000+i))
				require.ErrorIs(t, err, guard.ErrNotFound)
				if errors.Is(err, guard.ErrAbsent) {
					rejected++
				}
			}
			require.Greater(t, rejected, 180)
			require.Less(t, loads, 75)
		}
		// Lost: nothing is rejected by the one, and nothing wrongly by the other.
		require.NoError(t, f.Drop(ctx))
		requireVerdicts(t, f, guard.Unknown, [][]byte{[]byte("remote1"), []byte("nobody")})
		requireVerdicts(t, synced, guard.Maybe, [][]byte{[]byte("synced1")})
	})
}

// Sync does not take a filter that nobody marked for the same one because it has as many keys.
func TestSyncUnmarked(t *testing.T) {
	client, ctx := modded(t), t.Context()
	f, err := NewFilter(client, "f", FilterOptions{})
	require.NoError(t, err)
	s := newTestSync(t, f, SyncOptions{Pull: PullOptions{Unmarked: true}})
	for _, key := range []string{"a", "b"} {
		client.Del(ctx, "f")
		require.NoError(t, client.BFAdd(ctx, "f", key).Err())
		require.NoError(t, s.Refresh(ctx))
		require.Equal(t, guard.Maybe, s.Check([]byte(key)))
	}
	require.EqualValues(t, 2, s.Status().Pulls)
}

// One Refresh waits for another no longer than its context lasts.
func TestRefreshWaits(t *testing.T) {
	client, ctx := plain(t), t.Context()
	b := newTestBitmap(t, client, freshKey(), Options{})
	require.NoError(t, b.Reserve(ctx))
	inside, leave := make(chan bool), make(chan bool)
	s := newTestSync(t, b, SyncOptions{Pull: PullOptions{Progress: func(uint64, uint64) { inside <- true; <-leave }}})
	first := make(chan error)
	go func() { first <- s.Refresh(ctx) }()
	<-inside
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.Refresh(ended), context.Canceled)
	close(leave)
	require.NoError(t, <-first)
	require.EqualValues(t, 1, s.Status().Pulls)
	require.NoError(t, s.Status().Err)
}
