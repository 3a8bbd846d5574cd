package guard

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// Without a filter everything comes from the cache and the loader, and nothing is rejected.
func TestCase01_NoFilter(t *testing.T) {
	db := newDatabase(1)
	g := newGuard(t, db, nil)
	require.Equal(t, StateUnknown, g.Stats().State)
	require.Equal(t, Unknown, g.Check(t.Context(), 2))
	for range 3 {
		v, err := g.Get(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, "row 1", v)
		_, err = g.Get(t.Context(), 2)
		require.ErrorIs(t, err, ErrNotFound)
		require.NotErrorIs(t, err, ErrAbsent)
		rest(g)
	}
	require.EqualValues(t, 2, db.loads.Load(), "the cache serves both")
	s := g.Stats()
	require.Equal(t, StateUnknown, s.State)
	require.EqualValues(t, 2, s.Hits)
	require.EqualValues(t, 2, s.NullHits)
	require.Zero(t, s.Rejected)
}

// An attack before the filter is there: collapsing is of no help, no two keys being alike.
func TestCase02_MaxLoadsWithoutFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newDatabase()
		db.takes = time.Second
		g := newGuard(t, db, func(o *options) { o.MaxLoads = 64 })
		var found, overload atomic.Int64
		var wg sync.WaitGroup
		for k := range 1000 {
			wg.Go(func() {
				switch _, err := g.Get(t.Context(), k); {
				case err == ErrNotFound:
					found.Add(1)
				case err == ErrOverload:
					overload.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		require.EqualValues(t, 64, db.peak.Load())
		require.EqualValues(t, 64, found.Load())
		require.EqualValues(t, 1000-64, overload.Load())
		require.EqualValues(t, 1000-64, g.Stats().Overloads)
		values, nulls := g.opts.Cache.(*Memory[int, string]).Len()
		require.Zero(t, values)
		require.Equal(t, 64, nulls, "nothing is cached for the refused")

		for k := range 1000 { // one after the other there is always room
			_, err := g.Get(t.Context(), k)
			require.Equal(t, ErrNotFound, err)
		}
		_, err := g.GetMany(t.Context(), []int{2001, 2002, 2003})
		require.NoError(t, err, "single loads of a batch take the slots there are")
	})
}

// Whoever can see the row must get it, at the very moment of the commit, whatever the guard knew
// of the key before.
func TestCase03_NeverRejectedOnceVisible(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, g *Guard[int, string], db *database){
		"never asked for": func(*testing.T, *Guard[int, string], *database) {},
		"rejected": func(t *testing.T, g *Guard[int, string], _ *database) {
			_, err := g.Get(t.Context(), 99)
			require.Equal(t, ErrAbsent, err)
		},
		"null in the cache": func(t *testing.T, g *Guard[int, string], _ *database) {
			require.NoError(t, g.opts.Cache.Set(t.Context(), 99, Entry[string]{Missing: true}, time.Hour))
		},
		"deleted": func(t *testing.T, g *Guard[int, string], db *database) {
			require.NoError(t, g.Create(t.Context(), []int{99}, func(context.Context) error { db.insert(99); return nil }))
			time.Sleep(time.Minute)
			db.remove(99)
			require.NoError(t, g.MarkDeleted(t.Context(), 99))
			_, err := g.Get(t.Context(), 99)
			require.Equal(t, ErrAbsent, err)
		},
		"deleted, and no filter": func(t *testing.T, g *Guard[int, string], db *database) {
			require.NoError(t, g.MarkDeleted(t.Context(), 99))
			g.Unload()
		},
		"a load under way that found no row": func(t *testing.T, g *Guard[int, string], db *database) {
			g.Unload()
			db.takes = time.Second
			go func() {
				_, err := g.Get(t.Context(), 99)
				if err != ErrNotFound {
					t.Error(err)
				}
			}()
			synctest.Wait()
		},
		"a null that is being stored": func(t *testing.T, g *Guard[int, string], db *database) {
			g.Unload()
			g.opts.Cache.(*hookedCache).beforeSet = func(_ context.Context, _ int, e Entry[string]) error {
				if e.Missing {
					time.Sleep(time.Second)
				}
				return nil
			}
			_, err := g.Get(t.Context(), 99)
			require.Equal(t, ErrNotFound, err)
			synctest.Wait()
		},
		"in mid-rebuild": func(t *testing.T, g *Guard[int, string], db *database) {
			go func() {
				_, err := g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
					rows := db.scan(ctx, since) // without the row
					time.Sleep(time.Second)
					return rows
				}, RebuildOptions[int]{})
				if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			require.True(t, g.Stats().Rebuilding)
		},
	} {
		many := false
		test := func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := rowsUpTo(10)
				g := builtGuard(t, db, func(o *options) { o.Cache = newHookedCache() })
				before(t, g, db)
				mustGet := func(when string) {
					require.NotEqual(t, Absent, g.Check(t.Context(), 99), when)
					if !many {
						v, err := g.Get(t.Context(), 99)
						require.NoError(t, err, when)
						require.Equal(t, "row 99", v, when)
						return
					}
					rows, err := g.GetMany(t.Context(), []int{99, 100})
					require.NoError(t, err, when)
					require.Equal(t, map[int]string{99: "row 99"}, rows, when)
				}
				require.NoError(t, g.Create(t.Context(), []int{99}, func(context.Context) error {
					db.insert(99)
					mustGet("at the commit")
					return nil
				}))
				mustGet("after Create")
				time.Sleep(2 * time.Second)
				mustGet("after the rebuild, if there was one")
			})
		}
		t.Run(name+"/Get", test)
		many = true
		t.Run(name+"/GetMany", test)
	}
}

