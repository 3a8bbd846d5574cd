package guard

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redbloom-go/bloom"
)

// Kind is a kind of filter inside the process.
type Kind uint8

const (
	// Concurrent is a [bloom.Concurrent]: readers and writers never wait. The default.
	Concurrent Kind = iota

	// Blocked is a [bloom.Blocked] under a lock that readers share: it waits for memory once
	// a lookup, where the filter is larger than the caches.
	Blocked

	// Scalable is a [bloom.Scalable] under a lock that readers share: it keeps its rate of
	// false positives however many keys come, for more bits a key and more time a lookup.
	Scalable
)

var kindNames = [...]string{Concurrent: "Concurrent", Blocked: "Blocked", Scalable: "Scalable"}

// String returns the name of the constant, or "Kind(9)" for a value that is none.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Options are what a [Guard] is made of. Only Loader and, for a filter in the process,
// Capacity must be given. A field that is zero has the default that its comment names; a
// negative number is an error.
type Options[K comparable, V any] struct {
	// Loader reads a row from the database. One that is a [BatchLoader] serves GetMany with
	// one query.
	Loader Loader[K, V]

	// Cache keeps rows and, for a short time, the keys that have none. The default is
	// NewMemory(10_000). A cache outside the process must be a [SharedCache], else a row may be
	// hidden by another process's late answer for MissTTL.
	Cache Cache[K, V]

	// AppendKey appends the bytes that stand for k in the filter to dst: different keys,
	// different bytes, in every process and every version of the program. The default
	// takes strings as they are, integers of every type as the 8 bytes of their value, least
	// significant first, and arrays of bytes; for other types it must be given.
	AppendKey func(dst []byte, k K) []byte

	// KeyEncoding names what AppendKey does, at most 255 bytes. Snapshots carry it, and
	// Restore refuses those that have another one. Change it when AppendKey changes.
	KeyEncoding string

	// Kind is the kind of the filter in the process, [Concurrent] by default.
	Kind Kind

	// Capacity is the number of rows to expect: at that many, ErrorRate is reached. It is no
	// limit; see RebuildAt. Take twice the rows there are.
	Capacity uint64

	// ErrorRate is the share of absent keys that the filter lets through, 0.01 by default. The
	// database gets that share of an attack.
	ErrorRate float64

	// Key is the secret key of the hash, [bloom.SipHash], so that nobody can make keys that pass
	// the filter or that fill it. The default, 16 zeros, is a key that New draws; with that, a
	// snapshot could be read by nobody else and is refused. For snapshots take one from where you
	// keep secrets.
	Key [16]byte

	// Hash is in the place of Key how the filter hashes: options of scheme, seed and key as for
	// [bloom.New]. Other schemes than SipHash are a little faster, and for keys that no stranger
	// can choose.
	Hash []bloom.Option

	// Filter is a filter outside of this guard, such as one in Redis, in the place of one in the
	// process; Kind, Capacity, ErrorRate, Key and Hash have no meaning then, and it is rebuilt and
	// saved where it lives.
	Filter Filter

	// TTL is how long a row stays in the cache, 10 minutes by default; MissTTL is how long
	// the knowledge stays that there is none, and how long a deletion is remembered, 30
	// seconds by default. At least a millisecond, and what is finer is cut off; at most 30 years, as
	// all times here.
	TTL, MissTTL time.Duration

	// Jitter shortens each time to live by a random share of up to so much, so that what was stored
	// together does not expire together; less than 1, and 0.1 by default.
	Jitter float64

	// LoadTimeout ends the context of a load, and releases its callers even when the loader
	// does not heed that; 5 seconds by default. A load runs in a goroutine of its own,
	// and goes on when the caller that began it leaves, as long as somebody waits for it.
	LoadTimeout time.Duration

	// MaxLoads is how many calls of the loader may be under way at once; callers who would need
	// another one get [ErrOverload]. Of a batch it counts the queries. The default is no
	// limit, but set it: it is what holds while there is no filter. A call that does not
	// heed its context counts until it returns.
	MaxLoads int

	// FailClosed answers with the cache's error when the cache fails. The default is to load,
	// within MaxLoads.
	FailClosed bool

	// Settle is how long after a key was created an answer that there is no such row is not
	// believed enough to be kept, since it may come from a replica that is behind. The default is
	// 5 seconds; more where replicas may be further behind.
	Settle time.Duration

	// Journal is how many of the keys created last are remembered, for Settle and for
	// RebuildOptions.Overlap; 65,536 by default. Each takes the memory of an entry of a map.
	Journal int

	// Deletions is how many deleted keys are remembered exactly, 10,000 by default. Where
	// there are more, the rest is left to the cache.
	Deletions int

	// RebuildAt is the share of Capacity at which the Observer is told, once, that it is time
	// for a rebuild; 0.8 by default.
	RebuildAt float64

	// Fresh reports whether k may be newer than the filter knows, because another process
	// created it; such a key is never rejected. It suits ids that carry their time of creation: compare
	// that with [Guard.CompleteAt]. It is asked before each rejection and must be fast.
	Fresh func(k K) bool

	// Audit is the share of rejections that are looked up all the same, 0 by default, to
	// prove that the filter lacks nothing. With 1 the filter decides nothing, and shows what
	// it would have done. A row that is found is loaded once more before it counts as a false
	// negative, unless its load began after the filter was asked.
	Audit float64

	// Observer is told what happens; nil for nobody.
	Observer Observer
}

