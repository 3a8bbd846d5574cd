package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// result is what a run of the program left behind.
type result struct {
	code           int
	stdout, stderr string
}

func runBloom(stdin io.Reader, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), args, stdin, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// mustRun fails the test unless the program ends with 0, and returns what it printed.
func mustRun(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	r := runBloom(strings.NewReader(stdin), args...)
	require.Equal(t, exitSelected, r.code, "bloom %v: %s", args, r.stderr)
	return r.stdout
}

// write puts text into a file of a directory of the test's own.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lines.txt")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// temp is the name of a file that is not there.
func temp(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o666))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

// decimal is prefix and a number, one a line.
func decimal(prefix string, from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%s%d\n", prefix, i)
	}
	return b.String()
}

func TestExitCodes(t *testing.T) {
	words := write(t, "apple\nbanana\n")
	filter := temp(t, "f.bloom")
	mustRun(t, "", "build", "-o", filter, "-p", "1e-9", words)
	missing, text := temp(t, "missing"), write(t, "just text\n")
	for _, c := range []struct {
		args   string
		stdin  string
		code   int
		stderr string
	}{
		{"check F", "apple\ncherry\n", 0, ""},
		{"check F", "cherry\n", 1, ""},
		{"check F", "", 1, ""},
		{"check -v F", "cherry\n", 0, ""},
		{"check -v F", "apple\n", 1, ""},
		{"check -c F", "apple\n", 0, ""},
		{"check -c F", "cherry\n", 1, ""},
		{"check -q F", "cherry\napple\n", 0, ""},
		{"check -q F", "cherry\n", 1, ""},
		{"check MISSING", "apple\n", 2, "bloom: open MISSING: no such file or directory\n"},
		{"check F MISSING", "", 2, "bloom: open MISSING: no such file or directory\n"},
		{"check TEXT", "apple\n", 2, "bloom: TEXT: no filter that this program knows by its content; a Redis string that is a bitmap wants --bits and --hashes\n"},
		{"check", "", 2, "bloom: want the file of a filter\nsee bloom check --help\n"},
		{"check -", "", 2, "bloom: the filter and the lines cannot both be standard input\nsee bloom check --help\n"},
		{"check - words.txt -", "", 2, "bloom: the filter and the lines cannot both be standard input\nsee bloom check --help\n"},
		{"check --format guava --funnel no F", "", 2, ""},
		{"check --funnel long F", "", 2, "bloom: --funnel is for filters of Guava\nsee bloom check --help\n"},
		{"check --format bloom --bits 5 F", "", 2, ""},
		{"uniq", "a\na\n", 0, ""},
		{"uniq", "", 0, ""},
		{"uniq MISSING", "", 2, "bloom: open MISSING: no such file or directory\n"},
		{"uniq --window 1h --state F", "", 2, "bloom: --state and --window do not go together: times are not kept in a file\nsee bloom uniq --help\n"},
		{"uniq --buckets 3", "", 2, "bloom: --window is 0s, want a time above 0\nsee bloom uniq --help\n"},
		{"uniq --window 1h --buckets 1000", "", 2, "bloom: --buckets is 1000, want 1 to 999\nsee bloom uniq --help\n"},
		{"uniq --state F F", "", 2, "bloom: F is both the state and an input\nsee bloom uniq --help\n"},
		{"build", "", 2, "bloom: -o is not given: the file to write the filter to\nsee bloom build --help\n"},
		{"build -o F F", "", 2, "bloom: F would be replaced by its own filter\nsee bloom build --help\n"},
		{"build -o OUT MISSING", "", 2, "bloom: stat MISSING: no such file or directory\n"},
		{"build -o OUT -p 0 TEXT", "", 2, "bloom: invalid argument: error rate is 0, want strictly between 0 and 1\n"},
		{"build -o OUT -n 0", "", 2, "bloom: invalid argument: capacity is 0, want at least 1\n"},
		{"build -o OUT -n 1e14", "", 2, ""},
		{"build -o OUT --kind nonsense", "", 2, ""},
		{"build -o OUT --kind blocked", "a\n", 2, "bloom: the lines cannot be counted beforehand: give -n, or --kind scalable\nsee bloom build --help\n"},
		{"build -o OUT --scheme siphash", "a\n", 2, ""},
		{"build -o OUT --kind cuckoo -n 10 -p 1e-12", "a\n", 2, ""},
		{"merge -o OUT", "", 2, "bloom: want the files of filters\nsee bloom merge --help\n"},
		{"merge F", "", 2, "bloom: -o is not given: the file to write the union to\nsee bloom merge --help\n"},
		{"info", "", 2, "bloom: want a file\nsee bloom info --help\n"},
		{"info F", "", 0, ""},
		{"info TEXT F", "", 2, "bloom: TEXT: no filter that this program knows by its content; a Redis string that is a bitmap wants --bits and --hashes\n"},
		{"convert F", "", 2, "bloom: want a file to read and a file to write and nothing else\nsee bloom convert --help\n"},
		{"size", "", 2, "bloom: want -n, the number of keys, or --bits and --hashes\nsee bloom size --help\n"},
		{"size -n 1e6 -p 2", "", 2, "bloom: invalid argument: error rate is 2, want strictly between 0 and 1\n"},
		{"size -n 1.5", "", 2, ""},
		{"size -n 10 extra", "", 2, "bloom: unexpected argument \"extra\"\nsee bloom size --help\n"},
		{"size --hashes 7", "", 2, "bloom: --hashes wants --bits\nsee bloom size --help\n"},
		{"size --bits 100 --hashes -1", "", 2, ""},
		{"size -n 1e6", "", 0, ""},
		{"nonsense", "", 2, "bloom: unknown command \"nonsense\"\nsee bloom --help\n"},
		{"", "", 0, ""},
		{"--version", "", 0, ""},
		{"--nonsense", "", 2, "bloom: unknown flag: --nonsense\nsee bloom --help\n"},
		{"completion bash", "", 0, ""},
		{"completion fish", "", 0, ""},
		{"completion zsh", "", 0, ""},
		{"help check", "", 0, ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			out := temp(t, "out")
			names := strings.NewReplacer("F", filter, "MISSING", missing, "TEXT", text, "OUT", out)
			var args []string
			for _, a := range strings.Fields(c.args) {
				if strings.Trim(a, "FMISNGTEXOU") == "" { // a name, and no flag
					a = names.Replace(a)
				}
				args = append(args, a)
			}
			r := runBloom(strings.NewReader(c.stdin), args...)
			assert.Equal(t, c.code, r.code, r.stderr)
			if c.code != 2 {
				assert.Empty(t, r.stderr)
			} else {
				assert.NotEmpty(t, r.stderr)
				if c.stderr != "" {
					want := c.stderr
					for _, name := range []string{"MISSING", "TEXT", "F "} {
						want = strings.ReplaceAll(want, name, names.Replace(strings.TrimSpace(name))+strings.Repeat(" ", strings.Count(name, " ")))
					}
					assert.Equal(t, want, r.stderr)
				}
				assert.NoFileExists(t, out)
			}
		})
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	commands := 0
	for _, c := range newRoot().Commands() {
		commands++
		help := mustRun(t, "", c.Name(), "--help")
		assert.Contains(t, help, "Examples:\n  ")
		assert.Contains(t, help, "bloom "+c.Name())
		for _, line := range strings.Split(c.Long, "\n") {
			assert.LessOrEqual(t, len([]rune(line)), 120, line)
		}
	}
	assert.Equal(t, 7, commands)
}