// rowStore is a table for writers in a hurry.
type rowStore struct {
	mu   sync.Mutex
	keys []int
}

func (s *rowStore) commit(k int) {
	s.mu.Lock()
	s.keys = append(s.keys, k)
	s.mu.Unlock()
}

func (s *rowStore) scan(context.Context, time.Time) iter.Seq2[int, error] {
	s.mu.Lock()
	keys := s.keys[:len(s.keys):len(s.keys)]
	s.mu.Unlock()
	return func(yield func(int, error) bool) {
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// Eight writers during five rebuilds: no key is lost, and none is called absent for a moment. The
// filter has no false positives here that could hide a loss.
func TestCase04_WritersDuringRebuilds(t *testing.T) {
	writers, rebuilds, writes := 8, 5, 100_000
	if testing.Short() {
		writes = 10_000
	}
	for _, kind := range []Kind{Concurrent, Blocked, Scalable} {
		if kind != Concurrent && testing.Short() {
			continue
		}
		t.Run(kind.String(), func(t *testing.T) {
			var store rowStore
			g := newGuard(t, newDatabase(), func(o *options) { o.Kind, o.Capacity = kind, 100_000 })
			_, err := g.Rebuild(t.Context(), store.scan, RebuildOptions[int]{MinKeep: -1})
			require.NoError(t, err)
			var written, wrong atomic.Int64
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					for k := w; k < writes; k += writers {
						err := g.Create(t.Context(), []int{k}, func(ctx context.Context) error {
							store.commit(k)
							if g.Check(ctx, k) == Absent {
								wrong.Add(1)
							}
							return nil
						})
						if err != nil {
							t.Error(err)
						}
						if g.Check(t.Context(), k) != Maybe {
							wrong.Add(1)
						}
						if k >= 1000 && g.Check(t.Context(), k-1000) != Maybe { // its own, of a while ago
							wrong.Add(1)
						}
						written.Add(1)
					}
				})
			}
			for i := range rebuilds {
				for written.Load() < int64(i*writes/rebuilds) {
					runtime.Gosched()
				}
				_, err := g.Rebuild(t.Context(), store.scan, RebuildOptions[int]{MinKeep: -1})
				require.NoError(t, err)
			}
			wg.Wait()
			require.Zero(t, wrong.Load(), "called absent")
			lost := 0
			for k := range writes {
				if g.Check(t.Context(), k) != Maybe {
					lost++
				}
			}
			require.Zero(t, lost, "lost")
			requireItems(t, g, writes)
		})
	}
}

// A key that is announced to the old filter only, and committed after the scan's snapshot, is in the
// new filter because MarkCreated adds a second time.
func TestCase05_AnnouncedBeforeCommittedAfter(t *testing.T) {
	t.Run("after the scan", func(t *testing.T) { testCase05AfterTheScan(t) })
	t.Run("after the swap", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, nil)
		require.NoError(t, g.Announce(t.Context(), 99, 100))
		require.NoError(t, g.MarkCreated(t.Context(), 100)) // is none of what the scan need not see
		rep, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
		require.NoError(t, err)
		require.EqualValues(t, 1, rep.Replayed)
		require.Equal(t, Absent, g.Check(t.Context(), 100))
		db.insert(99)
		requireRow(t, g, 99) // though it is not marked yet
	})
	t.Run("after the swap, in Create", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, func(o *options) { o.Journal = 1 })
		require.NoError(t, g.Create(t.Context(), []int{97, 98, 99}, func(ctx context.Context) error {
			rep, err := g.Rebuild(ctx, db.scan, RebuildOptions[int]{})
			require.NoError(t, err)
			require.LessOrEqual(t, rep.Scanned, uint64(10))
			db.insert(97, 98, 99)
			for k := 97; k <= 99; k++ {
				require.NotEqual(t, Absent, g.Check(ctx, k))
				_, err := g.Get(ctx, k)
				require.NoError(t, err)
			}
			return nil
		}))
		rep, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{})
		require.NoError(t, err)
		require.Zero(t, rep.Replayed)
	})
}

