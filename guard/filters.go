package guard

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
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

// slowFilter is a filter behind a lock.
type slowFilter interface {
	add(ds []bloom.Digest) error
	contains(d bloom.Digest) bool
	len() uint64
	info() bloom.Info
}

// hashOptions are what the guard's filters hash by unless the user says otherwise. It is the
// one place that knows.
func hashOptions() []bloom.Option {
	var secret [8]byte
	rand.Read(secret[:]) // never fails
	return []bloom.Option{bloom.WithSeed(binary.LittleEndian.Uint64(secret[:]))}
}

// newGeneration makes an empty filter of the kind the options ask for.
func (g *Guard[K, V]) newGeneration(capacity uint64) (*generation, error) {
	gen := &generation{capacity: capacity, full: uint64(min(g.opts.RebuildAt*float64(capacity), 1<<63))}
	var err error
	switch g.opts.Kind {
	case Blocked:
		var f *bloom.Blocked
		if f, err = bloom.NewBlocked(capacity, g.opts.ErrorRate, g.opts.Hash...); err == nil {
			gen.slow = lock(f)
		}
	case Scalable:
		var f *bloom.Scalable
		if f, err = bloom.NewScalable(capacity, g.opts.ErrorRate, g.opts.Hash...); err == nil {
			gen.slow = lock(f)
		}
	default:
		gen.fast, err = bloom.NewConcurrent(capacity, g.opts.ErrorRate, g.opts.Hash...)
	}
	if err != nil {
		return nil, fmt.Errorf("guard: a filter for %d keys: %w", capacity, err)
	}
	return gen, nil
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
