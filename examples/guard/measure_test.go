package main

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/stretchr/testify/require"
)

// stackOf is a stack over db, with a filter of the given rows unless they are nil.
func stackOf(t *testing.T, db *database, filtered []row) *stack {
	t.Helper()
	// The guard draws the key of its hash: a false positive of the keys that these tests ask for would come by chance.
	s, err := newStack(db, uint64(max(1, len(filtered))), 1e-12, 50)
	require.NoError(t, err)
	t.Cleanup(s.cache.Close)
	if filtered != nil {
		_, err := s.guard.Rebuild(t.Context(), scanOf(filtered), guard.RebuildOptions[string]{})
		require.NoError(t, err)
	}
	return s
}

func scanOf(rows []row) guard.Scan[string] {
	return func(context.Context, time.Time) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, r := range rows {
				if !yield(r.key, nil) {
					return
				}
			}
		}
	}
}

func numbered(t *testing.T, n int) *dataset {
	t.Helper()
	d := &dataset{source: "numbers", index: map[string]int{}}
	for i := range n {
		require.True(t, d.add("key-"+strconv.Itoa(i), "value "+strconv.Itoa(i)))
	}
	return d
}

func databaseOf(t *testing.T, rows []row) *database {
	t.Helper()
	db, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "rows.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	loaded := 0
	require.NoError(t, db.load(t.Context(), rows, func(n int) { loaded += n }))
	require.Equal(t, len(rows), loaded)
	return db
}

func TestGet(t *testing.T) {
	d := numbered(t, 100)
	db := databaseOf(t, d.rows)
	ask := func(s *stack, key string) (string, bool, source) {
		value, found, from, err := s.get(t.Context(), key)
		require.NoError(t, err)
		return value, found, from
	}
	for name, filtered := range map[string][]row{"without filter": nil, "with filter": d.rows} {
		t.Run(name, func(t *testing.T) {
			s := stackOf(t, db, filtered)
			before := db.queries.Load()

			value, found, from := ask(s, "key-7")
			require.Equal(t, "value 7", value)
			require.True(t, found)
			require.Equal(t, fromDatabase, from)

			value, found, from = ask(s, "key-7")
			require.Equal(t, "value 7", value)
			require.True(t, found)
			require.Equal(t, fromCache, from)
			require.EqualValues(t, 1, db.queries.Load()-before)

			for i := range 2 {
				value, found, from = ask(s, "key-100")
				require.Empty(t, value)
				require.False(t, found)
				switch {
				case filtered != nil:
					require.Equal(t, fromFilter, from)
				case i == 0:
					require.Equal(t, fromDatabase, from)
				default:
					require.Equal(t, fromCache, from, "it is remembered for some seconds")
				}
			}
		})
	}
}

func TestDatabaseErrors(t *testing.T) {
	_, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "missing", "rows.db"))
	require.Error(t, err)

	db := databaseOf(t, []row{{"a", "1"}})
	err = db.load(t.Context(), []row{{"b", "2"}, {"a", "3"}}, func(int) {})
	require.ErrorContains(t, err, "UNIQUE")
	value, err := db.Load(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "1", value)
	_, err = db.Load(t.Context(), "b")
	require.ErrorIs(t, err, guard.ErrNotFound)

	other, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "odd name? 100%.db"))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	s := stackOf(t, other, nil)
	_, _, _, err = s.get(t.Context(), "a")
	require.Error(t, err, "a closed database")
	_, err = drive(t.Context(), s, newTraffic(numbered(t, 3), 0, 1), 10, func(int) {})
	require.Error(t, err)
}

// A checker that cannot fail proves nothing: every fault must be noticed.
func TestFaultsAreNoticed(t *testing.T) {
	d := numbered(t, 50)
	hidden := "key-7"
	without := func(rows []row) []row {
		var kept []row
		for _, r := range rows {
			if r.key != hidden {
				kept = append(kept, r)
			}
		}
		return kept
	}
	more := append(without(d.rows), row{hidden, "another value"})
	absent := take(newTraffic(d, 1, 1), 1)[0].key // which the same traffic will ask for

	for _, tt := range []struct {
		name   string
		filter []row // nil for none
		rows   []row
		share  float64
		want   string
	}{
		{"the filter denies a row", without(d.rows), d.rows, 0, `existing key "key-7" was called absent`},
		{"the database lost a row", d.rows, without(d.rows), 0, `existing key "key-7" was called absent`},
		{"another row came back", nil, more, 0, `key "key-7" has the value "value 7", got "another value"`},
		{"a row out of nowhere", nil, []row{{absent, "x"}}, 1, "was found"},
		{"all is well", d.rows, d.rows, 0.5, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := stackOf(t, databaseOf(t, tt.rows), tt.filter)
			sum, err := drive(t.Context(), s, newTraffic(d, tt.share, 1), 2000, func(int) {})
			require.NoError(t, err)
			require.Equal(t, 2000, sum.lookups)
			if tt.want == "" {
				require.Zero(t, sum.wrong)
				require.Empty(t, sum.firstWrong)
				return
			}
			require.Positive(t, sum.wrong)
			require.Contains(t, sum.firstWrong, tt.want)
		})
	}
	db := databaseOf(t, d.rows)
	require.Equal(t, []string{hidden}, deniedRows(t.Context(), stackOf(t, db, without(d.rows)).guard, d))
	require.Empty(t, deniedRows(t.Context(), stackOf(t, db, d.rows).guard, d))
}

