package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redbloom-go/bloom"
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

// measure loads the rows into a database in a temporary directory and the keys
// into the filter, and sends the same traffic through both lookup paths.
func measure(ctx context.Context, cfg config, data *dataset, filter *bloom.Filter, bars progress) (rep report, err error) {
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
	for _, r := range data.rows {
		filter.AddString(r.key)
	}

	rep = report{cfg: cfg, data: data, filter: filter, cacheSize: max(16, len(data.rows)/10)}
	for _, pass := range []struct {
		name   string
		filter *bloom.Filter
		out    *tally
	}{
		{"lookups without filter", nil, &rep.without},
		{"lookups with filter", filter, &rep.with},
	} {
		g, err := newGuard(pass.filter, db, rep.cacheSize)
		if err != nil {
			return report{}, err
		}
		bar := bars.start(pass.name, cfg.lookups)
		*pass.out, err = drive(ctx, g, newTraffic(data, cfg.absent, cfg.seed), cfg.lookups, bar.add)
		bar.stop()
		if err != nil {
			return report{}, fmt.Errorf("%s: %w", pass.name, err)
		}
	}
	rep.denied = deniedRows(filter, data)
	rep.rejectTime, err = timeRejections(ctx, &guard{filter: filter}, newTraffic(data, 1, cfg.seed))
	return rep, err
}

// drive sends n lookups through g and checks each answer against the truth.
func drive(ctx context.Context, g *guard, t *traffic, n int, step func(n int)) (tally, error) {
	var sum tally
	before := g.db.queries
	buffer := make([]lookup, min(n, batchSize))
	for sum.lookups < n {
		if err := ctx.Err(); err != nil {
			return tally{}, err
		}
		batch := buffer[:min(n-sum.lookups, len(buffer))]
		t.fill(batch)
		start := time.Now()
		for _, l := range batch {
			value, found, from, err := g.get(l.key)
			if err != nil {
				return tally{}, err
			}
			sum.count(t.data, l, value, found, from)
		}
		sum.elapsed += time.Since(start)
		step(len(batch))
	}
	sum.queries = g.db.queries - before
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
func deniedRows(filter *bloom.Filter, data *dataset) []string {
	var denied []string
	for _, r := range data.rows {
		if !filter.ContainsString(r.key) {
			denied = append(denied, r.key)
		}
	}
	return denied
}

// timeRejections returns the mean time of a lookup that the filter rejects, or
// 0 if the filter rejects nothing. The keys are made before the clock starts.
func timeRejections(ctx context.Context, g *guard, absent *traffic) (time.Duration, error) {
	const (
		attempts = 1 << 16 // a filter with p near 1 rejects hardly anything
		keys     = 1 << 14
		atLeast  = 100 * time.Millisecond // millions of calls
	)
	var rejected []string
	for range attempts {
		if key := absent.absentKey(); !g.filter.ContainsString(key) {
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
			if _, _, from, _ := g.get(key); from != fromFilter {
				return 0, fmt.Errorf("the filter rejected %.100q once, but not twice", key)
			}
		}
		calls += len(rejected)
	}
	return time.Since(start) / time.Duration(calls), nil
}
