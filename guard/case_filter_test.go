package guard

import (
	"context"
	"iter"
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
// opening is s, with a call of f when it is opened.
// pages yields the first n keys again and again.
// A scan that reads a little in the past, or rows of another process: the journal and CatchUp.
// Readers are protected by the old filter for the whole of a rebuild, and a second one is refused.
// Deletions are exact, bounded, undone by a creation, and expire.
// What was deleted before the scan leaves the set, what was deleted meanwhile stays.
// The threshold is items over capacity, told once a filter.
// Stale writes in random order: whatever is deleted and created, a row that exists is found.
