package goredis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// Sync answers from a copy of a filter in Redis that it keeps in the memory of this process: in
// nanoseconds, and also while Redis is down. Keys go to both. Refresh replaces the copy by a new one,
// in one step; Run does so in an interval.
//
// What it cannot know is what other processes have added since the last refresh began: it calls those keys Absent.
// Status tells how old that makes the answers, MaxStale bounds it, and for rows of other processes that are asked for
// right away there are Options.Fresh and Guard.CatchUp of package guard.
//
// A copy is only ever replaced by one of a filter that is whole. If the filter in Redis is lost, the copy stays,
// and Refresh returns an error that wraps [ErrUnknown] until there is one again. Keys that Redis did not take,
// since it was out of reach or the filter was not there, stay in the copy and are sent again by the next
// Refresh, which does not replace the copy before.
//
// It fits guard.Options.Filter. Make one with [NewSync].
type Sync struct {
	source Source
	o      SyncOptions

	current    atomic.Pointer[replica]
	refreshing chan struct{} // has an element while a Refresh runs

	mu      sync.Mutex // for all that follows, and adds to copies
	pulling bool
	journal [][]byte // keys added since pulling began
	unsent  [][]byte // keys that Redis has not
	status  Status
}

// Source is a filter that can be copied: a [*Filter], [*Cuckoo] or [*Bitmap].
type Source interface {
	guard.Filter
	Key() string
	store(ctx context.Context, keys [][]byte) (stored bool, err error)
	copy(ctx context.Context, o PullOptions, last *replica) (*replica, error)
}

// SyncOptions are for [NewSync]. The zero value is fit for use.
type SyncOptions struct {
	// Every is the interval of Run, 1 minute by default. A tenth of it is chance, so that processes do not pull all at
	// once.
	Every time.Duration

	// MaxStale is the age of the copy from which on it answers Unknown in the place of Absent. By default there is no such
	// age: it goes on answering from what it has.
	MaxStale time.Duration

	// MaxUnsent bounds the keys that are kept for Redis while it is out of reach, 1,048,576 by default. Beyond that
	// AddKeys does not keep them: they are in the copy until it is replaced.
	MaxUnsent int

	// Pull is for the pulls.
	Pull PullOptions

	// Refreshed, if not nil, is called after each refresh by Run.
	Refreshed func(Status)
}

// Status tells what a [Sync] answers from.
type Status struct {
	Ready      bool          // there is a copy
	CompleteAt time.Time     // every key that was added before, by whomever, is in the copy
	Stale      time.Duration // since then
	SizeBytes  uint64        // of the copy
	Pulls      uint64        // copies so far
	Unchanged  uint64        // refreshes that found nothing new, and pulled nothing
	Failures   uint64        // refreshes that failed since the last one that did not
	Err        error         // of the last of these; nil if the last refresh succeeded
	Unsent     int           // keys that Redis has not
}

// NewSync returns a Sync without a copy, which answers Unknown until Refresh or Run has made one. It sends nothing. It
// returns an error that wraps bloom.ErrInvalid for a nil source or a negative duration.
func NewSync(source Source, o SyncOptions) (*Sync, error) {
	if source == nil || o.Every < 0 || o.MaxStale < 0 || o.MaxUnsent < 0 {
		return nil, fmt.Errorf("%w: source %v, Every %v, MaxStale %v, MaxUnsent %d", bloom.ErrInvalid, source, o.Every, o.MaxStale, o.MaxUnsent)
	}
	if o.Every == 0 {
		o.Every = time.Minute
	}
	if o.MaxUnsent == 0 {
		o.MaxUnsent = 1 << 20
	}
	return &Sync{source: source, o: o, refreshing: make(chan struct{}, 1)}, nil
}

// Verdicts appends the answers of the copy to dst; see [Sync]. It sends nothing, does not allocate, and returns nil.
func (s *Sync) Verdicts(_ context.Context, dst []guard.Verdict, keys [][]byte) ([]guard.Verdict, error) {
	c := s.current.Load()
	if c == nil {
		return unknowns(dst, len(keys), nil)
	}
	n := len(dst)
	dst = c.verdicts(dst, keys)
	if s.stale(c) {
		for i, v := range dst[n:] {
			if v == guard.Absent {
				dst[n+i] = guard.Unknown
			}
		}
	}
	return dst, nil
}

// Check is Verdicts for one key.
func (s *Sync) Check(key []byte) guard.Verdict {
	switch c := s.current.Load(); {
	case c == nil:
		return guard.Unknown
	case c.contains(key):
		return guard.Maybe
	case s.stale(c):
		return guard.Unknown
	}
	return guard.Absent
}

