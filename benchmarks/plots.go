package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
)

// chart is a plot of a value over a key of the rows' names, a line for each implementation.
type chart struct {
	file, title    string
	prefix, suffix string // of the rows' names
	key, unit      string // over what, and what
	xlabel, ylabel string
	xlog, ylog     bool
	scale          float64
	impls          []string // empty for all there are
}

// inPlots are the implementations that the plots of times have lines for.
var inPlots = []string{
	"bloom", "bloom-many", "bloom-blocked", "bloom-blocked-many", "bloom-scalable", "bloom-cuckoo",
	"bits-and-blooms", "holiman", "ristretto", "boomfilters-scalable", "seiflotfy", "fuse8", "map",
}

var charts = []chart{
	{file: "bench-hit.svg", title: "Lookup of a key that is there", prefix: "Set/op=hit/", suffix: "/key=bytes16/g=1",
		key: "n", unit: "ns/op", xlabel: "keys in the filter", ylabel: "ns", xlog: true, ylog: true, scale: 1, impls: inPlots},
	{file: "bench-miss.svg", title: "Lookup of an absent key", prefix: "Set/op=miss/", suffix: "/key=bytes16/g=1",
		key: "n", unit: "ns/op", xlabel: "keys in the filter", ylabel: "ns", xlog: true, ylog: true, scale: 1, impls: inPlots},
	{file: "bench-rate.svg", title: "False positives of filters made for 1 %", prefix: "Rate/",
		key: "load", unit: "fp-rate", xlabel: "keys ÷ capacity", ylabel: "%", ylog: true, scale: 100},
	{file: "bench-bits.svg", title: "Size of full filters", prefix: "Size/",
		key: "p", unit: "bits/key", xlabel: "rate of false positives asked for", ylabel: "bits a key", xlog: true, scale: 1},
}

// writePlots writes the charts that the results have points for.
func (r *results) writePlots(docs string) error {
	for _, c := range charts {
		svg, err := r.draw(c)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(docs, c.file), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lines are the points of each implementation that has two at least, and the ticks
// that the points stand at.
func (r *results) lines(c chart) (impls []string, points map[string]plotter.XYs, ticks plot.ConstantTicks) {
	points = map[string]plotter.XYs{}
	for _, name := range r.Names {
		impl := record.Part(name, "impl")
		if !strings.HasPrefix(name, c.prefix) || !strings.HasSuffix(name, c.suffix) ||
			len(c.impls) > 0 && !slices.Contains(c.impls, impl) {
			continue
		}
		label := record.Part(name, c.key)
		x, err := strconv.ParseFloat(label, 64)
		y, ok := r.Median(name, c.unit)
		// A logarithmic axis has no place for 0, which a rate can be.
		if err == nil && ok && (y > 0 || !c.ylog) {
			points[impl] = append(points[impl], plotter.XY{X: x, Y: y * c.scale})
			if tick := (plot.Tick{Value: x, Label: label}); !slices.Contains(ticks, tick) {
				ticks = append(ticks, tick)
			}
		}
	}
	for _, impl := range r.Values(c.prefix, "impl") {
		if p := points[impl]; len(p) > 1 {
			slices.SortFunc(p, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
			impls = append(impls, impl)
		}
	}
	return impls, points, ticks
}

func (r *results) draw(c chart) ([]byte, error) {
	impls, points, ticks := r.lines(c)
	drawing := record.Chart{Title: c.title, XLabel: c.xlabel, YLabel: c.ylabel, XLog: c.xlog, YLog: c.ylog, Ticks: ticks}
	for _, impl := range impls {
		drawing.Lines = append(drawing.Lines, record.Line{Name: impl, Points: points[impl]})
	}
	return drawing.SVG()
}
