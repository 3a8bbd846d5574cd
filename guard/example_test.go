package guard_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// users is the database of the examples.
type users struct {
	mu      sync.Mutex
	names   map[int64]string
	created map[int64]time.Time
	queries int
}

func newUsers(names map[int64]string) *users {
	return &users{names: names, created: map[int64]time.Time{}}
}

func (u *users) Load(_ context.Context, id int64) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queries++
	name, ok := u.names[id]
	if !ok {
		return "", fmt.Errorf("user %d: %w", id, guard.ErrNotFound)
	}
	return name, nil
}

// LoadMany is SELECT … WHERE id IN (…).
func (u *users) LoadMany(_ context.Context, ids []int64) (map[int64]string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.queries++
	rows := map[int64]string{}
	for _, id := range ids {
		if name, ok := u.names[id]; ok {
			rows[id] = name
		}
	}
	return rows, nil
}

func (u *users) insert(id int64, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.names[id], u.created[id] = name, time.Now()
}

// ids is SELECT id FROM users WHERE created_at >= since. It is a [guard.Scan].
func (u *users) ids(_ context.Context, since time.Time) iter.Seq2[int64, error] {
	u.mu.Lock()
	defer u.mu.Unlock()
	var ids []int64
	for id := range u.names {
		if !u.created[id].Before(since) {
			ids = append(ids, id)
		}
	}
	return func(yield func(int64, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}

func must[T any](v T, err error) T { return bloom.Must(v, err) }

// From start to end: a guard without a filter, its building, a lookup that never reaches the
// database, a new row.
func Example() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann", 2: "Bob"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000, ErrorRate: 1e-6, MaxLoads: 64}))

	fmt.Println(g.Stats().State) // it works, and rejects nothing
	if _, err := g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(g.Stats().State)

	_, err := g.Get(ctx, 3)
	fmt.Println(err, "-", db.queries, "queries")

	err = g.Create(ctx, []int64{3}, func(context.Context) error { db.insert(3, "Cid"); return nil })
	fmt.Println(err)
	fmt.Println(g.Get(ctx, 3))
	// Output:
	// Unknown
	// Active
	// guard: rejected by the filter: guard: not found - 0 queries
	// <nil>
	// Cid <nil>
}

func ExampleNew() {
	_, err := guard.New(guard.Options[string, []byte]{
		Loader: guard.LoaderFunc[string, []byte](func(ctx context.Context, sku string) ([]byte, error) {
			return nil, guard.ErrNotFound // SELECT … WHERE sku = ?; sql.ErrNoRows is turned into this
		}),
		Capacity: 20_000_000,       // twice the rows of today
		TTL:      time.Hour,        // of a row in the cache
		MissTTL:  10 * time.Second, // of a key that has none
		MaxLoads: 64,               // what the database stands
		Cache:    guard.NewMemory[string, []byte](100_000),
		Observer: guard.NewSlogObserver(nil),
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleGuard_Get() {
	db := newUsers(map[int64]string{1: "Ann"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000}))
	for _, id := range []int64{1, 2} {
		switch name, err := g.Get(context.Background(), id); {
		case err == nil:
			fmt.Println("200", name)
		case errors.Is(err, guard.ErrNotFound): // rejected by the filter, or looked for and not there
			fmt.Println("404")
		case errors.Is(err, guard.ErrOverload):
			fmt.Println("503")
		default:
			fmt.Println("500", err)
		}
	}
	// Output:
	// 200 Ann
	// 404
}

func ExampleGuard_GetMany() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann", 2: "Bob", 3: "Cid"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000, ErrorRate: 1e-6}))
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))
	rows, err := g.GetMany(ctx, []int64{3, 1, 98, 99, 1})
	fmt.Println(rows, err, "-", db.queries, "query")
	// Output: map[1:Ann 3:Cid] <nil> - 1 query
}

func ExampleGuard_Check() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000, ErrorRate: 1e-6}))
	fmt.Println(g.Check(ctx, 1), g.Check(ctx, 2))
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))
	fmt.Println(g.Check(ctx, 1), g.Check(ctx, 2))
	// Output:
	// Unknown Unknown
	// Maybe Absent
}

// A row whose key the database chooses is marked after the insert, and before anybody hears of it.
func ExampleGuard_MarkCreated() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000, ErrorRate: 1e-6}))
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))

	id := int64(2)
	db.insert(id, "Bob") // INSERT … RETURNING id
	if err := g.MarkCreated(ctx, id); err != nil {
		fmt.Println("try again:", err)
	}
	fmt.Println("reply: user", id)
	fmt.Println(g.Get(ctx, id))
	// Output:
	// reply: user 2
	// Bob <nil>
}

// A rebuild reads the table in two parts at once, and may give up after a while. Lookups and writes go
// on meanwhile.
func ExampleGuard_Rebuild() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	db := newUsers(map[int64]string{1: "Ann", 2: "Bob", 3: "Cid"})
	part := func(rest int64) guard.Scan[int64] { // … WHERE id % 2 = ?
		return func(ctx context.Context, since time.Time) iter.Seq2[int64, error] {
			return func(yield func(int64, error) bool) {
				for id := range db.ids(ctx, since) {
					if id%2 == rest && !yield(id, nil) {
						return
					}
				}
			}
		}
	}
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000}))
	report, err := g.Rebuild(ctx, part(0), guard.RebuildOptions[int64]{
		Scans:   []guard.Scan[int64]{part(1)},
		Overlap: 2 * time.Millisecond, // the replica it reads is so far behind
	})
	fmt.Println(report.Scanned, "scanned,", report.Items, "in the filter,", err)
	// Output: 3 scanned, 3 in the filter, <nil>
}

