package goredis

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// before returns a hook that calls do once, just before the first request that has all words in it.
func before(words string, do func()) hook {
	var once sync.Once
	return func(cmds []redis.Cmder, send func() error) error {
		var text strings.Builder
		for _, cmd := range cmds {
			text.WriteString(" " + strings.ToLower(fmt.Sprint(cmd.Args()[:min(4, len(cmd.Args()))]...)))
		}
		for word := range strings.FieldsSeq(words) {
			if !strings.Contains(text.String(), strings.ToLower(word)) {
				return send()
			}
		}
		once.Do(do)
		return send()
	}
}

// interrupted gives f a client of its own that calls do before that request.
func interrupted(t *testing.T, client *redis.Client, f tested, words string, do func()) (called func() bool) {
	done := false
	o := client.Options()
	c := redis.NewClient(&redis.Options{Network: o.Network, Addr: o.Addr, Protocol: o.Protocol})
	t.Cleanup(func() { c.Close() })
	c.AddHook(before(words, func() { done = true; do() }))
	remoteOf(f).client = c
	return func() bool { return done }
}

// twin returns another filter at the key of f, as another process has it.
func twin(t *testing.T, client *redis.Client, f tested) tested {
	var other tested
	var err error
	switch f := f.(type) {
	case *Bitmap:
		other, err = NewBitmap(client, f.key, BitmapOptions{Bits: f.params.Bits, Hashes: f.params.Hashes})
	case *Filter:
		other, err = NewFilter(client, f.key, f.o)
	case *Cuckoo:
		other, err = NewCuckoo(client, f.key, f.o)
	}
	require.NoError(t, err)
	return other
}

// A writer has looked before the upload was there, and its journal entry comes just before the RENAME, and just after.
func TestJournalAtTheEnd(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		if isBitmap(f) {
			return // has no journal
		}
		ctx := t.Context()
		require.NoError(t, f.Reserve(ctx))
		for _, at := range []string{"rename ~nextfilter", "getrange ~log", "rename ~load", "loadchunk ~load"} {
			writer := twin(t, client, f)
			key := []byte("late, before " + at)
			began, released, finished := make(chan bool), make(chan bool), make(chan error, 1)
			interrupted(t, client, writer, "append", func() { close(began); <-released })
			called := interrupted(t, client, f, at, func() { close(released); <-finished })
			require.NoError(t, tryPush(ctx, f, PushOptions{}, func() [][]byte {
				go func() {
					err := writer.AddKeys(ctx, [][]byte{key})
					finished <- err
					finished <- err
				}()
				<-began
				return keysUpTo(500)
			}))
			require.True(t, called())
			require.NoError(t, <-finished)
			requireVerdicts(t, f, guard.Maybe, append(keysUpTo(500), key))
		}
		// After it all is over.
		writer := twin(t, client, f)
		key := []byte("too late")
		began, released, finished := make(chan bool), make(chan bool), make(chan error, 1)
		interrupted(t, client, writer, "append", func() { close(began); <-released })
		require.NoError(t, tryPush(ctx, f, PushOptions{}, func() [][]byte {
			go func() { finished <- writer.AddKeys(ctx, [][]byte{key}) }()
			<-began
			return keysUpTo(500)
		}))
		close(released)
		require.NoError(t, <-finished)
		requireVerdicts(t, f, guard.Maybe, append(keysUpTo(500), key))
	})
}

// Between RENAME and the marker nothing is called absent: the journal may have keys that are not in the filter yet.
func TestUnknownUntilMarked(t *testing.T) {
	each(t, func(t *testing.T, client *redis.Client, f tested) {
		ctx := t.Context()
		require.NoError(t, f.Reserve(ctx))
		other := twin(t, client, f)
		called := interrupted(t, client, f, "~gen ~build{", func() {
			requireVerdicts(t, other, guard.Unknown, keysUpTo(5))
			require.ErrorIs(t, other.Confirm(ctx), ErrSuperseded)
		})
		push(t, f, keysUpTo(100), PushOptions{})
		require.True(t, called())
		requireVerdicts(t, other, guard.Maybe, keysUpTo(100))
		// Another builder takes over at that moment: it alone marks what it has made.
		called = interrupted(t, client, f, "~gen ~build{", func() { push(t, other, keyRange(100, 200), PushOptions{}) })
		require.ErrorIs(t, tryPush(ctx, f, PushOptions{}, func() [][]byte { return keysUpTo(100) }), ErrSuperseded)
		require.True(t, called())
		requireVerdicts(t, other, guard.Maybe, keyRange(100, 200))
		require.Greater(t, absentShare(t, other, keysUpTo(100)), 0.9)
	})
}

