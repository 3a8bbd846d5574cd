package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"github.com/stretchr/testify/require"
)

// small is a plan that goes through everything in some seconds.
var small = plan{
	count: 2, time: time.Millisecond, sizes: []int{1e3, 1e4}, asked: 1 << 10, lookups: 5000, rows: 1e4, loads: []float64{0.8, 1.5},
	rebuilt: 1e4, repeats: 1, around: 20 * time.Millisecond, rounds: 2, callers: 50,
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, err string }{
		{"-last", "nothing to do"},
		{"-quick please", `unexpected argument "please"`},
		{"-figures reject,nonsense", `no figure "nonsense": there are reject, queries, rebuild, hotkey`},
		{"-nonsense", "not defined"},
	} {
		_, err := parse(strings.Fields(c.args), io.Discard)
		require.ErrorContains(t, err, c.err, c.args)
	}
	o, err := parse([]string{"-quick", "-figures", "rebuild"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, quick, o.plan)
	require.Equal(t, []string{"rebuild"}, o.figures)
	require.Equal(t, filepath.Join("results", "guard-rebuild-quick.txt"), o.path("rebuild"))
	o, err = parse(nil, io.Discard)
	require.NoError(t, err)
	require.Equal(t, full, o.plan)
	require.Len(t, o.figures, len(figures))
}

// The whole way, with a small plan: what is measured can be read again, the page and its plots can be
// made of it, and what must hold at any size does.
func TestEverything(t *testing.T) {
	if testing.Short() {
		t.Skip("it may start a redis-server")
	}
	dir := t.TempDir()
	o := options{results: dir, docs: dir, plan: small}
	for _, f := range figures {
		require.NoError(t, o.measure(f, []string{"-x"}, io.Discard))
		require.NoFileExists(t, o.path(f.name)+".part")
	}
	r, err := o.read()
	require.NoError(t, err)
	require.Equal(t, "go run -C benchmarks ./guard -x", r["queries"].Config["command"])
	for _, name := range peerModules {
		require.NotEmpty(t, r["queries"].Config[name])
	}

	median := func(figure, name, unit string) float64 {
		x, ok := r[figure].Median(name, unit)
		require.True(t, ok, "%s %s", name, unit)
		return x
	}
	for _, key := range []string{"int64", "string", "bytes16"} {
		for _, impl := range []string{"guard", "guard-nulls", "otter", "hot"} {
			n := "1e5"
			if impl == "guard" {
				n = "1e4"
			}
			require.Positive(t, median("reject", "Reject/impl="+impl+"/key="+key+"/n="+n+"/g=1", "ns/op"))
		}
		if !raceDetector {
			require.Zero(t, median("reject", "Reject/impl=guard/key="+key+"/n=1e4/g=1", "allocs/op"))
		}
	}
	const attack = "/absent=99/keys=unique/load="
	unique := median("queries", "Queries/impl=cache-only"+attack+"none", "absent-queries")
	require.InDelta(t, 0.99*float64(small.lookups), unique, 100)
	require.Equal(t, unique, median("queries", "Queries/impl=null-cache"+attack+"none", "absent-queries"), "no null is ever asked for again")
	require.Less(t, median("queries", "Queries/impl=guard-p0.01"+attack+"0.8", "absent-queries"), unique/100)
	require.Zero(t, median("queries", "Queries/impl=guard-p0.01"+attack+"1.5", "row-queries"), "nulls have taken the place of rows")
	for _, way := range []string{"guard", "off"} {
		require.Zero(t, median("rebuild", "Rebuilt/impl="+way+"/n=1e4", "lost-keys"))
		for _, phase := range []string{"before", "during", "after"} {
			require.Zero(t, median("rebuild", "Traffic/impl="+way+"/n=1e4/phase="+phase, "wrong-absent"))
		}
	}
	require.EqualValues(t, 50, median("hotkey", "Expiry/impl=cache-only/callers=50", "loads"))
	require.EqualValues(t, 1, median("hotkey", "Expiry/impl=guard/callers=50", "loads"))
	require.Zero(t, median("hotkey", "Deadline/impl=guard/callers=50", "patient-failed"))

	page, err := os.ReadFile("../../docs/GUARD.md")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "GUARD.md"), page, 0o644))
	require.NoError(t, o.writePage())
	page, err = os.ReadFile(filepath.Join(dir, "GUARD.md"))
	require.NoError(t, err)
	require.NotContains(t, string(page), "Not in this run.")
	require.NotContains(t, string(page), "%!")
	for name, chart := range r.charts() {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(svg), chart.Title)
		require.NotEmpty(t, chart.Lines)
		for _, l := range chart.Lines {
			require.Greater(t, len(l.Points), 1, "%s: %s", name, l.Name)
		}
	}
}

// The page in docs is the one that the results in the repository give.
func TestPageIsUpToDate(t *testing.T) {
	o := options{results: filepath.Join("..", "results"), docs: filepath.Join("..", "..", "docs"), plan: full}
	r, err := o.read()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(o.docs, "GUARD.md"))
	require.NoError(t, err)
	want, err := record.Splice(string(page), r.sections())
	require.NoError(t, err)
	require.Equal(t, want, string(page), "go run -C benchmarks ./guard -last -report")
	for name, chart := range r.charts() {
		require.Contains(t, string(page), "("+name+")")
		svg, err := os.ReadFile(filepath.Join(o.docs, name))
		require.NoError(t, err)
		require.Contains(t, string(svg), chart.Title)
	}
}

func TestReportNeedsResults(t *testing.T) {
	err := run([]string{"-last", "-report", "-results", t.TempDir()}, io.Discard)
	require.ErrorContains(t, err, "no results")
	require.Equal(t, "Not in this run.\n", report{}.sections()[1].Text)
}

func TestHistogram(t *testing.T) {
	var h histogram
	require.Zero(t, h.quantile(0.5))
	for d := time.Duration(1); d <= 100_000; d++ {
		h.add(d)
	}
	for _, q := range []float64{0.001, 0.5, 0.9, 0.99, 0.999} {
		exact := q * 100_000
		require.InDelta(t, exact+exact/32, float64(h.quantile(q)), exact/32+1)
	}
	require.EqualValues(t, 100_000, h.quantile(1))
	for x := range uint64(1 << 16) {
		b := bucket(x)
		require.LessOrEqual(t, start(b), time.Duration(x))
		require.Less(t, time.Duration(x), start(b+1))
	}
	h.add(-1)
	h.add(1 << 62)
	require.EqualValues(t, 1<<62, h.max)
}

func TestTexts(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, grouped(x))
	}
	for n, want := range map[int]string{1e3: "1e3", 1e5: "1e5", 1e7: "1e7"} {
		require.Equal(t, want, short(n))
	}
}
