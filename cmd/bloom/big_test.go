package main

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A million lines through every command that reads lines.
func TestMillionLines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const n = 1_000_000
	write := func(name string, from, to int) string {
		path := temp(t, name)
		f, err := os.Create(path)
		require.NoError(t, err)
		defer f.Close()
		w := bufio.NewWriter(f)
		for i := from; i < to; i++ {
			w.WriteString("https://example.com/page/" + strconv.Itoa(i) + "\n")
		}
		require.NoError(t, w.Flush())
		return path
	}
	present, absent := write("present", 0, n), write("absent", n, 2*n)
	number := func(text string) float64 {
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		require.NoError(t, err)
		return f
	}
	for _, kind := range kinds {
		filter := temp(t, kind)
		mustRun(t, "", "build", "--kind", kind, "-n", "1e6", "-o", filter, present)
		assert.EqualValues(t, n, number(mustRun(t, "", "check", "-c", filter, present)), kind)
		r := runBloom(nil, "check", "-c", filter, absent)
		require.LessOrEqual(t, r.code, 1, r.stderr)
		assert.LessOrEqual(t, number(r.stdout), 10_500.0, "%s: 10,000 expected at most, and five standard deviations are 500", kind)
	}
	// Each line twice: what is printed is the first half, less at most a handful of a million at one in a million.
	a, err := os.Open(present)
	require.NoError(t, err)
	defer a.Close()
	b, err := os.Open(present)
	require.NoError(t, err)
	defer b.Close()
	r := runBloom(io.MultiReader(a, b), "uniq")
	require.Zero(t, r.code, r.stderr)
	all := string(read(t, present))
	if r.stdout != all {
		lines := strings.Count(r.stdout, "\n")
		assert.GreaterOrEqual(t, lines, n-10)
		assert.True(t, strings.HasPrefix(all, r.stdout[:strings.IndexByte(r.stdout, '\n')+1]))
	}
}
