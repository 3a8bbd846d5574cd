package main

import (
	"fmt"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"golang.org/x/perf/benchfmt"
)

// curves are the implementations whose rate is followed beyond the load they are made
// for. Cuckoo filters hold no more than that, and are followed up to it.
var (
	curves      = []string{"bloom", "bloom-blocked", "bloom-scalable", "bits-and-blooms", "holiman", "ristretto", "boomfilters-scalable"}
	shortCurves = []string{"bloom-cuckoo", "seiflotfy"}
)

// rateByLoad measures the rate of false positives of each as keys come in.
func (p plan) rateByLoad(r *record.Writer) {
	n := p.rates
	r.Say("rates by load, %d keys", n)
	added, absent := addedKeys(formBytes, 2*n), absentKeys(formBytes, p.absent)
	follow := func(impl implementation, upTo int) {
		f := impl.make(n, rate)
		for quarters := 1; quarters <= upTo; quarters++ {
			add(f, added.slice(n*(quarters-1)/4, n*quarters/4))
			r.Record(fmt.Sprintf("Rate/impl=%s/n=%s/load=%.2f", impl.name, short(n), float64(quarters)/4), absent.len(),
				benchfmt.Value{Value: float64(contains(f, absent)) / float64(absent.len()), Unit: "fp-rate"})
		}
	}
	for _, impl := range pick(curves...) {
		follow(impl, 8)
	}
	for _, impl := range pick(shortCurves...) {
		follow(impl, 4)
	}
}

// sizeByRate measures how many bits a key full filters take that are made for a rate.
func (p plan) sizeByRate(r *record.Writer) {
	r.Say("sizes by rate, %d keys", p.rates)
	added := addedKeys(formBytes, p.rates)
	for _, impl := range pick("bloom", "bloom-blocked", "bloom-scalable", "bloom-cuckoo",
		"bits-and-blooms", "ristretto", "boomfilters-scalable") {
		for _, target := range []float64{0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6} {
			_, bits := impl.filled(added, target)
			r.Record(fmt.Sprintf("Size/impl=%s/n=%s/p=%g", impl.name, short(p.rates), target), added.len(),
				benchfmt.Value{Value: float64(bits) / float64(added.len()), Unit: "bits/key"})
		}
	}
}
