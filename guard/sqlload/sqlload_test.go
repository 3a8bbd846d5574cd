package sqlload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
	"github.com/stretchr/testify/require"
)

const byID = "SELECT id, name FROM users WHERE id IN ({keys})"

func idAndName(rows *sql.Rows) (k int64, v string, err error) { return k, v, rows.Scan(&k, &v) }

// even answers with a row for each even argument, as often as it is asked for.
func even(_ string, args []any) (int, [][]driver.Value, error) {
	var rows [][]driver.Value
	for _, a := range args {
		if id := a.(int64); id%2 == 0 {
			rows = append(rows, []driver.Value{id, fmt.Sprint("row ", id)})
		}
	}
	return 2, rows, nil
}

func TestLoad(t *testing.T) {
	f := &fakeDB{answer: even}
	l, err := New(f.start(t), Options[int64, string]{Query: byID, Row: idAndName})
	require.NoError(t, err)
	var _ guard.BatchLoader[int64, string] = l

	v, err := l.Load(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, "row 4", v)
	v, err = l.Load(t.Context(), 5)
	require.Equal(t, guard.ErrNotFound, err)
	require.Empty(t, v)
	require.Equal(t, []string{"SELECT id, name FROM users WHERE id IN (?)", "SELECT id, name FROM users WHERE id IN (?)"}, f.queries)

	rows, err := l.LoadMany(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, rows)
	require.Len(t, f.queries, 2, "nothing was asked for")
	require.Zero(t, f.open)
}

func TestLoadManyInChunks(t *testing.T) {
	for _, c := range []struct {
		keys, chunk int
		places      []int // of each query
	}{
		{1, 0, []int{1}}, {2, 0, []int{2}}, {3, 0, []int{4}}, {5, 0, []int{8}}, {300, 0, []int{512}}, {512, 0, []int{512}}, {513, 0, []int{512, 1}},
		{7, 3, []int{3, 3, 1}}, {6, 3, []int{3, 3}}, {3, 1, []int{1, 1, 1}}, {5, 6, []int{6}}, {1000, 999, []int{999, 1}},
	} {
		f := &fakeDB{answer: even}
		l, err := New(f.start(t), Options[int64, string]{Query: byID, Row: idAndName, Chunk: c.chunk})
		require.NoError(t, err)
		var ks []int64
		want := map[int64]string{}
		for k := range int64(c.keys) {
			ks = append(ks, k)
			if k%2 == 0 {
				want[k] = fmt.Sprint("row ", k)
			}
		}
		rows, err := l.LoadMany(t.Context(), ks)
		require.NoError(t, err)
		require.Equal(t, want, rows)
		var places []int
		asked := map[any]bool{}
		for i, args := range f.args {
			places = append(places, len(args))
			require.Equal(t, len(args), strings.Count(f.queries[i], "?"))
			for _, a := range args {
				asked[a] = true
			}
		}
		require.Equal(t, c.places, places, "%d keys, chunks of %d", c.keys, c.chunk)
		require.Len(t, asked, c.keys)
	}
}

// Placeholders have the numbers and the order of their values, wherever names stand.
func TestStyles(t *testing.T) {
	const query = "SELECT id, name, '{}' FROM users WHERE tenant = {tenant} AND id IN ({keys}) AND kind IN ({kinds}) AND tenant <> {tenant}"
	args := map[string]any{"tenant": "a", "kinds": []any{"x", "y"}}
	for style, want := range map[Style]string{
		Question: "SELECT id, name, '{}' FROM users WHERE tenant = ? AND id IN (?,?) AND kind IN (?,?) AND tenant <> ?",
		Dollar:   "SELECT id, name, '{}' FROM users WHERE tenant = $1 AND id IN ($2,$3) AND kind IN ($4,$5) AND tenant <> $6",
	} {
		f := &fakeDB{answer: func(string, []any) (int, [][]driver.Value, error) { return 2, nil, nil }}
		l, err := New(f.start(t), Options[int64, string]{Query: query, Row: idAndName, Args: args, Style: style})
		require.NoError(t, err)
		_, err = l.LoadMany(t.Context(), []int64{7, 8})
		require.NoError(t, err)
		require.Equal(t, []string{want}, f.queries)
		require.Equal(t, [][]any{{"a", int64(7), int64(8), "x", "y", "a"}}, f.args)
	}
}

