package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/spf13/pflag"
)

// lineFlags are the flags that say what a line is.
type lineFlags struct {
	zero bool // lines end with a NUL
	crlf bool // a CR before the newline is no part of the key
}

func (l *lineFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&l.zero, "zero", "z", false, "lines end with a NUL byte, not with a newline, as those of find -print0 do")
	f.BoolVar(&l.crlf, "crlf", false, "a carriage return before the newline is no part of the key (without it, it is)")
}

func (l *lineFlags) end() byte {
	if l.zero {
		return 0
	}
	return '\n'
}

// input is a file of lines, or standard input.
type input struct {
	name string
	r    io.Reader // nil for a file to be opened
}

// inputs are the files named by the arguments, or standard input where there are none.
func inputs(args []string, stdin io.Reader) []input {
	if len(args) == 0 {
		args = []string{"-"}
	}
	var all []input
	for _, name := range args {
		if name == "-" {
			all = append(all, input{"standard input", stdin})
		} else {
			all = append(all, input{name: name})
		}
	}
	return all
}

// read calls use with the open file. Its error names the file.
func (in input) read(use func(io.Reader) error) error {
	r := in.r
	if r == nil {
		f, err := os.Open(in.name)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	}
	err := use(r)
	var named *os.PathError
	if err == nil || errors.As(err, &named) {
		return err
	}
	return fmt.Errorf("%s: %w", in.name, err)
}

// batch is some lines in a row.
type batch struct {
	lines [][]byte // without their ends
	keys  [][]byte // lines, or with --crlf what they are without a CR
	size  int      // bytes that were read for it
	buf   []byte   // what the lines are in
}

const (
	bufferSize = 256 << 10
	buffers    = 3 // one being filled, one being used, one between
)

// reader reads the lines of all inputs ahead, in a goroutine.
type reader struct {
	lineFlags
	full  chan *batch
	free  chan *batch
	done  chan struct{}
	err   error // why full was closed
	chunk int   // the size of new buffers
}

func newReader(ins []input, flags lineFlags, chunk int) *reader {
	r := &reader{
		lineFlags: flags, chunk: chunk,
		full: make(chan *batch, buffers), free: make(chan *batch, buffers), done: make(chan struct{}),
	}
	for range buffers {
		r.free <- &batch{}
	}
	go func() {
		defer close(r.full)
		for _, in := range ins {
			if r.err = in.read(r.readAll); r.err != nil {
				return
			}
		}
	}()
	return r
}

// batches yields the lines as they come: a batch is what one read brought, and is good until the next one. Before
// it waits for input it calls idle. It ends with the error of an input, of idle, or of the context.
func (r *reader) batches(ctx context.Context, idle func() error) iter.Seq2[*batch, error] {
	return func(yield func(*batch, error) bool) {
		defer close(r.done)
		for {
			b, ended := r.ready()
			if b == nil && !ended {
				if err := idle(); err != nil {
					yield(nil, err)
					return
				}
				select {
				case b = <-r.full: // nil when it is closed
				case <-ctx.Done():
					yield(nil, context.Cause(ctx))
					return
				}
			}
			switch {
			case b == nil && r.err != nil:
				yield(nil, r.err)
				return
			case b == nil || !yield(b, nil):
				return
			}
			r.free <- b // never blocks
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

// ready returns a batch if there is one already, and otherwise whether there will be none.
func (r *reader) ready() (b *batch, ended bool) {
	select {
	case b, ok := <-r.full:
		return b, !ok
	default:
		return nil, false
	}
}

// buffer returns a free batch, or nil when nobody reads any more.
func (r *reader) buffer() *batch {
	select {
	case b := <-r.free:
		if b.buf == nil {
			b.buf = make([]byte, r.chunk)
		}
		return b
	case <-r.done:
		return nil
	}
}

// send hands on the lines in the first n bytes of the buffer.
func (r *reader) send(b *batch, n, size int) bool {
	b.size = size
	b.lines, b.keys = r.split(b.buf[:n], b.lines[:0], b.keys[:0])
	select {
	case r.full <- b:
		return true
	case <-r.done:
		return false
	}
}

func (r *reader) split(data []byte, lines, keys [][]byte) ([][]byte, [][]byte) {
	end := r.end()
	for len(data) > 0 {
		line := data
		if i := bytes.IndexByte(data, end); i >= 0 {
			line, data = data[:i:i], data[i+1:]
		} else {
			data = nil
		}
		lines = append(lines, line)
		if r.crlf {
			keys = append(keys, bytes.TrimSuffix(line, []byte{'\r'}))
		}
	}
	if !r.crlf {
		keys = lines
	}
	return lines, keys
}

// readAll reads one input. A line may be of any length: the buffer grows until it is all here.
func (r *reader) readAll(in io.Reader) error {
	b := r.buffer()
	if b == nil {
		return nil
	}
	for have, size := 0, 0; ; {
		if have == len(b.buf) {
			b.buf = slices.Grow(b.buf, len(b.buf))
			b.buf = b.buf[:cap(b.buf)]
		}
		n, err := in.Read(b.buf[have:])
		if size += n; n > 0 {
			last := bytes.LastIndexByte(b.buf[have:have+n], r.end())
			whole := have + last + 1
			have += n
			if last >= 0 {
				next := r.buffer()
				if next == nil {
					return nil
				}
				if rest := have - whole; rest > len(next.buf) {
					next.buf = make([]byte, rest)
				}
				have = copy(next.buf, b.buf[whole:have])
				if !r.send(b, whole, size) {
					return nil
				}
				b, size = next, 0
			}
		}
		switch {
		case err == io.EOF && have > 0: // the last line has no end
			r.send(b, have, size)
			return nil
		case err != nil:
			r.free <- b
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
}

// countLines returns how many lines an input has. What it read of it is told to progress.
func countLines(ctx context.Context, in io.Reader, end byte, progress func(int)) (uint64, error) {
	buf := make([]byte, bufferSize)
	lines, last := uint64(0), end
	for ctx.Err() == nil {
		n, err := in.Read(buf)
		if n > 0 {
			lines += uint64(bytes.Count(buf[:n], []byte{end}))
			last = buf[n-1]
			progress(n)
		}
		switch {
		case err == io.EOF && last != end:
			return lines + 1, nil
		case err == io.EOF:
			return lines, nil
		case err != nil:
			return 0, err
		}
	}
	return 0, context.Cause(ctx)
}
