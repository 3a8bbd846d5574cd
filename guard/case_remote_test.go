package guard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The filter is elsewhere, and is lost and made again under load: no row is ever rejected.
func TestCase32_RemoteFilterLost(t *testing.T) {
	db, remote := newDatabase(), &remoteFake{}
	g := newGuard(t, db, func(o *options) { o.Filter, o.Capacity, o.ErrorRate = remote, 0, 0 })
	allKeys := func() (keys [][]byte) {
		db.mu.Lock()
		defer db.mu.Unlock()
		for k := range db.rows {
			keys = append(keys, binary.LittleEndian.AppendUint64(nil, uint64(k)))
		}
		return keys
	}
	var wrong, rejections atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() { // writers
			for k := w + 1; k <= 4000; k += 4 {
				err := g.Create(t.Context(), []int{k}, func(context.Context) error { db.insert(k); return nil })
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() { // readers
			r := rand.New(rand.NewPCG(uint64(w), 0))
			for !stop.Load() {
				k := r.IntN(8000)
				_, visible := db.read(k)
				_, err := g.Get(t.Context(), k)
				_, also := db.read(k)
				switch {
				case visible && err != nil:
					wrong.Add(1)
				case err == ErrAbsent: // of a row that was created meanwhile too
					rejections.Add(1)
				case !also && err != ErrNotFound:
					t.Error(k, err)
				}
			}
		})
	}
	wg.Go(func() { // FLUSHALL, and a rebuild elsewhere
		for i := 0; i < 50 || rejections.Load() < 1000; i++ {
			remote.fill(allKeys)
			time.Sleep(time.Millisecond)
			remote.flush()
			runtime.Gosched()
		}
		stop.Store(true)
	})
	wg.Wait()
	require.Zero(t, wrong.Load(), "rows called absent")
	require.GreaterOrEqual(t, g.Stats().Rejected, uint64(rejections.Load()))
}

// The filter is made anew elsewhere, without the row, between its announcement and its commit.
func TestRemoteFilterMadeDuringACreation(t *testing.T) {
	db, remote := newDatabase(), &remoteFake{}
	g := newGuard(t, db, func(o *options) { o.Filter = remote })
	refill := func() { remote.fill(func() [][]byte { return nil }) }
	require.NoError(t, g.Create(t.Context(), []int{99}, func(context.Context) error {
		refill()
		db.insert(99)
		requireRow(t, g, 99)
		return nil
	}))
	requireRow(t, g, 99)
	require.NoError(t, g.Announce(t.Context(), 98))
	refill()
	db.insert(98)
	requireRow(t, g, 98)
	require.NoError(t, g.MarkCreated(t.Context(), 98))
	require.Equal(t, Maybe, g.Check(t.Context(), 98))
	require.Equal(t, Absent, g.Check(t.Context(), 97))
}

func TestRemoteFilter(t *testing.T) {
	ctx := t.Context()
	db, remote, watch := rowsUpTo(3), &remoteFake{}, new(watcher)
	g := newGuard(t, db, func(o *options) { o.Filter, o.Observer, o.Capacity, o.ErrorRate = remote, watch, 0, 0 })
	remote.fill(func() [][]byte { return g.keys.bytes([]int{1, 2, 3}) })
	require.Equal(t, StateActive, g.Stats().State)
	require.Equal(t, Maybe, g.Check(ctx, 3))
	_, err := g.Get(ctx, 4)
	require.Equal(t, ErrAbsent, err)
	lookups := remote.lookups.Load()
	rows, err := g.GetMany(ctx, []int{1, 2, 5, 6, 7, 1})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, lookups+1, remote.lookups.Load(), "one round trip")

	require.NoError(t, g.MarkDeleted(ctx, 2))
	require.Equal(t, Absent, g.Check(ctx, 2), "the deletions are in this process")
	require.NoError(t, g.MarkCreated(ctx, 2))
	require.Equal(t, Maybe, g.Check(ctx, 2))
	db.insert(8)
	require.NoError(t, g.CatchUp(ctx, time.Time{}, newDatabase(8).scan))
	requireRow(t, g, 8)

	// Out of reach: nothing is rejected, and nothing is committed that could be.
	down := errors.New("connection refused")
	remote.fault = down
	require.Equal(t, Unknown, g.Check(ctx, 4))
	_, err = g.Get(ctx, 4)
	require.Equal(t, ErrNotFound, err)
	require.ErrorIs(t, g.Create(ctx, []int{4}, func(context.Context) error { t.Error("committed"); return nil }), down)
	require.ErrorIs(t, g.MarkCreated(ctx, 4), down)
	require.EqualValues(t, 4, g.Stats().FilterErrors, "each lookup and each mark")
	require.Len(t, watch.failures, 4)
	require.Equal(t, "filter: connection refused", watch.failures[0])
	remote.fault = nil

	g.Unload()
	require.Equal(t, StateUnknown, g.Stats().State)
	require.Equal(t, Unknown, g.Check(ctx, 4))
	require.NoError(t, g.MarkCreated(ctx, 9), "keys go on into it")
	g.Resume()
	require.Equal(t, Absent, g.Check(ctx, 4))
	require.Equal(t, Maybe, g.Check(ctx, 9))

	_, err = g.Rebuild(ctx, db.scan, RebuildOptions[int]{})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = g.Restore(ctx, new(bytes.Buffer), noDelta)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.ErrorIs(t, g.Snapshot(io.Discard), errors.ErrUnsupported)
	require.Zero(t, g.CompleteAt())
}

