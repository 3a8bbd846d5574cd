package guard

import (
	"crypto/rand"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom"
)

// generation is one filter in the process, from its building to its replacement.
type generation struct {
	fast *bloom.Concurrent // the filter, if it is of this kind: lookups need no indirect call
	slow slowFilter        // the filter otherwise

	capacity uint64
	full     uint64      // that many keys are told to the observer
	told     atomic.Bool // they have been

	// All rows that anybody committed before this are in the filter; Unix time in nanoseconds.
	complete atomic.Int64
}

// filter is what the kinds have in common.
type filter interface {
	Digest(key []byte) bloom.Digest
	TargetRate() float64
	Len() uint64
	io.ReaderFrom
}

// slowFilter is a filter behind a lock.
type slowFilter interface {
	add(ds []bloom.Digest) error
	contains(d bloom.Digest) bool
	len() uint64
	info() bloom.Info
	clone() io.WriterTo
}

// hashOptions returns how the guard's filters hash. It is the one place that decides that, and where
// a key is drawn.
func (o *Options[K, V]) hashOptions() []bloom.Option {
	if o.Hash != nil {
		return o.Hash
	}
	key := o.Key
	if key == [16]byte{} {
		rand.Read(key[:]) // never fails
	}
	return []bloom.Option{bloom.WithScheme(bloom.SipHash), bloom.WithKey(key)}
}

// lasting reports whether another process can hash in the same way.
func (o *Options[K, V]) lasting() bool { return o.Hash != nil || o.Key != [16]byte{} }

// newFilter makes an empty filter of the kind that the options ask for.
func (g *Guard[K, V]) newFilter(capacity uint64) (f filter, err error) {
	switch g.opts.Kind {
	case Blocked:
		f, err = bloom.NewBlocked(capacity, g.opts.ErrorRate, g.hash...)
	case Scalable:
		f, err = bloom.NewScalable(capacity, g.opts.ErrorRate, g.hash...)
	default:
		f, err = bloom.NewConcurrent(capacity, g.opts.ErrorRate, g.hash...)
	}
	if err != nil {
		return nil, fmt.Errorf("guard: a filter for %d keys: %w", capacity, err)
	}
	return f, nil
}

func (g *Guard[K, V]) newGeneration(f filter, capacity uint64) *generation {
	gen := &generation{capacity: capacity, full: uint64(max(1, min(g.opts.RebuildAt*float64(capacity), 1<<63)))}
	switch f := f.(type) {
	case *bloom.Blocked:
		gen.slow = lock(f)
	case *bloom.Scalable:
		gen.slow = lock(f)
	case *bloom.Concurrent:
		gen.fast = f
	}
	return gen
}

func (gen *generation) contains(d bloom.Digest) bool {
	if gen.fast != nil {
		return gen.fast.ContainsDigest(d)
	}
	return gen.slow.contains(d)
}

func (gen *generation) add(ds []bloom.Digest) error {
	if gen.fast == nil {
		return gen.slow.add(ds)
	}
	for _, d := range ds {
		gen.fast.AddDigest(d)
	}
	return nil
}

func (gen *generation) len() uint64 {
	if gen.fast != nil {
		return gen.fast.Len()
	}
	return gen.slow.len()
}

func (gen *generation) info() bloom.Info {
	if gen.fast != nil {
		return gen.fast.Info()
	}
	return gen.slow.info()
}

// frozen returns what writes the filter. One behind a lock is copied, so that nobody waits for the
// reader of a snapshot.
func (gen *generation) frozen() io.WriterTo {
	if gen.fast != nil {
		return gen.fast
	}
	return gen.slow.clone()
}

// completeAt returns the time before which all committed rows are in the filter.
func (gen *generation) completeAt() time.Time { return time.Unix(0, gen.complete.Load()) }

func (gen *generation) setComplete(t time.Time) { gen.complete.Store(t.UnixNano()) }

// lockable is a filter that one goroutine may change or several may read.
type lockable interface {
	*bloom.Blocked | *bloom.Scalable
	ContainsDigest(bloom.Digest) bool
	Len() uint64
	Info() bloom.Info
}

type cloner[F any] interface{ Clone() F }

type locked[F lockable] struct{ *bloom.Locked[F] }

func lock[F lockable](f F) slowFilter { return locked[F]{bloom.NewLocked(f)} }

func (l locked[F]) add(ds []bloom.Digest) (err error) {
	l.Write(func(f F) {
		switch f := any(f).(type) {
		case *bloom.Blocked:
			for _, d := range ds {
				f.AddDigest(d)
			}
		case *bloom.Scalable:
			for _, d := range ds {
				if _, err = f.AddDigest(d); err != nil {
					return
				}
			}
		}
	})
	return err
}

func (l locked[F]) contains(d bloom.Digest) (ok bool) {
	l.Read(func(f F) { ok = f.ContainsDigest(d) })
	return ok
}

func (l locked[F]) len() (n uint64) {
	l.Read(func(f F) { n = f.Len() })
	return n
}

func (l locked[F]) info() (i bloom.Info) {
	l.Read(func(f F) { i = f.Info() })
	return i
}

func (l locked[F]) clone() (w io.WriterTo) {
	l.Read(func(f F) { w = any(any(f).(cloner[F]).Clone()).(io.WriterTo) })
	return w
}
