package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

var testKey = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func withKey(o *options) { o.Key = testKey }

func noDelta(context.Context, time.Time) iter.Seq2[int, error] { return func(func(int, error) bool) {} }

// saved returns a snapshot of a filter of the rows of db, and the options of its guard.
func saved(t testing.TB, db *database, change func(*options)) []byte {
	t.Helper()
	g := builtGuard(t, db, func(o *options) {
		withKey(o)
		if change != nil {
			change(o)
		}
	})
	var b bytes.Buffer
	require.NoError(t, g.Snapshot(&b))
	return b.Bytes()
}

// saverVariable tells a copy of the test program to save to a file until it is killed.
const saverVariable = "GUARD_TEST_SAVES_TO"

func TestMain(m *testing.M) {
	if path := os.Getenv(saverVariable); path != "" {
		saveForEver(path)
	}
	os.Exit(m.Run())
}

func saveForEver(path string) {
	g, err := New(options{Loader: newDatabase(), Capacity: 1_000_000, Key: testKey})
	for n := 1; err == nil; n++ {
		if n%10 == 1 {
			_, err = g.Rebuild(context.Background(), rowsUpTo(1000).scan, RebuildOptions[int]{})
		}
		if err == nil {
			err = g.SnapshotFile(path)
		}
		if n == 1 {
			fmt.Println("saved")
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Killed while it saves, a process leaves the old file or the new one.
func TestCase28_KilledWhileSaving(t *testing.T) {
	if testing.Short() {
		t.Skip("starts subprocesses")
	}
	path := filepath.Join(t.TempDir(), "rows.guard")
	for i := range 20 {
		c := exec.CommandContext(t.Context(), os.Args[0])
		c.Env = append(os.Environ(), saverVariable+"="+path)
		c.Stderr = os.Stderr
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		_, err = io.ReadFull(out, make([]byte, len("saved\n")))
		require.NoError(t, err)
		time.Sleep(time.Duration(i) * time.Millisecond / 2)
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()

		g := newGuard(t, newDatabase(), func(o *options) { o.Key, o.Capacity, o.ErrorRate = testKey, 1_000_000, 0 })
		_, err = g.RestoreFile(t.Context(), path, noDelta)
		require.NoError(t, err)
		require.EqualValues(t, 1000, g.Stats().Items)
		require.Equal(t, Maybe, g.Check(t.Context(), 1000))
	}
}

// Anything that is wrong with a snapshot is seen, and the guard stays without a filter.
func TestCase28_DamagedSnapshots(t *testing.T) {
	for _, kind := range []Kind{Concurrent, Blocked, Scalable} {
		t.Run(kind.String(), func(t *testing.T) {
			db := rowsUpTo(20)
			good := saved(t, db, func(o *options) { o.Kind, o.Capacity, o.ErrorRate = kind, 20, 0.01 })
			g := newGuard(t, db, func(o *options) { o.Key, o.Kind, o.Capacity, o.ErrorRate = testKey, kind, 20, 0.01 })
			refused := func(what string, data []byte) error {
				t.Helper()
				_, err := g.Restore(t.Context(), bytes.NewReader(data), noDelta)
				require.Error(t, err, what)
				require.Equal(t, StateUnknown, g.Stats().State, what)
				require.Equal(t, Unknown, g.Check(t.Context(), 7777), what)
				return err
			}
			for n := range good {
				require.ErrorIs(t, refused(fmt.Sprint("cut at ", n), good[:n]), bloom.ErrIncomplete)
			}
			for i := range good {
				for _, bit := range []byte{1, 0x80} {
					bad := bytes.Clone(good)
					bad[i] ^= bit
					refused(fmt.Sprintf("byte %d ^ %x", i, bit), bad)
				}
			}
			other := saved(t, db, func(o *options) { o.Kind, o.Capacity, o.ErrorRate = kind, 20, 0.01 })
			tail := len(good) - nonceSize
			refused("beginning of one, end of another", append(bytes.Clone(good[:tail]), other[tail:]...))
			refused("no snapshot", []byte("SQLite format 3\x00SQLite format 3\x00SQLite format 3"))

			rep, err := g.Restore(t.Context(), io.MultiReader(bytes.NewReader(good), bytes.NewReader(other)), noDelta)
			require.NoError(t, err, "one snapshot and not a byte more")
			require.EqualValues(t, 20, rep.Scanned)
			for k := 1; k <= 20; k++ {
				require.Equal(t, Maybe, g.Check(t.Context(), k))
			}
			require.Equal(t, Absent, g.Check(t.Context(), 7777))

			old, _ := g.filters.Load()
			_, err = g.Restore(t.Context(), bytes.NewReader(good[:len(good)-1]), noDelta)
			require.Error(t, err)
			now, _ := g.filters.Load()
			require.Same(t, old, now)
		})
	}
}

// A size that is only claimed is not allocated.
func TestCase28_ForgedSize(t *testing.T) {
	good := saved(t, rowsUpTo(20), nil)
	h, err := readSnapshotHeader(bytes.NewReader(good))
	require.NoError(t, err)
	var record bytes.Buffer
	huge := bloom.Must(bloom.NewConcurrent(100_000_000, 0.01, bloom.WithScheme(bloom.SipHash), bloom.WithKey(testKey)))
	_, err = huge.WriteTo(&limitedWriter{&record, 4096})
	require.Error(t, err)
	huge = nil
	runtime.GC()
	forged := append(h.bytes(), record.Bytes()...)
	for _, r := range []io.Reader{bytes.NewReader(forged), io.MultiReader(bytes.NewReader(forged))} { // of known and of unknown length
		g := newGuard(t, newDatabase(), withKey)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = g.Restore(t.Context(), r, noDelta)
		runtime.ReadMemStats(&after)
		require.ErrorIs(t, err, bloom.ErrIncomplete)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<18))
	}
}

type limitedWriter struct {
	w    io.Writer
	left int
}

func (w *limitedWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b[:min(len(b), w.left)])
	if w.left -= n; err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return n, err
}

