package rolling

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// list is a filter that is exact and says what it was given.
type list struct {
	mu   sync.Mutex
	keys []string
}

func (l *list) add(key string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys = append(l.keys, key)
	return nil
}

func adds(key string) func(*list) error { return func(l *list) error { return l.add(key) } }

func nothing(context.Context) error { return nil }

func TestZeroSwap(t *testing.T) {
	var s Swap[*list]
	_, ok := s.Load()
	require.False(t, ok)
	require.NoError(t, s.Write(func(*list) error { return errors.New("called") }))
	s.Drop()
	_, ok = s.Load()
	require.False(t, ok)
	require.False(t, s.Rebuilding())

	next := new(list)
	require.NoError(t, s.Rebuild(t.Context(), next, func(context.Context) error {
		require.True(t, s.Rebuilding())
		_, ok := s.Load()
		require.False(t, ok, "a standby is not asked")
		return s.Write(adds("a"))
	}))
	got, ok := s.Load()
	require.True(t, ok)
	require.Same(t, next, got)
	require.Equal(t, []string{"a"}, next.keys)
}

func TestSwapWritesToBoth(t *testing.T) {
	old, next := new(list), new(list)
	s := NewSwap(old)
	require.NoError(t, s.Write(adds("before")))
	require.NoError(t, s.Rebuild(t.Context(), next, func(context.Context) error {
		require.NoError(t, s.Write(adds("during")))
		got, _ := s.Load()
		require.Same(t, old, got)
		return nil
	}))
	require.NoError(t, s.Write(adds("after")))
	require.Equal(t, []string{"before", "during"}, old.keys)
	require.Equal(t, []string{"during", "after"}, next.keys)
}

// A writer that is paused between its look at the state and its add is waited for.
func TestSwapWaitsForPausedWriter(t *testing.T) {
	s := NewSwap(new(list))
	inside, resume := make(chan bool), make(chan bool)
	go s.Write(func(*list) error {
		close(inside)
		<-resume
		return nil
	})
	<-inside
	var opened atomic.Bool
	done := make(chan error)
	go func() {
		done <- s.Rebuild(context.Background(), new(list), func(context.Context) error {
			opened.Store(true)
			return nil
		})
	}()
	for !s.Rebuilding() {
		runtime.Gosched()
	}
	// The rebuild stands before the lock, or will: the scan cannot have been opened.
	for range 100 {
		runtime.Gosched()
		_, ok := s.Load()
		require.True(t, ok, "readers do not wait")
		require.False(t, opened.Load(), "the scan was opened while a writer did not know of the standby")
	}
	close(resume)
	require.NoError(t, <-done)
	require.True(t, opened.Load())
}

func TestSwapOneRebuildAtATime(t *testing.T) {
	s := NewSwap(new(list))
	next := new(list)
	require.NoError(t, s.Rebuild(t.Context(), next, func(ctx context.Context) error {
		require.Equal(t, ErrRebuilding, s.Rebuild(ctx, new(list), func(context.Context) error { panic("filled") }))
		return s.Write(adds("a"))
	}))
	got, _ := s.Load()
	require.Same(t, next, got)
	require.Equal(t, []string{"a"}, next.keys, "the first rebuild is untouched")
}

func TestSwapRebuildFails(t *testing.T) {
	boom := errors.New("boom")
	for name, tt := range map[string]struct {
		fill  func(s *Swap[*list], next *list) error
		want  error
		panic bool
	}{
		"error": {fill: func(*Swap[*list], *list) error { return boom }, want: boom},
		"panic": {fill: func(*Swap[*list], *list) error { panic(boom) }, panic: true},
		"a write that the standby refuses": {
			fill: func(s *Swap[*list], next *list) error {
				return s.Write(func(l *list) error {
					if l == next {
						return boom
					}
					return nil
				})
			}, want: boom},
		"a write that panics in the standby": {
			fill: func(s *Swap[*list], next *list) error {
				defer func() { _ = recover() }()
				return s.Write(func(l *list) error {
					if l == next {
						panic(boom)
					}
					return nil
				})
			}, want: errPanicked},
		"a write that panics in the active filter": {
			fill: func(s *Swap[*list], next *list) error {
				defer func() { _ = recover() }()
				return s.Write(func(*list) error { panic(boom) })
			}, want: errPanicked},
	} {
		t.Run(name, func(t *testing.T) {
			old, next := new(list), new(list)
			s := NewSwap(old)
			rebuild := func() error {
				return s.Rebuild(t.Context(), next, func(context.Context) error { return tt.fill(s, next) })
			}
			if tt.panic {
				require.PanicsWithValue(t, boom, func() { _ = rebuild() })
			} else {
				require.Equal(t, tt.want, rebuild())
			}
			got, ok := s.Load()
			require.True(t, ok)
			require.Same(t, old, got)
			require.False(t, s.Rebuilding())
			require.NoError(t, s.Write(adds("later")))
			require.NotContains(t, next.keys, "later", "the standby is dropped")
			require.NoError(t, s.Rebuild(t.Context(), next, nothing), "and another rebuild may begin")
		})
	}
}

