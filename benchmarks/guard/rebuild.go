package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"github.com/redbloom-go/bloom/guard"
	"golang.org/x/perf/benchfmt"
)

// rebuilds measures lookups before, during and after a filter is replaced, with one write for nine
// lookups: by a guard's Rebuild; with the filter off meanwhile, as where there is none that can be replaced; and
// with a filter that is emptied and filled again.
func (p plan) rebuilds(w *record.Writer) error {
	for i := range p.repeats {
		w.Say("rebuild %d of %d", i+1, p.repeats)
		ways := []string{"guard"}
		if i == 0 { // what is wrong with the others shows in one run
			ways = append(ways, "off", "refill")
		}
		for _, way := range ways {
			runtime.GC()
			if err := p.rebuild(w, way, i); err != nil {
				return fmt.Errorf("%s: %w", way, err)
			}
		}
	}
	return nil
}

// table has the rows 0, 2, 4, … in it. Some are there from the beginning, the others come meanwhile.
type table struct {
	rows atomic.Int64
	database[int64]
}

func newTable(n int) *table {
	t := new(table)
	t.rows.Store(int64(n))
	t.exists = func(k int64) bool { return k%2 == 0 && k/2 < t.rows.Load() }
	return t
}

// scan gives the rows that are there when it is called, and no later ones.
func (t *table) scan(ctx context.Context, since time.Time) iter.Seq2[int64, error] {
	return evens(int(t.rows.Load()), integer)(ctx, since)
}

// subject is what is looked up in while it is rebuilt.
type subject struct {
	get     func(k int64) (found bool, err error)
	check   func(k int64) (absent bool) // what the filter says alone
	create  func(k int64, commit func()) error
	rebuild func() error
	filter  uint64 // bytes
}

// hotInRebuild is how many rows are read again and again.
const hotInRebuild = 1000

// hotKey is one of them: they lie all over the table.
func (p plan) hotKey(i int) int64 { return int64(2 * (i * (p.rebuilt / hotInRebuild))) }

func (p plan) rebuild(w *record.Writer, way string, run int) error {
	t := newTable(p.rebuilt)
	s, err := p.subject(way, t)
	if err != nil {
		return err
	}
	t.delay = sleep(2 * time.Millisecond)
	heap := watchHeap()
	defer heap.stop()
	runtime.GC()
	var phase atomic.Int32
	phases := [...]string{"before", "during", "after"}
	traffic := &traffic{s: s, t: t, hotKey: p.hotKey, window: p.around / 10}
	done := make(chan error, 1)
	began := time.Now()
	go func() { done <- traffic.run(&phase) }()

	time.Sleep(p.around)
	before := heap.reset()
	phase.Store(1)
	start := time.Now()
	if err := s.rebuild(); err != nil {
		return err
	}
	took := time.Since(start)
	peak := heap.reset()
	phase.Store(2)
	time.Sleep(p.around)
	phase.Store(int32(len(phases)))
	if err := <-done; err != nil {
		return err
	}

	lost := 0
	for k := range t.rows.Load() {
		if s.check(2 * k) {
			lost++
		}
	}
	for i, name := range phases {
		h := &traffic.phases[i]
		for answer, times := range map[string]*histogram{"rejected": &h.rejected, "row": &h.rows} {
			w.Record(fmt.Sprintf("Rebuild/impl=%s/n=%s/phase=%s/answer=%s", way, short(p.rebuilt), name, answer), int(max(1, times.n)),
				benchfmt.Value{Value: float64(times.quantile(0.5)), Unit: "p50-ns"},
				benchfmt.Value{Value: float64(times.quantile(0.99)), Unit: "p99-ns"},
				benchfmt.Value{Value: float64(times.quantile(0.999)), Unit: "p999-ns"},
				benchfmt.Value{Value: float64(times.max), Unit: "max-ns"})
		}
		w.Record(fmt.Sprintf("Traffic/impl=%s/n=%s/phase=%s", way, short(p.rebuilt), name), int(max(1, h.lookups)),
			benchfmt.Value{Value: float64(h.lookups), Unit: "lookups"},
			benchfmt.Value{Value: float64(h.writes), Unit: "writes"},
			benchfmt.Value{Value: float64(h.queries), Unit: "queries"},
			benchfmt.Value{Value: float64(h.wrong), Unit: "wrong-absent"})
	}
	for i := range traffic.windows {
		if h := &traffic.windows[i]; h.n > 0 {
			at := time.Duration(i)*traffic.window - start.Sub(began)
			w.Record(fmt.Sprintf("Window/impl=%s/run=%d/ms=%d", way, run, at.Milliseconds()), int(h.n),
				benchfmt.Value{Value: float64(h.quantile(0.99)), Unit: "p99-ns"})
		}
	}
	w.Record(fmt.Sprintf("Rebuilt/impl=%s/n=%s", way, short(p.rebuilt)), p.rebuilt,
		benchfmt.Value{Value: float64(p.rebuilt) / took.Seconds(), Unit: "keys/s"},
		benchfmt.Value{Value: took.Seconds() * 1000, Unit: "ms"},
		benchfmt.Value{Value: float64(s.filter) / 1e6, Unit: "filter-MB"},
		benchfmt.Value{Value: before / 1e6, Unit: "heap-before-MB"},
		benchfmt.Value{Value: peak / 1e6, Unit: "heap-peak-MB"},
		benchfmt.Value{Value: float64(lost), Unit: "lost-keys"})
	return nil
}

