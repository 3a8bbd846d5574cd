package sqlload_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/redbloom-go/bloom/guard/sqlload"
	"github.com/stretchr/testify/require"
)

const rowsThere = 1000

// items is a table whose ids are the even numbers, with the name and the time of each.
func items(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "items.db")))
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Exec("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, at INTEGER NOT NULL)")
	require.NoError(t, err)
	_, err = db.Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
		INSERT INTO items SELECT 2 * i, printf('item %d', 2 * i), i FROM n`, rowsThere)
	require.NoError(t, err)
	return db
}

func TestLoaderOnSQLite(t *testing.T) {
	for _, style := range []sqlload.Style{sqlload.Question, sqlload.Dollar} { // SQLite takes both
		db := items(t)
		l, err := sqlload.New(db, sqlload.Options[int64, string]{
			Query: "SELECT id, name FROM items WHERE at < {limit} AND id IN ({keys})",
			Args:  map[string]any{"limit": rowsThere},
			Row:   func(rows *sql.Rows) (k int64, v string, err error) { return k, v, rows.Scan(&k, &v) },
			Style: style, Chunk: 300,
		})
		require.NoError(t, err)
		var ks []int64
		for k := range int64(2*rowsThere + 100) {
			ks = append(ks, k)
		}
		rows, err := l.LoadMany(t.Context(), ks)
		require.NoError(t, err)
		require.Len(t, rows, rowsThere)
		for k, v := range rows {
			require.True(t, k%2 == 0 && k < 2*rowsThere)
			require.Equal(t, fmt.Sprint("item ", k), v)
		}
		_, err = l.Load(t.Context(), 3)
		require.ErrorIs(t, err, guard.ErrNotFound)
		require.NoError(t, db.Close())
		_, err = l.Load(t.Context(), 4)
		require.Error(t, err)
		require.NotErrorIs(t, err, guard.ErrNotFound)
	}
}

// A table that compares without regard to case has a row for a key that the filter and the cache
// take for another one.
func TestCollation(t *testing.T) {
	db := items(t)
	l, err := sqlload.New(db, sqlload.Options[string, int64]{
		Query: "SELECT name, id FROM items WHERE name COLLATE NOCASE IN ({keys})",
		Row:   func(rows *sql.Rows) (k string, v int64, err error) { return k, v, rows.Scan(&k, &v) },
	})
	require.NoError(t, err)
	v, err := l.Load(t.Context(), "item 4")
	require.NoError(t, err)
	require.EqualValues(t, 4, v)
	_, err = l.Load(t.Context(), "ITEM 4")
	require.ErrorContains(t, err, "not asked for")
	require.NotErrorIs(t, err, guard.ErrNotFound)
}

func TestScanOnSQLite(t *testing.T) {
	db := items(t)
	count := func(scan guard.Scan[string], since time.Time) int {
		seen := map[string]bool{}
		for k, err := range scan(t.Context(), since) {
			require.NoError(t, err)
			require.False(t, seen[k])
			seen[k] = true
		}
		return len(seen)
	}
	for _, page := range []int{1, 199, 200, 0} {
		scan, err := sqlload.NewScan(db, sqlload.ScanOptions[string]{
			Query: "SELECT name FROM items", Since: "SELECT name FROM items WHERE at >= {since}", Column: "name",
			SinceArg: func(t time.Time) any { return t.Unix() }, Page: page, Slack: 100 * time.Second,
		})
		require.NoError(t, err)
		require.Equal(t, rowsThere, count(scan, time.Time{}))
		require.Equal(t, 300, count(scan, time.Unix(rowsThere-200, 0)))
		require.Equal(t, rowsThere, count(scan, time.Unix(0, 0)))
	}
}

// Pages are read from the index, without sorting: that is what makes them cheap.
func TestScanUsesTheIndex(t *testing.T) {
	db := items(t)
	rows, err := db.Query("EXPLAIN QUERY PLAN SELECT name FROM (SELECT name FROM items) AS page WHERE name > ? ORDER BY name LIMIT 10", "a")
	require.NoError(t, err)
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		plan.WriteString(step + "\n")
	}
	require.NoError(t, rows.Err())
	require.Contains(t, plan.String(), "SEARCH items USING COVERING INDEX")
	require.NotContains(t, plan.String(), "TEMP B-TREE")
}

// Rows are inserted while the table is scanned: the guard rejects none of them afterwards.
func TestInsertsDuringARebuild(t *testing.T) {
	ctx := t.Context()
	db := items(t)
	db.SetMaxOpenConns(1) // SQLite has one writer
	l, err := sqlload.New(db, sqlload.Options[int64, string]{
		Query: "SELECT id, name FROM items WHERE id IN ({keys})",
		Row:   func(rows *sql.Rows) (k int64, v string, err error) { return k, v, rows.Scan(&k, &v) },
	})
	require.NoError(t, err)
	even, err := sqlload.NewScan(db, sqlload.ScanOptions[int64]{Query: "SELECT id FROM items WHERE id % 4 = 0", Column: "id", Page: 100})
	require.NoError(t, err)
	odd, err := sqlload.NewScan(db, sqlload.ScanOptions[int64]{Query: "SELECT id FROM items WHERE id % 4 <> 0", Column: "id", Page: 100})
	require.NoError(t, err)
	g, err := guard.New(guard.Options[int64, string]{Loader: l, Capacity: 2 * rowsThere})
	require.NoError(t, err)

	stop, stopped := make(chan struct{}), make(chan []int64)
	go func() {
		var created []int64
		defer func() { stopped <- created }()
		for k := int64(1); ; k += 2 {
			select {
			case <-stop:
				return
			default:
			}
			if err := g.Create(ctx, []int64{k}, func(ctx context.Context) error {
				_, err := db.ExecContext(ctx, "INSERT INTO items VALUES (?, ?, 0)", k, fmt.Sprint("item ", k))
				return err
			}); err != nil {
				t.Error(err)
				return
			}
			created = append(created, k)
		}
	}()
	for range 3 {
		_, err = g.Rebuild(ctx, even, guard.RebuildOptions[int64]{Scans: []guard.Scan[int64]{odd}})
		require.NoError(t, err)
	}
	close(stop)
	created := <-stopped
	require.NotEmpty(t, created)
	for _, k := range created {
		v, err := g.Get(ctx, k)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("item ", k), v)
	}
	for k := range int64(rowsThere) {
		require.NotEqual(t, guard.Absent, g.Check(ctx, 2*k))
	}
}
