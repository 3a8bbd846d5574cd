package record

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"
)

// Writer writes results as the Go benchmark format has them, one by one, so that
// a run that is interrupted leaves what it had.
type Writer struct {
	w   *benchfmt.Writer
	log io.Writer // what is going on, for whoever waits
}

// NewWriter writes to w what holds for all results, and what their units are, and returns
// a Writer of the results. Units are lines as "bits/key assume=exact".
func NewWriter(w, log io.Writer, config [][2]string, units ...string) (*Writer, error) {
	var b strings.Builder
	for _, c := range config {
		fmt.Fprintf(&b, "%s: %s\n", c[0], strings.TrimSpace(c[1]))
	}
	for _, u := range units {
		fmt.Fprintf(&b, "Unit %s\n", u)
	}
	_, err := fmt.Fprintln(w, b.String())
	return &Writer{benchfmt.NewWriter(w), log}, err
}

// Record writes a result. It panics when that fails: a run is worth nothing then.
func (r *Writer) Record(name string, ops int, values ...benchfmt.Value) {
	if p := runtime.GOMAXPROCS(0); p > 1 {
		name = fmt.Sprintf("%s-%d", name, p)
	}
	if err := r.w.Write(&benchfmt.Result{Name: benchfmt.Name(name), Iters: ops, Values: values}); err != nil {
		panic(err)
	}
}

// Say tells what is going on.
func (r *Writer) Say(format string, args ...any) {
	fmt.Fprintf(r.log, format+"\n", args...)
}

// Sample is one measurement.
type Sample struct {
	Ops           int
	Elapsed       time.Duration
	Allocs, Bytes uint64
}

// Values are the measurement as the testing package gives it, and more.
func (s Sample) Values(more ...benchfmt.Value) []benchfmt.Value {
	n := float64(max(1, s.Ops))
	return append([]benchfmt.Value{
		{Value: float64(s.Elapsed.Nanoseconds()) / n, Unit: "ns/op"},
		{Value: float64(s.Bytes / uint64(n)), Unit: "B/op"},
		{Value: float64(s.Allocs / uint64(n)), Unit: "allocs/op"},
	}, more...)
}

// Counted measures a run, and what it allocates.
func Counted(run func() (ops int, elapsed time.Duration)) Sample {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ops, elapsed := run()
	runtime.ReadMemStats(&after)
	return Sample{ops, elapsed, after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc}
}
