package main

import (
	"fmt"
	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"strings"
)

// target is a ratio of two rows that this library means to reach.
type target struct {
	what, against   string
	ours, theirs    row
	wanted, stretch float64 // stretch is 0 where there is none
	rated           bool    // holds only if ours keeps the rate of false positives
}

func targets() (all []target) {
	at := func(op, impl, n string) row { return row{op, impl, n, formBytes, 1} }
	both := func(ops, sizes string, each func(op, n string)) {
		for _, n := range strings.Fields(sizes) {
			for _, op := range strings.Fields(ops) {
				each(op, n)
			}
		}
	}
	// want adds a target: names are implementations, which may be the same in other rows.
	want := func(ours, theirs row, wanted, stretch float64) {
		all = append(all, target{
			what: fmt.Sprintf("%s: %s, n = %s", ours.impl, ours.op, ours.n), against: theirs.impl,
			ours: ours, theirs: theirs, wanted: wanted, stretch: stretch,
		})
	}
	both("hit miss", "1e4 1e6", func(op, n string) {
		want(at(op, "bloom", n), at(op, "bits-and-blooms", n), 0.42, 0.36)
		want(at(op, "bloom", n), at(op, "holiman", n), 0.80, 0.65)
	})
	both("hit miss", "1e8", func(op, n string) {
		want(at(op, "bloom", n), at(op, "bits-and-blooms", n), 0.55, 0)
	})
	want(at("miss", "bloom-many", "1e8"), at("miss", "bloom", "1e8"), 0.25, 0)
	want(at("hit", "bloom-many", "1e8"), at("hit", "bloom", "1e8"), 0.60, 0)
	want(at("add", "bloom-many", "1e8"), at("add", "bloom", "1e8"), 0.55, 0)
	want(at("miss", "bloom-many", "1e6"), at("miss", "bloom", "1e6"), 0.5, 0)
	both("hit miss", "1e4 1e6", func(op, n string) {
		want(at(op, "bloom-redisbloom", n), at(op, "bloom", n), 1.1, 0)
	})
	want(at("add", "bloom", "1e6"), at("add", "bits-and-blooms", "1e6"), 0.50, 0)
	want(row{"add", "bloom", "1e6", formString, 1}, row{"add", "bits-and-blooms", "1e6", formString, 1}, 0.35, 0)
	both("hit miss", "1e6", func(op, n string) {
		want(at(op, "bloom-blocked", n), at(op, "holiman", n), 0.42, 0)
		want(at(op, "bloom-blocked", n), at(op, "ristretto", n), 0.60, 0)
	})
	both("hit miss", "1e6 1e8", func(op, n string) {
		want(at(op, "bloom-blocked", n), at(op, "fuse8", n), 1.1, 0)
	})
	both("hit miss", "1e8", func(op, n string) {
		want(at(op, "bloom-blocked-many", n), at(op, "bloom-blocked", n), 0.30, 0)
		want(at(op, "bloom-blocked-many", n), row{op, "dram", n, "none", 1}, 0.15, 0)
	})
	want(at("hit", "bloom-scalable", "1e6"), at("hit", "boomfilters-scalable", "1e6"), 0.43, 0)
	want(at("miss", "bloom-scalable", "1e6"), at("miss", "boomfilters-scalable", "1e6"), 0.25, 0)
	want(at("hit", "bloom-cuckoo", "1e6"), at("hit", "seiflotfy", "1e6"), 0.5, 0)
	want(at("miss", "bloom-cuckoo", "1e6"), at("miss", "seiflotfy", "1e6"), 0.8, 0)
	want(at("add", "bloom-counting", "1e6"), at("add", "boomfilters-counting", "1e6"), 0.4, 0)
	both("hit miss", "1e6", func(op, n string) {
		want(at(op, "bloom-counting", n), at(op, "boomfilters-counting", n), 0.6, 0)
	})
	both("hit miss", "1e4 1e6", func(op, n string) {
		want(row{op, "bloom-concurrent", n, formBytes, 2}, row{op, "bloom", n, formBytes, 2}, 1.1, 0)
	})
	both("readd", "1e4 1e6", func(op, n string) {
		want(row{op, "bloom-concurrent", n, formBytes, 2}, row{op, "bloom-rwmutex", n, formBytes, 2}, 0.35, 0)
	})
	for i := range all {
		t := &all[i]
		t.rated = strings.HasPrefix(t.ours.impl, "bloom-blocked")
		if t.ours.key == formString {
			t.what += ", strings"
		}
		if t.ours.g > 1 {
			t.what += fmt.Sprintf(", %d goroutines", t.ours.g)
			t.against += fmt.Sprintf(", %d goroutines", t.theirs.g)
		}
	}
	return all
}

// rateSlack is how far a measured rate may be above the one asked for: three standard
// deviations of a count of a million lookups.
const rateSlack = 1.03

func (r *results) targetTable() string {
	var b strings.Builder
	b.WriteString("| what | against | wanted | measured | spread | |\n|---|---|---|---|---|---|\n")
	met, run, total := 0, 0, 0
	line := func(what, against, wanted, measured, spread string, ran, ok bool, verdict string) {
		total++
		if ran {
			run++
		}
		if ok {
			met++
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", what, against, wanted, measured, spread, verdict)
	}
	for _, t := range targets() {
		wanted := fmt.Sprintf("≤ %.2f", t.wanted)
		if t.stretch > 0 {
			wanted += fmt.Sprintf(", stretch %.2f", t.stretch)
		}
		a, ok1 := r.ns(t.ours)
		c, ok2 := r.ns(t.theirs)
		if !ok1 || !ok2 {
			line(t.what, t.against, wanted, "–", "–", false, false, "not run")
			continue
		}
		ratio := a / c
		measured := fmt.Sprintf("%.2f (%.1f ÷ %.1f ns)", ratio, a, c)
		ok, verdict := ratio <= t.wanted, "**not met**"
		fp, rated := r.Median(t.ours.name(), "fp-rate")
		if t.rated && rated && fp > rate*rateSlack {
			ok, verdict = false, fmt.Sprintf("**not met**: its rate is %.2f %%", 100*fp)
		}
		if ok {
			verdict = "met"
			if ratio <= t.stretch {
				verdict = "met, stretch too"
			}
		}
		spread := fmt.Sprintf("± %.0f %%", 100*(r.spread(t.ours)+r.spread(t.theirs)))
		line(t.what, t.against, wanted, measured, spread, true, ok, verdict)
	}
	worst, where := 0.0, ""
	for _, impl := range ours() {
		for _, name := range r.Names {
			if record.Part(name, "impl") != impl.name {
				continue
			}
			if n, _ := r.Median(name, "allocs/op"); n >= worst {
				worst, where = n, name
			}
		}
	}
	verdict := "met"
	if worst > 0 {
		verdict = "**not met**: " + where
	}
	line("allocations an operation, all of ours", "–", "0", fmt.Sprint(worst), "–", true, worst == 0, verdict)
	fmt.Fprintf(&b, "\n%d of %d targets met; %d not met, %d not in this run.\n", met, total, run-met, total-run)
	return b.String()
}
