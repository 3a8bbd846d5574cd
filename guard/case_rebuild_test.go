package guard

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

func TestCase07_RebuildFails(t *testing.T) {
	boom := errors.New("boom")
	yields := func(n int, end func(yield func(int, error) bool)) Scan[int] {
		return func(context.Context, time.Time) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				for k := range n {
					if !yield(k+1, nil) {
						return
					}
				}
				if end != nil {
					end(yield)
				}
			}
		}
	}
	nothing := func(context.Context, time.Time) iter.Seq2[int, error] { return func(func(int, error) bool) {} }
	for name, tt := range map[string]struct {
		scan    Scan[int]
		options RebuildOptions[int]
		want    error
		panics  any
	}{
		"error at once":  {scan: yields(0, func(yield func(int, error) bool) { yield(0, boom) }), want: boom},
		"error later":    {scan: yields(990, func(yield func(int, error) bool) { yield(0, boom) }), want: boom},
		"panic at once":  {scan: func(context.Context, time.Time) iter.Seq2[int, error] { panic("ouch") }, panics: "ouch"},
		"panic later":    {scan: yields(700, func(func(int, error) bool) { panic("ouch") }), panics: "ouch"},
		"no iterator":    {scan: func(context.Context, time.Time) iter.Seq2[int, error] { return nil }, want: bloom.ErrInvalid},
		"no keys":        {scan: nothing, want: ErrShortScan},
		"too few keys":   {scan: yields(499, nil), want: ErrShortScan},
		"MinKeep":        {scan: yields(949, nil), options: RebuildOptions[int]{MinKeep: 0.95}, want: ErrShortScan},
		"one page again": {scan: pages(10, 100), want: ErrShortScan},
		"error in a part": {scan: yields(1000, nil), options: RebuildOptions[int]{
			Scans: []Scan[int]{yields(10, func(yield func(int, error) bool) { yield(0, boom) })}}, want: boom},
		"panic in a part": {scan: yields(1000, nil), options: RebuildOptions[int]{
			Scans: []Scan[int]{yields(10, func(func(int, error) bool) { panic("ouch") })}}, panics: "ouch"},
		"a part ends its goroutine": {scan: yields(1000, nil), options: RebuildOptions[int]{
			Scans: []Scan[int]{yields(10, func(func(int, error) bool) { runtime.Goexit() })}}, want: errGoexit},
		"error in CatchUp": {scan: yields(1000, nil), options: RebuildOptions[int]{
			CatchUp: yields(1, func(yield func(int, error) bool) { yield(0, boom) })}, want: boom},
	} {
		t.Run(name, func(t *testing.T) {
			db, watch := rowsUpTo(1000), new(watcher)
			g := builtGuard(t, db, func(o *options) { o.Observer = watch })
			old, _ := g.filters.Load()
			_, err := g.Rebuild(t.Context(), tt.scan, tt.options)
			if tt.panics != nil {
				var p *PanicError
				require.ErrorAs(t, err, &p)
				require.Contains(t, err.Error(), tt.panics)
				require.NotEmpty(t, p.Stack)
			} else {
				require.ErrorIs(t, err, tt.want)
			}
			requireUntouched(t, g, old)
			require.Len(t, watch.rebuilds, 2)
			require.Equal(t, err, watch.rebuilds[1])
			_, err = g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
			require.NoError(t, err, "and the next one works")
		})
	}
	t.Run("context", func(t *testing.T) {
		db := rowsUpTo(1000)
		g := builtGuard(t, db, nil)
		old, _ := g.filters.Load()
		for name, scan := range map[string]func(cancel func()) Scan[int]{
			"a scan that goes on": func(cancel func()) Scan[int] {
				return opening(yields(100_000, nil), cancel)
			},
			"a scan that stops without a word": func(cancel func()) Scan[int] {
				return yields(990, func(func(int, error) bool) { cancel() })
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := g.Rebuild(ctx, scan(cancel), RebuildOptions[int]{})
			require.ErrorIs(t, err, context.Canceled, name)
			requireUntouched(t, g, old)
		}
	})
	t.Run("Goexit in the caller's goroutine", func(t *testing.T) {
		db := rowsUpTo(1000)
		g := builtGuard(t, db, nil)
		old, _ := g.filters.Load()
		done := make(chan bool)
		go func() {
			defer close(done)
			_, _ = g.Rebuild(context.Background(), yields(1, func(func(int, error) bool) { runtime.Goexit() }), RebuildOptions[int]{})
			t.Error("returned")
		}()
		<-done
		requireUntouched(t, g, old)
	})
	t.Run("bad arguments", func(t *testing.T) {
		g := builtGuard(t, newDatabase(1), nil)
		_, err := g.Rebuild(t.Context(), nil, RebuildOptions[int]{})
		require.ErrorIs(t, err, bloom.ErrInvalid)
		_, err = g.Rebuild(t.Context(), nothing, RebuildOptions[int]{Scans: []Scan[int]{nil}})
		require.ErrorIs(t, err, bloom.ErrInvalid)
		_, err = g.Rebuild(t.Context(), nothing, RebuildOptions[int]{Overlap: -1})
		require.ErrorIs(t, err, bloom.ErrInvalid)
	})
	t.Run("a short scan after Unload", func(t *testing.T) {
		g := builtGuard(t, rowsUpTo(1000), nil)
		g.Unload()
		_, err := g.Rebuild(t.Context(), yields(499, nil), RebuildOptions[int]{})
		require.ErrorIs(t, err, ErrShortScan)
		require.Equal(t, StateUnknown, g.Stats().State)
		_, err = g.Rebuild(t.Context(), yields(500, nil), RebuildOptions[int]{})
		require.NoError(t, err)
	})
	t.Run("an empty table, if that is right", func(t *testing.T) {
		g := newGuard(t, newDatabase(), nil)
		_, err := g.Rebuild(t.Context(), nothing, RebuildOptions[int]{})
		require.ErrorIs(t, err, ErrShortScan)
		require.Equal(t, StateUnknown, g.Stats().State)
		_, err = g.Rebuild(t.Context(), nothing, RebuildOptions[int]{MinKeep: -1})
		require.NoError(t, err)
		require.Equal(t, Absent, g.Check(t.Context(), 1))
	})
}

