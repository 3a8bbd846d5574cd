// Command guard measures what package guard does for a database under attack, beside what people
// use today. It writes results as benchstat reads them, a file for each figure, and the figures of
// docs/GUARD.md from them.
//
//	go run -C benchmarks ./guard -quick            # under a minute: results/guard-*-quick.txt
//	go run -C benchmarks ./guard -report           # under ten: results/guard-*.txt, and the page with its plots
//	go run -C benchmarks ./guard -last -report     # the page again, from the last results
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

// figure is a part of the measurements.
type figure struct {
	name    string
	measure func(plan, *record.Writer) error
}

var figures = []figure{
	{"reject", plan.rejections},
	{"queries", plan.queries},
	{"rebuild", plan.rebuilds},
	{"hotkey", plan.hotKeys},
}

// plan says how much a run does.
type plan struct {
	count   int           // samples of each time
	time    time.Duration // of one sample
	sizes   []int         // keys of the filters that reject
	asked   int           // different keys that are asked for in turn
	lookups int           // of an attack
	rows    int           // of the filters' capacity in an attack
	loads   []float64     // rows by capacity
	rebuilt int           // keys of the filter that is rebuilt
	repeats int           // of rebuilds
	around  time.Duration // before and after a rebuild
	rounds  int           // of hot keys
	callers int           // of a hot key
}

var (
	full = plan{
		count: 10, time: 50 * time.Millisecond, sizes: []int{1e5, 1e6, 1e7}, asked: 1 << 16, lookups: 1e6, rows: 1e6, loads: []float64{0.5, 0.8, 1, 1.5},
		rebuilt: 1e7, repeats: 3, around: time.Second, rounds: 20, callers: 1000,
	}
	quick = plan{
		count: 3, time: 20 * time.Millisecond, sizes: []int{1e5, 1e6}, asked: 1 << 16, lookups: 1e5, rows: 1e5, loads: []float64{0.5, 0.8, 1, 1.5},
		rebuilt: 1e6, repeats: 2, around: 300 * time.Millisecond, rounds: 5, callers: 1000,
	}
)

// options are the flags.
type options struct {
	quick, report, last bool
	figures             []string
	results, docs       string
	plan                plan
}

func parse(args []string, log io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("guard", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&o.quick, "quick", false, "measure less, into RESULTS/guard-*-quick.txt")
	flags.BoolVar(&o.report, "report", false, "write the figures of GUARD.md and its plots")
	flags.BoolVar(&o.last, "last", false, "measure nothing: the report is of the last results")
	flags.StringVar(&o.results, "results", "results", "`folder` of results")
	flags.StringVar(&o.docs, "docs", filepath.Join("..", "docs"), "`folder` of the page")
	var all []string
	for _, f := range figures {
		all = append(all, f.name)
	}
	names := flags.String("figures", strings.Join(all, ","), "`names` of what to measure")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.plan = full
	if o.quick {
		o.plan = quick
	}
	o.figures = strings.Split(*names, ",")
	for _, name := range o.figures {
		if !slices.Contains(all, name) {
			return o, fmt.Errorf("no figure %q: there are %s", name, strings.Join(all, ", "))
		}
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.last && !o.report:
		return o, fmt.Errorf("nothing to do: -last is for -report")
	}
	return o, nil
}

func run(args []string, log io.Writer) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	if !o.last {
		for _, f := range figures {
			if !slices.Contains(o.figures, f.name) {
				continue
			}
			if err := o.measure(f, args, log); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	if o.report {
		return o.writePage()
	}
	return nil
}

// path is the file of a figure's results.
func (o options) path(figure string) string {
	name := "guard-" + figure
	if o.quick {
		name += "-quick"
	}
	return filepath.Join(o.results, name+".txt")
}

// measure runs a figure. The results take their name when they are complete.
func (o options) measure(f figure, args []string, log io.Writer) error {
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	partial := o.path(f.name) + ".part"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer file.Close()
	start := time.Now()
	command := strings.Join(append([]string{"go run -C benchmarks ./guard"}, args...), " ")
	config := append(record.Machine(start, "github.com/redbloom-go/bloom/benchmarks/guard", command), record.Versions(peerModules)...)
	w, err := record.NewWriter(file, log, config)
	if err != nil {
		return err
	}
	w.Say("%s:", f.name)
	if err := f.measure(o.plan, w); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	w.Say("%s: done in %v", f.name, time.Since(start).Round(time.Second))
	return os.Rename(partial, o.path(f.name))
}

// short writes a number of keys as names have it: 1e6.
func short(n int) string {
	s := fmt.Sprintf("%.0e", float64(n))
	return strings.Replace(s, "e+0", "e", 1)
}
