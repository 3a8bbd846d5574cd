package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/redbloom-go/bloom"
	"github.com/spf13/cobra"
)

// firstLink is how many keys the first part of a filter is made for where nobody knows how many will come.
const firstLink = 100_000

type buildFlags struct {
	lineFlags
	hashing
	capacity count
	rate     float64
	kind     kindValue
	out      string
}

func newBuild() *cobra.Command {
	var o buildFlags
	c := &cobra.Command{
		Use:   "build -o FILTER [FILE...]",
		Short: "Make a filter of lines",
		Long: `build makes a filter of the lines of the files, or of standard input, and writes it to a file, whole or
not at all. A file that is there is replaced.

The filter is made for -n lines. Without -n, files are read twice: they are counted first. Where that cannot be, as
with a pipe, the filter is a Scalable, which grows: it takes more bits a key than one of a known size.
Every line is a key, an empty one too; a repeated one counts once in the filter, but in a Counting as often as it
comes. "-" is standard input, and as FILTER standard output.`,
		Example: `  bloom build -o words.bloom /usr/share/dict/words
  bloom build -o users.bloom -p 0.001 users-*.txt
  mysql -N -e 'SELECT id FROM users' | bloom build -o users.bloom -n 50e6
  bloom build -o users.bloom --kind scalable --scheme redisbloom users.txt   # to be converted to a Redis dump`,
		RunE: catching(o.run),
	}
	f := c.Flags()
	f.StringVarP(&o.out, "out", "o", "", "`file` to write the filter to")
	f.VarP(&o.capacity, "capacity", "n", "how many distinct lines the filter is made for (default: all there are)")
	f.Float64VarP(&o.rate, "rate", "p", 0.01, "rate of false positives, between 0 and 1")
	f.Var(word[kindValue]{&o.kind, kinds}, "kind", enumerate(kinds)+" (default: filter, or scalable where the number of lines is not known)")
	o.hashing.register(f)
	o.lineFlags.register(f)
	return c
}

func (o *buildFlags) run(c *cobra.Command, args []string) error {
	if err := required(o.out, "-o", "the file to write the filter to"); err != nil {
		return err
	}
	opts, err := o.options()
	if err != nil {
		return err
	}
	for _, name := range args {
		if o.out != "-" && sameFile(name, o.out) {
			return usagef("%s would be replaced by its own filter", name)
		}
	}
	ctx, ins := c.Context(), inputs(args, c.InOrStdin())
	total, sized, err := totalSize(ins)
	if err != nil {
		return err
	}
	kind, capacity := o.kind, uint64(o.capacity)
	switch {
	case c.Flags().Changed("capacity"):
	case sized:
		if capacity, err = o.count(ctx, c.ErrOrStderr(), ins, total); err != nil {
			return err
		}
	case kind == "":
		kind, capacity = kindScalable, firstLink
	case kind == kindScalable:
		capacity = firstLink
	default:
		return usagef("the lines cannot be counted beforehand: give -n, or --kind scalable")
	}
	rate := o.rate
	if kind == kindCuckoo && o.scheme.Scheme == bloom.RedisBloom && !c.Flags().Changed("rate") {
		rate = 0 // what the server's fingerprints give
	}
	f, err := kind.make(capacity, rate, opts...)
	if err != nil {
		return err
	}
	bar := newBar(c.ErrOrStderr(), "adding", total)
	err = o.fill(ctx, f, ins, bar)
	bar.stop()
	if err != nil {
		return err
	}
	if s := overfull(f); s != "" {
		fmt.Fprintln(c.ErrOrStderr(), "bloom: warning:", s)
	}
	return save(c, o.out, f)
}

// totalSize returns how many bytes there are to read, if all inputs are regular files: they can be read twice.
func totalSize(ins []input) (total int64, sized bool, err error) {
	sized = true
	for _, in := range ins {
		var info os.FileInfo
		if in.r == nil {
			info, err = os.Stat(in.name)
		} else if file, ok := in.r.(*os.File); ok {
			info, err = file.Stat()
		}
		switch {
		case err != nil:
			return 0, false, err
		case info == nil || !info.Mode().IsRegular():
			sized = false
		default:
			total += info.Size()
		}
	}
	if !sized {
		total = -1
	}
	return total, sized, nil
}

// count reads the lines of all inputs, and leaves standard input where it was.
func (o *buildFlags) count(ctx context.Context, stderr io.Writer, ins []input, total int64) (uint64, error) {
	bar := newBar(stderr, "counting", total)
	defer bar.stop()
	all := uint64(0)
	for _, in := range ins {
		err := in.read(func(r io.Reader) error {
			file := r.(*os.File) // as totalSize found
			start, err := file.Seek(0, io.SeekCurrent)
			if err != nil {
				return err
			}
			n, err := countLines(ctx, file, o.end(), bar.add)
			if err != nil {
				return err
			}
			all += n
			_, err = file.Seek(start, io.SeekStart)
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return max(1, all), nil
}

// fill adds all lines.
func (o *buildFlags) fill(ctx context.Context, f keyed, ins []input, bar bar) error {
	add, err := adderOf(f)
	if err != nil {
		return err
	}
	var answers []bool
	for b, err := range newReader(ins, o.lineFlags, bufferSize).batches(ctx, func() error { return nil }) {
		if err != nil {
			return err
		}
		if answers, err = add(answers[:0], b.keys); err != nil {
			return fmt.Errorf("after %d keys: %w", f.Info().Len, err)
		}
		bar.add(b.size)
	}
	return nil
}
