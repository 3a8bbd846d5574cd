package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
)

// row names one line of the results.
type row struct {
	op, impl, n, key string
	g                int // goroutines
}

func (r row) name() string {
	return fmt.Sprintf("Set/op=%s/impl=%s/n=%s/key=%s/g=%d", r.op, r.impl, r.n, r.key, r.g)
}

// chunk is how many keys an implementation gets at once: enough that what happens
// between two chunks costs nothing beside them.
const chunk = 4096

// step does an operation with each of some keys.
type step func(f filter, keys keySet)

// lookUp throws the answers away: no compiler sees through the interface that nobody
// needs them.
func lookUp(f filter, keys keySet) { contains(f, keys) }

// cycle measures do with keys over and over, for a time, in g goroutines that each
// have a part of the keys. A fifth of the time beforehand is not counted: in it the
// filter comes back into the caches that other implementations had.
func cycle(do step, f filter, keys keySet, g int, d time.Duration) record.Sample {
	runtime.GC()
	cycleFor(do, f, keys, g, d/5)
	return record.Counted(func() (int, time.Duration) { return cycleFor(do, f, keys, g, d) })
}

func cycleFor(do step, f filter, keys keySet, g int, d time.Duration) (ops int, elapsed time.Duration) {
	start := time.Now()
	run := func(keys keySet) (ops int) {
		size := min(chunk, keys.len())
		for at := 0; time.Since(start) < d; {
			do(f, keys.slice(at, at+size))
			ops += size
			if at += size; at+size > keys.len() {
				at = 0
			}
		}
		return ops
	}
	if g == 1 {
		ops = run(keys)
		return ops, time.Since(start)
	}
	done := make([]int, g)
	var all sync.WaitGroup
	for i := range done {
		all.Go(func() { done[i] = run(share(keys, i, g)) })
	}
	all.Wait()
	elapsed = time.Since(start)
	for _, n := range done {
		ops += n
	}
	return ops, elapsed
}

func share(keys keySet, i, of int) keySet {
	n := keys.len()
	return keys.slice(n*i/of, n*(i+1)/of)
}

// fill measures adding all keys to a new filter, as often as it takes to fill the
// time. Making the filter is not counted, but ends the sample when it takes long.
func fill(impl implementation, keys keySet, p float64, g int, d time.Duration) record.Sample {
	runtime.GC()
	var total record.Sample
	for start := time.Now(); total.Elapsed < d && time.Since(start) < 4*d; {
		f := impl.make(keys.len(), p)
		s := record.Counted(func() (int, time.Duration) {
			begin := time.Now()
			if g == 1 {
				add(f, keys)
			} else {
				var all sync.WaitGroup
				for i := range g {
					all.Go(func() { add(f, share(keys, i, g)) })
				}
				all.Wait()
			}
			finish(f)
			return keys.len(), time.Since(begin)
		})
		total.Ops += s.Ops
		total.Elapsed += s.Elapsed
		total.Allocs += s.Allocs
		total.Bytes += s.Bytes
	}
	return total
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