// A snapshot of another guard than this one.
func TestCase28_OtherParameters(t *testing.T) {
	db := rowsUpTo(20)
	good := saved(t, db, nil)
	for name, change := range map[string]func(*options){
		"kind":           func(o *options) { o.Kind = Blocked },
		"capacity":       func(o *options) { o.Capacity *= 2 },
		"rate":           func(o *options) { o.ErrorRate = 0.02 },
		"key":            func(o *options) { o.Key[0]++ },
		"drawn key":      func(o *options) { o.Key = [16]byte{} },
		"scheme":         func(o *options) { o.Key, o.Hash = [16]byte{}, []bloom.Option{bloom.WithScheme(bloom.XXHash)} },
		"key encoding":   func(o *options) { o.AppendKey = func(dst []byte, k int) []byte { return fmt.Append(dst, k) } },
		"named encoding": func(o *options) { o.AppendKey, o.KeyEncoding = func(dst []byte, k int) []byte { return dst }, "v2" },
	} {
		g := newGuard(t, db, func(o *options) { withKey(o); change(o) })
		_, err := g.Restore(t.Context(), bytes.NewReader(good), noDelta)
		require.ErrorIs(t, err, bloom.ErrMismatch, name)
		require.Equal(t, StateUnknown, g.Stats().State)
	}
	seeded := func(seed uint64) func(o *options) {
		return func(o *options) { o.Hash = []bloom.Option{bloom.WithSeed(seed)} }
	}
	g := builtGuard(t, db, seeded(1))
	var b bytes.Buffer
	require.NoError(t, g.Snapshot(&b))
	_, err := newGuard(t, db, seeded(2)).Restore(t.Context(), bytes.NewReader(b.Bytes()), noDelta)
	require.ErrorIs(t, err, bloom.ErrMismatch, "seed")
	_, err = newGuard(t, db, seeded(1)).Restore(t.Context(), bytes.NewReader(b.Bytes()), noDelta)
	require.NoError(t, err)

	bad := bytes.Clone(good)
	bad[4] = 2
	_, err = newGuard(t, db, withKey).Restore(t.Context(), bytes.NewReader(bad), noDelta)
	require.ErrorIs(t, err, bloom.ErrVersion)
}