func TestSwapErrorOfTheActiveFilter(t *testing.T) {
	boom := errors.New("boom")
	old, next := new(list), new(list)
	s := NewSwap(old)
	require.NoError(t, s.Rebuild(t.Context(), next, func(context.Context) error {
		require.Equal(t, boom, s.Write(func(l *list) error {
			if l == old {
				return boom
			}
			return l.add("a")
		}))
		return nil
	}))
	require.Equal(t, []string{"a"}, next.keys, "the standby gets what the active filter refuses")
}

func TestSwapDrop(t *testing.T) {
	s := NewSwap(new(list))
	err := s.Rebuild(t.Context(), new(list), func(ctx context.Context) error {
		s.Drop()
		require.Equal(t, ErrDropped, context.Cause(ctx))
		_, ok := s.Load()
		require.False(t, ok)
		return s.Write(func(*list) error { return errors.New("called") })
	})
	require.Equal(t, ErrDropped, err)
	_, ok := s.Load()
	require.False(t, ok)
	require.NoError(t, s.Rebuild(t.Context(), new(list), nothing))
}

// Writers commit rows and then add them; each rebuild scans what is committed. Whatever the
// order, no committed and added key may ever be missing from the active filter.
func TestSwapLosesNothing(t *testing.T) {
	const writers, rebuilds, perWriter = 8, 5, 2500
	newFilter := func() *bloom.Concurrent {
		return bloom.Must(bloom.NewConcurrent(writers*perWriter, 1e-9))
	}
	s := NewSwap(newFilter())
	var mu sync.Mutex
	var committed []uint64
	var wg sync.WaitGroup
	var lost atomic.Int64
	var written atomic.Int64
	for w := range writers {
		wg.Go(func() {
			for i := range perWriter {
				key := uint64(w*perWriter + i)
				mu.Lock()
				committed = append(committed, key)
				mu.Unlock()
				_ = s.Write(func(f *bloom.Concurrent) error { f.AddUint64(key); return nil })
				written.Add(1)
				if f, _ := s.Load(); !f.ContainsUint64(key) {
					lost.Add(1)
				}
			}
		})
	}
	for i := range rebuilds {
		for written.Load() < int64(i*writers*perWriter/rebuilds) {
			runtime.Gosched()
		}
		next := newFilter()
		require.NoError(t, s.Rebuild(t.Context(), next, func(context.Context) error {
			mu.Lock()
			snapshot := committed[:len(committed):len(committed)]
			mu.Unlock()
			for _, key := range snapshot {
				next.AddUint64(key)
			}
			return nil
		}))
	}
	wg.Wait()
	require.Zero(t, lost.Load(), "missing right after the write")
	f, _ := s.Load()
	for key := range uint64(writers * perWriter) {
		require.True(t, f.ContainsUint64(key), "lost %d", key)
	}
}

func TestSwapAllocations(t *testing.T) {
	s := NewSwap(bloom.Must(bloom.NewConcurrent(1000, 0.01)))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if f, ok := s.Load(); !ok || f.ContainsUint64(1) {
			t.Fatal("found")
		}
	}))
	key := uint64(1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		key += 2
		_ = s.Write(func(f *bloom.Concurrent) error { f.AddUint64(key); return nil })
	}))
}

func newOverlay(limit int, ttl time.Duration) *Overlay[string, *bloom.Concurrent] {
	o := NewOverlay[string, *bloom.Concurrent](limit, ttl)
	f := bloom.Must(bloom.NewConcurrent(1000, 1e-9))
	if err := o.Rebuild(context.Background(), f, nothing); err != nil {
		panic(err)
	}
	return o
}

func addTo(o *Overlay[string, *bloom.Concurrent], key string) {
	_ = o.Add(key, func(f *bloom.Concurrent) error { f.AddString(key); return nil })
}

func has(o *Overlay[string, *bloom.Concurrent], key string) bool {
	return o.Contains(key, func(f *bloom.Concurrent) bool { return f.ContainsString(key) })
}

