package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/redbloom-go/bloom/examples/ottercache"
	"github.com/redbloom-go/bloom/guard"
	"github.com/redbloom-go/bloom/guard/sqlload"
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

// stack is the lookup path: a guard, which has the filter, over a cache and the database.
type stack struct {
	guard *guard.Guard[string, string]
	cache *ottercache.Cache[string, string]
	db    *database
}

// newStack makes a stack without a filter: the guard rejects nothing before it is rebuilt.
func newStack(db *database, capacity uint64, rate float64, cacheSize int) (*stack, error) {
	cache, err := ottercache.New[string, string](cacheSize, max(16, cacheSize/10))
	if err != nil {
		return nil, err
	}
	g, err := guard.New(guard.Options[string, string]{
		Loader: db, Cache: cache, Capacity: capacity, ErrorRate: rate,
		MaxLoads: 64, // what the database stands
	})
	if err != nil {
		cache.Close()
		return nil, err
	}
	return &stack{g, cache, db}, nil
}

// get returns the value of a key, whether the key has a row, and who said so. It is for one
// goroutine, since it tells by the count of queries whether there was one.
func (s *stack) get(ctx context.Context, key string) (value string, found bool, from source, err error) {
	queries := s.db.queries.Load()
	value, err = s.guard.Get(ctx, key)
	from = fromCache
	if s.db.queries.Load() != queries {
		from = fromDatabase
	}
	switch {
	case errors.Is(err, guard.ErrAbsent):
		return "", false, fromFilter, nil
	case errors.Is(err, guard.ErrNotFound):
		return "", false, from, nil
	}
	return value, err == nil, from, err
}

// database is a table of rows in an SQLite file, used through one connection.
type database struct {
	db      *sql.DB
	conn    *sql.Conn
	query   *sql.Stmt
	queries atomic.Int64 // made so far by Load
	mu      sync.Mutex
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

// Load asks the database. It does not pass ctx on: the driver would start a
// goroutine per query to watch it, which takes nearly as long as the query.
func (d *database) Load(_ context.Context, key string) (value string, err error) {
	d.mu.Lock() // the statement has one result at a time
	defer d.mu.Unlock()
	d.queries.Add(1)
	if err = d.query.QueryRow(key).Scan(&value); errors.Is(err, sql.ErrNoRows) {
		err = guard.ErrNotFound
	}
	return value, err
}

// insert adds one row.
func (d *database) insert(ctx context.Context, r row) error {
	_, err := d.conn.ExecContext(ctx, "INSERT INTO entries (key, value) VALUES (?, ?)", r.key, r.value)
	return err
}

// keys is a scan of all keys.
func (d *database) keys() (guard.Scan[string], error) {
	return sqlload.NewScan[string](d.conn, sqlload.ScanOptions[string]{Query: "SELECT key FROM entries", Column: "key"})
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
