package main

import (
	"fmt"

	"github.com/redbloom-go/bloom"
	"github.com/spf13/cobra"
)

func newMerge() *cobra.Command {
	var l loading
	var out string
	c := &cobra.Command{
		Use:   "merge -o FILTER FILTER...",
		Short: "Unite filters of the same parameters",
		Long: `merge writes the union of filters: bit for bit the filter that all their keys together would have made. They must
be of one kind, Filter, Blocked or Counting, and have the same scheme, seed, size and number of hashes: build them
with the same -n, -p, --kind and --scheme. A Counting then has the sum of the counts.

The filter is as large as before, and holds more: if that is more than it was made for a warning tells the rate. FILTER
may be one of those that are read.`,
		Example: `  bloom build -n 1e6 -o mon.bloom mon.txt
  bloom build -n 1e6 -o tue.bloom tue.txt
  bloom merge -o week.bloom mon.bloom tue.bloom`,
		Args: atLeast(1, "the files of filters"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := required(out, "-o", "the file to write the union to"); err != nil {
				return err
			}
			var union keyed
			for _, name := range args {
				_, filter, err := l.one(name, c.InOrStdin())
				if err != nil {
					return err
				}
				if union, err = unite(union, filter); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			if s := overfull(union); s != "" {
				fmt.Fprintln(c.ErrOrStderr(), "bloom: warning: about", s)
			}
			return save(c, out, union)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "", "`file` to write the union to")
	l.registerKey(c.Flags())
	return c
}

// unite adds a filter to the union of those before, which is nil for none.
func unite(union keyed, filter any) (keyed, error) {
	switch f := filter.(type) {
	case *bloom.Filter:
		return united(union, f)
	case *bloom.Blocked:
		return united(union, f)
	case *bloom.Counting:
		return united(union, f)
	case keyed:
		return nil, fmt.Errorf("a %s has no union with another: Filter, Blocked and Counting have", f.Info().Kind)
	}
	return nil, fmt.Errorf("a filter of another library has no union here")
}

func united[F interface {
	keyed
	Union(F) error
}](union keyed, f F) (keyed, error) {
	if union == nil {
		return f, nil
	}
	u, ok := union.(F)
	if !ok {
		return nil, fmt.Errorf("%w: a %s, and those before are %s", bloom.ErrMismatch, f.Info().Kind, union.Info().Kind)
	}
	return u, u.Union(f)
}