func testCase05AfterTheScan(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	require.NoError(t, g.Announce(t.Context(), 99))
	_, err := g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		rows := db.scan(ctx, since)
		db.insert(99)
		require.NoError(t, g.MarkCreated(ctx, 99))
		return rows
	}, RebuildOptions[int]{})
	require.NoError(t, err)
	require.Equal(t, Maybe, g.Check(t.Context(), 99))
	v, err := g.Get(t.Context(), 99)
	require.NoError(t, err)
	require.Equal(t, "row 99", v)
}

// The standby is not published, and the scan not opened, while a writer is under way that does
// not know of it. Readers go on.
func TestCase06_PausedWriter(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	inside, resume := make(chan bool), make(chan bool)
	go func() {
		_ = g.filters.Write(func(gen *generation) error {
			close(inside)
			<-resume
			return gen.add([]bloom.Digest{g.keys.digest(99)})
		})
	}()
	<-inside
	var opened atomic.Bool
	done := make(chan error)
	go func() {
		_, err := g.Rebuild(context.Background(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
			opened.Store(true)
			return db.scan(ctx, since)
		}, RebuildOptions[int]{})
		done <- err
	}()
	eventually(g.filters.Rebuilding)
	for range 1000 {
		runtime.Gosched()
		_, err := g.Get(t.Context(), 50)
		require.Equal(t, ErrAbsent, err, "readers do not wait, and are protected")
		require.False(t, opened.Load())
	}
	close(resume)
	require.NoError(t, <-done)
	require.True(t, opened.Load())
}

// Whatever ends a scan before its time leaves the old filter in use.
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
		"no iterator":    {scan: func(context.Context, time.Time) iter.Seq2[int, error] { return nil }, panics: "nil"},
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

// opening is s, with a call of f when it is opened.
func opening(s Scan[int], f func()) Scan[int] {
	return func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		f()
		return s(ctx, since)
	}
}

// pages yields the first n keys again and again.
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

// A scan that reads a little in the past, or rows of another process: the journal and CatchUp.
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

// Readers are protected by the old filter for the whole of a rebuild, and a second one is refused.
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