// The filter is replaced, by one of the same size and with the same keys in other places, in the middle of a pull.
func TestReplacedDuringPull(t *testing.T) {
	client, ctx := modded(t), t.Context()
	f, err := NewFilter(client, "f", FilterOptions{})
	require.NoError(t, err)
	keys := keysUpTo(290) // two links, of 100 and 200
	chain := func(keys [][]byte) *bloom.Scalable {
		s := bloom.Must(bloom.NewScalable(100, 0.001, redisScheme))
		for _, key := range keys {
			bloom.Must(s.Add(key))
		}
		require.Len(t, slices.Collect(s.Links()), 2)
		return s
	}
	require.NoError(t, f.Push(ctx, chain(keys), PushOptions{}))
	reversed := make([][]byte, len(keys))
	for i, key := range keys {
		reversed[len(keys)-1-i] = key
	}
	other := twin(t, client, f).(*Filter)
	first := chain(keys).ScanDump(0)
	var cursors []int64
	for cursor := range first {
		cursors = append(cursors, cursor)
	}
	called := interrupted(t, client, f, fmt.Sprintf("scandump f%d", cursors[1]), func() {
		require.NoError(t, other.Push(ctx, chain(reversed), PushOptions{}))
	})
	got, err := f.Pull(ctx, PullOptions{})
	require.NoError(t, err)
	require.True(t, called())
	require.True(t, chain(reversed).Equal(got))
	// It grows.
	called = interrupted(t, client, f, fmt.Sprintf("scandump f%d", cursors[1]), func() {
		require.NoError(t, other.AddKeys(ctx, keyRange(1000, 1500)))
	})
	got, err = f.Pull(ctx, PullOptions{})
	require.NoError(t, err)
	require.True(t, called())
	for _, key := range append(keys, keyRange(1000, 1500)...) {
		require.True(t, got.Contains(key))
	}
	// It is lost.
	called = interrupted(t, client, f, fmt.Sprintf("scandump f%d", cursors[1]), func() { client.FlushAll(ctx) })
	_, err = f.Pull(ctx, PullOptions{})
	require.ErrorIs(t, err, ErrUnknown)
	require.True(t, called())
}

// Keys move in a cuckoo filter while it is copied in parts: the copy is of one moment.
func TestCuckooMovesDuringPull(t *testing.T) {
	client, ctx := modded(t), t.Context()
	c, err := NewCuckoo(client, "c", CuckooOptions{Capacity: 64, BucketSize: 2, Expansion: 2})
	require.NoError(t, err)
	require.NoError(t, c.Reserve(ctx))
	require.NoError(t, c.Add(ctx, keysUpTo(150)...))
	other := twin(t, client, c).(*Cuckoo)
	for _, change := range []func(){
		func() { require.NoError(t, other.Add(ctx, keyRange(150, 160)...)) },
		func() {
			for _, key := range keysUpTo(60) {
				_, err := other.Remove(ctx, key) // compacts
				require.NoError(t, err)
			}
			require.NoError(t, other.Add(ctx, keysUpTo(60)...))
		},
		func() { require.NoError(t, other.Add(ctx, keyRange(160, 900)...)) }, // grows
	} {
		called := interrupted(t, client, c, "scandump c65", change)
		got, err := c.Pull(ctx, PullOptions{})
		require.NoError(t, err)
		require.True(t, called())
		want, err := other.Pull(ctx, PullOptions{})
		require.NoError(t, err)
		require.True(t, want.Equal(got))
		for _, key := range keysUpTo(150) {
			require.True(t, got.Contains(key))
		}
	}
}
