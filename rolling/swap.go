package rolling

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Errors of this package; test with [errors.Is].
var (
	ErrRebuilding = errors.New("rolling: a rebuild is under way") // there is one at a time
	ErrDropped    = errors.New("rolling: dropped meanwhile")      // Drop ended the rebuild
)

// Swap holds a filter that can be replaced while it is read and written. Meanwhile the old
// filter, the active one, goes on answering, and every key that is written goes to both, so that
// the new one, the standby, lacks nothing when it takes over.
//
// Readers call Load, which is one load of a pointer: they wait for nobody, and a rebuild does not
// slow them down. Writers share a lock, which a rebuild takes alone for an instant
// when it begins and when it ends. All methods may be called from several goroutines
// at once; the filters must allow for that.
//
// No key is lost if rows are written in this order: commit, then Write. A writer that comes
// before the standby is published has committed, so the scan sees its row; one that comes
// after adds to the standby. That takes a scan which is opened inside of Rebuild and
// sees all that was committed by then. Where a reader may look for a row as soon as it is
// committed, Write before the commit as well: else the active filter calls it absent in
// between.
//
// The zero Swap has no filter yet. It must not be copied.
type Swap[F any] struct {
	state   atomic.Pointer[state[F]]
	writers sync.RWMutex // held shared while state is used for writing, alone while it is replaced
	busy    atomic.Bool
}

type state[F any] struct {
	active  F
	loaded  bool // there is an active filter
	standby *standby[F]
}

type standby[F any] struct {
	f      F
	failed atomic.Pointer[error] // the first write that did not reach it
	cancel context.CancelCauseFunc
}

func (s *standby[F]) fail(err error) { s.failed.CompareAndSwap(nil, &err) }

// NewSwap returns a Swap with an active filter.
func NewSwap[F any](active F) *Swap[F] {
	s := new(Swap[F])
	s.state.Store(&state[F]{active: active, loaded: true})
	return s
}

// Load returns the active filter, to be asked, and whether there is one. Ask for it anew
// at each lookup: a filter that was replaced is not written to any more.
func (s *Swap[F]) Load() (active F, ok bool) {
	if st := s.state.Load(); st != nil {
		return st.active, st.loaded
	}
	return active, false
}

// Rebuilding reports whether a rebuild is under way.
func (s *Swap[F]) Rebuilding() bool { return s.busy.Load() }

// Write calls add with the active filter, and then with the standby while there is a rebuild;
// with neither it does nothing. It returns the error of the first call. A key that the standby
// refuses is none that the writer has to care about, but the rebuild then fails with that
// error. A panic of add passes, and fails the rebuild too.
//
// Add must not call Rebuild, Drop or Write.
func (s *Swap[F]) Write(add func(F) error) error {
	s.writers.RLock()
	defer s.writers.RUnlock()
	st := s.state.Load()
	if st == nil {
		return nil
	}
	failed := errPanicked // if the first call panics, the standby does not get the key either
	defer func() {
		if st.standby != nil && failed != nil {
			st.standby.fail(failed)
		}
	}()
	var err error
	if st.loaded {
		err = add(st.active)
	}
	if st.standby != nil {
		failed = add(st.standby.f)
	}
	return err
}

var errPanicked = errors.New("rolling: a write to the standby panicked")

// Rebuild replaces the active filter by f. It publishes f as the standby, which from then on gets all
// that is written, once every Write that does not know of it has returned; calls fill, which adds
// the keys that exist; and then puts it in the place of the active filter, which is one
// store of a pointer. Fill opens its scan, as said above, and does not begin with one that is
// open already: rows committed in between would be in neither. The context of fill
// is ctx, ended by Drop too.
//
// If fill returns an error or panics, or if a write to the standby failed, the standby is dropped,
// all is as it was, and Rebuild returns that error or panics with that value. It
// returns [ErrRebuilding] at once if another Rebuild is under way, and [ErrDropped] if
// Drop was called meanwhile and fill did not fail.
func (s *Swap[F]) Rebuild(ctx context.Context, f F, fill func(ctx context.Context) error) (err error) {
	if !s.busy.CompareAndSwap(false, true) {
		return ErrRebuilding
	}
	defer s.busy.Store(false)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	next := &standby[F]{f: f, cancel: cancel}
	s.replace(func(st *state[F]) { st.standby = next })
	swapped := false
	defer func() {
		if !swapped {
			s.replace(func(st *state[F]) { st.standby = nil })
		}
	}()
	if err := fill(ctx); err != nil {
		return err
	}
	s.replace(func(st *state[F]) {
		switch failed := next.failed.Load(); {
		case st.standby != next:
			err = ErrDropped
		case failed != nil:
			err = *failed
		default:
			*st = state[F]{active: f, loaded: true}
			swapped = true
		}
	})
	return err
}

// Drop takes the active filter away, so that Load has none. A rebuild that is under way ends:
// the context of its fill does, with [ErrDropped] as the cause.
func (s *Swap[F]) Drop() {
	s.replace(func(st *state[F]) {
		if st.standby != nil {
			st.standby.cancel(ErrDropped)
		}
		*st = state[F]{}
	})
}

// replace stores a state changed by change, while nobody writes.
func (s *Swap[F]) replace(change func(*state[F])) {
	s.writers.Lock()
	defer s.writers.Unlock()
	var st state[F]
	if old := s.state.Load(); old != nil {
		st = *old
	}
	change(&st)
	s.state.Store(&st)
}
