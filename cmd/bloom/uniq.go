package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
	"github.com/spf13/cobra"
)

// firstUniqLink is firstLink for streams, which as a rule are longer, and whose filter is seldom kept.
const firstUniqLink = 1_000_000

type uniqFlags struct {
	lineFlags
	hashing
	capacity count
	rate     float64
	repeated bool
	summary  bool
	state    string
	window   time.Duration
	buckets  int
}

func newUniq() *cobra.Command {
	var o uniqFlags
	c := &cobra.Command{
		Use:   "uniq [FILE...]",
		Short: "Print each line of a stream once, as it comes",
		Long: `uniq prints each line of the files, or of standard input, when it comes for the first time. It need not be
sorted, and may be of any size: what it takes is some bytes for each distinct line.

It is approximate: of lines that are new it drops as many as the rate of false positives says, one in a million
unless -p is given. It never prints a line twice. With -d it prints the other lines: those that came before.

The filter grows with the stream. With -n it has a fixed size; more distinct lines than that make the rate rise,
which a warning tells. --state keeps the filter in a file, to go on with in the next run: it is written at the end,
also after Ctrl-C, and not where the output was cut off, as by head: then the lines come again.
--window forgets lines after a time: a line is printed again when the time since it was printed last is over, which is
between the window and one bucket more (the system's clock counts, not the times in a log).`,
		Example: `  tail -F app.log | bloom uniq
  bloom uniq -c big.csv > distinct.csv
  crawl | bloom uniq --state seen.bloom         # only what no run before has printed
  tail -F app.log | bloom uniq --window 1h --buckets 6
  bloom uniq -d urls.txt | bloom uniq           # each repeated line once`,
		RunE: catching(o.run),
	}
	f := c.Flags()
	f.VarP(&o.capacity, "capacity", "n", "how many distinct lines a filter of fixed size is made for; with --window, in one bucket (default there 1000000)")
	f.Float64VarP(&o.rate, "rate", "p", 1e-6, "rate of false positives: the part of new lines that is dropped at most")
	f.BoolVarP(&o.repeated, "repeated", "d", false, "print the lines that came before, each time")
	f.BoolVarP(&o.summary, "count", "c", false, "say at the end on standard error how many lines there were")
	f.StringVar(&o.state, "state", "", "`file` with the filter: read at the start if it is there, written at the end")
	f.DurationVar(&o.window, "window", 0, "forget lines after this time, as 90s, 15m or 24h")
	f.IntVar(&o.buckets, "buckets", 4, "with --window: in how many steps lines are forgotten, 1 to 999")
	o.hashing.register(f)
	o.lineFlags.register(f)
	return c
}

// seen is the set of the lines that came.
type seen struct {
	add      adder
	info     func() bloom.Info
	overfull func() string // what to warn of, or nothing
}

func (o *uniqFlags) run(c *cobra.Command, args []string) error {
	if o.state != "" {
		for _, name := range args {
			if sameFile(name, o.state) {
				return usagef("%s is both the state and an input", name)
			}
		}
	}
	filter, set, err := o.open(c)
	if err != nil {
		return err
	}
	ins := inputs(args, c.InOrStdin())
	out := newOutput(c)
	lines, printed, err := o.filterLines(c, set, ins, out)
	// What was printed before a signal belongs to the state. After an error nothing does: the lines come again.
	flushErr := out.flush()
	if flushErr != nil {
		err = flushErr
	}
	var stopped interruption
	if o.state != "" && (err == nil || errors.As(err, &stopped)) && flushErr == nil {
		if err := bloom.Save(o.state, filter); err != nil {
			return err
		}
	}
	if s := set.overfull(); s != "" {
		fmt.Fprintln(c.ErrOrStderr(), "bloom: warning:", s)
	}
	if o.summary {
		o.report(c, lines, printed, set.info())
	}
	return err
}

func (o *uniqFlags) filterLines(c *cobra.Command, set *seen, ins []input, out output) (lines, printed uint64, err error) {
	var answers []bool
	for b, err := range newReader(ins, o.lineFlags, bufferSize).batches(c.Context(), out.flush) {
		if err != nil {
			return lines, printed, err
		}
		if answers, err = set.add(answers[:0], b.keys); err != nil {
			return lines, printed, err
		}
		lines += uint64(len(answers))
		for i, fresh := range answers {
			if fresh == o.repeated {
				continue
			}
			printed++
			if err := out.line(b.lines[i], o.end()); err != nil {
				return lines, printed, err
			}
		}
	}
	return lines, printed, nil
}

