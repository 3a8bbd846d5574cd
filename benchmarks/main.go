// Command benchmarks holds the filters of this library beside those of others: the same
// keys, the same number of them, the same rate of false positives asked for. It writes
// results as benchstat reads them, and the page docs/BENCHMARKS.md from results.
//
//	go run -C benchmarks . -quick           # some minutes
//	go run -C benchmarks . -all -report     # everything, and the page
//	go run -C benchmarks . -report          # the page again, from the last results
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	all, quick, report bool
	results, docs      string
	plan               plan
}

// full and quick are what -all and -quick do.
var (
	full = plan{
		sizes: []int{1e4, 1e6}, big: 1e8, forms: []string{formBytes, formString},
		count: 12, time: 150 * time.Millisecond, absent: 1 << 20, queries: 1 << 18, ring: 1 << 24, rates: 1e5, hashed: 1e5,
	}
	quick = plan{
		sizes: []int{1e4, 1e6}, forms: []string{formBytes},
		count: 5, time: 30 * time.Millisecond, absent: 1 << 20, queries: 1 << 18, rates: 1e5, hashed: 1e5,
	}
)

func parse(args []string, log io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&o.all, "all", false, "measure everything, into RESULTS/all.txt: under an hour")
	flags.BoolVar(&o.quick, "quick", false, "measure a part of it, into RESULTS/quick.txt: under three minutes")
	flags.BoolVar(&o.report, "report", false, "write BENCHMARKS.md and its plots: from this run, or else from all.txt, or else from quick.txt")
	flags.StringVar(&o.results, "results", "results", "`folder` of results")
	flags.StringVar(&o.docs, "docs", filepath.Join("..", "docs"), "`folder` of the page")
	count := flags.Int("count", 0, "samples of each row (default 12, or 5 with -quick)")
	each := flags.Duration("time", 0, "`duration` of a sample (default 150ms, or 30ms with -quick)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.plan = full
	if o.quick {
		o.plan = quick
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.all && o.quick:
		return o, fmt.Errorf("-all and -quick together: want one of them")
	case !o.all && !o.quick && !o.report:
		return o, fmt.Errorf("nothing to do: want -all, -quick or -report")
	case *count < 0 || *each < 0:
		return o, fmt.Errorf("-count and -time want numbers above 0")
	}
	if *count > 0 {
		o.plan.count = *count
	}
	if *each > 0 {
		o.plan.time = *each
	}
	return o, nil
}

func run(args []string, log io.Writer) error {
	o, err := parse(args, log)
	if err != nil {
		return err
	}
	from := filepath.Join(o.results, "all.txt")
	if o.quick || !o.all && !exists(from) {
		from = filepath.Join(o.results, "quick.txt")
	}
	if o.all || o.quick {
		if err := o.measure(from, args, log); err != nil {
			return err
		}
	}
	if !o.report {
		return nil
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	r, err := readResults(bytes.NewReader(text), from)
	if err != nil {
		return err
	}
	return r.writePage(o.docs)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// measure runs the plan. The results take their name when they are complete.
func (o options) measure(path string, args []string, log io.Writer) error {
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	partial := path + ".part"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer file.Close()
	start := time.Now()
	w, err := record.NewWriter(file, log, environment(start, args), "bits/key assume=exact", "fp-rate assume=exact")
	if err != nil {
		return err
	}
	o.plan.run(w)
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Fprintf(log, "%s: done in %v\n", path, time.Since(start).Round(time.Second))
	return os.Rename(partial, path)
}

// environment is what the figures depend on.
func environment(now time.Time, args []string) [][2]string {
	command := strings.Join(append([]string{"go run -C benchmarks ."}, args...), " ")
	return append(record.Machine(now, "github.com/redbloom-go/bloom/benchmarks", command), record.Versions(peerModules)...)
}

// peerModules are the modules whose versions belong to the results, by the names that
// results give them.
var peerModules = map[string]string{
	"github.com/bits-and-blooms/bloom/v3": "bits-and-blooms",
	"github.com/holiman/bloomfilter/v2":   "holiman",
	"github.com/dgraph-io/ristretto/v2":   "ristretto",
	"github.com/tylertreat/BoomFilters":   "boomfilters",
	"github.com/seiflotfy/cuckoofilter":   "seiflotfy",
	"github.com/FastFilter/xorfilter":     "fuse8",
	"github.com/cespare/xxhash/v2":        "xxhash",
}
