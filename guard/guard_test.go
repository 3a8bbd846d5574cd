package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// database is the truth of a test: a table with a lock, a clock and faults.
type database struct {
	mu   sync.Mutex
	rows map[int]row

	loads   atomic.Int64 // calls of Load and LoadMany
	running atomic.Int64
	peak    atomic.Int64 // most calls at once
	takes   time.Duration
	fault   func(ctx context.Context, k int) error // before the rows are read
	after   func(k int)                            // once they are read
}

type row struct {
	value string
	at    time.Time
}

func newDatabase(keys ...int) *database {
	db := &database{rows: map[int]row{}}
	db.insert(keys...)
	return db
}

// rowsUpTo is a database of the keys 1 … n.
func rowsUpTo(n int) *database {
	db := newDatabase()
	for k := range n {
		db.insert(k + 1)
	}
	return db
}

func (db *database) insert(keys ...int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, k := range keys {
		db.rows[k] = row{valueOf(k), time.Now()}
	}
}

func (db *database) remove(keys ...int) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, k := range keys {
		delete(db.rows, k)
	}
}

func (db *database) read(k int) (row, bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	r, ok := db.rows[k]
	return r, ok
}

func (db *database) hooks() (func(context.Context, int) error, func(int)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.fault, db.after
}

// heal takes the faults away.
func (db *database) heal() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.fault, db.after = nil, nil
}

func valueOf(k int) string { return fmt.Sprint("row ", k) }

func (db *database) begin() func() {
	db.loads.Add(1)
	n := db.running.Add(1)
	for peak := db.peak.Load(); n > peak && !db.peak.CompareAndSwap(peak, n); peak = db.peak.Load() {
	}
	return func() { db.running.Add(-1) }
}

func (db *database) Load(ctx context.Context, k int) (string, error) {
	defer db.begin()()
	fault, after := db.hooks()
	if fault != nil {
		if err := fault(ctx, k); err != nil {
			return "", err
		}
	}
	r, ok := db.read(k)
	if db.takes > 0 {
		select {
		case <-time.After(db.takes):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if after != nil {
		after(k)
	}
	if !ok {
		return "", fmt.Errorf("no row %d: %w", k, ErrNotFound)
	}
	return r.value, nil
}

// scan is a Scan that reads all rows when it is opened, as in one snapshot.
func (db *database) scan(_ context.Context, since time.Time) iter.Seq2[int, error] {
	db.mu.Lock()
	defer db.mu.Unlock()
	var keys []int
	for k, r := range db.rows {
		if !r.at.Before(since) {
			keys = append(keys, k)
		}
	}
	return func(yield func(int, error) bool) {
		for _, k := range keys {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// batchDatabase is a database with batches.
type batchDatabase struct {
	*database
	batches [][]int
}

func (db *batchDatabase) LoadMany(ctx context.Context, ks []int) (map[int]string, error) {
	defer db.begin()()
	db.mu.Lock()
	db.batches = append(db.batches, ks)
	db.mu.Unlock()
	found := map[int]string{}
	for _, k := range ks {
		if fault, _ := db.hooks(); fault != nil {
			if err := fault(ctx, k); err != nil {
				return found, err
			}
		}
		if r, ok := db.read(k); ok {
			found[k] = r.value
		}
	}
	if db.takes > 0 {
		select {
		case <-time.After(db.takes):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return found, nil
}

// never is an error rate at which a test meets no false positive.
const never = 1e-9

type options = Options[int, string]

// newGuard makes a guard over db, without a filter.
func newGuard(t testing.TB, db Loader[int, string], change func(*options)) *Guard[int, string] {
	t.Helper()
	o := options{Loader: db, Capacity: 10_000, ErrorRate: never}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	require.NoError(t, err)
	return g
}

// builtGuard is newGuard with a filter of all rows.
func builtGuard(t testing.TB, db *database, change func(*options)) *Guard[int, string] {
	t.Helper()
	g := newGuard(t, db, change)
	_, err := g.Rebuild(t.Context(), db.scan, RebuildOptions[int]{MinKeep: -1})
	require.NoError(t, err)
	return g
}

func TestGet(t *testing.T) {
	db := rowsUpTo(10)
	g := builtGuard(t, db, nil)
	ctx := t.Context()

	v, err := g.Get(ctx, 3)
	require.NoError(t, err)
	require.Equal(t, "row 3", v)
	v, err = g.Get(ctx, 11)
	require.Equal(t, ErrAbsent, err)
	require.ErrorIs(t, err, ErrNotFound)
	require.Empty(t, v)
	require.EqualValues(t, 1, db.loads.Load())
	require.Equal(t, Maybe, g.Check(ctx, 3))
	require.Equal(t, Absent, g.Check(ctx, 11))

	require.NoError(t, g.Create(ctx, []int{11}, func(context.Context) error { db.insert(11); return nil }))
	v, err = g.Get(ctx, 11)
	require.NoError(t, err)
	require.Equal(t, "row 11", v)

	rest(g)
	many, err := g.GetMany(ctx, []int{1, 2, 11, 12, 13, 1})
	require.NoError(t, err)
	require.Equal(t, map[int]string{1: "row 1", 2: "row 2", 11: "row 11"}, many)

	s := g.Stats()
	require.Equal(t, StateActive, s.State)
	require.EqualValues(t, 11, s.Items)
	require.EqualValues(t, 3, s.Rejected)
	require.EqualValues(t, 1, s.Hits)
	require.EqualValues(t, 4, s.Found)
}

func TestGetAllocatesNothingForARejection(t *testing.T) {
	ctx := t.Context()
	allocs := func(get func()) float64 { return testing.AllocsPerRun(1000, get) }
	type id string
	type uuid [16]byte
	type custom struct{ a, b uint32 }
	for _, kind := range []Kind{Concurrent, Blocked, Scalable} {
		require.Zero(t, allocs(rejecting[int](t, kind, nil, ctx, -1)), "%v int", kind)
		require.Zero(t, allocs(rejecting[uint16](t, kind, nil, ctx, 1)), "%v uint16", kind)
		require.Zero(t, allocs(rejecting(t, kind, nil, ctx, "user:12345678")), "%v string", kind)
		require.Zero(t, allocs(rejecting(t, kind, nil, ctx, id("user:12345678"))), "%v named string", kind)
		require.Zero(t, allocs(rejecting(t, kind, nil, ctx, uuid{1, 2, 3})), "%v uuid", kind)
		if underRace {
			continue
		}
		require.Zero(t, allocs(rejecting(t, kind, func(dst []byte, k custom) []byte {
			return append(dst, byte(k.a), byte(k.b))
		}, ctx, custom{1, 2})), "%v custom", kind)
	}
}

func rejecting[K comparable](t *testing.T, kind Kind, appendKey func([]byte, K) []byte, ctx context.Context, k K) func() {
	g, err := New(Options[K, string]{
		Loader: LoaderFunc[K, string](func(context.Context, K) (string, error) { return "", errors.New("loaded") }),
		Kind:   kind, AppendKey: appendKey, Capacity: 1000, ErrorRate: never,
	})
	require.NoError(t, err)
	_, err = g.Rebuild(ctx, func(context.Context, time.Time) iter.Seq2[K, error] {
		return func(func(K, error) bool) {}
	}, RebuildOptions[K]{MinKeep: -1})
	require.NoError(t, err)
	return func() {
		if _, err := g.Get(ctx, k); err != ErrAbsent {
			t.Fatal(err)
		}
		if g.Check(ctx, k) != Absent {
			t.Fatal("not absent")
		}
	}
}
