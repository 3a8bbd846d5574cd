package sqlload

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// ScanOptions are what a scan is made of. Query and Column must be given.
type ScanOptions[K comparable] struct {
	// Query selects the keys of all rows that exist, in one column, without ORDER BY or LIMIT:
	//
	//	SELECT id FROM users
	//
	// It is read in pages, as a subquery: (Query) AS page WHERE Column > the last key ORDER BY Column
	// LIMIT Page, which databases answer from the index of the column, without sorting, as long as Query is
	// a plain one of one table.
	Query string

	// Since selects those that were written since a time, and is read in the same way:
	//
	//	SELECT id FROM users WHERE updated_at >= {since}
	//
	// Without it, all keys are read whatever the time.
	Since string

	// Column is the name of the key's column in Query and Since. Its values must be unique as the
	// database compares them, and not NULL: take the primary key.
	Column string

	// Row reads the key of the row that rows stands at; nil for rows.Scan into a K.
	Row func(rows *sql.Rows) (K, error)

	// Arg makes of a key what the driver takes for it; nil hands over the key itself.
	Arg func(k K) any

	// SinceArg makes of a time what the driver takes for it; nil hands over the time.Time in UTC.
	SinceArg func(t time.Time) any

	// Args are the values of other names in Query and Since.
	Args map[string]any

	// Style is that of the driver's placeholders.
	Style Style

	// Page is how many keys one query reads, 10,000 by default.
	Page int

	// Slack is how much earlier than asked for {since} is: clocks differ, times may be stored in
	// seconds, and rows appear when they are committed but carry the time of their writing. The default is 5
	// minutes; make it longer than your longest transaction. Negative is none.
	Slack time.Duration
}

// NewScan makes a scan of a table that reads through db, a page at a time: no query is long, no transaction
// stays open, and memory holds a page. A row that is inserted meanwhile may be missed, one that was there
// before the scan was called, and whose key stays the same, is not. To read in several goroutines, make
// several with conditions in Query that share the keys out, and hand them to guard.RebuildOptions.Scans.
//
// The error wraps [bloom.ErrInvalid].
func NewScan[K comparable](db Querier, o ScanOptions[K]) (guard.Scan[K], error) {
	if db == nil || o.Column == "" || o.Page < 0 || o.Style > Dollar {
		return nil, fmt.Errorf("%w: db and Column must be given, Page is %d, Style is %d", bloom.ErrInvalid, o.Page, o.Style)
	}
	if o.Query == "" {
		return nil, fmt.Errorf("%w: Query is empty", bloom.ErrInvalid)
	}
	all, err := parse(o.Query, o.Args)
	if err != nil {
		return nil, err
	}
	part := all
	if o.Since != "" {
		if part, err = parse(o.Since, o.Args, "since"); err != nil {
			return nil, err
		}
	}
	if o.Row == nil {
		o.Row = func(rows *sql.Rows) (k K, err error) { return k, rows.Scan(&k) }
	}
	if o.Arg == nil {
		o.Arg = func(k K) any { return k }
	}
	if o.SinceArg == nil {
		o.SinceArg = func(t time.Time) any { return t.UTC() }
	}
	if o.Page == 0 {
		o.Page = 10_000
	}
	if o.Slack == 0 {
		o.Slack = 5 * time.Minute
	}
	return func(ctx context.Context, since time.Time) iter.Seq2[K, error] {
		query := part
		if since.IsZero() {
			query = all
		}
		since = since.Add(-max(o.Slack, 0))
		return func(yield func(K, error) bool) {
			if err := o.pages(ctx, db, query, since, yield); err != nil {
				var none K
				yield(none, fmt.Errorf("sqlload: %w", err))
			}
		}
	}, nil
}

// pages yields the keys of query. It returns nil when they are all, and when yield wants no more.
func (o *ScanOptions[K]) pages(ctx context.Context, db Querier, query template, since time.Time, yield func(K, error) bool) error {
	var first, last *K // of the page before
	for {
		s := statement{style: o.Style}
		s.text.WriteString("SELECT " + o.Column + " FROM (")
		s.fill(query, func(name string) any {
			if name == "since" {
				return o.SinceArg(since)
			}
			return o.Args[name]
		})
		s.text.WriteString(") AS page")
		if last != nil {
			s.text.WriteString(" WHERE " + o.Column + " > ")
			s.arg(o.Arg(*last))
		}
		fmt.Fprintf(&s.text, " ORDER BY %s LIMIT %d", o.Column, o.Page)

		var keys []K // read whole, so that the connection is free while they are used
		if err := each(ctx, db, &s, func(rows *sql.Rows) error {
			k, err := o.Row(rows)
			keys = append(keys, k)
			return err
		}); err != nil {
			return err
		}
		for i, k := range keys {
			if last != nil && (k == *last || i == 0 && k == *first) {
				return fmt.Errorf("the key %v comes again: %s is not unique, or it loses something on the way to the database and back", k, o.Column)
			}
			if last = &k; !yield(k, nil) {
				return nil
			}
		}
		if len(keys) < o.Page {
			return nil
		}
		first = &keys[0]
	}
}
