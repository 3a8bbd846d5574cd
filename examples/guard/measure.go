package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redbloom-go/bloom/guard"
)

// batchSize is the number of rows or lookups between two looks at the context
// and the progress bar.
const batchSize = 4096

// tally counts what happened to the lookups of one pass.
type tally struct {
	lookups       int
	answers       [sources]int
	queries       int // that reached the database, counted there
	absent        int // lookups of keys without a row
	absentQueries int // of these, the ones the database had to answer
	wrong         int
	firstWrong    string
	elapsed       time.Duration // in lookups only, not in making their keys
}

// measure loads the rows into a database in a temporary directory, sends the same traffic through
// a guard without a filter and with one, and rebuilds that under load.
func measure(ctx context.Context, cfg config, data *dataset, bars progress) (rep report, err error) {
	dir, err := os.MkdirTemp("", "bloom-guard-")
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	db, err := openDatabase(ctx, filepath.Join(dir, "rows.db"))
	if err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	bar := bars.start("loading the database", len(data.rows))
	err = db.load(ctx, data.rows, bar.add)
	bar.stop()
	if err != nil {
		return report{}, fmt.Errorf("load the database: %w", err)
	}
	keys, err := db.keys()
	if err != nil {
		return report{}, err
	}
	rep = report{cfg: cfg, data: data, cacheSize: max(16, len(data.rows)/10)}
	pass := func(name string, filtered bool, out *tally) (*stack, error) {
		s, err := newStack(db, uint64(len(data.rows)), cfg.rate, rep.cacheSize)
		if err != nil {
			return nil, err
		}
		if filtered {
			if _, err := s.guard.Rebuild(ctx, keys, guard.RebuildOptions[string]{}); err != nil {
				return s, fmt.Errorf("build the filter: %w", err)
			}
		}
		bar := bars.start(name, cfg.lookups)
		defer bar.stop()
		if *out, err = drive(ctx, s, newTraffic(data, cfg.absent, cfg.seed), cfg.lookups, bar.add); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return s, err
	}
	s, err := pass("lookups without filter", false, &rep.without)
	if s != nil {
		s.cache.Close()
	}
	if err != nil {
		return report{}, err
	}
	s, err = pass("lookups with filter", true, &rep.with)
	if s != nil {
		defer s.cache.Close()
	}
	if err != nil {
		return report{}, err
	}
	rep.stats = s.guard.Stats()
	rep.denied = deniedRows(ctx, s.guard, data)
	if rep.rejectTime, err = timeRejections(ctx, s.guard, newTraffic(data, 1, cfg.seed)); err != nil {
		return report{}, err
	}
	bar = bars.start("rebuilds under load", rebuilds)
	rep.rebuilds, err = rebuildUnderLoad(ctx, s, data, cfg, keys, bar.add)
	bar.stop()
	return rep, err
}

// drive sends n lookups through st and checks each answer against the truth.
func drive(ctx context.Context, st *stack, t *traffic, n int, step func(n int)) (tally, error) {
	var sum tally
	before := st.db.queries.Load()
	buffer := make([]lookup, min(n, batchSize))
	for sum.lookups < n {
		if err := ctx.Err(); err != nil {
			return tally{}, err
		}
		batch := buffer[:min(n-sum.lookups, len(buffer))]
		t.fill(batch)
		start := time.Now()
		for _, l := range batch {
			value, found, from, err := st.get(ctx, l.key)
			if err != nil {
				return tally{}, err
			}
			sum.count(t.data, l, value, found, from)
		}
		sum.elapsed += time.Since(start)
		step(len(batch))
	}
	sum.queries = int(st.db.queries.Load() - before)
	return sum, nil
}

func (s *tally) count(data *dataset, l lookup, value string, found bool, from source) {
	s.lookups++
	s.answers[from]++
	if l.row == absentRow {
		s.absent++
		if from == fromDatabase {
			s.absentQueries++
		}
		if found {
			s.blame("absent key %.100q was found", l.key)
		}
		return
	}
	switch {
	case !found:
		s.blame("existing key %.100q was called absent", l.key)
	case value != data.rows[l.row].value:
		s.blame("key %.100q has the value %q, got %.100q", l.key, data.rows[l.row].value, value)
	}
}

func (s *tally) blame(format string, args ...any) {
	if s.wrong == 0 {
		s.firstWrong = fmt.Sprintf(format, args...)
	}
	s.wrong++
}

// deniedRows asks the filter for every row, because the traffic may leave some
// out, and returns the keys it denies. There must be none.
func deniedRows(ctx context.Context, g *guard.Guard[string, string], data *dataset) []string {
	var denied []string
	for _, r := range data.rows {
		if g.Check(ctx, r.key) == guard.Absent {
			denied = append(denied, r.key)
		}
	}
	return denied
}

// timeRejections returns the mean time of a lookup that the filter rejects, or
// 0 if the filter rejects nothing. The keys are made before the clock starts.
func timeRejections(ctx context.Context, g *guard.Guard[string, string], absent *traffic) (time.Duration, error) {
	const (
		attempts = 1 << 16 // a filter with p near 1 rejects hardly anything
		keys     = 1 << 14
		atLeast  = 100 * time.Millisecond // millions of calls
	)
	var rejected []string
	for range attempts {
		if key := absent.absentKey(); g.Check(ctx, key) == guard.Absent {
			rejected = append(rejected, key)
		}
		if len(rejected) == keys {
			break
		}
	}
	if len(rejected) == 0 {
		return 0, nil
	}
	calls, start := 0, time.Now()
	for time.Since(start) < atLeast {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		for _, key := range rejected {
			if _, err := g.Get(ctx, key); err != guard.ErrAbsent {
				return 0, fmt.Errorf("the filter rejected %.100q once, but not twice", key)
			}
		}
		calls += len(rejected)
	}
	return time.Since(start) / time.Duration(calls), nil
}