func TestSnapshotErrors(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	require.ErrorIs(t, g.Snapshot(io.Discard), bloom.ErrInvalid, "of no use to anybody else")
	require.ErrorIs(t, newGuard(t, db, withKey).Snapshot(io.Discard), ErrNoFilter)
	g = builtGuard(t, db, withKey)
	for n := 0; n < 3000; n += 37 {
		require.Error(t, g.Snapshot(&limitedWriter{io.Discard, n}), n)
	}
	_, err := g.Restore(t.Context(), bytes.NewReader(nil), nil)
	require.ErrorIs(t, err, bloom.ErrInvalid)

	path := filepath.Join(t.TempDir(), "rows.guard")
	require.NoError(t, g.SnapshotFile(path))
	_, err = newGuard(t, db, withKey).RestoreFile(t.Context(), path, noDelta)
	require.NoError(t, err)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("x")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	_, err = newGuard(t, db, withKey).RestoreFile(t.Context(), path, noDelta)
	require.ErrorIs(t, err, bloom.ErrCorrupt)
	_, err = newGuard(t, db, withKey).RestoreFile(t.Context(), path+".missing", noDelta)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Rows that come between a snapshot and a restart are never rejected: the restored filter is live
// only when it has them.
func TestCase29_RowsSinceTheSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := rowsUpTo(100)
		first := builtGuard(t, db, withKey)
		time.Sleep(time.Hour)
		db.insert(200) // by another process, which CatchUp never told of
		time.Sleep(time.Hour)
		var snapshot bytes.Buffer
		require.NoError(t, first.Snapshot(&snapshot))
		require.NoError(t, first.Create(t.Context(), []int{201}, func(context.Context) error { db.insert(201); return nil }))
		time.Sleep(time.Hour)
		db.insert(202)

		g := newGuard(t, db, withKey)
		visible := func() {
			for _, k := range []int{1, 100, 200, 201, 202} {
				require.NotEqual(t, Absent, g.Check(t.Context(), k))
				_, err := g.Get(t.Context(), k)
				require.NoError(t, err)
			}
		}
		visible()
		rep, err := g.Restore(t.Context(), &snapshot, func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
			require.Equal(t, first.CompleteAt(), since)
			require.Equal(t, Unknown, g.Check(ctx, 7777), "not live yet")
			rows := db.scan(ctx, since)
			require.NoError(t, g.Create(ctx, []int{203}, func(context.Context) error { db.insert(203); return nil }))
			visible()
			return func(yield func(int, error) bool) {
				for k := range rows {
					require.Equal(t, Unknown, g.Check(ctx, 7777))
					if !yield(k, nil) {
						return
					}
				}
			}
		})
		require.NoError(t, err)
		require.EqualValues(t, 100, rep.Scanned)
		require.EqualValues(t, 103, rep.CaughtUp, "all rows here have the time of the first rebuild, or a later one")
		visible()
		requireRow(t, g, 203)
		require.Equal(t, Absent, g.Check(t.Context(), 7777))
		require.Equal(t, time.Now().UnixNano(), g.CompleteAt().UnixNano())

		boom := errors.New("boom")
		g = newGuard(t, db, withKey)
		data := saved(t, db, nil)
		_, err = g.Restore(t.Context(), bytes.NewReader(data), func(context.Context, time.Time) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) { yield(0, boom) }
		})
		require.ErrorIs(t, err, boom)
		require.Equal(t, StateUnknown, g.Stats().State, "without the delta it may lack rows")
	})
}

