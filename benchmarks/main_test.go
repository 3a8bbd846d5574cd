package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// small is a plan that goes through everything in a second or two.
var small = plan{
	sizes: []int{1000}, big: 10_000, forms: []string{formBytes, formString},
	count: 2, time: time.Millisecond, absent: 1 << 12, queries: 1 << 12, ring: 1 << 10, rates: 1000, hashed: 1000,
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, err string }{
		{"", "nothing to do"},
		{"-all -quick", "want one of them"},
		{"-quick please", `unexpected argument "please"`},
		{"-quick -count -1", "above 0"},
		{"-quick -time never", "invalid value"},
		{"-nonsense", "not defined"},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		require.ErrorContains(t, err, c.err, c.args)
	}

	o, err := parse([]string{"-quick", "-report", "-count", "7", "-time", "3ms"}, io.Discard)
	require.NoError(t, err)
	require.True(t, o.quick && o.report && !o.all)
	require.Equal(t, 7, o.plan.count)
	require.Equal(t, 3*time.Millisecond, o.plan.time)
	require.Zero(t, o.plan.big, "a quick run has no time for large filters")

	o, err = parse([]string{"-all"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, full, o.plan)
	require.GreaterOrEqual(t, full.count, 10)
}

// The whole way, with a small plan: what is measured can be read again, and the page and its
// plots can be made of it.
func TestEverything(t *testing.T) {
	dir := t.TempDir()
	o := options{results: filepath.Join(dir, "results"), plan: small}
	path := filepath.Join(o.results, "all.txt")
	require.NoError(t, o.measure(path, []string{"-all"}, io.Discard))
	require.NoFileExists(t, path+".part")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	r, err := readResults(bytes.NewReader(text), path)
	require.NoError(t, err)
	require.Equal(t, "go run -C benchmarks . -all", r.Config["command"])
	require.NotEmpty(t, r.Config["bits-and-blooms"])
	for _, impl := range implementations() {
		for _, op := range []string{"hit", "miss"} {
			name := row{op, impl.name, "1e3", formString, 1}.name()
			require.Len(t, r.Samples[name]["ns/op"], small.count, name)
			require.Len(t, r.Samples[name]["fp-rate"], small.count, name)
			require.Positive(t, r.Samples[name]["bits/key"][0], name)
		}
	}
	require.Equal(t, []string{"1e4"}, r.bigSizes())
	require.Len(t, r.Samples[row{"add", "bloom", "1e4", formBytes, 1}.name()]["ns/op"], 10)
	require.Len(t, r.Samples[row{"add", "bloom-many", "1e4", formBytes, 1}.name()]["ns/op"], 10)
	require.Len(t, r.Samples[row{"add", "fuse8", "1e4", formBytes, 1}.name()]["ns/op"], 1)

	page, err := os.ReadFile("../docs/BENCHMARKS.md")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "BENCHMARKS.md"), page, 0o644))
	require.NoError(t, run([]string{"-report", "-results", o.results, "-docs", dir}, io.Discard))
	page, err = os.ReadFile(filepath.Join(dir, "BENCHMARKS.md"))
	require.NoError(t, err)
	require.NotContains(t, string(page), "Not in this run.\n")
	for _, c := range charts {
		svg, err := os.ReadFile(filepath.Join(dir, c.file))
		require.NoError(t, err)
		require.Contains(t, string(svg), c.title)
		require.Contains(t, string(svg), "<path", "no line in %s", c.file)
	}
}

// The page in docs is the one that the results beside this file give.
func TestPageIsUpToDate(t *testing.T) {
	from := filepath.Join("results", "all.txt")
	if !exists(from) {
		from = filepath.Join("results", "quick.txt")
	}
	text, err := os.ReadFile(from)
	require.NoError(t, err)
	r, err := readResults(bytes.NewReader(text), from)
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/BENCHMARKS.md")
	require.NoError(t, err)
	want, err := r.page(string(page))
	require.NoError(t, err)
	require.Equal(t, want, string(page), "go run -C benchmarks . -report")
}
