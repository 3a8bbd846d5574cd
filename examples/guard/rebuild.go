package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom/guard"
)

// rebuilds is how often the filter is replaced under load.
const rebuilds = 3

// rebuildReport is what happened while the filter was rebuilt.
type rebuildReport struct {
	times    int
	scanned  uint64 // keys, all together
	took     time.Duration
	lookups  int
	created  int // rows
	lost     int // of these, the ones that the last filter does not have
	wrong    int // lookups of rows that exist and were called absent, or had another value
	firstBad string
}

// rebuildUnderLoad rebuilds the filter again and again, while one goroutine looks keys up and another one
// creates rows, and looks each of them up at once.
func rebuildUnderLoad(ctx context.Context, s *stack, data *dataset, cfg config, keys guard.Scan[string], step func(n int)) (rebuildReport, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var rep rebuildReport
	var done atomic.Bool
	var wg sync.WaitGroup
	errs := make([]error, 3)
	run := func(i int, f func() error) {
		wg.Go(func() {
			if errs[i] = f(); errs[i] != nil {
				cancel()
			}
		})
	}
	var created []row
	var sum tally // of the reader; from where its answers come nobody can tell here
	run(0, func() error {
		defer done.Store(true)
		for range rebuilds {
			r, err := s.guard.Rebuild(ctx, keys, guard.RebuildOptions[string]{})
			if err != nil {
				return fmt.Errorf("rebuild: %w", err)
			}
			rep.times++
			rep.scanned += r.Scanned
			rep.took += r.Took
			step(1)
		}
		return nil
	})
	run(1, func() error {
		t := newTraffic(data, cfg.absent, cfg.seed+1)
		batch := make([]lookup, 256)
		for !done.Load() {
			t.fill(batch)
			for _, l := range batch {
				value, err := s.guard.Get(ctx, l.key)
				if err != nil && !errors.Is(err, guard.ErrNotFound) {
					return err
				}
				sum.count(data, l, value, err == nil, fromCache)
			}
		}
		return nil
	})
	bad := ""
	run(2, func() error {
		for n := 0; !done.Load(); n++ {
			r := row{fmt.Sprintf("a row created under load, number %d", n), fmt.Sprint("value ", n)}
			if _, exists := data.index[r.key]; exists {
				continue
			}
			if err := s.guard.Create(ctx, []string{r.key}, func(ctx context.Context) error { return s.db.insert(ctx, r) }); err != nil {
				return err
			}
			created = append(created, r)
			if value, err := s.guard.Get(ctx, r.key); errors.Is(err, guard.ErrNotFound) || err == nil && value != r.value {
				bad = fmt.Sprintf("%q was created and has the value %q, %v", r.key, value, err)
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	wg.Wait()
	rep.lookups, rep.wrong, rep.firstBad = sum.lookups+len(created), sum.wrong, sum.firstWrong
	if bad != "" {
		rep.wrong++
		rep.firstBad = bad
	}
	rep.created = len(created)
	for _, r := range created {
		if s.guard.Check(ctx, r.key) == guard.Absent {
			rep.lost++
			rep.firstBad = fmt.Sprintf("%q was created and is not in the filter", r.key)
		}
	}
	return rep, errors.Join(errs...)
}
