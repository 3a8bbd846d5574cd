package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	"github.com/maypok86/otter/v2"
	"github.com/redbloom-go/bloom"
	_ "modernc.org/sqlite" // the "sqlite" driver
)

// source says who answered a lookup.
type source int

const (
	fromFilter source = iota
	fromCache
	fromDatabase
	sources // how many there are
)

// guard is the lookup path: filter, cache, database.
type guard struct {
	filter *bloom.Filter // nil for the path without a filter
	cache  *otter.Cache[string, string]
	db     *database
}

func newGuard(filter *bloom.Filter, db *database, cacheSize int) (*guard, error) {
	cache, err := otter.New(&otter.Options[string, string]{MaximumSize: cacheSize})
	if err != nil {
		return nil, err
	}
	return &guard{filter: filter, cache: cache, db: db}, nil
}

// get returns the value of a key, whether the key has a row, and who said so.
func (g *guard) get(key string) (value string, found bool, from source, err error) {
	// "No" is certain. "Yes" may be a false positive, so it is no answer yet.
	if g.filter != nil && !g.filter.ContainsString(key) {
		return "", false, fromFilter, nil
	}
	if value, found = g.cache.GetIfPresent(key); found {
		return value, true, fromCache, nil
	}
	value, found, err = g.db.find(key)
	if err != nil {
		return "", false, fromDatabase, err
	}
	// Only rows are cached. Remembering absent keys as well would not help
	// against keys that are never asked for twice: each would take the place
	// of a row, and none would ever be hit.
	if found {
		g.cache.Set(key, value)
	}
	return value, found, fromDatabase, nil
}

// database is a table of rows in an SQLite file, used through one connection.
type database struct {
	db      *sql.DB
	conn    *sql.Conn
	query   *sql.Stmt
	queries int // made so far by find
}

// openDatabase makes the file and its table. The settings make SQLite as fast
// as it gets – no journal, no locks taken per query, every page in memory – so
// that the saving shown is what the filter saves at least.
func openDatabase(ctx context.Context, path string) (_ *database, err error) {
	// As a URI, so that a '?' in the path is not taken for driver options.
	name := "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath()
	d := &database{}
	if d.db, err = sql.Open("sqlite", name); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"PRAGMA journal_mode = OFF", // the file is thrown away anyway
		"PRAGMA synchronous = OFF",
		"PRAGMA locking_mode = EXCLUSIVE",
		"PRAGMA cache_size = -65536", // 64 MiB
		"CREATE TABLE entries (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
	} {
		if _, err = d.conn.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	d.query, err = d.conn.PrepareContext(ctx, "SELECT value FROM entries WHERE key = ?")
	return d, err
}

// load inserts rows in one transaction. It calls step after each batch with
// the number of rows in it.
func (d *database) load(ctx context.Context, rows []row, step func(n int)) (err error) {
	tx, err := d.conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // err already says what went wrong
		}
	}()
	insert, err := tx.PrepareContext(ctx, "INSERT INTO entries (key, value) VALUES (?, ?)")
	if err != nil {
		return err
	}
	defer insert.Close()
	for start := 0; start < len(rows); start += batchSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		batch := rows[start:min(start+batchSize, len(rows))]
		for _, r := range batch {
			if _, err := insert.Exec(r.key, r.value); err != nil {
				return err
			}
		}
		step(len(batch))
	}
	return tx.Commit()
}

// find asks the database. It takes no context: the driver would start a
// goroutine per query to watch it, which takes nearly as long as the query.
func (d *database) find(key string) (value string, found bool, err error) {
	d.queries++
	switch err = d.query.QueryRow(key).Scan(&value); {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	return value, true, nil
}

// Close releases the file, which some systems demand before it can be removed.
func (d *database) Close() error {
	var errs []error
	if d.query != nil {
		errs = append(errs, d.query.Close())
	}
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	return errors.Join(append(errs, d.db.Close())...)
}
