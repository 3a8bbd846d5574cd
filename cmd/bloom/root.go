package main

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "bloom",
		Short: "Make, ask, convert and describe Bloom filters",
		Long: `bloom makes, asks, converts and describes Bloom filters: files that tell of a key in a few bits
whether it is definitely absent from a set, or maybe in it.

Keys are lines, as bytes, without the newline. A line is never called absent from a filter that it
was added to. Exit codes are grep's: 0 for done, or something selected; 1 for nothing selected; 2 for errors.`,
		Example: `  bloom size -n 1e6 -p 0.01                 # what does a filter for a million keys take?
  bloom build -o words.bloom words.txt      # a filter of the lines of a file
  bloom check words.bloom < typed.txt       # lines that may be in it
  bloom check -v words.bloom < typed.txt    # lines that certainly are not
  tail -f log | bloom uniq                  # each line once, in a stream of any size
  bloom info words.bloom                    # what is this file?`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newSize(), newBuild(), newCheck(), newUniq(), newInfo(), newConvert(), newMerge())
	for _, c := range root.Commands() {
		completeValues(c)
	}
	return root
}

// completeValues lets shells complete the flags that take one of a few words.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(interface{ words() []string }); ok {
			// The error is for a flag that is not there.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.words(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
}

// version is that of the module, when it was installed by path.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasAvailableSubCommands() {
		return usagef("unknown command %q", args[0])
	}
	return usagef("unexpected argument %q", args[0])
}

// atLeast is for a command whose first n arguments are called what.
func atLeast(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("want %s", what)
		}
		return nil
	}
}

func exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("want %s and nothing else", what)
		}
		return nil
	}
}

// required is what MarkFlagRequired checks, as an error of ours.
func required(value, flag, what string) error {
	if value == "" {
		return usageError{errors.New(flag + " is not given: " + what)}
	}
	return nil
}