// Another process writes rows. CatchUp, called every second or so, brings them.
func ExampleGuard_CatchUp() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 1000, ErrorRate: 1e-6}))
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))

	db.insert(2, "Bob") // nobody tells the guard
	_, err := g.Get(ctx, 2)
	fmt.Println(err)
	const margin = time.Minute // clocks differ, and a transaction takes a while
	fmt.Println(g.CatchUp(ctx, g.CompleteAt().Add(-margin), db.ids))
	fmt.Println(g.Get(ctx, 2))
	// Output:
	// guard: rejected by the filter: guard: not found
	// <nil>
	// Bob <nil>
}

// The next process starts with the filter of the last one, and asks the database for the rows
// since.
func ExampleGuard_RestoreFile() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users.guard")
	db := newUsers(map[int64]string{1: "Ann", 2: "Bob"})
	options := guard.Options[int64, string]{
		Loader: db, Capacity: 1000, ErrorRate: 1e-6,
		Key: [16]byte([]byte("from a keystore!")), // the same in every process
	}
	old := must(guard.New(options))
	must(old.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))
	fmt.Println(old.SnapshotFile(path))

	db.insert(3, "Cid")

	g := must(guard.New(options))
	if _, err := g.RestoreFile(ctx, path, db.ids); err != nil {
		fmt.Println(err) // no file, or a damaged one: it takes a Rebuild
	}
	fmt.Println(g.Check(ctx, 2), g.Check(ctx, 3), g.Check(ctx, 4))
	// Output:
	// <nil>
	// Maybe Maybe Absent
}

// Ids that carry their time of creation let rows through that another process made since the
// filter was last known to be complete.
func ExampleOptions_fresh() {
	ctx := context.Background()
	created := func(id int64) time.Time { return time.UnixMilli(id >> 22) } // a snowflake
	db := newUsers(map[int64]string{})
	var g *guard.Guard[int64, string]
	g = must(guard.New(guard.Options[int64, string]{
		Loader: db, Capacity: 1000, ErrorRate: 1e-6,
		Fresh: func(id int64) bool { return !created(id).Before(g.CompleteAt().Add(-time.Minute)) },
	}))
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{MinKeep: -1})) // the table is empty, and that is right

	id := time.Now().UnixMilli() << 22
	db.insert(id, "Dan") // by another process
	fmt.Println(g.Get(ctx, id))
	_, err := g.Get(ctx, time.Now().Add(-time.Hour).UnixMilli()<<22)
	fmt.Println(err)
	// Output:
	// Dan <nil>
	// guard: rejected by the filter: guard: not found
}

func ExampleNewMemory() {
	ctx := context.Background()
	cache := guard.NewMemory[string, int](1000) // 900 rows, 100 absent keys
	_ = cache.Set(ctx, "a", guard.Entry[int]{Value: 1}, time.Minute)
	_ = cache.Set(ctx, "b", guard.Entry[int]{Missing: true}, time.Second)
	_ = cache.Set(ctx, "a", guard.Entry[int]{Missing: true}, time.Second) // a value stays
	e, ok, _ := cache.Get(ctx, "a")
	fmt.Println(e.Value, e.Missing, ok)
	e, ok, _ = cache.Get(ctx, "b")
	fmt.Println(e.Value, e.Missing, ok)
	// Output:
	// 1 false true
	// 0 true true
}

func ExampleNewSlogObserver() {
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "took" {
				return slog.Attr{}
			}
			return a
		},
	}))
	db := newUsers(map[int64]string{1: "Ann", 2: "Bob"})
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 2, ErrorRate: 1e-6, Observer: guard.NewSlogObserver(log)}))
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))
	// Output:
	// level=INFO msg="guard: the filter was replaced" items=2 capacity=2 scanned=2
	// level=WARN msg="guard: the filter fills up, rebuild it" items=2 capacity=2
}

// metrics counts what the guard tells it, and has the filter rebuilt when it fills up. Counters that are in
// Stats already are best read from there when they are asked for.
type metrics struct {
	guard.NopObserver
	loadSeconds atomic.Int64 // a histogram, say
	rebuild     func()
}

func (m *metrics) Loaded(e guard.LoadEvent)       { m.loadSeconds.Add(int64(e.Took)) }
func (m *metrics) Threshold(guard.ThresholdEvent) { go m.rebuild() }

func ExampleObserver() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann"})
	rebuilt := make(chan guard.Report)
	m := new(metrics)
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Capacity: 100, ErrorRate: 1e-6, Observer: m}))
	m.rebuild = func() { rebuilt <- must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{})) }
	must(g.Rebuild(ctx, db.ids, guard.RebuildOptions[int64]{}))
	for id := int64(2); id <= 80; id++ {
		_ = g.Create(ctx, []int64{id}, func(context.Context) error { db.insert(id, "more"); return nil })
	}
	report := <-rebuilt
	fmt.Println("rebuilt for", report.Capacity)
	// Output: rebuilt for 200
}

// One filter for all guards of the process, that is not rebuilt.
func ExampleInProcess() {
	ctx := context.Background()
	db := newUsers(map[int64]string{1: "Ann"})
	filter := bloom.Must(bloom.NewConcurrent(1000, 1e-6))
	filter.AddUint64(1) // an integer is its 8 bytes, least significant first
	g := must(guard.New(guard.Options[int64, string]{Loader: db, Filter: guard.InProcess(filter)}))
	fmt.Println(g.Check(ctx, 1), g.Check(ctx, 2))
	// Output: Maybe Absent
}
