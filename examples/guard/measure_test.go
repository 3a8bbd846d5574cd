package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

func filterOf(t *testing.T, rows []row) *bloom.Filter {
	t.Helper()
	filter, err := bloom.New(uint64(max(1, len(rows))), 0.001)
	require.NoError(t, err)
	for _, r := range rows {
		filter.AddString(r.key)
	}
	return filter
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
	ask := func(g *guard, key string) (string, bool, source) {
		value, found, from, err := g.get(key)
		require.NoError(t, err)
		return value, found, from
	}
	for name, filter := range map[string]*bloom.Filter{"without filter": nil, "with filter": filterOf(t, d.rows)} {
		t.Run(name, func(t *testing.T) {
			g, err := newGuard(filter, db, 50)
			require.NoError(t, err)
			before := db.queries

			value, found, from := ask(g, "key-7")
			require.Equal(t, "value 7", value)
			require.True(t, found)
			require.Equal(t, fromDatabase, from)

			value, found, from = ask(g, "key-7")
			require.Equal(t, "value 7", value)
			require.True(t, found)
			require.Equal(t, fromCache, from)
			require.Equal(t, 1, db.queries-before)

			// Asked twice on purpose: absent keys are not remembered.
			for range 2 {
				value, found, from = ask(g, "key-100")
				require.Empty(t, value)
				require.False(t, found)
				if filter == nil {
					require.Equal(t, fromDatabase, from)
				} else {
					require.Equal(t, fromFilter, from)
				}
			}
			if filter == nil {
				require.Equal(t, 3, db.queries-before)
			} else {
				require.Equal(t, 1, db.queries-before)
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
	value, found, err := db.find("a")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "1", value)

	other, err := openDatabase(t.Context(), filepath.Join(t.TempDir(), "odd name? 100%.db"))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	g, err := newGuard(nil, other, 16)
	require.NoError(t, err)
	_, _, _, err = g.get("a")
	require.Error(t, err, "a closed database")
	_, err = drive(t.Context(), g, newTraffic(numbered(t, 3), 0, 1), 10, func(int) {})
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
		filter *bloom.Filter
		rows   []row
		share  float64
		want   string
	}{
		{"the filter denies a row", filterOf(t, without(d.rows)), d.rows, 0, `existing key "key-7" was called absent`},
		{"the database lost a row", filterOf(t, d.rows), without(d.rows), 0, `existing key "key-7" was called absent`},
		{"another row came back", nil, more, 0, `key "key-7" has the value "value 7", got "another value"`},
		{"a row out of nowhere", nil, []row{{absent, "x"}}, 1, "was found"},
		{"all is well", filterOf(t, d.rows), d.rows, 0.5, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, err := newGuard(tt.filter, databaseOf(t, tt.rows), 16)
			require.NoError(t, err)
			sum, err := drive(t.Context(), g, newTraffic(d, tt.share, 1), 2000, func(int) {})
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
	require.Equal(t, []string{hidden}, deniedRows(filterOf(t, without(d.rows)), d))
	require.Empty(t, deniedRows(filterOf(t, d.rows), d))
}

func TestTimeRejections(t *testing.T) {
	d := numbered(t, 50)
	took, err := timeRejections(t.Context(), &guard{filter: filterOf(t, d.rows)}, newTraffic(d, 1, 1))
	require.NoError(t, err)
	require.Positive(t, took)

	full, err := bloom.New(1, 0.9)
	require.NoError(t, err)
	for i := range 10_000 {
		full.AddUint64(uint64(i))
	}
	took, err = timeRejections(t.Context(), &guard{filter: full}, newTraffic(d, 1, 1))
	require.NoError(t, err)
	require.Zero(t, took, "a full filter rejects nothing")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = timeRejections(ctx, &guard{filter: filterOf(t, d.rows)}, newTraffic(d, 1, 1))
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
	for _, step := range []string{"loading the database", "lookups without filter", "lookups with filter"} {
		t.Run(step, func(t *testing.T) {
			tmp := watchTempDir(t)
			ctx, cancel := context.WithCancel(t.Context())
			w := &interrupter{text: step, cancel: cancel}
			_, err := measure(ctx, cfg, d, filterOf(t, nil), progress{w: w, visible: true})
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