// report says what was seen. A new line was dropped with the rate at that moment at most, which rose to that at the
// end.
func (o *uniqFlags) report(c *cobra.Command, lines, printed uint64, i bloom.Info) {
	fresh := printed
	if o.repeated {
		fresh = lines - printed
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d lines, %d distinct, %d repeated; at most about %.2g distinct ones taken for repeated; filter of %d bytes\n",
		lines, fresh, lines-fresh, float64(fresh)*i.ErrorRate/(1-min(i.ErrorRate, 0.999)), i.SizeBytes)
}

// open makes the set, or reads it from the state. The filter is nil with --window.
func (o *uniqFlags) open(c *cobra.Command) (keyed, *seen, error) {
	opts, err := o.options()
	if err != nil {
		return nil, nil, err
	}
	if o.window != 0 || c.Flags().Changed("buckets") {
		set, err := o.openWindow(opts)
		return nil, set, err
	}
	var f keyed
	if o.state != "" {
		f, err = o.readState(c)
	}
	if f == nil && err == nil {
		kind, capacity := kindScalable, uint64(firstUniqLink)
		if c.Flags().Changed("capacity") {
			kind, capacity = kindFilter, uint64(o.capacity)
		}
		f, err = kind.make(capacity, o.rate, opts...)
	}
	if err != nil {
		return nil, nil, err
	}
	add, err := adderOf(f)
	return f, &seen{add, f.Info, func() string { return overfull(f) }}, err
}

func (o *uniqFlags) openWindow(opts []bloom.Option) (*seen, error) {
	switch {
	case o.window <= 0:
		return nil, usagef("--window is %v, want a time above 0", o.window)
	case o.buckets < 1 || o.buckets > 999:
		return nil, usagef("--buckets is %d, want 1 to 999", o.buckets)
	case o.state != "":
		return nil, usagef("--state and --window do not go together: times are not kept in a file")
	}
	capacity := uint64(o.capacity)
	if capacity == 0 {
		capacity = firstUniqLink
	}
	// A key is remembered for all spans but the one in which it came, and the rest of that.
	span := max(1, (o.window+time.Duration(o.buckets)-1)/time.Duration(o.buckets))
	r, err := rolling.NewRotating(capacity, o.rate, rolling.RotatingOptions{Span: span, Keep: o.buckets + 1}, opts...)
	if err != nil {
		return nil, err
	}
	full := false
	add := func(dst []bool, keys [][]byte) ([]bool, error) {
		dst = r.AddUniqueMany(dst, keys)
		full = full || r.Len() > r.Capacity()
		return dst, nil
	}
	return &seen{add, r.Info, func() string {
		for b := range r.Buckets() {
			full = full || b.Len > b.Capacity
		}
		if !full {
			return ""
		}
		return fmt.Sprintf("more than %d distinct lines in a bucket of %v: more of them than %.3g were dropped; -n sets how many fit", capacity, span, o.rate)
	}}, nil
}

// readState returns nil if there is no file yet.
func (o *uniqFlags) readState(c *cobra.Command) (keyed, error) {
	if _, err := os.Stat(o.state); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	l := loading{hashing: o.hashing, format: formatBloom}
	_, filter, err := l.one(o.state, nil)
	if err != nil {
		return nil, err
	}
	f := filter.(keyed)
	// Flags that say otherwise than the file are a mistake, and not to be passed over.
	made := f.Info()
	capacity := made.Capacity
	if s, ok := f.(*bloom.Scalable); ok {
		for link := range s.Links() {
			capacity = link.Capacity
			break
		}
	}
	set := c.Flags().Changed
	switch {
	case set("capacity") && uint64(o.capacity) != capacity:
		return nil, fmt.Errorf("%s was made for %d lines, -n is %d", o.state, capacity, o.capacity)
	case set("rate") && o.rate != made.TargetRate:
		return nil, fmt.Errorf("%s was made for a rate of %v, -p is %v", o.state, made.TargetRate, o.rate)
	case set("scheme") && o.scheme.Scheme != made.Scheme:
		return nil, fmt.Errorf("%s hashes with %v, --scheme is %v", o.state, made.Scheme, o.scheme.Scheme)
	case set("seed") && o.seed != made.Seed && made.Scheme != bloom.SipHash:
		return nil, fmt.Errorf("%s has seed %d, --seed is %d", o.state, made.Seed, o.seed)
	}
	return f, nil
}