func opening(s Scan[int], f func()) Scan[int] {
	return func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		f()
		return s(ctx, since)
	}
}

func pages(n, times int) Scan[int] {
	return func(context.Context, time.Time) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for i := range n * times {
				if !yield(i%n, nil) {
					return
				}
			}
		}
	}
}

func requireUntouched(t *testing.T, g *Guard[int, string], old *generation) {
	t.Helper()
	now, ok := g.filters.Load()
	require.True(t, ok)
	require.Same(t, old, now)
	require.False(t, g.filters.Rebuilding())
	require.EqualValues(t, 1000, old.len())
	require.Equal(t, Maybe, g.Check(t.Context(), 1000))
	_, err := g.Get(t.Context(), 5000)
	require.Equal(t, ErrAbsent, err)
}

func TestCase08_ReplicaAndOtherProcesses(t *testing.T) {
	// behind is db.scan on a replica.
	behind := func(db *database, lag time.Duration) Scan[int] {
		return func(context.Context, time.Time) iter.Seq2[int, error] {
			db.mu.Lock()
			defer db.mu.Unlock()
			var keys []int
			for k, r := range db.rows {
				if time.Since(r.at) >= lag {
					keys = append(keys, k)
				}
			}
			return func(yield func(int, error) bool) {
				for _, k := range keys {
					if !yield(k, nil) {
						return
					}
				}
			}
		}
	}
	t.Run("replica", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, overlap := range []time.Duration{0, 3 * time.Second} {
				db := rowsUpTo(10)
				g := builtGuard(t, db, nil)
				time.Sleep(time.Minute)
				require.NoError(t, g.Create(t.Context(), []int{99}, func(context.Context) error { db.insert(99); return nil }))
				time.Sleep(time.Second)
				start := time.Now()
				rep, err := g.Rebuild(t.Context(), behind(db, 2*time.Second), RebuildOptions[int]{Overlap: overlap})
				require.NoError(t, err)
				require.EqualValues(t, 10, rep.Scanned)
				require.Equal(t, start.Add(-overlap).UnixNano(), g.CompleteAt().UnixNano())
				if overlap == 0 { // what the journal is for
					require.Equal(t, Absent, g.Check(t.Context(), 99))
					continue
				}
				require.Equal(t, Maybe, g.Check(t.Context(), 99))
				require.EqualValues(t, 1, rep.Replayed)
			}
		})
	})
	t.Run("replica, right after the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10) // by the process before this one
			g := newGuard(t, db, nil)
			start := time.Now()
			rep, err := g.Rebuild(t.Context(), behind(db, 2*time.Second), RebuildOptions[int]{Overlap: 2 * time.Second})
			require.NoError(t, err)
			require.EqualValues(t, 10, rep.Scanned)
			require.Equal(t, start.Add(2*time.Second), rep.Start)
			g = newGuard(t, db, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = g.Rebuild(ctx, db.scan, RebuildOptions[int]{Overlap: 2 * time.Second})
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("the journal is too short", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(1000)
			g := builtGuard(t, db, func(o *options) { o.Journal = 100 })
			old, _ := g.filters.Load()
			for k := range 101 {
				require.NoError(t, g.MarkCreated(t.Context(), k+1))
			}
			_, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{Overlap: time.Second})
			require.ErrorIs(t, err, ErrJournal)
			requireUntouched(t, g, old)
			_, err = g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
			require.NoError(t, err, "without Overlap nobody needs the journal")
			time.Sleep(2 * time.Second)
			_, err = g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{Overlap: time.Second})
			require.NoError(t, err, "it reaches back far enough again")
		})
	})
	t.Run("another process", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			g := builtGuard(t, db, nil)
			time.Sleep(time.Minute)
			start := time.Now()
			rep, err := g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
				rows := db.scan(ctx, since)
				time.Sleep(time.Second)
				db.insert(99) // nobody tells the guard
				return rows
			}, RebuildOptions[int]{
				Overlap: time.Millisecond,
				CatchUp: func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
					require.Equal(t, start.Add(-time.Millisecond), since)
					return db.scan(ctx, since)
				},
			})
			require.NoError(t, err)
			require.EqualValues(t, 1, rep.CaughtUp)
			require.Equal(t, Maybe, g.Check(t.Context(), 99))

			// From then on, CatchUp by hand.
			complete := g.CompleteAt()
			require.Equal(t, start.Add(time.Second-time.Millisecond).UnixNano(), complete.UnixNano())
			time.Sleep(time.Minute)
			db.insert(100)
			_, err = g.Get(t.Context(), 100)
			require.Equal(t, ErrAbsent, err, "the hole that CatchUp closes")
			require.NoError(t, g.CatchUp(t.Context(), complete, db.scan))
			v, err := g.Get(t.Context(), 100)
			require.NoError(t, err)
			require.Equal(t, "row 100", v)
			require.Equal(t, time.Now().UnixNano(), g.CompleteAt().UnixNano())

			time.Sleep(time.Minute)
			complete = g.CompleteAt()
			require.NoError(t, g.CatchUp(t.Context(), complete.Add(time.Second), db.scan))
			require.Equal(t, complete, g.CompleteAt(), "a gap of a second may hide rows")
			boom := errors.New("boom")
			require.ErrorIs(t, g.CatchUp(t.Context(), complete, func(context.Context, time.Time) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) { _ = yield(101, nil) && yield(0, boom) }
			}), boom)
			require.Equal(t, complete, g.CompleteAt())
			require.ErrorIs(t, g.CatchUp(t.Context(), complete, nil), bloom.ErrInvalid)
		})
	})
}

