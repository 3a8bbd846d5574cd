package guard

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

func TestOptionsRefused(t *testing.T) {
	for name, change := range map[string]func(*options){
		"no loader":                func(o *options) { o.Loader = nil },
		"no capacity":              func(o *options) { o.Capacity = 0 },
		"rate of 1":                func(o *options) { o.ErrorRate = 1 },
		"rate below 0":             func(o *options) { o.ErrorRate = -0.1 },
		"rate that is no number":   func(o *options) { o.ErrorRate = math.NaN() },
		"rate too low for Blocked": func(o *options) { o.Kind, o.ErrorRate = Blocked, 1e-13 },
		"kind":                     func(o *options) { o.Kind = 3 },
		"scheme without its layout": func(o *options) {
			o.Kind, o.Hash = Blocked, []bloom.Option{bloom.WithScheme(bloom.RedisBloom)}
		},
		"hash option that is none": func(o *options) { o.Hash = []bloom.Option{bloom.WithGrowth(4)} },
		"hash and key":             func(o *options) { o.Key, o.Hash = testKey, []bloom.Option{} },
		"encoding without function": func(o *options) {
			o.KeyEncoding = "v2"
		},
		"long encoding": func(o *options) {
			o.AppendKey, o.KeyEncoding = func(dst []byte, _ int) []byte { return dst }, strings.Repeat("x", 256)
		},
		"MaxLoads":       func(o *options) { o.MaxLoads = -1 },
		"Journal":        func(o *options) { o.Journal = -1 },
		"Deletions":      func(o *options) { o.Deletions = -1 },
		"Audit above 1":  func(o *options) { o.Audit = 1.01 },
		"Audit below 0":  func(o *options) { o.Audit = -0.01 },
		"Audit NaN":      func(o *options) { o.Audit = math.NaN() },
		"RebuildAt":      func(o *options) { o.RebuildAt = -1 },
		"RebuildAt +Inf": func(o *options) { o.RebuildAt = math.Inf(1) },
		"TTL":            func(o *options) { o.TTL = math.MaxInt64 },
		"MissTTL":        func(o *options) { o.MissTTL = math.MaxInt64 },
		"LoadTimeout":    func(o *options) { o.LoadTimeout = math.MaxInt64 },
		"Settle":         func(o *options) { o.Settle = math.MaxInt64 },
	} {
		o := options{Loader: newDatabase(), Capacity: 10}
		change(&o)
		g, err := New(o)
		require.ErrorIs(t, err, bloom.ErrInvalid, name)
		require.Nil(t, g, name)
	}
	_, err := New(options{Loader: newDatabase(), Capacity: math.MaxUint64})
	require.ErrorIs(t, err, bloom.ErrTooLarge)
	_, err = New(Options[struct{ a, b int }, string]{
		Loader: LoaderFunc[struct{ a, b int }, string](nil), Capacity: 10,
	})
	require.ErrorIs(t, err, bloom.ErrInvalid, "a type of key that needs AppendKey")
	require.ErrorContains(t, err, "AppendKey")
}

// The longest times that New takes do not overflow where they are added up.
func TestLongestTimes(t *testing.T) {
	cache := newSharedFake()
	db := rowsUpTo(10)
	g := builtGuard(t, db, func(o *options) {
		o.Cache, o.TTL, o.MissTTL, o.LoadTimeout, o.Settle = cache, longest, longest, longest, longest
	})
	require.NoError(t, g.MarkDeleted(t.Context(), 5))
	require.Equal(t, Absent, g.Check(t.Context(), 5))
	require.NoError(t, g.Announce(t.Context(), 6))
	require.NoError(t, g.MarkCreated(t.Context(), 7))
	for _, k := range []int{6, 7} {
		require.True(t, g.recent.doubts(k, g.recent.now()+time.Hour))
	}
	require.Greater(t, cache.fences[0], time.Duration(0))
}

