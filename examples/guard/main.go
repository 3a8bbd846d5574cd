// Command guard puts package guard in front of a cache and a database, measures what it saves when most
// lookups ask for keys that do not exist, and rebuilds the filter under load.
//
// A cache helps with hot keys only: every absent key is new to it, so the
// lookup falls through to the database. The filter answers "certainly absent"
// from a few bits per key, and the database is left alone.
//
//	go run -C examples ./guard
//	go run -C examples ./guard -keys /usr/share/dict/words -p 0.001 -absent 0.5
//
// What to copy is newStack in store.go, and Create in rebuild.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redbloom-go/bloom"
)

// Exit codes of the program.
const (
	exitOK          = 0
	exitFailed      = 1   // the run failed, or an answer was wrong
	exitUsage       = 2   // a bad flag or an unreadable key file
	exitInterrupted = 130 // what a shell reports for an interrupted program
)

type config struct {
	lookups  int
	rate     float64
	absent   float64
	keysFile string
	seed     uint64
}

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the globals: tests call it and look at the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parseFlags(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		return fail(stderr, exitUsage, err)
	}
	data, err := loadDataset(cfg.keysFile)
	if err != nil {
		return fail(stderr, exitUsage, err)
	}
	// The rate comes from outside, and a tiny one makes a huge filter.
	if _, err := bloom.Estimate(uint64(len(data.rows)), cfg.rate, bloom.WithMaxBytes(1<<30)); err != nil {
		return fail(stderr, exitUsage, err)
	}

	// Signals are caught from here on only, because from here on there is a
	// directory to clean up. Before that, Ctrl-C must also end a program that
	// waits for a key file from a pipe.
	ctx, stop := signal.NotifyContext(ctx, endingSignals()...)
	defer stop()
	rep, err := measure(ctx, cfg, data, newProgress(stderr))
	switch {
	case err != nil && ctx.Err() != nil: // err may be anything the end of ctx led to
		return fail(stderr, exitInterrupted, errors.New("interrupted"))
	case err != nil:
		return fail(stderr, exitFailed, err)
	}
	return finish(rep, stdout, stderr)
}

// endingSignals are the signals that end the program. What nohup or a shell's
// background job told it to ignore stays ignored.
func endingSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signals = append(signals, s)
		}
	}
	return signals
}

// finish prints the report and turns it into an exit code: a filter that hides
// a single existing row has failed, however many queries it saved.
func finish(rep report, stdout, stderr io.Writer) int {
	if err := rep.print(stdout); err != nil {
		return fail(stderr, exitFailed, fmt.Errorf("write the table: %w", err))
	}
	if rep.wrong() > 0 {
		return fail(stderr, exitFailed, fmt.Errorf("%d wrong answers, the first: %s", rep.wrong(), rep.firstWrong()))
	}
	return exitOK
}

func parseFlags(args []string, help io.Writer) (config, error) {
	var cfg config
	fs := flag.NewFlagSet("guard", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported by run, in one line
	fs.IntVar(&cfg.lookups, "n", 1_000_000, "`lookups` to make, once without and once with the filter")
	fs.Float64Var(&cfg.rate, "p", 0.01, "error `rate` of the filter, between 0 and 1")
	fs.Float64Var(&cfg.absent, "absent", 0.9, "`share` of the lookups that ask for absent keys, from 0 to 1")
	fs.StringVar(&cfg.keysFile, "keys", "", "`file` with your own keys, one a line (default: every assigned Unicode code point)")
	fs.Uint64Var(&cfg.seed, "seed", 1, "`seed` of the traffic")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(help, "usage: guard [-n lookups] [-p rate] [-absent share] [-keys file] [-seed seed]")
			fs.SetOutput(help)
			fs.PrintDefaults()
		}
		return config{}, err
	}
	// Comparisons are written so that NaN fails them.
	switch {
	case fs.NArg() > 0:
		return config{}, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case cfg.lookups <= 0:
		return config{}, fmt.Errorf("-n is %d, want at least 1", cfg.lookups)
	case !(cfg.rate > 0 && cfg.rate < 1):
		return config{}, fmt.Errorf("-p is %v, want a rate between 0 and 1, both excluded", cfg.rate)
	case !(cfg.absent >= 0 && cfg.absent <= 1):
		return config{}, fmt.Errorf("-absent is %v, want a share from 0 to 1", cfg.absent)
	}
	var err error
	fs.Visit(func(f *flag.Flag) {
		// An unset variable in a script must not silently select other data.
		if f.Name == "keys" && cfg.keysFile == "" {
			err = errors.New("-keys is empty, want a file name")
		}
	})
	return cfg, err
}

// fail reports err in exactly one line and returns the exit code.
func fail(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "guard: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return code
}
