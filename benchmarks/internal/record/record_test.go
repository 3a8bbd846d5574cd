package record

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
	"gonum.org/v1/plot/plotter"
)

// What a Writer writes, Read reads.
func TestRoundTrip(t *testing.T) {
	var file, log bytes.Buffer
	w, err := NewWriter(&file, &log, Machine(time.Unix(0, 0), "p", "go run ."), "fp-rate assume=exact")
	require.NoError(t, err)
	s := Counted(func() (int, time.Duration) { return 4, 8 * time.Microsecond })
	for range 2 {
		w.Record("Set/op=hit/n=1e4", s.Ops, s.Values(benchfmt.Value{Value: 0.25, Unit: "fp-rate"})...)
	}
	w.Say("%d done", 2)
	require.Equal(t, "2 done\n", log.String())

	r, err := Read(&file, "file")
	require.NoError(t, err)
	require.Equal(t, []string{"Set/op=hit/n=1e4"}, r.Names)
	require.Equal(t, []float64{2000, 2000}, r.Samples[r.Names[0]]["ns/op"])
	rate, ok := r.Median(r.Names[0], "fp-rate")
	require.True(t, ok)
	require.Equal(t, 0.25, rate)
	require.Equal(t, "1970-01-01", r.Config["date"])
	require.Equal(t, "go run .", r.Config["command"])
	require.Equal(t, []string{"1e4"}, r.Values("Set/", "n"))
	require.Empty(t, r.Values("Rate/", "n"))
	require.Empty(t, Part("Set/op=hit", "n"))
}

func TestChart(t *testing.T) {
	c := Chart{Title: "one line", XLog: true, YLog: true, Lines: []Line{{"a", plotter.XYs{{X: 1, Y: 1}, {X: 10, Y: 100}}}}}
	svg, err := c.SVG()
	require.NoError(t, err)
	again, err := c.SVG()
	require.NoError(t, err)
	require.Equal(t, svg, again)
	require.Contains(t, string(svg), "one line")
	empty, err := Chart{XLog: true, YLog: true}.SVG()
	require.NoError(t, err)
	require.Less(t, strings.Count(string(empty), "<path"), strings.Count(string(svg), "<path"))
}
