package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redbloom-go/bloom/guard"
)

// Metrics gives what a guard does to Prometheus, in its text format. It is the guard's Observer, which
// counts what Stats does not have, and a handler that writes both. Copy it into your program, or take
// it as the pattern for a collector of the client library.
type Metrics struct {
	guard.NopObserver
	stats atomic.Pointer[func() guard.Stats]

	loadTimes        histogram
	rebuilds         atomic.Uint64
	failedRebuilds   atomic.Uint64
	lastRebuild      atomic.Uint64 // bits of a float64: seconds that it took
	thresholds       atomic.Uint64
	falseNegatives   atomic.Uint64
	loadedKeys       atomic.Uint64
	loadedWithoutRow atomic.Uint64
}

// Watch tells whose Stats are written. A guard can be made only when its Observer is there already.
func (m *Metrics) Watch(stats func() guard.Stats) { m.stats.Store(&stats) }

// Loaded is called by the guard.
func (m *Metrics) Loaded(e guard.LoadEvent) {
	m.loadTimes.observe(e.Took)
	m.loadedKeys.Add(uint64(e.Keys))
	m.loadedWithoutRow.Add(uint64(e.Missing))
}

// Threshold is called by the guard.
func (m *Metrics) Threshold(guard.ThresholdEvent) { m.thresholds.Add(1) }

// Rebuilt is called by the guard.
func (m *Metrics) Rebuilt(r guard.Report, err error) {
	if err != nil {
		m.failedRebuilds.Add(1)
		return
	}
	m.rebuilds.Add(1)
	m.lastRebuild.Store(math.Float64bits(r.Took.Seconds()))
}

// FalseNegative is called by the guard.
func (m *Metrics) FalseNegative(any) { m.falseNegatives.Add(1) }

// histogram counts durations up to each of bounds, and longer ones.
type histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	nanos  atomic.Int64
}

var bounds = [...]time.Duration{
	500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.nanos.Add(int64(d))
}

// page is the text format.
type page struct{ strings.Builder }

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// head begins a metric. Counters have names that end in _total, by custom.
func (p *page) head(name, kind, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) counter(name, help string, n uint64) {
	p.head(name, "counter", help)
	fmt.Fprintf(p, "%s %d\n", name, n)
}

func (p *page) gauge(name, help string, x float64) {
	p.head(name, "gauge", help)
	fmt.Fprintf(p, "%s %s\n", name, number(x))
}

func (p *page) histogram(name, help string, h *histogram) {
	p.head(name, "histogram", help)
	sum, below := h.nanos.Load(), uint64(0)
	for i := range h.counts {
		below += h.counts[i].Load()
		bound := "+Inf"
		if i < len(bounds) {
			bound = number(bounds[i].Seconds())
		}
		fmt.Fprintf(p, "%s_bucket{le=%q} %d\n", name, bound, below)
	}
	fmt.Fprintf(p, "%s_sum %s\n%s_count %d\n", name, number(time.Duration(sum).Seconds()), name, below)
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// WriteTo writes all metrics. Reading the Stats takes some ten milliseconds for each 100 MB of filter.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	var p page
	if stats := m.stats.Load(); stats != nil {
		p.stats((*stats)())
	}
	p.histogram("guard_load_seconds", "Time that calls of the loader took.", &m.loadTimes)
	p.counter("guard_loaded_keys_total", "Keys that the loader was called for.", m.loadedKeys.Load())
	p.counter("guard_loaded_missing_total", "Keys that the loader found to have no row.", m.loadedWithoutRow.Load())
	p.counter("guard_rebuilds_total", "Filters that were replaced.", m.rebuilds.Load())
	p.counter("guard_failed_rebuilds_total", "Rebuilds and restores that failed; the filter before them stays.", m.failedRebuilds.Load())
	p.gauge("guard_last_rebuild_seconds", "Time that the last rebuild or restore took.", math.Float64frombits(m.lastRebuild.Load()))
	p.counter("guard_thresholds_total", "Filters that were filled up to RebuildAt.", m.thresholds.Load())
	p.counter("guard_false_negatives_total", "Rows that the filter rejected, found by audits. Any is an alarm.", m.falseNegatives.Load())
	n, err := io.WriteString(w, p.String())
	return int64(n), err
}

func (p *page) stats(s guard.Stats) {
	p.gauge("guard_active", "1 when the guard has a filter that rejects.", indicator(s.State == guard.StateActive))
	p.gauge("guard_rebuilding", "1 while a rebuild or a restore is under way.", indicator(s.Rebuilding))
	if !s.CompleteAt.IsZero() {
		p.gauge("guard_complete_timestamp_seconds", "Rows of all processes up to this time are in the filter.", float64(s.CompleteAt.UnixNano())/1e9)
	}
	p.gauge("guard_filter_items", "Keys in the filter.", float64(s.Items))
	p.gauge("guard_filter_capacity", "Keys that the filter was made for.", float64(s.Capacity))
	p.gauge("guard_filter_load_ratio", "Items by capacity; rebuild at 0.8.", s.Load)
	p.gauge("guard_filter_bytes", "Size of the filter.", float64(s.SizeBytes))
	p.gauge("guard_filter_expected_rate", "Rate of false positives, from the bits that are set.", s.EstimatedRate)
	p.gauge("guard_filter_observed_rate", "Rate of false positives among the lookups of absent keys.", s.ObservedRate)
	p.gauge("guard_deletions", "Deleted keys that are remembered.", float64(s.Deletions))

	p.head("guard_lookups_total", "counter", "Lookups by who answered them.")
	for _, l := range []struct {
		answer string
		n      uint64
	}{
		{"rejected", s.Rejected}, {"hit", s.Hits}, {"null_hit", s.NullHits}, {"found", s.Found}, {"missing", s.Missing},
	} {
		fmt.Fprintf(p, "guard_lookups_total{answer=%q} %d\n", l.answer, l.n)
	}
	p.counter("guard_deleted_total", "Lookups that were rejected because the key was deleted.", s.Deleted)
	p.counter("guard_false_positives_total", "Lookups that the filter let through and that had no row.", s.FalsePositives)
	p.counter("guard_audited_total", "Rejections that were looked up all the same.", s.Audited)
	p.counter("guard_loads_total", "Calls of the loader.", s.Loads)
	p.counter("guard_load_errors_total", "Calls of the loader that failed.", s.LoadErrors)
	p.counter("guard_shared_loads_total", "Lookups that waited for the load of another.", s.Shared)
	p.counter("guard_overloads_total", "Loads that were refused for MaxLoads.", s.Overloads)
	p.counter("guard_not_stored_total", "Entries that were not cached, since a write had overtaken them.", s.NotStored)
	p.counter("guard_cache_errors_total", "Errors of the cache.", s.CacheErrors)
	p.counter("guard_filter_errors_total", "Errors of the filter.", s.FilterErrors)
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = m.WriteTo(w) // whoever asked has gone
}
