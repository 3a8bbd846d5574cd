package main

import (
	"fmt"
	"runtime"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"golang.org/x/perf/benchfmt"
)

// plan says how much a run does.
type plan struct {
	sizes   []int
	big     int // keys of the filters that are larger than caches; 0 for none
	forms   []string
	count   int           // samples of each row
	time    time.Duration // of one sample
	absent  int           // lookups that a rate is measured with
	queries int           // distinct keys that lookups take in turn
	ring    int           // cache lines of the memory probe
	rates   int           // keys of the filters of which rates and sizes are measured at many points
	hashed  int           // strings of the table of hashes
}

// rate is the rate of false positives all filters are made for.
const rate = 0.01

func (p plan) run(r *record.Writer) {
	p.hashes(r)
	p.rateByLoad(r)
	p.sizeByRate(r)
	for _, n := range p.sizes {
		for _, form := range p.forms {
			p.compare(r, n, form)
		}
	}
	if p.big > 0 {
		p.compareBig(r)
	}
}

// entrant is an implementation with a filter that is full.
type entrant struct {
	implementation
	f      filter
	traits []benchfmt.Value // rate and size
}

func (p plan) enter(impl implementation, keys, absent keySet) entrant {
	f, bits := impl.filled(keys, rate)
	return entrant{impl, f, traits(f, bits, keys.len(), absent)}
}

func traits(f filter, bits uint64, n int, absent keySet) []benchfmt.Value {
	values := []benchfmt.Value{
		{Value: float64(contains(f, absent)) / float64(absent.len()), Unit: "fp-rate"},
		{Value: float64(bits) / float64(n), Unit: "bits/key"},
	}
	// It has not been seen to refuse a key at these sizes, but where keys go is random there.
	if s, ok := f.(*seiflotfyFilter); ok && s.refused > 0 {
		values = append(values, benchfmt.Value{Value: float64(s.refused), Unit: "refused-keys"})
	}
	return values
}

// compare measures all implementations with n keys in one form.
func (p plan) compare(r *record.Writer, n int, form string) {
	var (
		added  = addedKeys(form, n)
		hits   = hitKeys(form, n, p.queries)
		misses = missKeys(form, p.queries)
		absent = absentKeys(form, p.absent)
		all    []entrant
	)
	r.Say("n=%s key=%s: filling", short(n), form)
	for _, impl := range implementations() {
		if impl.takes(n) {
			all = append(all, p.enter(impl, added, absent))
		}
	}
	race := func(op string, g int, in func(implementation) bool, one func(entrant) record.Sample) {
		var runners []entrant
		for _, e := range all {
			if in(e.implementation) {
				runners = append(runners, e)
			}
		}
		r.Say("n=%s key=%s: %s in %d goroutines, %d implementations", short(n), form, op, g, len(runners))
		p.rounds(len(runners), func(i int) {
			e := runners[i]
			s := one(e)
			r.Record(row{op, e.name, short(n), form, g}.name(), s.Ops, s.Values(e.traits...)...)
		})
	}
	asking := func(keys keySet, do step, g int) func(entrant) record.Sample {
		return func(e entrant) record.Sample { return cycle(do, e.f, keys, g, p.time) }
	}
	filling := func(g int) func(entrant) record.Sample {
		return func(e entrant) record.Sample { return fill(e.implementation, added, rate, g, p.time) }
	}
	any := func(implementation) bool { return true }
	plain := func(i implementation) bool { return !i.variant }
	shared := func(i implementation) bool { return i.parallel && !i.variant }
	writers := func(i implementation) bool { return i.parallelAdd }

	race("hit", 1, any, asking(hits, lookUp, 1))
	race("miss", 1, any, asking(misses, lookUp, 1))
	race("add", 1, plain, filling(1))
	if runtime.GOMAXPROCS(0) < 2 {
		r.Say("one processor: nothing to measure in 2 goroutines")
		return
	}
	race("hit", 2, shared, asking(hits, lookUp, 2))
	race("miss", 2, shared, asking(misses, lookUp, 2))
	race("add", 2, writers, filling(2))
	race("readd", 2, writers, asking(hits, add, 2))
}

// rounds does a round of all runners after one another, and as many rounds as there
// are to be samples, so that a spell of noise on the machine falls on all of them.
// Each round starts with another one.
func (p plan) rounds(runners int, one func(i int)) {
	for round := range p.count {
		for i := range runners {
			one((round + i) % runners)
		}
	}
}

// short writes a number of keys as names have it: 10000 as 1e4.
func short(n int) string {
	zeros, digits := 0, n
	for digits >= 10 && digits%10 == 0 {
		digits /= 10
		zeros++
	}
	if zeros < 3 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%de%d", digits, zeros)
}