func TestCase09_OneRebuildAtATime(t *testing.T) {
	db := rowsUpTo(1000)
	g := builtGuard(t, db, nil)
	old, _ := g.filters.Load()
	scanned := 0
	_, err := g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		rows := db.scan(ctx, since)
		return func(yield func(int, error) bool) {
			for k := range rows {
				scanned++
				if scanned%100 == 0 {
					_, err := g.Rebuild(ctx, func(context.Context, time.Time) iter.Seq2[int, error] { panic("opened") }, RebuildOptions[int]{})
					require.Equal(t, ErrRebuilding, err)
					_, err = g.Restore(ctx, nil, func(context.Context, time.Time) iter.Seq2[int, error] { panic("opened") })
					require.Equal(t, ErrRebuilding, err)
					now, _ := g.filters.Load()
					require.Same(t, old, now)
					require.True(t, g.Stats().Rebuilding)
					_, err = g.Get(ctx, 5000+scanned)
					require.Equal(t, ErrAbsent, err)
					_, err = g.Get(ctx, k)
					require.NoError(t, err)
				}
				if !yield(k, nil) {
					return
				}
			}
		}
	}, RebuildOptions[int]{})
	require.NoError(t, err)
	require.Equal(t, 1000, scanned)
	now, _ := g.filters.Load()
	require.NotSame(t, old, now)
	require.EqualValues(t, 1000, now.len())
	require.False(t, g.Stats().Rebuilding)
}