func TestCompletionOfValues(t *testing.T) {
	assert.Contains(t, mustRun(t, "", "__complete", "build", "--kind", "c"), "counting\ncuckoo\n")
	assert.Contains(t, mustRun(t, "", "__complete", "convert", "--to", ""), "bloom\nredisbloom\nbitmap\n")
	assert.Contains(t, mustRun(t, "", "__complete", "info", "--scheme", ""), "murmur3\nxxhash\nredisbloom\nsiphash\n")
}

// brokenPipe takes some bytes and then nothing.
type brokenPipe struct{ left int }

func (p *brokenPipe) Write(b []byte) (int, error) {
	if len(b) > p.left {
		n := p.left
		p.left = 0
		return n, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
	}
	p.left -= len(b)
	return len(b), nil
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestOutputThatEnds(t *testing.T) {
	words := write(t, decimal("word", 0, 100_000))
	filter := temp(t, "f.bloom")
	mustRun(t, "", "build", "-o", filter, words)
	for _, args := range [][]string{
		{"check", filter, words}, {"check", "-c", filter, words}, {"check", "-v", "-z", filter, words},
		{"uniq", words}, {"info", filter}, {"size", "-n", "10"}, {"size", "-n", "10", "--svg", "-"},
		{"build", "-o", "-", words}, {"convert", "--to", "bitmap", filter, "-"}, {"merge", "-o", "-", filter},
	} {
		var stderr bytes.Buffer
		assert.Equal(t, exitPipe, run(t.Context(), args, strings.NewReader(""), &brokenPipe{}, &stderr), args)
		assert.Empty(t, stderr.String(), args)
		assert.Equal(t, exitFailed, run(t.Context(), args, strings.NewReader(""), fullDisk{}, &stderr), args)
		assert.Contains(t, stderr.String(), "no space left on device", args)
	}
	state := temp(t, "state")
	var stderr bytes.Buffer
	assert.Equal(t, exitPipe, run(t.Context(), []string{"uniq", "--state", state, words}, nil, &brokenPipe{1000}, &stderr))
	assert.NoFileExists(t, state, "what was not printed was not seen")
}

// failing gives some text and then an error.
func failing(text string) io.Reader {
	return io.MultiReader(strings.NewReader(text), errReader{errors.New("the disk is on fire")})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestInputThatFails(t *testing.T) {
	words := decimal("word", 0, 1000)
	filter := temp(t, "f.bloom")
	mustRun(t, words, "build", "-o", filter)
	out := temp(t, "out")
	for _, args := range [][]string{
		{"build", "-o", out}, {"build", "-o", out, "-n", "10"}, {"uniq", "--state", out}, {"uniq"},
		{"check", filter}, {"check", "-c", filter}, {"check", "-q", "-v", filter}, {"info", "-"}, {"merge", "-o", out, "-"},
		{"convert", "-", out},
	} {
		r := runBloom(failing(words), args...)
		assert.Equal(t, exitFailed, r.code, args)
		assert.Contains(t, r.stderr, "standard input: the disk is on fire", args)
		assert.NoFileExists(t, out)
	}
	r := runBloom(failing(words), "uniq")
	assert.Equal(t, words, r.stdout, "what came before is printed")
	r = runBloom(failing(words), "check", "-q", filter)
	assert.Equal(t, exitSelected, r.code, "as grep -q")
}

// interrupted runs a command on input that does not end, and a signal after the given text was read.
func interrupted(t *testing.T, text string, args ...string) result {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	go func() {
		_, _ = io.WriteString(feed, text)
		_, _ = io.WriteString(feed, "x") // was taken when all before was read
		cancel(interruption{syscall.SIGINT})
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, in, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

func TestInterrupted(t *testing.T) {
	out := temp(t, "out")
	for _, args := range [][]string{{"build", "-o", out}, {"uniq"}} {
		r := interrupted(t, "a\nb\na\n", args...)
		assert.Equal(t, 128+int(syscall.SIGINT), r.code)
		assert.Equal(t, "bloom: interrupted\n", r.stderr)
		assert.NoFileExists(t, out)
	}
	r := interrupted(t, "a\nb\na\n", "uniq", "--state", out)
	assert.Equal(t, 130, r.code)
	require.FileExists(t, out, "what was printed is kept")
	all := r.stdout + mustRun(t, "a\nb\nc\n", "uniq", "--state", out)
	assert.Equal(t, "a\nb\nc\n", all)
}
