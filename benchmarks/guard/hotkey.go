package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"github.com/redbloom-go/bloom/guard"
	"golang.org/x/perf/benchfmt"
)

// hotKeys measures what many callers of one key do to the database at the moment when it leaves
// the cache, what becomes of callers with a deadline shorter than a load, and what a mark takes.
func (p plan) hotKeys(w *record.Writer) error {
	for range p.rounds {
		if err := p.together(w, "Expiry", 2*time.Millisecond, 0); err != nil {
			return err
		}
	}
	for range max(1, p.rounds/4) {
		if err := p.together(w, "Deadline", 200*time.Millisecond, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return p.marks(w)
}

// together lets all callers ask for a row that no cache has, at once. With a deadline all but one in the
// middle have it.
func (p plan) together(w *record.Writer, name string, load, deadline time.Duration) error {
	makers := []func(*database[int64]) (defence[int64], error){
		func(db *database[int64]) (defence[int64], error) { return cacheOnly(db, slots), nil },
		func(db *database[int64]) (defence[int64], error) { return inOtter(db, slots) },
		func(db *database[int64]) (defence[int64], error) { return inHot(db, slots, slots), nil },
		func(db *database[int64]) (defence[int64], error) { return inSturdyc(db, slots, decimal), nil },
		func(db *database[int64]) (defence[int64], error) {
			d, _, err := behindGuard("guard", db, slots, guard.Options[int64, string]{Capacity: 1000}, evens(1000, integer))
			return d, err
		},
	}
	for _, make := range makers {
		db := &database[int64]{exists: func(int64) bool { return true }, delay: sleep(load)}
		d, err := make(db)
		if err != nil {
			return err
		}
		var (
			mu             sync.Mutex
			times          histogram
			answered       atomic.Int64
			patientFailed  atomic.Int64
			ready, started sync.WaitGroup
			all            sync.WaitGroup
		)
		started.Add(1)
		for i := range p.callers {
			ready.Add(1)
			all.Go(func() {
				ready.Done()
				started.Wait()
				ctx, patient := context.Background(), deadline == 0 || i == p.callers/2
				if !patient {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				begin := time.Now()
				found, err := d.get(ctx, 2)
				took := time.Since(begin)
				if err == nil && found {
					answered.Add(1)
				} else if patient {
					patientFailed.Add(1)
				}
				if !patient || deadline == 0 {
					mu.Lock()
					times.add(took)
					mu.Unlock()
				}
			})
		}
		ready.Wait()
		started.Done()
		all.Wait()
		if d.close != nil {
			d.close()
		}
		w.Record(fmt.Sprintf("%s/impl=%s/callers=%d", name, d.name, p.callers), p.callers,
			benchfmt.Value{Value: float64(db.queries()), Unit: "loads"},
			benchfmt.Value{Value: float64(times.quantile(0.5)) / 1e6, Unit: "p50-ms"},
			benchfmt.Value{Value: float64(times.quantile(0.99)) / 1e6, Unit: "p99-ms"},
			benchfmt.Value{Value: float64(answered.Load()), Unit: "answered"},
			benchfmt.Value{Value: float64(patientFailed.Load()), Unit: "patient-failed"})
	}
	return nil
}

// marks measures MarkCreated, without a load of the key under way and with one.
func (p plan) marks(w *record.Writer) error {
	ctx := context.Background()
	release := make(chan struct{})
	db := &database[int64]{exists: func(int64) bool { return true }}
	_, g, err := behindGuard("guard", db, slots, guard.Options[int64, string]{Capacity: 1e6, Key: secret}, evens(1e5, integer))
	if err != nil {
		return err
	}
	k := int64(0)
	for range p.count {
		s := record.Counted(func() (ops int, elapsed time.Duration) {
			start := time.Now()
			for ; time.Since(start) < p.time; ops++ {
				k = (k + 2) % 2e5
				if err = g.MarkCreated(ctx, k); err != nil {
					break
				}
			}
			return ops, time.Since(start)
		})
		if err != nil {
			return err
		}
		w.Record("MarkCreated/load=none", s.Ops, s.Values()...)
	}

	const flying = 256
	began := make(chan struct{}, flying)
	db.delay = func(ctx context.Context) error {
		began <- struct{}{}
		<-release
		return nil
	}
	for range p.count {
		release = make(chan struct{})
		var all sync.WaitGroup
		ks := make([]int64, flying)
		for i := range ks {
			k = (k + 2) % 2e5
			ks[i] = k
			all.Go(func() { _, _ = g.Get(ctx, ks[i]) })
			<-began
		}
		s := record.Counted(func() (int, time.Duration) {
			start := time.Now()
			for _, k := range ks {
				if err = g.MarkCreated(ctx, k); err != nil {
					break
				}
			}
			return flying, time.Since(start)
		})
		close(release)
		all.Wait()
		if err != nil {
			return err
		}
		w.Record("MarkCreated/load=under-way", s.Ops, s.Values()...)
	}
	return nil
}
