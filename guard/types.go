package guard

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Errors of this package; test with [errors.Is]. What the guard refuses as a bad argument,
// and a snapshot that it cannot use, are the errors of package bloom: bloom.ErrInvalid,
// bloom.ErrCorrupt, bloom.ErrMismatch and bloom.ErrVersion.
var (
	// ErrNotFound says that there is no such row. A [Loader] returns it, and so does [Guard.Get].
	ErrNotFound = errors.New("guard: not found")

	// ErrAbsent says that the filter rejected the key: neither cache nor database was
	// asked. It wraps ErrNotFound, so a caller that does not care tests for that.
	ErrAbsent = fmt.Errorf("guard: rejected by the filter: %w", ErrNotFound)

	// ErrOverload says that Options.MaxLoads loads are under way already and that this one was
	// not begun.
	ErrOverload = errors.New("guard: too many loads at once")

	// ErrRebuilding says that a rebuild or a restore is under way already.
	ErrRebuilding = errors.New("guard: a rebuild is under way")

	// ErrShortScan says that a scan ended without an error but gave no keys, or far fewer than
	// the filter holds, so that its filter would reject rows that exist.
	ErrShortScan = errors.New("guard: the scan gave too few keys")

	// ErrJournal says that more keys were created lately than the guard remembers, so that the
	// RebuildOptions.Overlap asked for cannot be had.
	ErrJournal = errors.New("guard: the journal of created keys does not reach back far enough")

	// ErrUnloaded says that [Guard.Unload] ended a rebuild or a restore.
	ErrUnloaded = errors.New("guard: unloaded meanwhile")

	// ErrUnmarked says that rows were committed, but that the guard could not finish marking
	// them: call [Guard.MarkCreated] again.
	ErrUnmarked = errors.New("guard: committed, but not marked")
)

// PanicError is what callers get when a [Loader] or a [Scan] panics. It wraps nothing: a panic with an
// error that wraps ErrNotFound is no proof that there is no row.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine that panicked, as debug.Stack formats it
}

// Error tells the value; the stack is in the field.
func (e *PanicError) Error() string { return fmt.Sprintf("guard: panic: %v", e.Value) }

// Verdict is what a filter says of a key.
type Verdict uint8

const (
	// Unknown is the answer of a filter that is not there: not built yet, lost, unreachable.
	// The key may or may not exist. It is the zero Verdict, so that what nobody has answered is
	// never taken for Absent.
	Unknown Verdict = iota

	// Absent is certain: the key was never added to the filter.
	Absent

	// Maybe is the answer for every key that was added, and for a small share of the others.
	Maybe
)

var verdictNames = [...]string{Unknown: "Unknown", Absent: "Absent", Maybe: "Maybe"}

// String returns the name of the constant, or "Verdict(9)" for a value that is none.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Filter is a filter that the guard does not own: one in Redis, one that several processes
// share, time buckets. Its methods are called from several goroutines at once.
//
// The guard only ever asks and adds. It never removes a key and never empties the filter.
type Filter interface {
	// Verdicts appends one verdict a key to dst, in the order of keys, and returns the extended
	// slice. It neither keeps nor changes the keys.
	//
	// Absent must be certain. A filter that was lost, evicted, flushed, replaced by an older
	// copy, or is being filled answers Unknown, and it must see that in the same step as it
	// reads the bits: a look at whether the filter is there that comes before or after the
	// lookup is none. With an error the guard takes every key to be Unknown.
	Verdicts(ctx context.Context, dst []Verdict, keys [][]byte) ([]Verdict, error)

	// AddKeys adds all keys; once it has returned nil, Verdicts never calls one of them Absent.
	// It neither keeps nor changes the keys. A filter that is not there must not be made by it,
	// since it would lack all other keys: AddKeys then does nothing and returns nil. Adding a
	// key again is harmless. On error any of the keys may have been added.
	AddKeys(ctx context.Context, keys [][]byte) error
}

// Entry is what a cache has for a key: a value, or the knowledge that there is no row.
type Entry[V any] struct {
	Value   V
	Missing bool // there is no row; Value is the zero value
}

// Cache keeps entries for a time. Its methods are called from several goroutines at once.
// [NewMemory] makes one; adapters for others are a few lines.
type Cache[K comparable, V any] interface {
	// Get returns the entry of k, and whether there is one.
	Get(ctx context.Context, k K) (e Entry[V], ok bool, err error)

	// Set stores e for k, for ttl at most, which is a positive whole number of milliseconds. An
	// entry that is Missing never replaces a value: where there is one, Set does nothing and
	// returns nil. A value replaces whatever there is.
	Set(ctx context.Context, k K, e Entry[V], ttl time.Duration) error

	// Delete removes what is stored for k, if anything.
	Delete(ctx context.Context, k K) error
}

// BatchCache is a [Cache] that does many keys in one step. [Guard.GetMany] uses it where
// the cache has it.
type BatchCache[K comparable, V any] interface {
	Cache[K, V]

	// GetMany returns the entries of those of ks that have one. With an error it may return
	// some of them.
	GetMany(ctx context.Context, ks []K) (map[K]Entry[V], error)

	// SetMany does what Set does for each of items.
	SetMany(ctx context.Context, items []Item[K, V]) error
}

// Item is an entry to be stored, with its key and the longest time it may be kept.
type Item[K comparable, V any] struct {
	Key   K
	Entry Entry[V]
	TTL   time.Duration
}

// SharedCache is a [Cache] that several processes write to. One of them may find no row just
// before another creates it, and store that late; what the guard does against this inside
// a process does not reach the other, so the cache has to.
type SharedCache[K comparable, V any] interface {
	Cache[K, V]

	// Fence removes what is stored for each of ks, as Delete does, and from then on refuses
	// entries that are Missing for them, whoever sets them, for d and for as long as a
	// Set may take on its way to the cache after its context has ended. Values are taken, and
	// end the refusal for as long as they stay. A key that is fenced and has no value is
	// one that Get has no entry for.
	Fence(ctx context.Context, ks []K, d time.Duration) error
}

// Loader reads rows from the database. It is called from several goroutines at once.
type Loader[K comparable, V any] interface {
	// Load returns the row of k, or an error that wraps [ErrNotFound] when there is none. A
	// nil error means that there is a row, whatever the value is: nil, 0 and "" are values. It
	// must return when ctx ends; ctx has the values of the context of the caller that
	// began the load, but neither its deadline nor its cancellation.
	Load(ctx context.Context, k K) (V, error)
}

// LoaderFunc makes a [Loader] of a function.
type LoaderFunc[K comparable, V any] func(ctx context.Context, k K) (V, error)

// Load calls f.
func (f LoaderFunc[K, V]) Load(ctx context.Context, k K) (V, error) { return f(ctx, k) }

// BatchLoader is a [Loader] that reads many rows in one query. [Guard.GetMany] uses it where
// the loader has it.
type BatchLoader[K comparable, V any] interface {
	Loader[K, V]

	// LoadMany returns the rows of ks; a key that is not in the map has none. With an
	// error nothing is known of any of them, the map is ignored, and ErrNotFound has no
	// special meaning.
	LoadMany(ctx context.Context, ks []K) (map[K]V, error)
}

// Scan iterates over the keys of rows: all of them when since is zero, otherwise at
// least those committed at or after since; keys may repeat, and may be those of rows that were
// deleted meanwhile. It ends at the first error that it yields. It must read what was
// committed before it was called; see [RebuildOptions] for databases that read a
// little in the past.
type Scan[K any] func(ctx context.Context, since time.Time) iter.Seq2[K, error]