func TestOverlay(t *testing.T) {
	o := newOverlay(2, 0)
	for _, key := range []string{"a", "b", "c"} {
		addTo(o, key)
		require.True(t, has(o, key))
	}
	require.False(t, has(o, "absent"))
	require.True(t, o.Delete("a"))
	require.True(t, o.Delete("a"), "again")
	require.True(t, o.Delete("never added"))
	require.False(t, has(o, "a"))
	require.True(t, has(o, "b"))
	require.False(t, o.Delete("c"), "no room")
	require.True(t, has(o, "c"))
	require.True(t, o.Delete("a"), "what is in it needs no room")
	require.Equal(t, 2, o.Deletions())

	addTo(o, "a")
	require.True(t, has(o, "a"))
	require.True(t, o.Delete("c"), "there is room again")
	require.False(t, has(o, "c"))
}

func TestOverlayWithoutFilter(t *testing.T) {
	o := NewOverlay[string, *bloom.Concurrent](10, 0)
	require.True(t, has(o, "anything"))
	require.True(t, o.Delete("gone"))
	require.False(t, has(o, "gone"))
	require.False(t, NewOverlay[string, *bloom.Concurrent](-1, 0).Delete("a"))
}

func TestOverlayRebuildMerges(t *testing.T) {
	o := newOverlay(10, 0)
	for _, key := range []string{"before", "during", "back", "stays"} {
		addTo(o, key)
	}
	o.Delete("before")
	next := bloom.Must(bloom.NewConcurrent(1000, 1e-9))
	require.NoError(t, o.Rebuild(t.Context(), next, func(context.Context) error {
		for _, key := range []string{"during", "back", "stays"} { // rows that the scan sees
			next.AddString(key)
		}
		o.Delete("during")
		o.Delete("back")
		addTo(o, "back")
		return nil
	}))
	require.Equal(t, 1, o.Deletions(), "the deletion from before the scan has left")
	require.False(t, has(o, "before"))
	require.False(t, has(o, "during"), "the one made meanwhile has not")
	require.True(t, has(o, "back"))
	require.True(t, has(o, "stays"))

	o.Delete("stays")
	require.Error(t, o.Rebuild(t.Context(), next, func(context.Context) error { return errors.New("boom") }))
	require.False(t, has(o, "stays"), "a rebuild that fails merges nothing")
}

func TestOverlayExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(2, time.Minute)
		addTo(o, "a")
		addTo(o, "b")
		addTo(o, "c")
		o.Delete("a")
		time.Sleep(59 * time.Second)
		require.False(t, has(o, "a"))
		o.Delete("b")
		require.False(t, o.Delete("c"), "no room")
		time.Sleep(time.Second)
		require.True(t, has(o, "a"))
		require.False(t, has(o, "b"))
		require.True(t, o.Delete("c"), "the room of an expired one")
		require.False(t, has(o, "c"))
		require.Equal(t, 2, o.Deletions())
		time.Sleep(time.Hour)
		require.True(t, has(o, "b") && has(o, "c"))
	})
}

func TestOverlayForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(1, math.MaxInt64)
		addTo(o, "a")
		time.Sleep(time.Hour)
		o.Delete("a")
		require.False(t, has(o, "a"))
		require.False(t, o.Delete("b"), "no room")
		require.False(t, has(o, "a"))
	})
}

// Such a key could not be taken out of the set again, and its room neither.
func TestOverlayKeyThatIsNotItself(t *testing.T) {
	o := NewOverlay[float64, *bloom.Concurrent](1, 0)
	require.False(t, o.Delete(math.NaN()))
	require.Zero(t, o.Deletions())
	require.True(t, o.Delete(1))
}

func TestOverlayInParallel(t *testing.T) {
	o := newOverlay(1000, 0)
	var rows [4]atomic.Bool
	var wg sync.WaitGroup
	for w := range rows {
		wg.Go(func() {
			key := string(rune('a' + w))
			for range 500 {
				rows[w].Store(true)
				addTo(o, key)
				if !has(o, key) {
					t.Error("added and not found")
				}
				rows[w].Store(false)
				o.Delete(key)
				if has(o, key) {
					t.Error("deleted and found")
				}
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			next := bloom.Must(bloom.NewConcurrent(1000, 1e-9))
			if err := o.Rebuild(t.Context(), next, func(context.Context) error {
				for w := range rows {
					if rows[w].Load() {
						next.AddString(string(rune('a' + w)))
					}
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}
