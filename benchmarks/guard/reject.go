package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"github.com/redbloom-go/bloom/guard"
)

// slots are the places for absent keys in the caches that are compared.
const slots = 100_000

// runner is a row of the figure: get rejects the i-th key.
type runner struct {
	impl, key, n string
	alone        bool // in one goroutine only
	get          func(i int) error
}

// rejections measures a lookup of a key that does not exist: in a guard, whose filter says so; and in
// caches that have been told, which is the best that they can do.
func (p plan) rejections(w *record.Writer) error {
	integers, err1 := runnersFor(p, "int64", integer)
	texts, err2 := runnersFor(p, "string", func(i int) string { return fmt.Sprintf("user:%012d", i) })
	arrays, err3 := runnersFor(p, "bytes16", func(i int) (k [16]byte) {
		copy(k[:], fmt.Sprintf("%016d", i))
		return k
	})
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	rows := slices.Concat(integers, texts, arrays)
	stop := func() {}
	if redis, err := startRedis(); errors.Is(err, errNoRedis) {
		w.Say("no redis-server: no row for it")
	} else if err != nil {
		return err
	} else {
		rows = append(rows, runner{impl: "redis-getbit", key: "int64", n: "none", alone: true, get: redis.getBit})
		stop = redis.stop
	}
	defer stop()
	counts := []int{1, 2}
	if runtime.GOMAXPROCS(0) < 2 {
		w.Say("one processor: nothing to measure in 2 goroutines")
		counts = counts[:1]
	}
	// All in turn, so that a spell of noise on the machine falls on all of them.
	for range p.count {
		for _, goroutines := range counts {
			for _, r := range rows {
				if r.alone && goroutines > 1 {
					continue
				}
				s, err := r.sample(goroutines, p)
				if err != nil {
					return fmt.Errorf("%s, %s keys: %w", r.impl, r.key, err)
				}
				w.Record(fmt.Sprintf("Reject/impl=%s/key=%s/n=%s/g=%d", r.impl, r.key, r.n, goroutines), s.Ops, s.Values()...)
			}
		}
	}
	return nil
}

// runnersFor are the rows for keys of one type. Their filters and caches are filled here.
func runnersFor[K comparable](p plan, name string, key func(int) K) (rows []runner, err error) {
	ctx := context.Background()
	for _, n := range p.sizes {
		db := &database[K]{exists: func(K) bool { return false }}
		_, g, err := behindGuard("guard", db, slots, guard.Options[K, string]{Capacity: uint64(n), Key: secret}, evens(n, key))
		if err != nil {
			return nil, err
		}
		ks := make([]K, 0, p.asked)
		for i := 0; len(ks) < p.asked; i++ {
			if k := key(2*(i*7919%100_000_007) + 1); g.Check(ctx, k) == guard.Absent {
				ks = append(ks, k)
			}
		}
		rows = append(rows, runner{impl: "guard", key: name, n: short(n), get: func(i int) error {
			if _, err := g.Get(ctx, ks[i%p.asked]); err != guard.ErrAbsent {
				return fmt.Errorf("not rejected: %v", err)
			}
			return nil
		}})
	}

	ks := make([]K, p.asked)
	for i := range ks {
		ks[i] = key(2*(i*7919%100_000_007) + 1)
	}
	// Each has a database of its own, which tells when it was asked.
	var dbs [4]*database[K]
	for i := range dbs {
		dbs[i] = &database[K]{exists: func(K) bool { return false }}
	}
	nulls, _, err := behindGuard("guard-nulls", dbs[0], 10*slots, guard.Options[K, string]{Capacity: 1}, nil)
	if err != nil {
		return nil, err
	}
	inO, err := inOtter(dbs[1], slots)
	if err != nil {
		return nil, err
	}
	all := []defence[K]{nulls, inO, inHot(dbs[2], slots, slots)}
	if _, ok := any(ks).([]string); ok {
		all = append(all, inSturdyc(dbs[3], slots, func(k K) string { return any(k).(string) }))
	}
	for i, d := range all {
		db := dbs[i]
		for range 2 { // the second time they are all there
			for _, k := range ks {
				if _, err := d.get(ctx, k); err != nil {
					return nil, err
				}
			}
			time.Sleep(10 * time.Millisecond) // what is stored in the background
		}
		before := db.queries()
		rows = append(rows, runner{impl: d.name, key: name, n: short(slots), get: func(i int) error {
			found, err := d.get(ctx, ks[i%p.asked])
			if found {
				return errors.New("found what does not exist")
			}
			if i%p.asked == 0 && db.queries() != before {
				return errors.New("the database was asked")
			}
			return err
		}})
	}
	return rows, nil
}

// sample measures r for a time, in goroutines that begin at different keys.
func (r runner) sample(goroutines int, p plan) (record.Sample, error) {
	runtime.GC()
	errs := make([]error, goroutines)
	ops := make([]int, goroutines)
	work := func(g int, d time.Duration) {
		start := time.Now()
		i := g * p.asked / goroutines
		for first := i; errs[g] == nil && time.Since(start) < d; {
			for range 256 {
				if err := r.get(i); err != nil {
					errs[g] = err
					break
				}
				i++
			}
			ops[g] = i - first
		}
	}
	work(0, p.time/5) // what others have driven out of the processor's caches
	s := record.Counted(func() (int, time.Duration) {
		start := time.Now()
		var all sync.WaitGroup
		for g := 1; g < goroutines; g++ {
			all.Go(func() { work(g, p.time) })
		}
		work(0, p.time)
		all.Wait()
		elapsed, total := time.Since(start), 0
		for _, n := range ops {
			total += n
		}
		return total, elapsed
	})
	return s, errors.Join(errs...)
}