func (s *Sync) stale(c *replica) bool {
	return s.o.MaxStale > 0 && time.Since(c.completeAt) > s.o.MaxStale
}

// AddKeys adds keys to the filter in Redis, in one round trip, and then to the copy. It returns the error of Redis, but
// adds to the copy all the same. If there is no filter in Redis, it returns nil, as every filter for a guard does.
func (s *Sync) AddKeys(ctx context.Context, keys [][]byte) error {
	stored, err := s.source.store(ctx, keys)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !stored && (err == nil || transient(err) || ctx.Err() != nil) {
		if len(s.unsent)+len(keys) > s.o.MaxUnsent {
			err = errors.Join(err, fmt.Errorf("%w: %d keys wait for Redis already", bloom.ErrFull, len(s.unsent)))
		} else {
			s.unsent = appendClones(s.unsent, keys)
		}
	}
	if s.pulling {
		s.journal = appendClones(s.journal, keys)
	}
	if c := s.current.Load(); c != nil {
		if localErr := c.addAll(keys); localErr != nil {
			s.current.Store(nil) // it would call keys absent that Redis has
			return errors.Join(err, fmt.Errorf("goredis: the copy could not take a key and was dropped: %w", localErr))
		}
	}
	return err
}

func appendClones(dst, keys [][]byte) [][]byte {
	for _, key := range keys {
		dst = append(dst, slices.Clone(key))
	}
	return dst
}

// Refresh sends the keys that Redis has not taken yet, and replaces the copy by a new one. If the filter in Redis has
// not changed, which can be seen of a [Filter] that is marked only, it keeps the copy. On error it keeps the copy. One
// Refresh waits for another, as long as ctx lasts.
func (s *Sync) Refresh(ctx context.Context) error {
	select {
	case s.refreshing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.refreshing }()
	err := s.refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulling, s.journal, s.status.Err = false, nil, err
	if err != nil {
		s.status.Failures++
	} else {
		s.status.Failures = 0
	}
	return err
}

func (s *Sync) refresh(ctx context.Context) error {
	s.mu.Lock()
	s.pulling = true
	s.mu.Unlock()
	start := time.Now()
	if err := s.sendUnsent(ctx); err != nil {
		return err
	}
	last := s.current.Load()
	c, err := s.source.copy(ctx, s.o.Pull, last)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == last {
		unchanged := *last
		unchanged.completeAt = start
		if s.current.CompareAndSwap(last, &unchanged) { // unless it was dropped
			s.status.Unchanged++
		}
		return nil
	}
	for _, keys := range [][][]byte{s.journal, s.unsent} {
		if err := c.addAll(keys); err != nil {
			return err
		}
	}
	c.completeAt = start
	s.current.Store(c)
	s.status.Pulls++
	return nil
}

// sendUnsent adds to Redis what it has not.
func (s *Sync) sendUnsent(ctx context.Context) error {
	for {
		s.mu.Lock()
		keys := s.unsent[:min(len(s.unsent), rebuildBatch)]
		s.mu.Unlock()
		if len(keys) == 0 {
			return nil
		}
		stored, err := s.source.store(ctx, keys)
		if err != nil {
			return err
		}
		if !stored {
			return fmt.Errorf("%w: key %q", ErrUnknown, s.source.Key())
		}
		s.mu.Lock()
		if s.unsent = s.unsent[len(keys):]; len(s.unsent) == 0 {
			s.unsent = nil // and its memory with it
		}
		s.mu.Unlock()
	}
}

// Run calls Refresh now, and then in the interval, until ctx ends; it returns the error of ctx. After a failure it
// waits for a second only, then two, four, up to the interval.
func (s *Sync) Run(ctx context.Context) error {
	for failures := 0; ; {
		wait := s.o.Every - time.Duration(rand.Float64()*0.1*float64(s.o.Every))
		if err := s.Refresh(ctx); err != nil {
			wait = min(wait, time.Second<<min(failures, 20))
			failures++
		} else {
			failures = 0
		}
		if s.o.Refreshed != nil {
			s.o.Refreshed(s.Status())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Status returns what is known of the copy. It sends nothing.
func (s *Sync) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Unsent = len(s.unsent)
	if c := s.current.Load(); c != nil {
		st.Ready, st.CompleteAt, st.Stale, st.SizeBytes = true, c.completeAt, time.Since(c.completeAt), c.sizeBytes()
	}
	return st
}
