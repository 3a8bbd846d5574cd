package sqlload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"sync"
	"testing"
)

// fakeDB is a driver whose answers a test gives, and which keeps what it was asked.
type fakeDB struct {
	answer func(query string, args []any) (columns int, rows [][]driver.Value, err error)

	mu      sync.Mutex
	queries []string
	args    [][]any
	open    int   // rows that are not closed
	broken  error // what Next returns after the last row, in place of io.EOF
}

func (f *fakeDB) start(t *testing.T) *sql.DB {
	db := sql.OpenDB(f)
	t.Cleanup(func() { db.Close() })
	return db
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

type fakeConn struct{ f *fakeDB }

func (fakeConn) Prepare(string) (driver.Stmt, error) { panic("not prepared") }
func (fakeConn) Begin() (driver.Tx, error)           { panic("no transactions") }
func (fakeConn) Close() error                        { return nil }

func (c fakeConn) QueryContext(_ context.Context, query string, named []driver.NamedValue) (driver.Rows, error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	args := make([]any, len(named))
	for i, a := range named {
		args[i] = a.Value
	}
	c.f.queries, c.f.args = append(c.f.queries, query), append(c.f.args, args)
	columns, rows, err := c.f.answer(query, args)
	if err != nil {
		return nil, err
	}
	c.f.open++
	return &fakeRows{c.f, make([]string, columns), rows}, nil
}

type fakeRows struct {
	f       *fakeDB
	columns []string
	rows    [][]driver.Value
}

func (r *fakeRows) Columns() []string { return r.columns }

func (r *fakeRows) Close() error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.f.open--
	return nil
}

func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		if r.f.broken != nil {
			return r.f.broken
		}
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