// Deletions are exact, bounded, undone by a creation, and expire.
func TestCase10_Deletions(t *testing.T) {
	t.Run("deleted, then created", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			g := builtGuard(t, db, nil)
			check := func() {
				db.remove(5)
				require.NoError(t, g.MarkDeleted(t.Context(), 5))
				_, err := g.Get(t.Context(), 5)
				require.Equal(t, ErrAbsent, err)
				db.insert(5)
				require.NoError(t, g.MarkCreated(t.Context(), 5))
				v, err := g.Get(t.Context(), 5)
				require.NoError(t, err)
				require.Equal(t, "row 5", v)
				time.Sleep(time.Minute) // from here on it is no key of a moment ago
			}
			check()
			_, err := g.Rebuild(t.Context(), opening(db.scan, check), RebuildOptions[int]{})
			require.NoError(t, err)
			check()
			_, err = g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
				db.remove(5)
				require.NoError(t, g.MarkDeleted(ctx, 5))
				rows := db.scan(ctx, since) // without it
				db.insert(5)
				require.NoError(t, g.MarkCreated(ctx, 5))
				return rows
			}, RebuildOptions[int]{})
			require.NoError(t, err)
			v, err := g.Get(t.Context(), 5)
			require.NoError(t, err)
			require.Equal(t, "row 5", v)
		})
	})
	t.Run("exact", func(t *testing.T) {
		db := rowsUpTo(10_000)
		g := builtGuard(t, db, func(o *options) { o.Deletions, o.Capacity = 5000, 20_000 })
		for k := 1; k <= 5000; k++ {
			require.NoError(t, g.MarkDeleted(t.Context(), 2*k))
		}
		for k := 1; k <= 10_000; k++ {
			want := Maybe
			if k%2 == 0 {
				want = Absent
			}
			require.Equal(t, want, g.Check(t.Context(), k))
		}
		require.Equal(t, 5000, g.Stats().Deletions)
	})
	t.Run("too many", func(t *testing.T) {
		db := rowsUpTo(10)
		g := builtGuard(t, db, func(o *options) { o.Deletions = 2 })
		db.remove(1, 2, 3, 4)
		require.NoError(t, g.MarkDeleted(t.Context(), 1, 2, 3, 4))
		for k := 1; k <= 4; k++ {
			_, err := g.Get(t.Context(), k)
			require.ErrorIs(t, err, ErrNotFound)
		}
		require.Zero(t, db.loads.Load(), "the null cache has the rest")
		require.EqualValues(t, 2, g.Stats().NullHits)
		require.EqualValues(t, 2, g.Stats().Deleted)
		db.insert(4)
		require.NoError(t, g.MarkCreated(t.Context(), 4))
		_, err := g.Get(t.Context(), 4)
		require.NoError(t, err)
	})
	t.Run("marks in the wrong order", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			g := builtGuard(t, db, nil)
			require.NoError(t, g.MarkCreated(t.Context(), 5)) // the second of two writers
			require.NoError(t, g.MarkDeleted(t.Context(), 5)) // the first one, late
			_, err := g.Get(t.Context(), 5)
			require.NoError(t, err, "a deletion of what was created a moment ago is not believed")
			time.Sleep(time.Minute)
			require.NoError(t, g.MarkDeleted(t.Context(), 5)) // later still
			_, err = g.Get(t.Context(), 5)
			require.Equal(t, ErrAbsent, err)
			time.Sleep(g.opts.MissTTL)
			_, err = g.Get(t.Context(), 5)
			require.NoError(t, err, "it costs MissTTL")
		})
	})
	t.Run("a load that read the row before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := rowsUpTo(10)
			db.takes = time.Second
			g := builtGuard(t, db, func(o *options) { o.Deletions = 0 })
			got := make(chan error)
			go func() { _, err := g.Get(t.Context(), 5); got <- err }()
			synctest.Wait()
			db.remove(5)
			require.NoError(t, g.MarkDeleted(t.Context(), 5))
			require.NoError(t, <-got, "it began before")
			synctest.Wait()
			time.Sleep(2 * g.opts.MissTTL)
			_, err := g.Get(t.Context(), 5)
			require.ErrorIs(t, err, ErrNotFound, "the old row is not in the cache")
		})
	})
}

// What was deleted before the scan leaves the set, what was deleted meanwhile stays.
func TestCase11_DeletionsAtASwap(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	db.remove(1)
	require.NoError(t, g.MarkDeleted(t.Context(), 1))
	_, err := g.Rebuild(t.Context(), func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		rows := db.scan(ctx, since)
		db.remove(2)
		require.NoError(t, g.MarkDeleted(ctx, 2))
		return rows
	}, RebuildOptions[int]{})
	require.NoError(t, err)
	require.Equal(t, 1, g.Stats().Deletions)
	require.Equal(t, Absent, g.Check(t.Context(), 1), "it is not in the new filter")
	require.Equal(t, Absent, g.Check(t.Context(), 2), "it is in the new filter, and in the set")
	gen, _ := g.filters.Load()
	require.False(t, gen.contains(g.keys.digest(1)))
	require.True(t, gen.contains(g.keys.digest(2)))
	require.Equal(t, Maybe, g.Check(t.Context(), 3))
}

// The threshold is items over capacity, told once a filter.
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

// Stale writes in random order: whatever is deleted and created, a row that exists is found.
func TestDeletionsModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	db := newDatabase()
	g := builtGuard(t, db, func(o *options) { o.Deletions, o.Settle = 20, time.Millisecond })
	for range 20_000 {
		k := r.IntN(60)
		_, exists := db.read(k)
		switch op := r.IntN(100); {
		case op < 30 && !exists:
			require.NoError(t, g.Create(t.Context(), []int{k}, func(context.Context) error { db.insert(k); return nil }))
		case op < 60 && exists:
			db.remove(k)
			require.NoError(t, g.MarkDeleted(t.Context(), k))
		case op == 60:
			_, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{MinKeep: -1})
			require.NoError(t, err)
		default:
			v, err := g.Get(t.Context(), k)
			if exists {
				require.NoError(t, err)
				require.Equal(t, valueOf(k), v)
			} else {
				require.ErrorIs(t, err, ErrNotFound)
			}
		}
	}
}