func TestCase12_Threshold(t *testing.T) {
	db, watch := newDatabase(), new(watcher)
	g := builtGuard(t, db, func(o *options) {
		o.ErrorRate, o.Capacity, o.Observer = 0.01, 10_000, watch
		o.Hash = []bloom.Option{bloom.WithSeed(1)}
	})
	k := 0
	add := func(items int) {
		for g.items() < uint64(items) {
			k++
			db.insert(k)
			require.NoError(t, g.MarkCreated(t.Context(), k))
		}
	}
	add(7999)
	require.Empty(t, watch.thresholds)
	add(8000)
	require.Equal(t, []ThresholdEvent{{8000, 10_000}}, watch.thresholds)
	// 0.44 of bits and 0.33 %, at four fifths of the capacity: bits would be a bad measure. At k = 7
	// hashes, 1 − e^(−0.8·ln 2) = 0.426; k and the size are rounded.
	s := g.Stats()
	require.InDelta(t, 0.8, s.Load, 1e-9)
	require.InDelta(t, 0.44, s.FillRatio, 0.015)
	require.InDelta(t, 0.0033, s.EstimatedRate, 0.0006)
	add(12_000)
	require.Len(t, watch.thresholds, 1, "once")

	rep, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
	require.NoError(t, err)
	require.Len(t, watch.thresholds, 1)
	require.Greater(t, rep.Capacity, uint64(20_000), "a filter that was full is made twice as large")
	full := int(0.8*float64(rep.Capacity)) - 100
	add(full)
	require.Len(t, watch.thresholds, 1)
	add(full + 200)
	require.Len(t, watch.thresholds, 2, "armed again")

	_, err = g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{Capacity: 1000})
	require.NoError(t, err)
	require.Len(t, watch.thresholds, 3, "a filter that is too small is told at once")
}

// A filter is full from one key on at the earliest, not when it is empty.
func TestThresholdOfASmallFilter(t *testing.T) {
	watch := new(watcher)
	g := newGuard(t, newDatabase(), func(o *options) { o.Capacity, o.Observer = 1, watch })
	for range 3 {
		rep, err := g.Rebuild(t.Context(), newDatabase().scan, RebuildOptions[int]{MinKeep: -1})
		require.NoError(t, err)
		require.EqualValues(t, 1, rep.Capacity)
	}
	require.Empty(t, watch.thresholds)
	require.NoError(t, g.MarkCreated(t.Context(), 1))
	require.Equal(t, []ThresholdEvent{{1, 1}}, watch.thresholds)
}
