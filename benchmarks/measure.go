package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/perf/benchfmt"
)

// row names one line of the results.
type row struct {
	op, impl, n, key string
	g                int // goroutines
}

func (r row) name() string {
	return fmt.Sprintf("Set/op=%s/impl=%s/n=%s/key=%s/g=%d", r.op, r.impl, r.n, r.key, r.g)
}

// recorder writes results as the Go benchmark format has them, one by one, so that
// a run that is interrupted leaves what it had.
type recorder struct {
	w   *benchfmt.Writer
	log io.Writer // what is going on, for whoever waits
}

func (r *recorder) record(name string, ops int, values ...benchfmt.Value) {
	if p := runtime.GOMAXPROCS(0); p > 1 {
		name = fmt.Sprintf("%s-%d", name, p)
	}
	check(r.w.Write(&benchfmt.Result{Name: benchfmt.Name(name), Iters: ops, Values: values}))
}

func (r *recorder) say(format string, args ...any) {
	fmt.Fprintf(r.log, format+"\n", args...)
}

// header writes what holds for all results, and what their units are.
func header(w io.Writer, config [][2]string) {
	for _, c := range config {
		fmt.Fprintf(w, "%s: %s\n", c[0], strings.TrimSpace(c[1]))
	}
	fmt.Fprint(w, "Unit bits/key assume=exact\nUnit fp-rate assume=exact\n\n")
}

// sample is one measurement.
type sample struct {
	ops           int
	elapsed       time.Duration
	allocs, bytes uint64
}

func (s sample) values(more ...benchfmt.Value) []benchfmt.Value {
	n := float64(max(1, s.ops))
	return append([]benchfmt.Value{
		{Value: float64(s.elapsed.Nanoseconds()) / n, Unit: "ns/op"},
		{Value: float64(s.bytes / uint64(n)), Unit: "B/op"},
		{Value: float64(s.allocs / uint64(n)), Unit: "allocs/op"},
	}, more...)
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
func cycle(do step, f filter, keys keySet, g int, d time.Duration) sample {
	runtime.GC()
	cycleFor(do, f, keys, g, d/5)
	return counted(func() (int, time.Duration) { return cycleFor(do, f, keys, g, d) })
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
func fill(impl implementation, keys keySet, p float64, g int, d time.Duration) sample {
	runtime.GC()
	var total sample
	for start := time.Now(); total.elapsed < d && time.Since(start) < 4*d; {
		f := impl.make(keys.len(), p)
		s := counted(func() (int, time.Duration) {
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
		total.ops += s.ops
		total.elapsed += s.elapsed
		total.allocs += s.allocs
		total.bytes += s.bytes
	}
	return total
}

// counted measures a run, and what it allocates.
func counted(run func() (int, time.Duration)) sample {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ops, elapsed := run()
	runtime.ReadMemStats(&after)
	return sample{ops, elapsed, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