func TestRebuildUnderLoad(t *testing.T) {
	d := numbered(t, 500)
	d.add("a row created under load, number 1", "exists already")
	db := databaseOf(t, d.rows)
	cfg := config{absent: 0.5, seed: 1}
	keys, err := db.keys()
	require.NoError(t, err)
	s := stackOf(t, db, d.rows)
	steps := 0
	rep, err := rebuildUnderLoad(t.Context(), s, d, cfg, keys, func(n int) { steps += n })
	require.NoError(t, err)
	require.Equal(t, rebuilds, rep.times)
	require.Equal(t, rebuilds, steps)
	require.GreaterOrEqual(t, rep.scanned, uint64(rebuilds*len(d.rows)))
	require.Zero(t, rep.lost+rep.wrong, rep.firstBad)
	require.Empty(t, rep.firstBad)

	// What it looks for can be seen.
	forgetful := scanOf(d.rows[:400])
	rep, err = rebuildUnderLoad(t.Context(), stackOf(t, db, d.rows), d, cfg, forgetful, func(int) {})
	require.ErrorContains(t, err, "UNIQUE", "the rows of the last time are there")
	require.Empty(t, rep.created)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = rebuildUnderLoad(ctx, s, d, cfg, keys, func(int) {})
	require.ErrorIs(t, err, context.Canceled)
}

// A filter that lacks rows is noticed by the lookups under load.
func TestRebuildUnderLoadNoticesLostRows(t *testing.T) {
	d := numbered(t, 500)
	db := databaseOf(t, d.rows)
	s := stackOf(t, db, d.rows)
	scans := 0
	short := func(ctx context.Context, since time.Time) iter.Seq2[string, error] {
		for scans++; scans > 1 && s.guard.Stats().Rejected == 0; { // until a row was asked for that the last scan left out
			runtime.Gosched()
		}
		return scanOf(d.rows[:400])(ctx, since)
	}
	rep, err := rebuildUnderLoad(t.Context(), s, d, config{absent: 0, seed: 1}, short, func(int) {})
	require.NoError(t, err)
	require.Positive(t, rep.wrong+rep.lost)
	require.NotEmpty(t, rep.firstBad)
}

func TestTimeRejections(t *testing.T) {
	d := numbered(t, 50)
	db := databaseOf(t, d.rows)
	full := stackOf(t, db, d.rows).guard
	took, err := timeRejections(t.Context(), full, newTraffic(d, 1, 1))
	require.NoError(t, err)
	require.Positive(t, took)

	took, err = timeRejections(t.Context(), stackOf(t, db, nil).guard, newTraffic(d, 1, 1))
	require.NoError(t, err)
	require.Zero(t, took, "without a filter nothing is rejected")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = timeRejections(ctx, full, newTraffic(d, 1, 1))
	require.ErrorIs(t, err, context.Canceled)
}

// interrupter cancels when a bar with the given text is drawn.
type interrupter struct {
	screen bytes.Buffer
	text   string
	cancel func()
}

func (w *interrupter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.cancel()
	}
	return w.screen.Write(p)
}

func TestInterruptedAnywhere(t *testing.T) {
	cfg := config{lookups: 3 * batchSize, rate: 0.01, absent: 0.5, seed: 1}
	d := numbered(t, 3*batchSize)
	for _, step := range []string{"loading the database", "lookups without filter", "lookups with filter", "rebuilds under load"} {
		t.Run(step, func(t *testing.T) {
			tmp := watchTempDir(t)
			ctx, cancel := context.WithCancel(t.Context())
			w := &interrupter{text: step, cancel: cancel}
			_, err := measure(ctx, cfg, d, progress{w: w, visible: true})
			require.Error(t, err)
			require.Error(t, ctx.Err(), "the step was never shown")
			require.Empty(t, entries(t, tmp))
			require.True(t, strings.HasSuffix(w.screen.String(), "\r"), "the bar is still on the screen")
		})
	}
}

func TestProgressIsQuiet(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer file.Close()
	var buffer bytes.Buffer
	for _, p := range []progress{newProgress(file), newProgress(&buffer)} {
		require.False(t, p.visible)
		bar := p.start("step", 10)
		bar.add(5)
		bar.add(5)
		bar.stop()
	}
	require.Empty(t, buffer.String())
	info, err := file.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())
}
