package main

import (
	"bufio"
	"errors"
	"io"
	"os"

	"github.com/redbloom-go/bloom"
	"github.com/spf13/cobra"
)

// output is buffered standard output.
type output struct{ *bufio.Writer }

func newOutput(c *cobra.Command) output {
	return output{bufio.NewWriterSize(c.OutOrStdout(), 64<<10)}
}

// line writes a line with its end; what goes wrong is told by flush, and by line once it has.
func (o output) line(line []byte, end byte) error {
	o.Write(line)
	if err := o.WriteByte(end); err != nil {
		return outputError{err}
	}
	return nil
}

func (o output) flush() error {
	if err := o.Flush(); err != nil {
		return outputError{err}
	}
	return nil
}

// save writes a file whole or not at all, or to standard output if path is "-".
func save(c *cobra.Command, path string, f io.WriterTo) error {
	if path != "-" {
		return bloom.Save(path, f)
	}
	if isTerminal(c.OutOrStdout()) {
		return errors.New("a filter is no text for a terminal: name a file, or redirect standard output")
	}
	if _, err := f.WriteTo(c.OutOrStdout()); err != nil {
		return outputError{err}
	}
	return nil
}

// sameFile reports whether two names are of one file.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}