// verdicts is a filter that answers what it should not.
type verdicts func(keys [][]byte) ([]Verdict, error)

func (v verdicts) Verdicts(_ context.Context, dst []Verdict, keys [][]byte) ([]Verdict, error) {
	answers, err := v(keys)
	return append(dst, answers...), err
}
func (v verdicts) AddKeys(context.Context, [][]byte) error { return nil }

func TestFilterThatMisbehaves(t *testing.T) {
	for name, answer := range map[string]verdicts{
		"too few":           func([][]byte) ([]Verdict, error) { return []Verdict{Absent}, nil },
		"none":              func([][]byte) ([]Verdict, error) { return nil, nil },
		"too many":          func([][]byte) ([]Verdict, error) { return make([]Verdict, 99), nil },
		"error and answers": func([][]byte) ([]Verdict, error) { return []Verdict{Absent, Absent}, errors.New("boom") },
		"no verdicts":       func([][]byte) ([]Verdict, error) { return []Verdict{17, 255}, nil },
	} {
		g := newGuard(t, rowsUpTo(2), func(o *options) { o.Filter = answer })
		rows, err := g.GetMany(t.Context(), []int{1, 2})
		require.NoError(t, err, name)
		require.Len(t, rows, 2, name)
	}
}

// Deleting again, or what was never there, makes nothing else absent.
func TestCase33_DeletionsOfNothing(t *testing.T) {
	for _, kind := range []Kind{Concurrent, Blocked, Scalable} {
		db := rowsUpTo(500)
		g := builtGuard(t, db, func(o *options) { o.Kind, o.ErrorRate = kind, 0.3 }) // many share bits
		for range 5 {
			for k := 501; k <= 2000; k++ {
				require.NoError(t, g.MarkDeleted(t.Context(), k, k))
			}
		}
		requireAll(t, g, 1, 501)
		for range 3 {
			require.NoError(t, g.MarkDeleted(t.Context(), 1))
		}
		require.Equal(t, Absent, g.Check(t.Context(), 1))
		requireAll(t, g, 2, 501)
	}
}

// A scan in parts makes the filter that one scan makes.
func TestCase34_ScanInParts(t *testing.T) {
	const n, parts = 20_000, 7
	part := func(i, of int) Scan[int] {
		return func(context.Context, time.Time) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for k := i; k < n; k += of {
					if !yield(k, nil) {
						return
					}
				}
			}
		}
	}
	var scans []Scan[int]
	for i := range parts {
		scans = append(scans, part(i, parts))
	}
	for _, kind := range []Kind{Concurrent, Blocked, Scalable} {
		change := func(o *options) { o.Kind, o.Capacity, o.Key = kind, n, testKey }
		one, many, first := newGuard(t, newDatabase(), change), newGuard(t, newDatabase(), change), newGuard(t, newDatabase(), change)
		_, err := one.Rebuild(t.Context(), part(0, 1), RebuildOptions[int]{})
		require.NoError(t, err)
		rep, err := many.Rebuild(t.Context(), nil, RebuildOptions[int]{Scans: scans})
		require.NoError(t, err)
		require.EqualValues(t, n, rep.Scanned)
		_, err = first.Rebuild(t.Context(), scans[0], RebuildOptions[int]{Scans: scans[1:]})
		require.NoError(t, err)
		for _, g := range []*Guard[int, string]{one, many, first} {
			requireItems(t, g, n)
			requireAll(t, g, 0, n)
		}
		if kind != Scalable { // whose keys lie in links by their order
			require.True(t, sameBits(t, one, many))
			require.True(t, sameBits(t, one, first))
		}
	}
}

// requireAll checks that the filter has all keys from first to before last.
func requireAll(t *testing.T, g *Guard[int, string], first, last int) {
	t.Helper()
	for k := first; k < last; k++ {
		if v := g.Check(t.Context(), k); v != Maybe {
			t.Fatalf("key %d: %v", k, v)
		}
	}
}

// requireItems checks the number of keys. Of keys that are added at the same time and share bits a few
// are not counted.
func requireItems(t *testing.T, g *Guard[int, string], n int) {
	t.Helper()
	require.LessOrEqual(t, g.Stats().Items, uint64(n))
	require.InDelta(t, n, g.Stats().Items, 1e-3*float64(n))
}

// sameBits reports whether the filters of two guards are equal, but for what they count.
func sameBits(t *testing.T, a, b *Guard[int, string]) bool {
	t.Helper()
	words := func(g *Guard[int, string]) []byte {
		gen, _ := g.filters.Load()
		var b bytes.Buffer
		_, err := gen.frozen().WriteTo(&b)
		require.NoError(t, err)
		const header = 128
		return b.Bytes()[header:]
	}
	return bytes.Equal(words(a), words(b))
}
