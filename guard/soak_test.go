package guard

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The whole of it: go test ./guard -run TestSoak -soak 10m -timeout 15m
var soakTime = flag.Duration("soak", 2*time.Second, "how long TestSoak runs")

const soakKeys = 5000

// soak is a table and what is true of it. Each key is written by one goroutine only, which says in
// the key's state what a reader must get as long as the state stays the same.
type soak struct {
	rows   [soakKeys]atomic.Int64  // the table: version of the row, 0 = no row
	states [soakKeys]atomic.Uint64 // epoch<<2 | what is certain
	begun  [soakKeys]atomic.Int64  // when the creation of the key was announced, in nanoseconds
	g      *Guard[int, int64]
	outage atomic.Bool
	counts [numEvents]atomic.Int64
	t      *testing.T
}

const (
	anything uint64 = iota // a write is under way
	exists                 // in the version of the table, or a later one
	absent
	committed // exists, but is not marked yet
)

type event int

const (
	lookedUp event = iota
	wrongAbsent
	wrongRow
	stale
	failedLookups
	creations
	updates
	deletions
	swaps
	failedSwaps
	restores
	unloads
	numEvents
)

func (e event) String() string {
	return [...]string{"lookups", "wrong absent", "wrong row", "stale row", "failed lookups", "creations", "updates", "deletions",
		"swaps", "failed swaps", "restores", "unloads"}[e]
}

var errInjected = errors.New("injected")

func (s *soak) say(k int, what uint64) {
	s.states[k].Store(s.states[k].Load()>>2<<2 + 4 | what)
}

