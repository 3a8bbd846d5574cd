// Command bloom makes, asks, converts and describes Bloom filters: see docs/CLI.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// Exit codes: grep's, and those that a shell reports for a program that a signal ended.
const (
	exitSelected = 0
	exitNone     = 1 // check selected no line
	exitFailed   = 2
	exitPipe     = 128 + 13 // SIGPIPE
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// errNone makes a command end with exitNone and without a message.
var errNone = errors.New("nothing selected")

// outputError is an error of writing to standard output.
type outputError struct{ err error }

func (e outputError) Error() string { return "standard output: " + e.err.Error() }
func (e outputError) Unwrap() error { return e.err }

// run is main without the globals: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := newRoot()
	c.SetArgs(args)
	c.SetIn(stdin)
	c.SetOut(stdout)
	c.SetErr(stderr)
	ran, err := c.ExecuteContextC(ctx)
	var stopped interruption
	var output outputError
	switch {
	case err == nil:
		return exitSelected
	case errors.Is(err, errNone):
		return exitNone
	case errors.As(err, &output) && errors.Is(output.err, syscall.EPIPE):
		// As if the signal had come, which it does unless it is ignored: who reads no more has what it wants.
		return exitPipe
	case errors.As(err, &stopped):
		fmt.Fprintln(stderr, "bloom: interrupted")
		return 128 + int(stopped.signal)
	}
	// Errors of the library begin with its name, which is that of the program.
	fmt.Fprintf(stderr, "bloom: %s\n", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "bloom: "), "\n", "; "))
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "see %s --help\n", ran.CommandPath())
	}
	return exitFailed
}