// Every integer type stands for the 8 bytes of its value, strings and arrays for their own bytes: so
// other filters can be made of the same keys.
func TestKeyBytes(t *testing.T) {
	le := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	type id int32
	type name string
	checkKey(t, int(-2), le(1<<64-2), "integer")
	checkKey(t, int8(-2), le(1<<64-2), "integer")
	checkKey(t, int16(-2), le(1<<64-2), "integer")
	checkKey(t, int32(-2), le(1<<64-2), "integer")
	checkKey(t, id(-2), le(1<<64-2), "integer")
	checkKey(t, int64(math.MinInt64), le(1<<63), "integer")
	checkKey(t, uint(7), le(7), "integer")
	checkKey(t, uint8(200), le(200), "integer")
	checkKey(t, uint16(60_000), le(60_000), "integer")
	checkKey(t, uint32(4_000_000_000), le(4_000_000_000), "integer")
	checkKey(t, uint64(math.MaxUint64), le(math.MaxUint64), "integer")
	checkKey(t, uintptr(9), le(9), "integer")
	checkKey(t, "", nil, "string")
	checkKey(t, "käse\x00", []byte("käse\x00"), "string")
	checkKey(t, name("n"), []byte("n"), "string")
	checkKey(t, [3]byte{1, 2, 3}, []byte{1, 2, 3}, "bytes[3]")
	checkKey(t, [16]uint8{15: 1}, append(make([]byte, 15), 1), "bytes[16]")
}

func checkKey[K comparable](t *testing.T, k K, want []byte, encoding string) {
	t.Helper()
	e, err := newKeys[K](nil, "")
	require.NoError(t, err)
	e.hasher = bloom.Must(bloom.NewWithSize(64, 1))
	require.Equal(t, encoding, e.encoding)
	require.Equal(t, want, e.append(nil, k))
	require.Equal(t, e.hasher.Digest(want), e.digest(k))
	custom, err := newKeys(func(dst []byte, _ K) []byte { return append(dst, want...) }, "mine")
	require.NoError(t, err)
	custom.hasher = e.hasher
	require.Equal(t, "mine", custom.encoding)
	for range 2 {
		require.Equal(t, e.digest(k), custom.digest(k))
	}
}

// A function that panics leaves no lock behind.
func TestAppendKeyPanics(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, func(o *options) {
		o.AppendKey = func(dst []byte, k int) []byte {
			if k == 13 {
				panic("unlucky")
			}
			return fmt.Append(dst, k)
		}
	})
	for range 3 {
		require.Panics(t, func() { _, _ = g.Get(t.Context(), 13) })
		require.Panics(t, func() { _ = g.MarkCreated(t.Context(), 1, 13) })
		require.Panics(t, func() { _, _ = g.GetMany(t.Context(), []int{1, 13}) })
	}
	_, err := g.Rebuild(t.Context(), newDatabase(13).scan, RebuildOptions[int]{MinKeep: -1})
	require.ErrorContains(t, err, "unlucky")
	_, err = g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
	require.NoError(t, err)
	requireRow(t, g, 1)
	require.NoError(t, g.MarkCreated(t.Context(), 2))
}

func TestCreateThatFails(t *testing.T) {
	boom := errors.New("boom")
	t.Run("error", func(t *testing.T) {
		db := newDatabase()
		g := builtGuard(t, db, nil)
		require.Equal(t, boom, g.Create(t.Context(), []int{99}, func(context.Context) error { return boom }))
		_, err := g.Get(t.Context(), 99)
		require.Equal(t, ErrNotFound, err, "a false positive, no more")
	})
	t.Run("an error after all was committed", func(t *testing.T) {
		db := newDatabase()
		g := builtGuard(t, db, nil)
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, context.Canceled, g.Create(ctx, []int{99}, func(ctx context.Context) error {
			_, err := g.Get(t.Context(), 99)
			require.Equal(t, ErrNotFound, err)
			db.insert(99)
			cancel()
			return ctx.Err()
		}))
		requireRow(t, g, 99)
		require.Empty(t, g.recent.creating)
		require.Zero(t, g.recent.creates.Load())
	})
	t.Run("its context ends while it marks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db, cache := newDatabase(99), newHookedCache()
			g := builtGuard(t, db, func(o *options) { o.Cache = cache })
			requireRow(t, g, 99)
			ctx, cancel := context.WithCancel(t.Context())
			cache.beforeDelete = func(ctx context.Context, _ int) error { cancel(); time.Sleep(time.Second); return ctx.Err() }
			require.NoError(t, g.Create(ctx, []int{99}, func(context.Context) error { return nil }))
			value, _ := cache.has(99)
			require.False(t, value, "it may be another one now")

			start := time.Now()
			cache.beforeDelete = func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
			err := g.Create(ctx, []int{99}, func(context.Context) error { return nil })
			require.ErrorIs(t, err, ErrUnmarked)
			require.Equal(t, g.opts.LoadTimeout, time.Since(start), "the cache hangs")
		})
	})
	t.Run("panic", func(t *testing.T) {
		db := newDatabase()
		g := builtGuard(t, db, nil)
		require.PanicsWithValue(t, boom, func() {
			_ = g.Create(t.Context(), []int{99}, func(context.Context) error { db.insert(99); panic(boom) })
		})
		requireRow(t, g, 99)
		require.Empty(t, g.recent.creating)
		require.Zero(t, g.recent.creates.Load())
	})
}