func TestKeysThatDriversDoNotTake(t *testing.T) {
	type id [4]byte
	f := &fakeDB{answer: func(_ string, args []any) (int, [][]driver.Value, error) {
		return 1, [][]driver.Value{{args[0]}}, nil
	}}
	db := f.start(t)
	row := func(rows *sql.Rows) (k id, v string, err error) {
		var b []byte
		err = rows.Scan(&b)
		copy(k[:], b)
		return k, "row", err
	}
	l, err := New(db, Options[id, string]{Query: byID, Row: row, Arg: func(k id) any { return k[:] }})
	require.NoError(t, err)
	v, err := l.Load(t.Context(), id{1, 2, 3, 4})
	require.NoError(t, err)
	require.Equal(t, "row", v)

	l, err = New(db, Options[id, string]{Query: byID, Row: row})
	require.NoError(t, err)
	_, err = l.Load(t.Context(), id{1, 2, 3, 4})
	require.ErrorContains(t, err, "sqlload")
	require.NotErrorIs(t, err, guard.ErrNotFound)
}

// Whatever goes wrong is an error, and never "no row".
func TestLoadFails(t *testing.T) {
	wrong := errors.New("wrong")
	give := func(rows ...[]driver.Value) func(string, []any) (int, [][]driver.Value, error) {
		return func(string, []any) (int, [][]driver.Value, error) { return 2, rows, nil }
	}
	for name, c := range map[string]struct {
		f   *fakeDB
		row func(*sql.Rows) (int64, string, error)
		err string
	}{
		"query":                   {f: &fakeDB{answer: func(string, []any) (int, [][]driver.Value, error) { return 0, nil, wrong }}, err: "wrong"},
		"rows end early":          {f: &fakeDB{answer: give(), broken: wrong}, err: "wrong"},
		"rows end after one":      {f: &fakeDB{answer: give([]driver.Value{int64(1), "a"}), broken: wrong}, err: "wrong"},
		"another key":             {f: &fakeDB{answer: give([]driver.Value{int64(3), "a"})}, err: "key 3, which was not asked for"},
		"a value of another type": {f: &fakeDB{answer: give([]driver.Value{"x", "a"})}, err: "converting"},
		"Row says ErrNotFound": {f: &fakeDB{answer: give([]driver.Value{int64(1), "a"})}, err: "not found",
			row: func(*sql.Rows) (int64, string, error) { return 0, "", fmt.Errorf("x: %w", guard.ErrNotFound) }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.row == nil {
				c.row = idAndName
			}
			l, err := New(c.f.start(t), Options[int64, string]{Query: byID, Row: c.row})
			require.NoError(t, err)
			_, err = l.Load(t.Context(), 1)
			require.ErrorContains(t, err, c.err)
			require.NotErrorIs(t, err, guard.ErrNotFound)
			rows, err := l.LoadMany(t.Context(), []int64{1, 2})
			require.ErrorContains(t, err, c.err)
			require.Nil(t, rows)
			require.Zero(t, c.f.open)
		})
	}
	t.Run("context", func(t *testing.T) {
		f := &fakeDB{answer: even}
		l, err := New(f.start(t), Options[int64, string]{Query: byID, Row: idAndName})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.Load(ctx, 1)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestBadOptions(t *testing.T) {
	db := (&fakeDB{}).start(t)
	for text, o := range map[string]Options[int64, string]{
		"Row must be given":       {Query: byID},
		"{keys} is 0 times":       {Row: idAndName},
		"{keys} is 2 times":       {Row: idAndName, Query: byID + byID},
		"nothing for {tenant}":    {Row: idAndName, Query: byID + " AND tenant = {tenant}"},
		"the name of a marker":    {Row: idAndName, Query: byID, Args: map[string]any{"keys": 1}},
		"Chunk is -1, Style is 0": {Row: idAndName, Query: byID, Chunk: -1},
		"Chunk is 0, Style is 9":  {Row: idAndName, Query: byID, Style: 9},
	} {
		_, err := New(db, o)
		require.ErrorIs(t, err, bloom.ErrInvalid)
		require.ErrorContains(t, err, text)
	}
	_, err := New(nil, Options[int64, string]{Query: byID, Row: idAndName})
	require.ErrorIs(t, err, bloom.ErrInvalid)

	for text, o := range map[string]ScanOptions[int64]{
		"Column must be given":   {Query: "SELECT id FROM users"},
		"Query is empty":         {Column: "id"},
		"{since} is 0 times":     {Column: "id", Query: "SELECT id FROM users", Since: "SELECT id FROM users"},
		"nothing for {since}":    {Column: "id", Query: "SELECT id FROM users WHERE at > {since}"},
		"Page is -1, Style is 0": {Column: "id", Query: "SELECT id FROM users", Page: -1},
		"Page is 0, Style is 9":  {Column: "id", Query: "SELECT id FROM users", Style: 9},
	} {
		_, err := NewScan(db, o)
		require.ErrorIs(t, err, bloom.ErrInvalid)
		require.ErrorContains(t, err, text)
	}
	_, err = NewScan(nil, ScanOptions[int64]{Column: "id", Query: "SELECT id FROM users"})
	require.ErrorIs(t, err, bloom.ErrInvalid)
}

// pagesOf answers as a table of the numbers from 1 to n does: the last argument is the last key.
func pagesOf(n, page int) func(string, []any) (int, [][]driver.Value, error) {
	return func(query string, args []any) (int, [][]driver.Value, error) {
		next := int64(1)
		if strings.Contains(query, ") AS page WHERE") {
			next = args[len(args)-1].(int64) + 1
		}
		var rows [][]driver.Value
		for ; len(rows) < page && next <= int64(n); next++ {
			rows = append(rows, []driver.Value{next})
		}
		return 1, rows, nil
	}
}

func collect[K any](t *testing.T, scan guard.Scan[K], since time.Time) (ks []K) {
	for k, err := range scan(t.Context(), since) {
		require.NoError(t, err)
		ks = append(ks, k)
	}
	return ks
}

func TestScanPages(t *testing.T) {
	for n, queries := range map[int]int{0: 1, 1: 1, 3: 2, 7: 3, 9: 4} {
		f := &fakeDB{answer: pagesOf(n, 3)}
		scan, err := NewScan(f.start(t), ScanOptions[int64]{Query: "SELECT id FROM users", Column: "id", Page: 3})
		require.NoError(t, err)
		ks := collect(t, scan, time.Time{})
		require.Len(t, ks, n)
		require.True(t, slices.IsSorted(ks))
		require.Len(t, f.queries, queries, "%d keys", n)
		require.Equal(t, "SELECT id FROM (SELECT id FROM users) AS page ORDER BY id LIMIT 3", f.queries[0])
		if queries > 1 {
			require.Equal(t, "SELECT id FROM (SELECT id FROM users) AS page WHERE id > ? ORDER BY id LIMIT 3", f.queries[1])
			require.Equal(t, []any{int64(3)}, f.args[1])
		}
		require.Zero(t, f.open)
	}
}

func TestScanSince(t *testing.T) {
	since := time.Date(2030, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	o := ScanOptions[int64]{
		Query: "SELECT id FROM users WHERE tenant = {tenant}", Since: "SELECT id FROM users WHERE at >= {since} AND tenant = {tenant}",
		Args: map[string]any{"tenant": "a"}, Column: "id", Page: 2, Style: Dollar,
	}
	f := &fakeDB{answer: pagesOf(3, 2)}
	scan, err := NewScan(f.start(t), o)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3}, collect(t, scan, since))
	require.Equal(t, []string{
		"SELECT id FROM (SELECT id FROM users WHERE at >= $1 AND tenant = $2) AS page ORDER BY id LIMIT 2",
		"SELECT id FROM (SELECT id FROM users WHERE at >= $1 AND tenant = $2) AS page WHERE id > $3 ORDER BY id LIMIT 2",
	}, f.queries)
	require.Equal(t, []any{since.UTC().Add(-5 * time.Minute), "a", int64(2)}, f.args[1])
	collect(t, scan, time.Time{})
	require.Equal(t, "SELECT id FROM (SELECT id FROM users WHERE tenant = $1) AS page ORDER BY id LIMIT 2", f.queries[2], "all of them")

	for slack, want := range map[time.Duration]int64{-1: since.Unix(), time.Hour: since.Unix() - 3600} {
		o.Slack, o.SinceArg = slack, func(t time.Time) any { return t.Unix() }
		scan, err = NewScan(f.start(t), o)
		require.NoError(t, err)
		collect(t, scan, since)
		require.Equal(t, want, f.args[len(f.args)-1][0])
	}

	o.Since, o.Args = "", map[string]any{"tenant": "b"}
	scan, err = NewScan(f.start(t), o)
	require.NoError(t, err)
	require.Len(t, collect(t, scan, since), 3)
	require.Equal(t, "b", f.args[len(f.args)-1][0], "without Since, all keys")
}

func TestScanFails(t *testing.T) {
	wrong := errors.New("wrong")
	o := ScanOptions[int64]{Query: "SELECT id FROM users", Column: "id", Page: 2}
	run := func(f *fakeDB) (n int, err error) {
		t.Helper()
		scan, err := NewScan(f.start(t), o)
		require.NoError(t, err)
		for _, failed := range scan(t.Context(), time.Time{}) {
			if failed != nil {
				require.NoError(t, err, "it ends at the first error")
				err = failed
				continue
			}
			n++
		}
		require.Zero(t, f.open)
		return n, err
	}
	_, err := run(&fakeDB{answer: func(string, []any) (int, [][]driver.Value, error) { return 0, nil, wrong }})
	require.ErrorIs(t, err, wrong)
	_, err = run(&fakeDB{answer: pagesOf(1, 2), broken: wrong})
	require.ErrorIs(t, err, wrong, "a page that ends early is not the last one")
	_, err = run(&fakeDB{answer: func(string, []any) (int, [][]driver.Value, error) { return 1, [][]driver.Value{{nil}}, nil }})
	require.ErrorContains(t, err, "converting NULL")
	for _, page := range [][][]driver.Value{{{int64(1)}, {int64(2)}}, {{int64(1)}, {int64(1)}}} {
		_, err = run(&fakeDB{answer: func(string, []any) (int, [][]driver.Value, error) { return 1, page, nil }})
		require.ErrorContains(t, err, "the key 1 comes again", "it would go round for ever")
	}
}

// Whoever ranges over a scan may stop.
func TestScanStops(t *testing.T) {
	f := &fakeDB{answer: pagesOf(10, 3)}
	scan, err := NewScan(f.start(t), ScanOptions[int64]{Query: "SELECT id FROM users", Column: "id", Page: 3})
	require.NoError(t, err)
	for k := range scan(t.Context(), time.Time{}) {
		if k == 4 {
			break
		}
	}
	require.Len(t, f.queries, 2)
	require.Zero(t, f.open)
}

// A guard over a table.
func TestWithGuard(t *testing.T) {
	f := &fakeDB{answer: func(query string, args []any) (int, [][]driver.Value, error) {
		if strings.Contains(query, "AS page") {
			return pagesOf(100, 7)(query, args)
		}
		var rows [][]driver.Value
		for _, a := range args {
			if id := a.(int64); 0 < id && id <= 100 {
				rows = append(rows, []driver.Value{id, fmt.Sprint("row ", id)})
			}
		}
		return 2, rows, nil
	}}
	db := f.start(t)
	loader, err := New(db, Options[int64, string]{Query: byID, Row: idAndName})
	require.NoError(t, err)
	scan, err := NewScan(db, ScanOptions[int64]{Query: "SELECT id FROM users", Column: "id", Page: 7})
	require.NoError(t, err)
	g, err := guard.New(guard.Options[int64, string]{Loader: loader, Capacity: 200})
	require.NoError(t, err)
	_, err = g.Rebuild(t.Context(), scan, guard.RebuildOptions[int64]{})
	require.NoError(t, err)
	queries := len(f.queries)
	rows, err := g.GetMany(t.Context(), []int64{1, 50, 100, 101, 102, 103, -1})
	require.NoError(t, err)
	require.Equal(t, map[int64]string{1: "row 1", 50: "row 50", 100: "row 100"}, rows)
	require.Len(t, f.queries, queries+1, "one query for all that is not rejected")
}
