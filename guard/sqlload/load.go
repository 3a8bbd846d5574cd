// Package sqlload has a loader and a scan for package guard that read a table through
// database/sql. It knows no driver.
//
// Queries are the caller's own, with names in braces where values go: {keys} in a loader's, {since} in a
// scan's, and any other that Args has a value for. They become placeholders in the driver's style, never text. A
// value that happens to be written in braces itself, such as an array of PostgreSQL, is passed in Args.
package sqlload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// Querier is what *sql.DB, *sql.Conn and *sql.Tx have in common.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Options are what a [Loader] is made of. Query and Row must be given.
type Options[K comparable, V any] struct {
	// Query selects the rows of some keys, at most one row a key:
	//
	//	SELECT id, name, email FROM users WHERE id IN ({keys}) AND deleted_at IS NULL
	Query string

	// Row reads the row that rows stands at, as rows.Scan does, and returns its key and its value.
	Row func(rows *sql.Rows) (K, V, error)

	// Arg makes of a key what the driver takes for it; nil hands over the key itself. Arrays need it:
	// func(k [16]byte) any { return k[:] }.
	Arg func(k K) any

	// Args are the values of other names in Query. A []any becomes several, with commas between them.
	Args map[string]any

	// Style is that of the driver's placeholders.
	Style Style

	// Chunk is how many keys one query asks for at most, 512 by default. Databases have a limit: 65,535
	// arguments for PostgreSQL and MySQL, 32,766 for SQLite and 999 for its versions before 3.32.
	Chunk int
}

// Loader is a [guard.BatchLoader] over a table. Its methods may be called from several goroutines
// at once, as far as the Querier allows that; an *sql.DB does.
type Loader[K comparable, V any] struct {
	db    Querier
	o     Options[K, V]
	query template
}

// New makes a loader that reads through db. The error wraps [bloom.ErrInvalid].
func New[K comparable, V any](db Querier, o Options[K, V]) (*Loader[K, V], error) {
	if db == nil || o.Row == nil || o.Chunk < 0 || o.Style > Dollar {
		return nil, fmt.Errorf("%w: db and Row must be given, Chunk is %d, Style is %d", bloom.ErrInvalid, o.Chunk, o.Style)
	}
	query, err := parse(o.Query, o.Args, "keys")
	if err != nil {
		return nil, err
	}
	if o.Chunk == 0 {
		o.Chunk = 512
	}
	if o.Arg == nil {
		o.Arg = func(k K) any { return k }
	}
	return &Loader[K, V]{db, o, query}, nil
}

// Load returns the row of k, or an error that wraps [guard.ErrNotFound] if the query gives none.
func (l *Loader[K, V]) Load(ctx context.Context, k K) (V, error) {
	rows, err := l.LoadMany(ctx, []K{k})
	v, ok := rows[k]
	if err == nil && !ok {
		err = guard.ErrNotFound
	}
	return v, err
}

// LoadMany returns the rows of ks, with as many queries as Options.Chunk needs, one after the
// other. A key that is not in the map has no row. Of several rows of one key the first is taken.
//
// A row with a key that was not asked for is an error: databases that compare without regard to case or to
// spaces at the end give the row of "bob" for "Bob", whom the map would then lack. Make keys
// uniform before they come to the guard.
func (l *Loader[K, V]) LoadMany(ctx context.Context, ks []K) (map[K]V, error) {
	found := make(map[K]V, len(ks))
	for len(ks) > 0 {
		n := min(len(ks), l.o.Chunk)
		if err := l.chunk(ctx, ks[:n], found); err != nil {
			if errors.Is(err, guard.ErrNotFound) { // of Row: it must not pass for the answer
				err = fmt.Errorf("%v", err)
			}
			return nil, fmt.Errorf("sqlload: %w", err)
		}
		ks = ks[n:]
	}
	return found, nil
}

// chunk adds the rows of ks to found. The last key is repeated until there are a power of two of
// them, or as many as a chunk may have, so that few different statements are sent, which servers and
// drivers keep.
func (l *Loader[K, V]) chunk(ctx context.Context, ks []K, found map[K]V) (err error) {
	places := 1
	for places < len(ks) {
		places *= 2
	}
	args := make([]any, min(places, l.o.Chunk))
	asked := make(map[K]struct{}, len(ks))
	for i := range args {
		k := ks[min(i, len(ks)-1)]
		args[i] = l.o.Arg(k)
		asked[k] = struct{}{}
	}
	s := statement{style: l.o.Style}
	s.fill(l.query, func(name string) any {
		if name == "keys" {
			return args
		}
		return l.o.Args[name]
	})
	return each(ctx, l.db, &s, func(rows *sql.Rows) error {
		k, v, err := l.o.Row(rows)
		if err != nil {
			return err
		}
		if _, ok := asked[k]; !ok {
			return fmt.Errorf("a row with the key %v, which was not asked for", k)
		}
		if _, twice := found[k]; !twice {
			found[k] = v
		}
		return nil
	})
}

// each calls use at each row of s. Rows end early when the connection breaks or ctx ends: that
// must not look as if there were no more.
func each(ctx context.Context, db Querier, s *statement, use func(*sql.Rows) error) (err error) {
	rows, err := db.QueryContext(ctx, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := use(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
