package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// interruption is the cause of the end of a context that a signal ended.
type interruption struct{ signal syscall.Signal }

func (i interruption) Error() string { return "interrupted" }

// catching is for commands that have something to do when a signal comes, as to save what was seen or to leave no
// temporary file: the first one ends the command's context, and with it its input. A second one ends the program. What
// nohup or a shell's background job told it to ignore stays ignored.
func catching(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx, cancel := context.WithCancelCause(c.Context())
		defer cancel(nil)
		caught := make(chan os.Signal, 1)
		for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
			if !signal.Ignored(s) {
				signal.Notify(caught, s)
			}
		}
		defer signal.Stop(caught)
		go func() {
			select {
			case s := <-caught:
				signal.Stop(caught)
				number, _ := s.(syscall.Signal)
				cancel(interruption{number})
			case <-ctx.Done():
			}
		}()
		c.SetContext(ctx)
		return run(c, args)
	}
}