// Load is the database, with everything that can go wrong in one.
func (s *soak) Load(ctx context.Context, k int) (int64, error) {
	version := s.rows[k].Load()
	switch r := rand.IntN(10_000); {
	case r < 100:
		return version, errInjected
	case r < 110:
		panic(errInjected)
	case r < 115:
		runtime.Goexit()
	case r < 120: // deaf, and longer than LoadTimeout
		time.Sleep(50 * time.Millisecond)
	case r < 1000:
		select {
		case <-time.After(rand.N(2 * time.Millisecond)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if version == 0 {
		return 0, ErrNotFound
	}
	return version, nil
}

// LoadMany is Load for each.
func (s *soak) LoadMany(ctx context.Context, ks []int) (map[int]int64, error) {
	rows := make(map[int]int64)
	for _, k := range ks {
		v, err := s.Load(ctx, k)
		if err == nil {
			rows[k] = v
		} else if err != ErrNotFound {
			return nil, err
		}
	}
	return rows, nil
}

// soakCache is a cache that fails for some time now and then, hangs, and panics.
type soakCache struct {
	*Memory[int, int64]
	s *soak
}

func (c soakCache) fault() error {
	if c.s.outage.Load() {
		return errInjected
	}
	return nil
}

func (c soakCache) Get(ctx context.Context, k int) (Entry[int64], bool, error) {
	if err := c.fault(); err != nil {
		return Entry[int64]{}, false, err
	}
	return c.Memory.Get(ctx, k)
}

func (c soakCache) GetMany(ctx context.Context, ks []int) (map[int]Entry[int64], error) {
	if err := c.fault(); err != nil {
		return nil, err
	}
	return c.Memory.GetMany(ctx, ks)
}

func (c soakCache) Set(ctx context.Context, k int, e Entry[int64], ttl time.Duration) error {
	switch r := rand.IntN(10_000); {
	case r < 5:
		panic(errInjected)
	case r < 100:
		time.Sleep(rand.N(2 * time.Millisecond))
	case r < 105:
		time.Sleep(30 * time.Millisecond) // deaf
	}
	err := c.fault()
	if err == nil || rand.IntN(2) == 0 { // an error does not say that nothing was stored
		err = errors.Join(err, c.Memory.Set(ctx, k, e, ttl))
	}
	return err
}

func (c soakCache) SetMany(ctx context.Context, items []Item[int, int64]) (err error) {
	for _, it := range items {
		err = errors.Join(err, c.Set(ctx, it.Key, it.Entry, it.TTL))
	}
	return err
}

func (c soakCache) Delete(ctx context.Context, k int) error {
	if err := c.fault(); err != nil {
		return err
	}
	return c.Memory.Delete(ctx, k)
}

// read looks keys up until ctx ends.
func (s *soak) read(ctx context.Context, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	hot := rand.NewZipf(r, 1.2, 1, soakKeys-1)
	pick := func() int {
		if r.IntN(2) == 0 {
			return int(hot.Uint64())
		}
		return r.IntN(soakKeys)
	}
	for ctx.Err() == nil {
		if r.IntN(10) == 0 {
			s.readMany(r, pick)
		} else {
			s.readOne(r, pick())
		}
		s.counts[lookedUp].Add(1)
	}
}

func (s *soak) context(r *rand.Rand) (context.Context, context.CancelFunc) {
	if r.IntN(10) == 0 {
		return context.WithTimeout(context.Background(), time.Duration(r.IntN(2000))*time.Microsecond)
	}
	return context.WithCancel(context.Background())
}

func (s *soak) readOne(r *rand.Rand, k int) {
	ctx, cancel := s.context(r)
	defer cancel()
	state, version := s.states[k].Load(), s.rows[k].Load()
	v, err := s.g.Get(ctx, k)
	if errors.Is(err, ErrNotFound) {
		s.check(k, state, version, 0)
	} else if err == nil {
		s.check(k, state, version, v)
	} else {
		s.checkError(err)
	}
}

func (s *soak) readMany(r *rand.Rand, pick func() int) {
	ctx, cancel := s.context(r)
	defer cancel()
	ks := make([]int, r.IntN(20))
	states, versions := make([]uint64, len(ks)), make([]int64, len(ks))
	for i := range ks {
		ks[i] = pick()
		states[i], versions[i] = s.states[ks[i]].Load(), s.rows[ks[i]].Load()
	}
	rows, err := s.g.GetMany(ctx, ks)
	for i, k := range ks {
		v, ok := rows[k]
		if ok || err == nil {
			s.check(k, states[i], versions[i], v)
		}
	}
	if err != nil {
		s.checkError(err)
	}
}

// check compares an answer, 0 for none, with what was certain before and still is.
func (s *soak) check(k int, state uint64, version, got int64) {
	begun := time.Unix(0, s.begun[k].Load())
	if s.states[k].Load() != state {
		return
	}
	if state&3 == committed {
		// So long a creation may take for a row to be certain before it is marked.
		if time.Since(begun) > s.g.opts.LoadTimeout {
			return
		}
		state = state&^3 | exists
	}
	switch {
	case state&3 == exists && got == 0:
		s.counts[wrongAbsent].Add(1)
		s.t.Errorf("key %d exists in version %d and was called absent", k, version)
	case state&3 == exists && got < version:
		s.counts[stale].Add(1)
		s.t.Errorf("key %d has version %d, got %d", k, version, got)
	case state&3 == absent && got != 0:
		s.counts[wrongRow].Add(1)
		s.t.Errorf("key %d does not exist, got version %d", k, got)
	}
}

func (s *soak) checkError(err error) {
	s.counts[failedLookups].Add(1)
	var p *PanicError
	switch {
	case errors.Is(err, errInjected), errors.Is(err, ErrOverload), errors.Is(err, errGoexit), errors.As(err, &p),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	default:
		s.t.Errorf("unexpected: %v", err)
	}
}

// write creates, changes and deletes the keys that are its own until ctx ends.
func (s *soak) write(ctx context.Context, w, writers int) {
	r := rand.New(rand.NewPCG(uint64(w), 2))
	background := context.Background()
	// mark repeats a mark that failed: only then is anything certain.
	mark := func(err error, again func() error) {
		for err != nil {
			var p *PanicError
			if !errors.Is(err, errInjected) && !errors.As(err, &p) {
				s.t.Error(err)
			}
			time.Sleep(time.Millisecond)
			err = again()
		}
	}
	for version := int64(2); ctx.Err() == nil; version++ {
		k := r.IntN(soakKeys/writers)*writers + w
		created := s.rows[k].Load() == 0
		if !created && r.IntN(3) == 0 {
			s.say(k, anything)
			s.rows[k].Store(0)
			mark(s.g.MarkDeleted(background, k), func() error { return s.g.MarkDeleted(background, k) })
			s.say(k, absent)
			s.counts[deletions].Add(1)
			continue
		}
		if !created {
			s.say(k, anything) // the old version may still be read
			s.counts[updates].Add(1)
		} else {
			s.counts[creations].Add(1)
		}
		s.begun[k].Store(time.Now().UnixNano())
		again := func() error { return s.g.MarkCreated(background, k) }
		mark(s.g.Create(background, []int{k}, func(context.Context) error {
			if created {
				s.say(k, anything) // absent until now, and the next two lines are not one step
			}
			s.rows[k].Store(version)
			if created {
				s.say(k, committed)
			}
			if r.IntN(10) == 0 {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond)
			}
			return nil
		}), again)
		s.say(k, exists)
	}
}

// scan reads the keys from first on, step by step.
func (s *soak) scan(first, step int) Scan[int] {
	return func(context.Context, time.Time) iter.Seq2[int, error] {
		var keys []int
		for k := first; k < soakKeys; k += step {
			if s.rows[k].Load() != 0 {
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
}

// cut ends a scan after n keys by what end does.
func cut(scan Scan[int], n int, end func(yield func(int, error) bool)) Scan[int] {
	return func(ctx context.Context, since time.Time) iter.Seq2[int, error] {
		keys := scan(ctx, since)
		return func(yield func(int, error) bool) {
			left := n
			for k := range keys {
				if left--; left < 0 {
					end(yield)
					return
				}
				if !yield(k, nil) {
					return
				}
			}
		}
	}
}

// replace replaces the filter in every way there is until ctx ends.
func (s *soak) replace(ctx context.Context) {
	r := rand.New(rand.NewPCG(0, 3))
	all := s.scan(0, 1)
	var snapshot []byte
	for ctx.Err() == nil {
		var err error
		o := RebuildOptions[int]{MinKeep: 0.2}
		switch r.IntN(10) {
		case 0:
			_, err = s.g.Rebuild(ctx, cut(all, 100, func(yield func(int, error) bool) { yield(0, errInjected) }), o)
		case 1:
			_, err = s.g.Rebuild(ctx, cut(all, 100, func(func(int, error) bool) { panic(errInjected) }), o)
		case 2:
			_, err = s.g.Rebuild(ctx, cut(all, 10, func(func(int, error) bool) {}), o)
		case 3:
			o.Scans = []Scan[int]{s.scan(0, 3), s.scan(1, 3), s.scan(2, 3)}
			_, err = s.g.Rebuild(ctx, nil, o)
		case 4:
			o.CatchUp, o.Overlap = all, time.Millisecond
			_, err = s.g.Rebuild(ctx, all, o)
		case 5:
			err = s.g.CatchUp(ctx, s.g.CompleteAt(), all)
		case 6:
			var b bytes.Buffer
			if s.g.Snapshot(&b) == nil {
				snapshot = b.Bytes()
			}
		case 7:
			if snapshot != nil {
				_, err = s.g.Restore(ctx, bytes.NewReader(snapshot), all)
				s.counts[restores].Add(1)
			}
		case 8:
			if r.IntN(5) == 0 {
				s.g.Unload()
				s.counts[unloads].Add(1)
			}
		default:
			_, err = s.g.Rebuild(ctx, all, o)
		}
		if err == nil {
			s.counts[swaps].Add(1)
		} else {
			s.counts[failedSwaps].Add(1)
		}
		time.Sleep(time.Duration(r.IntN(3000)) * time.Microsecond)
	}
}

func (s *soak) breakCache(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		s.outage.Store(true)
		time.Sleep(20 * time.Millisecond)
		s.outage.Store(false)
	}
}

// Mixed traffic with everything going wrong: no row is ever called absent, nothing that was
// deleted comes back, no goroutine and no memory is left behind.
func TestSoak(t *testing.T) {
	before := runtime.NumGoroutine()
	s := &soak{t: t}
	cache := soakCache{NewMemory[int, int64](1000), s}
	var err error
	s.g, err = New(Options[int, int64]{
		Loader: s, Cache: cache, Capacity: 2 * soakKeys, Key: testKey, MaxLoads: 64, Audit: 0.01,
		TTL: 300 * time.Millisecond, MissTTL: 100 * time.Millisecond, LoadTimeout: 20 * time.Millisecond, Settle: 10 * time.Millisecond,
		Deletions: 100, Journal: 1000,
	})
	require.NoError(t, err)
	for k := range soakKeys {
		if s.say(k, absent); k%2 == 0 {
			s.rows[k].Store(1)
			s.say(k, exists)
		}
	}
	_, err = s.g.Rebuild(t.Context(), s.scan(0, 1), RebuildOptions[int]{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	const readers, writers = 4, 3
	for i := range readers {
		wg.Go(func() { s.read(ctx, uint64(i)) })
	}
	for i := range writers {
		wg.Go(func() { s.write(ctx, i, writers) })
	}
	wg.Go(func() { s.replace(ctx) })
	wg.Go(func() { s.breakCache(ctx) })
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	time.Sleep(*soakTime / 3)
	early := heap()
	time.Sleep(*soakTime / 2)
	late := heap()
	time.Sleep(*soakTime / 6)
	for e := range numEvents { // on a slow machine some take longer
		if e != wrongAbsent && e != wrongRow && e != stale {
			eventually(func() bool { return s.counts[e].Load() > 0 })
		}
	}
	cancel()
	wg.Wait()

	var summary string
	for e := range numEvents {
		summary += fmt.Sprintf("%d %v, ", s.counts[e].Load(), e)
	}
	t.Logf("%vheap %d, later %d; %+v", summary, early, late, s.g.Stats())
	require.Zero(t, s.counts[wrongAbsent].Load(), "rows called absent")
	require.Zero(t, s.g.Stats().FalseNegatives, "found by audits")
	require.Less(t, float64(late), 1.3*float64(early)+4e6, "memory grows")
	rest(s.g)
	eventually(func() bool { return runtime.NumGoroutine() <= before })
	for k := range soakKeys { // at rest the truth is simple
		for {
			v, err := s.g.Get(t.Context(), k)
			if err != nil && !errors.Is(err, ErrNotFound) {
				continue // a fault
			}
			require.Equal(t, s.rows[k].Load(), v)
			break
		}
	}
}
