package goredis

import (
	"context"
	"sync"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// This file has the copies that Sync answers from.

// replica is a copy.
type replica struct {
	local
	stamp      string // equal only if the filter in Redis has not changed
	completeAt time.Time
}

// local is a filter in this process, whose methods are for many goroutines.
type local interface {
	verdicts(dst []guard.Verdict, keys [][]byte) []guard.Verdict
	contains(key []byte) bool
	addAll(keys [][]byte) error
	sizeBytes() uint64
}

func (b *Bitmap) copy(ctx context.Context, o PullOptions, _ *replica) (*replica, error) {
	f, err := b.Pull(ctx, o)
	if err != nil {
		return nil, err
	}
	return &replica{local: localBitmap{f.Concurrent()}}, nil
}

type localBitmap struct{ *bloom.Concurrent }

func (l localBitmap) contains(key []byte) bool { return l.Contains(key) }
func (l localBitmap) sizeBytes() uint64        { return l.SizeBytes() }
func (l localBitmap) addAll(keys [][]byte) error {
	for _, key := range keys {
		l.Add(key)
	}
	return nil
}
func (l localBitmap) verdicts(dst []guard.Verdict, keys [][]byte) []guard.Verdict {
	for _, key := range keys {
		dst = append(dst, verdict(l.Contains(key)))
	}
	return dst
}

// copy does not copy where the header, which counts every add that changed a bit, is the same. Without a
// marker it could be that of another filter.
func (f *Filter) copy(ctx context.Context, o PullOptions, last *replica) (*replica, error) {
	if last != nil && !o.Unmarked {
		stamp, err := f.stamp(ctx)
		if err == nil && stamp == last.stamp {
			return last, nil
		}
	}
	filter, stamp, err := f.pull(ctx, o)
	if err != nil {
		return nil, err
	}
	return &replica{local: &localFilter[*bloom.Scalable]{filter: filter, add: (*bloom.Scalable).Add}, stamp: stamp}, nil
}

func (c *Cuckoo) copy(ctx context.Context, o PullOptions, _ *replica) (*replica, error) {
	filter, err := c.Pull(ctx, o)
	if err != nil {
		return nil, err
	}
	return &replica{local: &localFilter[*bloom.Cuckoo]{filter: filter, add: (*bloom.Cuckoo).AddUnique}}, nil
}

// localFilter puts a lock around a filter that grows.
type localFilter[F interface {
	Contains(key []byte) bool
	SizeBytes() uint64
}] struct {
	mu     sync.RWMutex
	filter F
	add    func(F, []byte) (bool, error)
}

func (l *localFilter[F]) contains(key []byte) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.filter.Contains(key)
}

func (l *localFilter[F]) sizeBytes() uint64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.filter.SizeBytes()
}

func (l *localFilter[F]) addAll(keys [][]byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if l.filter.Contains(key) {
			continue
		}
		if _, err := l.add(l.filter, key); err != nil {
			return err
		}
	}
	return nil
}

func (l *localFilter[F]) verdicts(dst []guard.Verdict, keys [][]byte) []guard.Verdict {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for _, key := range keys {
		dst = append(dst, verdict(l.filter.Contains(key)))
	}
	return dst
}