func TestFresh(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, func(o *options) { o.Fresh = func(k int) bool { return k >= 1000 } })
	db.insert(1000) // by another process
	require.Equal(t, Unknown, g.Check(t.Context(), 1000))
	requireRow(t, g, 1000)
	_, err := g.Get(t.Context(), 1001)
	require.Equal(t, ErrNotFound, err)
	_, err = g.Get(t.Context(), 999)
	require.Equal(t, ErrAbsent, err)
	rows, err := g.GetMany(t.Context(), []int{1, 999, 1000, 1001})
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Zero(t, g.Stats().FalsePositives, "the filter let none of them through")

	g = newGuard(t, db, func(o *options) { o.Filter, o.Fresh = &remoteFake{marker: true}, func(k int) bool { return k >= 1000 } })
	require.Equal(t, Unknown, g.Check(t.Context(), 1000))
	require.Equal(t, Absent, g.Check(t.Context(), 999))
}

func TestUnload(t *testing.T) {
	db := rowsUpTo(1000)
	g := builtGuard(t, db, nil)
	_, err := g.Get(t.Context(), 5000)
	require.Equal(t, ErrAbsent, err)
	g.Unload()
	require.Equal(t, StateUnknown, g.Stats().State)
	require.Zero(t, g.Stats().Items)
	require.Zero(t, g.CompleteAt())
	_, err = g.Get(t.Context(), 5000)
	require.Equal(t, ErrNotFound, err)
	require.NoError(t, g.CatchUp(t.Context(), time.Time{}, db.scan))
	require.ErrorIs(t, g.Snapshot(new(bytes.Buffer)), bloom.ErrInvalid)

	// It ends a rebuild, though the scan does not heed its context.
	watch := new(watcher)
	g = builtGuard(t, db, func(o *options) { o.Observer = watch })
	var scan context.Context
	_, err = g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		scan = ctx
		g.Unload()
		require.Error(t, ctx.Err())
		return db.scan(ctx, since)
	}, RebuildOptions[int]{})
	require.Equal(t, ErrUnloaded, err)
	require.Error(t, scan.Err())
	require.Equal(t, StateUnknown, g.Stats().State)
	require.Equal(t, []error{nil, ErrUnloaded}, watch.rebuilds)
	_, err = g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
	require.NoError(t, err)
	require.Equal(t, StateActive, g.Stats().State)
}

// The journal is bounded; what had to leave it is doubted all together.
func TestRecentIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecent[int](100)
		for k := range 1000 {
			r.add([]int{k, k}, time.Second, false)
			time.Sleep(time.Millisecond)
		}
		require.LessOrEqual(t, len(r.records), 100)
		require.Len(t, r.queue, 100)
		now := r.now()
		require.True(t, r.doubts(999, now))
		require.True(t, r.doubts(1, now), "it was added a second ago, and has left")
		require.True(t, r.doubts(-1, now), "so nobody can be told from it")
		_, all := r.unseen(now - 10*time.Millisecond)
		require.True(t, all)
		_, all = r.unseen(now - 200*time.Millisecond)
		require.False(t, all)
		time.Sleep(960 * time.Millisecond)
		require.False(t, r.doubts(1, r.now()))
		require.True(t, r.doubts(999, r.now()))
		require.True(t, r.doubts(1, now), "of a load that began then")
		time.Sleep(time.Second)
		require.False(t, r.doubts(999, r.now()))

		r.add([]int{5}, time.Minute, true)
		time.Sleep(time.Second)
		ks, _ := r.unseen(r.now())
		require.Equal(t, []int{5}, ks)
		r.add([]int{5}, time.Second, false)
		time.Sleep(time.Second)
		ks, _ = r.unseen(r.now())
		require.Empty(t, ks)
		require.False(t, r.doubts(5, r.now()), "the creation has the last word")
	})
}

