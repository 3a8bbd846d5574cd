package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/migrate"
	"github.com/spf13/cobra"
)

type checkFlags struct {
	lineFlags
	loading
	invert, count, quiet bool
	funnel               string
}

func newCheck() *cobra.Command {
	var o checkFlags
	c := &cobra.Command{
		Use:   "check FILTER [FILE...]",
		Short: "Print the lines that may be in a filter, or with -v those that are not",
		Long: `check prints the lines of the files, or of standard input, that may be in the filter: all that were added to
it, and of the others as many as its rate of false positives says. With -v it prints those that are definitely not in
it.

Exit codes are grep's: 0 if a line was selected, 1 if none was, 2 for an error. The filter is in any format that
"bloom info" knows; a Filter or a Blocked in a file is mapped into memory and shared with other processes.`,
		Example: `  bloom check words.bloom < typed.txt
  bloom check -v words.bloom typed.txt          # what is definitely no word
  bloom check -c seen.bloom urls.txt            # how many may have been seen
  echo alice | bloom check -q users.bloom && echo "maybe a user"
  bloom check --format guava --funnel long old.bin < ids.txt`,
		Args: atLeast(1, "the file of a filter"),
		RunE: o.run,
	}
	f := c.Flags()
	f.BoolVarP(&o.invert, "invert", "v", false, "select the lines that are definitely not in the filter")
	f.BoolVarP(&o.count, "count", "c", false, "print how many lines are selected, not the lines")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing, and end at the first selected line with code 0")
	o.funnel = funnels[0]
	f.Var(word[string]{&o.funnel, funnels}, "funnel", "of guava: what made bytes of objects, "+enumerate(funnels)+"; by another than the one they were put with, objects are called absent")
	o.lineFlags.register(f)
	o.loading.register(f)
	return c
}

// container tells of each key whether it may be in a filter.
type container interface {
	ContainsMany(dst []bool, keys [][]byte) []bool
}

func (o *checkFlags) run(c *cobra.Command, args []string) error {
	if args[0] == "-" && (len(args) == 1 || slices.Contains(args[1:], "-")) {
		return usagef("the filter and the lines cannot both be standard input")
	}
	filter, closeFilter, err := o.container(c, args[0])
	if err != nil {
		return err
	}
	defer closeFilter()
	out := newOutput(c)
	selected, err := o.selectLines(c, filter, inputs(args[1:], c.InOrStdin()), out)
	if o.quiet && selected > 0 {
		return nil // as grep, also if there was an error
	}
	if o.count && err == nil {
		fmt.Fprintln(out, selected)
	}
	if flushErr := out.flush(); err == nil {
		err = flushErr
	}
	if err == nil && selected == 0 {
		err = errNone
	}
	return err
}

func (o *checkFlags) selectLines(c *cobra.Command, filter container, ins []input, out output) (selected uint64, err error) {
	var answers []bool
	for b, err := range newReader(ins, o.lineFlags, bufferSize).batches(c.Context(), out.flush) {
		if err != nil {
			return selected, err
		}
		answers = filter.ContainsMany(answers[:0], b.keys)
		for i, in := range answers {
			if in == o.invert {
				continue
			}
			selected++
			if o.quiet {
				return selected, nil
			}
			if o.count {
				continue
			}
			if err := out.line(b.lines[i], o.end()); err != nil {
				return selected, err
			}
		}
	}
	return selected, nil
}

// container opens the filter: mapped where that can be, and otherwise read.
func (o *checkFlags) container(c *cobra.Command, name string) (container, func() error, error) {
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && o.mayBeRecord() && o.funnel == funnels[0] {
		opts, err := o.readOptions()
		if err != nil {
			return nil, nil, err
		}
		if m, err := bloom.OpenMapped(name, opts...); err == nil {
			return m, m.Close, nil
		} // whatever else it is, reading it tells
	}
	_, filter, err := o.one(name, c.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	nothing := func() error { return nil }
	if _, ok := filter.(*migrate.Guava); !ok && o.funnel != funnels[0] {
		return nil, nil, usagef("--funnel is for filters of Guava")
	}
	switch f := filter.(type) {
	case container:
		return f, nothing, nil
	case *migrate.BitsAndBlooms:
		return each(f.Contains), nothing, nil
	case *migrate.Guava:
		return funnelled(f, o.funnel), nothing, nil
	}
	return nil, nil, fmt.Errorf("%s: a %T cannot be asked", name, filter)
}

// mayBeRecord reports whether the flags leave it open that a file has a record of this library.
func (l *loading) mayBeRecord() bool {
	return (l.format == "" || l.format == formatBloom) && l.bits == 0 && l.hashes == 0
}

// each asks a filter for one key after the other.
type each func(key []byte) bool

func (e each) ContainsMany(dst []bool, keys [][]byte) []bool {
	for _, key := range keys {
		dst = append(dst, e(key))
	}
	return dst
}
