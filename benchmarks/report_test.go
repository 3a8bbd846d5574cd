package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite testdata/page.md or the fixtures of package migrate instead of comparing with them")

func readTestResults(t *testing.T) *results {
	file, err := os.Open("testdata/results.txt")
	require.NoError(t, err)
	defer file.Close()
	r, err := readResults(file, file.Name())
	require.NoError(t, err)
	return r
}

func TestReport(t *testing.T) {
	page, err := os.ReadFile("testdata/page.md")
	require.NoError(t, err)
	got, err := readTestResults(t).page(string(page))
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("testdata/page.md", []byte(got), 0o644))
		return
	}
	require.Equal(t, got, string(page), "go test -run TestReport -update .")
}

func TestReportNeedsItsMarks(t *testing.T) {
	r := readTestResults(t)
	_, err := r.page("no marks here\n")
	require.ErrorContains(t, err, "generated: run")
	_, err = r.page("<!-- generated: run -->\nand no end\n")
	require.ErrorContains(t, err, "<!-- end -->")
	require.Error(t, r.writePage(t.TempDir()), "there is no page")
}

func TestReadResults(t *testing.T) {
	r := readTestResults(t)
	hit := row{"hit", "bloom", "1e4", formBytes, 1}
	ns, ok := r.ns(hit)
	require.True(t, ok)
	require.Equal(t, 22.0, ns)
	require.InDelta(t, (56.0-21)/2/22, r.spread(hit), 1e-9)
	require.Zero(t, r.spread(row{}))
	_, ok = r.ns(row{})
	require.False(t, ok)
	require.Equal(t, []string{"1e8"}, r.bigSizes())

	for text, want := range map[string]string{
		"":                              "no results",
		"goos: linux\n":                 "no results",
		"BenchmarkX\tmany\t1 ns/op\n":   "file.txt:1",
		"BenchmarkX 1 fast ns/op\n":     "file.txt:1",
		"BenchmarkX/impl=a 1 1 ns/op\n": "",
	} {
		_, err := readResults(strings.NewReader(text), "file.txt")
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want, text)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		s       []float64
		q, want float64
	}{{[]float64{3}, 0.5, 3}, {[]float64{4, 1}, 0.5, 2.5}, {[]float64{5, 1, 3}, 0.5, 3}, {[]float64{5, 1, 3}, 0.25, 2}, {[]float64{5, 1}, 1, 5}} {
		got, ok := record.Quantile(c.s, c.q)
		require.True(t, ok)
		require.Equal(t, c.want, got)
	}
}

// A target that names a row that no run has would never be met nor missed.
func TestTargetsNameRows(t *testing.T) {
	known := append(names(implementations()), "dram")
	for _, x := range targets() {
		for _, o := range []row{x.ours, x.theirs} {
			require.Contains(t, known, o.impl)
			if o.n == short(full.big) {
				single := strings.TrimSuffix(o.impl, "-many")
				require.True(t, single == "dram" || slices.Contains(bigImplementations, single), o.impl)
			} else {
				require.Contains(t, []string{"1e4", "1e6"}, o.n)
			}
			for _, impl := range pick(o.impl) {
				require.True(t, impl.parallel || o.g == 1, "%s in %d goroutines", o.impl, o.g)
				require.True(t, impl.parallelAdd || o.op != "readd", "%s", o.impl)
			}
		}
		require.True(t, x.stretch < x.wanted)
	}
}

func TestShort(t *testing.T) {
	for n, want := range map[int]string{1: "1", 100: "100", 1000: "1e3", 1500: "1500", 25_000: "25e3", 1e8: "1e8"} {
		require.Equal(t, want, short(n))
	}
}