func TestSlogObserver(t *testing.T) {
	var b bytes.Buffer
	log := func(level slog.Level) Observer {
		b.Reset()
		return NewSlogObserver(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
	}
	o := log(slog.LevelDebug)
	boom := errors.New("boom")
	o.Loaded(LoadEvent{Keys: 3, Missing: 1, Took: time.Second})
	o.Loaded(LoadEvent{Keys: 3, Took: time.Second, Err: boom})
	o.Threshold(ThresholdEvent{80, 100})
	o.Rebuilt(Report{Items: 5, Capacity: 10, Scanned: 4, Took: time.Minute}, nil)
	o.Rebuilt(Report{Scanned: 4, Took: time.Minute}, boom)
	o.FalseNegative("key")
	o.Failed("cache", boom)
	require.Equal(t, `level=DEBUG msg="guard: load" keys=3 missing=1 took=1s
level=WARN msg="guard: load" keys=3 missing=0 took=1s error=boom
level=WARN msg="guard: the filter fills up, rebuild it" items=80 capacity=100
level=INFO msg="guard: the filter was replaced" items=5 capacity=10 scanned=4 took=1m0s
level=ERROR msg="guard: the filter was not replaced" error=boom scanned=4 took=1m0s
level=ERROR msg="guard: the filter rejected a row that exists" key=key
level=WARN msg="guard: failure" part=cache error=boom
`, b.String())
	o = log(slog.LevelInfo)
	require.Zero(t, testing.AllocsPerRun(100, func() { o.Loaded(LoadEvent{Keys: 1}) }))
	require.Empty(t, b.String())
	NewSlogObserver(nil).Loaded(LoadEvent{})
	var n NopObserver
	n.Loaded(LoadEvent{})
	n.Threshold(ThresholdEvent{})
	n.Rebuilt(Report{}, nil)
	n.FalseNegative(1)
	n.Failed("", nil)
}

func TestNames(t *testing.T) {
	require.Equal(t, "Unknown Absent Maybe Verdict(9)", fmt.Sprint(Unknown, Absent, Maybe, Verdict(9)))
	require.Equal(t, "Concurrent Blocked Scalable Kind(9)", fmt.Sprint(Concurrent, Blocked, Scalable, Kind(9)))
	require.Equal(t, "Unknown Active", fmt.Sprint(StateUnknown, StateActive))
	require.Zero(t, Unknown)
}

// Loads leave no goroutine behind, however they end.
func TestNoGoroutinesLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	db := rowsUpTo(100)
	db.takes = time.Millisecond
	g := newGuard(t, db, nil)
	for k := range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(k%3)*time.Millisecond)
		_, _ = g.Get(ctx, k)
		_, _ = g.GetMany(ctx, []int{k, k + 1, k + 2})
		cancel()
	}
	rest(g)
	eventually(func() bool { return runtime.NumGoroutine() <= before })
}

// The filter cannot take a key: it is unloaded, for it would reject a row.
func TestFilterThatIsFull(t *testing.T) {
	db, watch := rowsUpTo(100), new(watcher)
	g := builtGuard(t, db, func(o *options) { o.Observer = watch })
	g.Unload()
	full := bloom.Must(bloom.NewScalable(1, 0.01, append(g.hash, bloom.WithNonScaling())...))
	gen := g.newGeneration(full, 1)
	require.NoError(t, g.filters.Rebuild(t.Context(), gen, func(context.Context) error { return nil }))
	require.NoError(t, g.MarkCreated(t.Context(), 1))
	require.Equal(t, StateActive, g.Stats().State)
	for k := 2; k < 100; k++ {
		require.NoError(t, g.MarkCreated(t.Context(), k))
		requireRow(t, g, k)
	}
	require.Equal(t, StateUnknown, g.Stats().State)
	require.Contains(t, watch.failures[0], "filter is full")
}