// subject makes a filter of the rows of t and a cache that has the hot ones. It is made for 0.1 %, so
// that few lookups wait for the database, and is 0.8 full.
func (p plan) subject(way string, t *table) (subject, error) {
	ctx := context.Background()
	const rate = 0.001
	capacity := uint64(p.rebuilt) * 5 / 4
	if way == "refill" {
		f, err := bloom.NewConcurrent(capacity, rate, bloom.WithScheme(bloom.SipHash), bloom.WithKey(secret))
		if err != nil {
			return subject{}, err
		}
		fill := func() error {
			for k := range t.scan(ctx, time.Time{}) {
				f.AddUint64(uint64(k))
			}
			return nil
		}
		return subject{
			get: func(k int64) (bool, error) {
				if !f.ContainsUint64(uint64(k)) {
					return false, nil
				}
				if k%2 == 0 { // in a cache, say
					return true, nil
				}
				_, found, err := t.query(ctx, k)
				return found, err
			},
			check: func(k int64) bool { return !f.ContainsUint64(uint64(k)) },
			create: func(k int64, commit func()) error {
				commit()
				f.AddUint64(uint64(k))
				return nil
			},
			rebuild: func() error { f.Reset(); return fill() },
			filter:  f.SizeBytes(),
		}, fill()
	}
	d, g, err := behindGuard("guard", &t.database, slots, guard.Options[int64, string]{Capacity: capacity, ErrorRate: rate, Key: secret}, t.scan)
	if err != nil {
		return subject{}, err
	}
	for range 2 {
		for i := range hotInRebuild {
			if _, err := g.Get(ctx, p.hotKey(i)); err != nil {
				return subject{}, err
			}
		}
		time.Sleep(10 * time.Millisecond) // what is stored in the background
	}
	s := subject{
		get:   func(k int64) (bool, error) { return d.get(ctx, k) },
		check: func(k int64) bool { return g.Check(ctx, k) == guard.Absent },
		create: func(k int64, commit func()) error {
			return g.Create(ctx, []int64{k}, func(context.Context) error { commit(); return nil })
		},
		rebuild: func() error {
			_, err := g.Rebuild(ctx, t.scan, guard.RebuildOptions[int64]{Capacity: capacity})
			return err
		},
		filter: g.Stats().SizeBytes,
	}
	if way == "off" {
		replace := s.rebuild
		s.rebuild = func() error { g.Unload(); return replace() }
	}
	return s, nil
}

// traffic is one goroutine that looks up and writes.
type traffic struct {
	s      subject
	t      *table
	hotKey func(i int) int64
	phases [3]phaseOf

	window  time.Duration
	windows []histogram // of rejections, one after the other
}

type phaseOf struct {
	rejected, rows                  histogram
	lookups, writes, queries, wrong int64
}

// run goes on until phase is past the last one. Half of the lookups are of keys that do not exist.
func (tr *traffic) run(phase *atomic.Int32) error {
	random := rand.New(rand.NewPCG(3, 4))
	begin := time.Now()
	for {
		now := phase.Load()
		if now >= int32(len(tr.phases)) {
			return nil
		}
		h := &tr.phases[now]
		queries := tr.t.queries()
		for op := range 10 {
			switch {
			case op == 0:
				h.writes++
				k := 2 * tr.t.rows.Load()
				if err := tr.s.create(k, func() { tr.t.rows.Add(1) }); err != nil {
					return err
				}
				if tr.s.check(k) {
					h.wrong++
				}
			case op%2 == 0:
				k := tr.hotKey(random.IntN(hotInRebuild))
				found, took, err := tr.timed(k)
				if err != nil {
					return err
				}
				h.rows.add(took)
				if !found {
					h.wrong++
				}
			default:
				found, took, err := tr.timed(random.Int64() | 1)
				if err != nil {
					return err
				}
				if found {
					return errors.New("found what does not exist")
				}
				h.rejected.add(took)
				at := int(time.Since(begin) / tr.window)
				for at >= len(tr.windows) {
					tr.windows = append(tr.windows, histogram{})
				}
				tr.windows[at].add(took)
			}
		}
		h.lookups += 9
		h.queries += tr.t.queries() - queries
	}
}

func (tr *traffic) timed(k int64) (bool, time.Duration, error) {
	start := time.Now()
	found, err := tr.s.get(k)
	return found, time.Since(start), err
}

// heapWatch knows the most memory that objects in use took, as collections found it.
type heapWatch struct {
	mu   sync.Mutex
	most float64
	end  chan struct{}
}

func watchHeap() *heapWatch {
	h := &heapWatch{end: make(chan struct{})}
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				h.look()
			case <-h.end:
				return
			}
		}
	}()
	return h
}

func (h *heapWatch) look() {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most = max(h.most, float64(s[0].Value.Uint64()))
}

// reset returns the most since the last call.
func (h *heapWatch) reset() float64 {
	h.look()
	h.mu.Lock()
	defer h.mu.Unlock()
	most := h.most
	h.most = 0
	return most
}

func (h *heapWatch) stop() { close(h.end) }