// A filter that lacks a key is found out by an audit.
func TestCase30_Audit(t *testing.T) {
	for _, many := range []bool{false, true} {
		t.Run(fmt.Sprint("GetMany ", many), func(t *testing.T) {
			db, watch := rowsUpTo(10), new(watcher)
			g := builtGuard(t, db, func(o *options) { o.Audit, o.Observer = 1, watch })
			db.insert(99) // nobody tells the guard
			require.Equal(t, Absent, g.Check(t.Context(), 99))
			get := func(k int) (string, error) {
				if !many {
					return g.Get(t.Context(), k)
				}
				rows, err := g.GetMany(t.Context(), []int{k, 1})
				require.Contains(t, rows, 1)
				if v, ok := rows[k]; ok || err != nil {
					return v, err
				}
				return "", ErrAbsent
			}
			v, err := get(99)
			require.NoError(t, err)
			require.Equal(t, "row 99", v)
			s := g.Stats()
			require.EqualValues(t, 1, s.FalseNegatives)
			require.EqualValues(t, 1, s.Audited)
			require.Zero(t, s.Rejected)
			require.Equal(t, []any{99}, watch.falseNegatives)
			require.Equal(t, Maybe, g.Check(t.Context(), 99), "added")

			_, err = get(98)
			require.Equal(t, ErrAbsent, err)
			s = g.Stats()
			require.EqualValues(t, 1, s.FalseNegatives)
			require.EqualValues(t, 2, s.Audited)
			require.EqualValues(t, 1, s.Rejected)
			require.Zero(t, s.FalsePositives)

			// What cannot be audited is rejected as ever.
			db.fault = func(context.Context, int) error { return errors.New("boom") }
			_, err = get(97)
			require.Equal(t, ErrAbsent, err)
			require.EqualValues(t, 1, g.Stats().FalseNegatives)
		})
	}
	t.Run("a row that is created meanwhile is none", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, func(o *options) { o.Audit = 1 })
		db.fault = func(ctx context.Context, k int) error {
			db.heal()
			return g.Create(ctx, []int{k}, func(context.Context) error { db.insert(k); return nil })
		}
		v, err := g.Get(t.Context(), 99)
		require.NoError(t, err)
		require.Equal(t, "row 99", v)
		require.Zero(t, g.Stats().FalseNegatives)
	})
	t.Run("a row that was deleted and is still in the cache is none", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, func(o *options) { o.Audit = 1 })
		requireRow(t, g, 5)
		rest(g)
		db.remove(5) // and before that is marked:
		_, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
		require.NoError(t, err)
		require.Equal(t, Absent, g.Check(t.Context(), 5))
		requireRow(t, g, 5)
		require.EqualValues(t, 2, g.Stats().Audited)
		require.Zero(t, g.Stats().FalseNegatives)
	})
	t.Run("a share", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, func(o *options) { o.Audit = 0.25 })
		const n = 20_000
		for k := range n {
			_, err := g.Get(t.Context(), 1000+k)
			require.Equal(t, ErrAbsent, err)
		}
		// Binomial, 5 sigma: √(n/4·3/4) = 61.
		require.InDelta(t, n/4, g.Stats().Audited, 5*61)
		require.EqualValues(t, n, g.Stats().Rejected)
	})
}

// A load that begins after the row was marked asks a replica that does not have it yet.
func TestCase31_ReplicaBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, settle := range []time.Duration{3 * time.Second, time.Millisecond} {
			db, cache := newDatabase(), newHookedCache()
			replica := LoaderFunc[int, string](func(_ context.Context, k int) (string, error) {
				r, ok := db.read(k)
				if !ok || time.Since(r.at) < 2*time.Second {
					time.Sleep(100 * time.Millisecond)
					return "", ErrNotFound
				}
				return r.value, nil
			})
			g := newGuard(t, replica, func(o *options) { o.Settle, o.Cache = settle, cache })
			create(t, g, db, 99)
			time.Sleep(1900 * time.Millisecond)
			_, err := g.Get(t.Context(), 99) // answers after the replica has caught up
			require.Equal(t, ErrNotFound, err, "the replica says so")
			time.Sleep(500 * time.Millisecond)
			if settle < time.Second { // what Settle is for
				_, err = g.Get(t.Context(), 99)
				require.Equal(t, ErrNotFound, err)
				continue
			}
			require.Zero(t, cache.nulls.Load())
			requireRow(t, g, 99)
			require.EqualValues(t, 1, g.Stats().NotStored)

			time.Sleep(time.Hour)
			_, err = g.Get(t.Context(), 100)
			require.Equal(t, ErrNotFound, err)
			synctest.Wait()
			require.EqualValues(t, 1, cache.nulls.Load(), "other nulls are stored")
		}
	})
}
