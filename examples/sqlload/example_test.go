package sqlload_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/redbloom-go/bloom/guard/sqlload"
	_ "modernc.org/sqlite"
)

type user struct{ name, email string }

// A guard over a table, from the beginning to the first answers.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:users?mode=memory&cache=shared")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, updated_at INTEGER);
		CREATE INDEX users_updated_at ON users (updated_at);
		INSERT INTO users VALUES (1, 'Ada', 'ada@example.com', 0), (2, 'Grace', 'grace@example.com', 0)`); err != nil {
		log.Fatal(err)
	}

	loader, err := sqlload.New(db, sqlload.Options[int64, user]{
		Query: "SELECT id, name, email FROM users WHERE id IN ({keys})",
		Row: func(rows *sql.Rows) (id int64, u user, err error) {
			return id, u, rows.Scan(&id, &u.name, &u.email)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	scan, err := sqlload.NewScan(db, sqlload.ScanOptions[int64]{
		Query:    "SELECT id FROM users",
		Since:    "SELECT id FROM users WHERE updated_at >= {since}",
		Column:   "id",
		SinceArg: func(t time.Time) any { return t.Unix() },
	})
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(guard.Options[int64, user]{Loader: loader, Capacity: 1_000_000, MaxLoads: 64})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := g.Rebuild(ctx, scan, guard.RebuildOptions[int64]{}); err != nil {
		log.Fatal(err)
	}

	u, err := g.Get(ctx, 1)
	fmt.Println(u.name, err)
	_, err = g.Get(ctx, 3)
	fmt.Println(errors.Is(err, guard.ErrNotFound))

	err = g.Create(ctx, []int64{3}, func(ctx context.Context) error {
		_, err := db.ExecContext(ctx, "INSERT INTO users VALUES (3, 'Edsger', 'edsger@example.com', ?)", time.Now().Unix())
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	u, err = g.Get(ctx, 3)
	fmt.Println(u.name, err)
	// Output:
	// Ada <nil>
	// true
	// Edsger <nil>
}
