package guard_test

// The Go of docs/GUARD.md: TestDocsCode compares.

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/redbloom-go/bloom/guard/sqlload"
	"github.com/stretchr/testify/require"
)

type User struct{ Name, Email string }

type service struct {
	db    *sql.DB
	users *guard.Guard[int64, User]
	scan  guard.Scan[int64]
}

func start(ctx context.Context, db *sql.DB, secret [16]byte) (*service, error) {
	loader, err := sqlload.New(db, sqlload.Options[int64, User]{
		Query: "SELECT id, name, email FROM users WHERE id IN ({keys})",
		Row: func(rows *sql.Rows) (id int64, u User, err error) {
			return id, u, rows.Scan(&id, &u.Name, &u.Email)
		},
		Style: sqlload.Dollar, // PostgreSQL; Question for MySQL and SQLite
	})
	if err != nil {
		return nil, err
	}
	scan, err := sqlload.NewScan(db, sqlload.ScanOptions[int64]{
		Query:  "SELECT id FROM users",
		Since:  "SELECT id FROM users WHERE updated_at >= {since}",
		Column: "id",
		Style:  sqlload.Dollar,
	})
	if err != nil {
		return nil, err
	}
	users, err := guard.New(guard.Options[int64, User]{
		Loader:   loader,
		Capacity: 2_000_000, // twice the rows there are
		MaxLoads: 64,        // what the database stands; holds from the first moment
		Key:      secret,    // from where you keep secrets; snapshots need it
		Audit:    1,         // the first days; see below
		Observer: guard.NewSlogObserver(nil),
	})
	if err != nil {
		return nil, err
	}
	go func() {
		if _, err := users.RestoreFile(ctx, "users.guard", scan); err == nil {
			return
		}
		if _, err := users.Rebuild(ctx, scan, guard.RebuildOptions[int64]{}); err != nil {
			log.Print(err) // there is still no filter, and nothing is rejected: try again
		}
	}()
	return &service{db, users, scan}, nil
}

func (s *service) get(w http.ResponseWriter, r *http.Request, id int64) {
	user, err := s.users.Get(r.Context(), id)
	switch {
	case err == nil:
		_, _ = w.Write([]byte(user.Name))
	case errors.Is(err, guard.ErrNotFound): // by the filter, or by the database
		http.Error(w, "no such user", http.StatusNotFound)
	case errors.Is(err, guard.ErrOverload): // MaxLoads
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		http.Error(w, "sorry", http.StatusInternalServerError)
	}
}

func (s *service) create(ctx context.Context, id int64, u User) error {
	return s.users.Create(ctx, []int64{id}, func(ctx context.Context) error {
		_, err := s.db.ExecContext(ctx, "INSERT INTO users (id, name, email) VALUES ($1, $2, $3)", id, u.Name, u.Email)
		return err
	})
}

func (s *service) createWithSerial(ctx context.Context, u User) (id int64, err error) {
	err = s.db.QueryRowContext(ctx, "INSERT INTO users (name, email) VALUES ($1, $2) RETURNING id", u.Name, u.Email).Scan(&id)
	if err != nil {
		return 0, err
	}
	return id, s.users.MarkCreated(ctx, id) // before anybody hears of the id
}

func (s *service) delete(ctx context.Context, id int64) error {
	if _, err := s.db.ExecContext(ctx, "DELETE FROM users WHERE id = $1", id); err != nil {
		return err
	}
	return s.users.MarkDeleted(ctx, id)
}

func (s *service) poll(ctx context.Context) {
	for tick := time.Tick(time.Second); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		complete := s.users.CompleteAt()
		if complete.IsZero() {
			continue // no filter yet: it would read the whole table
		}
		if err := s.users.CatchUp(ctx, complete, s.scan); err != nil {
			log.Print(err)
		}
	}
}

func withFreshIDs(loader guard.Loader[[16]byte, User]) (g *guard.Guard[[16]byte, User], err error) {
	g, err = guard.New(guard.Options[[16]byte, User]{
		Loader:   loader,
		Capacity: 2_000_000,
		MaxLoads: 64,
		Fresh: func(id [16]byte) bool { // UUIDv7: the first 48 bits are the milliseconds
			made := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:]) >> 16))
			const margin = time.Minute // clocks differ, and transactions take a while
			return made.After(g.CompleteAt().Add(-margin)) && made.Before(time.Now().Add(margin))
		},
	})
	return g, err
}

type rebuilder struct {
	guard.Observer // NewSlogObserver, say
	rebuild        chan struct{}
}

func (r rebuilder) Threshold(e guard.ThresholdEvent) {
	r.Observer.Threshold(e)
	select {
	case r.rebuild <- struct{}{}:
	default: // one is waiting
	}
}

func (s *service) maintain(ctx context.Context, r rebuilder) {
	for night := time.Tick(24 * time.Hour); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.rebuild: // 0.8 full
		case <-night: // deletions leave the filter, and whatever went wrong is healed
		}
		if _, err := s.users.Rebuild(ctx, s.scan, guard.RebuildOptions[int64]{}); err != nil {
			log.Print(err) // the old filter stays
			continue
		}
		if err := s.users.SnapshotFile("users.guard"); err != nil {
			log.Print(err)
		}
	}
}

var (
	_ = start
	_ = (*service).get
	_ = (*service).create
	_ = (*service).createWithSerial
	_ = (*service).delete
	_ = (*service).poll
	_ = withFreshIDs
	_ = (*service).maintain
)

// Every block of Go in the page is in this file, so it compiles; and every test that the page names is
// there.
func TestDocsCode(t *testing.T) {
	page, err := os.ReadFile("../docs/GUARD.md")
	require.NoError(t, err)
	source, err := os.ReadFile("doc_example_test.go")
	require.NoError(t, err)
	squeeze := func(s string) string {
		var lines []string
		for line := range strings.Lines(s) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		require.Contains(t, squeeze(string(source)), squeeze(b[1]))
	}

	var tests strings.Builder
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if strings.HasSuffix(f.Name(), "_test.go") {
			text, err := os.ReadFile(f.Name())
			require.NoError(t, err)
			tests.Write(text)
		}
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(string(page), -1)
	require.Greater(t, len(names), 30)
	for _, name := range names {
		require.Contains(t, tests.String(), "func "+name+"(t *testing.T)")
	}
}