// longest is that of an option, 30 years: sums of some do not overflow.
const longest = 30 * 365 * 24 * time.Hour

// withDefaults returns o completed, or an error that wraps bloom.ErrInvalid.
func (o Options[K, V]) withDefaults() (Options[K, V], error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: "+format, append([]any{bloom.ErrInvalid}, args...)...))
	}
	if o.Loader == nil {
		bad("Loader is nil")
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"TTL", &o.TTL, 10 * time.Minute},
		{"MissTTL", &o.MissTTL, 30 * time.Second},
		{"LoadTimeout", &o.LoadTimeout, 5 * time.Second},
		{"Settle", &o.Settle, 5 * time.Second},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.standard
		case *d.value < time.Millisecond:
			bad("%s is %v, want at least 1ms", d.name, *d.value)
		case *d.value > longest:
			bad("%s is %v, want at most %v", d.name, *d.value, longest)
		}
	}
	for _, s := range []struct {
		name     string
		value    *float64
		standard float64
		high     float64
	}{
		{"Jitter", &o.Jitter, 0.1, 1 - 1e-9},
		{"RebuildAt", &o.RebuildAt, 0.8, math.MaxFloat64},
		{"Audit", &o.Audit, 0, 1},
	} {
		if !(*s.value >= 0 && *s.value <= s.high) { // NaN fails that
			bad("%s is %v", s.name, *s.value)
		} else if *s.value == 0 {
			*s.value = s.standard
		}
	}
	for _, n := range []struct {
		name     string
		value    *int
		standard int
	}{
		{"MaxLoads", &o.MaxLoads, 0},
		{"Journal", &o.Journal, 1 << 16},
		{"Deletions", &o.Deletions, 10_000},
	} {
		if *n.value < 0 {
			bad("%s is %d", n.name, *n.value)
		} else if *n.value == 0 {
			*n.value = n.standard
		}
	}
	if o.ErrorRate == 0 {
		o.ErrorRate = 0.01
	}
	if o.Hash != nil && o.Key != [16]byte{} {
		bad("both Key and Hash are given")
	}
	if o.Kind > Scalable {
		bad("Kind is %v", o.Kind)
	}
	if len(o.KeyEncoding) > 255 {
		bad("KeyEncoding has %d bytes, want at most 255", len(o.KeyEncoding))
	}
	if o.KeyEncoding != "" && o.AppendKey == nil {
		bad("KeyEncoding is %q, but AppendKey is nil", o.KeyEncoding)
	}
	return o, errors.Join(errs...)
}
