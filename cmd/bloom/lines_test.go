package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readLines returns all lines and keys that a reader gives, and how many bytes it says that it read.
func readLines(t *testing.T, flags lineFlags, chunk int, ins ...input) (lines, keys []string, size int) {
	t.Helper()
	for b, err := range newReader(ins, flags, chunk).batches(context.Background(), func() error { return nil }) {
		require.NoError(t, err)
		require.Len(t, b.keys, len(b.lines))
		for i := range b.lines {
			lines, keys = append(lines, string(b.lines[i])), append(keys, string(b.keys[i]))
		}
		size += b.size
	}
	return lines, keys, size
}

// split is what lines are, said in another way.
func split(text string, end byte) []string {
	lines := strings.Split(text, string(end))
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	return lines
}

func TestLinesOfAnyText(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	readers := map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader,
		"data with the end": iotest.DataErrReader,
	}
	texts := []string{"", "\n", "\n\n", "a", "a\n", "a\nb", "\r\n", "a\r\nb\r", "a\x00b\x00", strings.Repeat("long", 1000), strings.Repeat("x", 16), strings.Repeat("x", 15) + "\n"}
	random := 200
	if testing.Short() {
		random = 30
	}
	for range random {
		b := make([]byte, rng.IntN(300))
		for i := range b {
			b[i] = "\n\r\x00abcdefgh"[rng.IntN(11)]
		}
		texts = append(texts, string(b))
	}
	for name, reads := range readers {
		for _, text := range texts {
			for _, chunk := range []int{1, 7, 16, bufferSize} {
				for _, flags := range []lineFlags{{}, {crlf: true}, {zero: true}} {
					lines, keys, size := readLines(t, flags, chunk, input{"text", reads(strings.NewReader(text))})
					want := split(text, flags.end())
					require.Equal(t, want, append([]string{}, lines...), "%s %q in pieces of %d", name, text, chunk)
					if flags.crlf {
						for i := range want {
							want[i] = strings.TrimSuffix(want[i], "\r")
						}
					}
					require.Equal(t, want, append([]string{}, keys...))
					require.Equal(t, len(text), size)
					n, err := countLines(context.Background(), reads(strings.NewReader(text)), flags.end(), func(int) {})
					require.NoError(t, err)
					require.EqualValues(t, len(want), n, "%q", text)
				}
			}
		}
	}
}

func TestLinesDoNotCrossFiles(t *testing.T) {
	a, b := write(t, "one\ntwo"), write(t, "three\n")
	lines, _, size := readLines(t, lineFlags{}, bufferSize, inputs([]string{a, "-", b}, strings.NewReader("stdin"))...)
	assert.Equal(t, []string{"one", "two", "stdin", "three"}, lines)
	assert.Equal(t, 18, size)
}

func TestLinesLongerThanAnyBuffer(t *testing.T) {
	long := strings.Repeat("0123456789", 1<<18) // ten times the buffer
	lines, _, _ := readLines(t, lineFlags{}, bufferSize, input{"text", strings.NewReader("a\n" + long + "\nb\n" + long)})
	require.Len(t, lines, 4)
	assert.True(t, lines[1] == long && lines[3] == long)
}

// A line is there as soon as it has come, though the input goes on.
func TestLinesComeAtOnce(t *testing.T) {
	in, feed := io.Pipe()
	go func() {
		_, _ = io.WriteString(feed, "first\nsec")
	}()
	out, printed := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(context.Background(), []string{"uniq"}, in, printed, io.Discard)
		printed.Close()
	}()
	buf := make([]byte, 100)
	n, err := out.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "first\n", string(buf[:n]))
	go func() {
		_, _ = io.WriteString(feed, "ond\nfirst\n")
		feed.Close()
	}()
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	assert.Equal(t, "second\n", string(rest))
	assert.Equal(t, exitSelected, <-done)
}

func TestIdleFails(t *testing.T) {
	in, feed := io.Pipe() // nothing comes
	defer feed.Close()
	r := newReader([]input{{"text", in}}, lineFlags{}, 16)
	var last error
	for _, err := range r.batches(context.Background(), func() error { return io.ErrShortWrite }) {
		last = err
	}
	assert.Equal(t, io.ErrShortWrite, last)
}

func BenchmarkLines(b *testing.B) {
	text := bytes.Repeat([]byte("a line of some thirty bytes...\n"), 100_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r := newReader([]input{{"text", bytes.NewReader(text)}}, lineFlags{}, bufferSize)
		for range r.batches(context.Background(), func() error { return nil }) {
		}
	}
}
