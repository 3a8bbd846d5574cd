package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomLines has repeated ones; distinct are the first of each.
func randomLines(n int) (text, distinct, repeated string) {
	rng := rand.New(rand.NewPCG(3, 4))
	came := map[int]bool{}
	var all, first, rest strings.Builder
	for range n {
		x := rng.IntN(n / 2)
		line := "line " + strconv.Itoa(x) + "\n"
		all.WriteString(line)
		if !came[x] {
			first.WriteString(line)
		} else {
			rest.WriteString(line)
		}
		came[x] = true
	}
	return all.String(), first.String(), rest.String()
}

// The rate is low enough for 20,000 lines that none of these is taken for another.
func TestUniq(t *testing.T) {
	text, distinct, repeated := randomLines(20_000)
	for _, args := range [][]string{nil, {"-n", "20000"}, {"--window", "1h"}, {"--scheme", "xxhash", "--seed", "5"}} {
		args = append([]string{"uniq", "-p", "1e-9"}, args...)
		assert.True(t, mustRun(t, text, args...) == distinct, args)
		assert.True(t, mustRun(t, text, append(args, "-d")...) == repeated, args)
	}
}

func TestUniqSummary(t *testing.T) {
	text, distinct, _ := randomLines(1000)
	r := runBloom(strings.NewReader(text), "uniq", "-c", "-d", "-n", "1000")
	n := strings.Count(distinct, "\n")
	assert.Regexp(t, `^1000 lines, `+strconv.Itoa(n)+` distinct, `+strconv.Itoa(1000-n)+` repeated; at most about [\de.-]+ distinct ones taken for repeated; filter of \d+ bytes\n$`, r.stderr)
	r = runBloom(strings.NewReader(decimal("", 0, 5000)), "uniq", "-n", "1000", "-p", "0.01")
	assert.Regexp(t, `^bloom: warning: \d+ keys in a filter that was made for 1000: its rate of false positives is 0.\d+, not 0.01\n$`, r.stderr)
	r = runBloom(strings.NewReader(decimal("", 0, 5000)), "uniq", "-n", "1000", "--window", "1h")
	assert.Contains(t, r.stderr, "bloom: warning: more than 1000 distinct lines in a bucket of 15m0s")
}

func TestUniqState(t *testing.T) {
	for _, args := range [][]string{nil, {"-n", "1000"}} {
		state := temp(t, "state")
		args = append([]string{"uniq", "--state", state, "-p", "1e-9"}, args...)
		assert.Equal(t, "a\nb\n", mustRun(t, "a\nb\na\n", args...))
		assert.Equal(t, "c\n", mustRun(t, "b\nc\n", args...))
		assert.Equal(t, "a\nb\nc\n", mustRun(t, "a\nb\nc\n", append(args, "-d")...))
		before := read(t, state)
		r := runBloom(failing("d\n"), args...)
		assert.Equal(t, exitFailed, r.code)
		assert.Equal(t, before, read(t, state), "lines of a run that failed come again")
		for _, other := range [][]string{{"-p", "0.5"}, {"-n", "7"}, {"--scheme", "xxhash"}, {"--seed", "1"}} {
			r := runBloom(strings.NewReader("a\n"), append(args, other...)...)
			assert.Equal(t, exitFailed, r.code, other)
			assert.Contains(t, r.stderr, state+" ")
		}
		// Any filter serves as one.
		assert.Equal(t, "3\n", mustRun(t, "a\nb\nc\nd\n", "check", "-c", state))
	}
	words := write(t, "just words\n")
	assert.Equal(t, exitFailed, runBloom(strings.NewReader("a\n"), "uniq", "--state", words).code)
	assert.Equal(t, "just words\n", string(read(t, words)))
}

func TestUniqForgets(t *testing.T) {
	in, feed := io.Pipe()
	out, printed := io.Pipe()
	var stderr bytes.Buffer
	go func() {
		run(t.Context(), []string{"uniq", "--window", "20ms", "--buckets", "2"}, in, printed, &stderr)
		printed.Close()
	}()
	for range 2 {
		_, err := io.WriteString(feed, "a\na\n")
		require.NoError(t, err)
		buf := make([]byte, 100)
		n, err := out.Read(buf)
		require.NoError(t, err)
		assert.Equal(t, "a\n", string(buf[:n]))
		time.Sleep(100 * time.Millisecond) // more than a window and a bucket since it was printed
	}
	feed.Close()
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	assert.Empty(t, rest)
	assert.Empty(t, stderr.String())
}
