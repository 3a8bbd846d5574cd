package main

import (
	"bytes"
	"cmp"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
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
	for _, name := range r.names {
		impl := part(name, "impl")
		if !strings.HasPrefix(name, c.prefix) || !strings.HasSuffix(name, c.suffix) ||
			len(c.impls) > 0 && !slices.Contains(c.impls, impl) {
			continue
		}
		label := part(name, c.key)
		x, err := strconv.ParseFloat(label, 64)
		y, ok := r.median(name, c.unit)
		// A logarithmic axis has no place for 0, which a rate can be.
		if err == nil && ok && (y > 0 || !c.ylog) {
			points[impl] = append(points[impl], plotter.XY{X: x, Y: y * c.scale})
			if tick := (plot.Tick{Value: x, Label: label}); !slices.Contains(ticks, tick) {
				ticks = append(ticks, tick)
			}
		}
	}
	for _, impl := range r.values(c.prefix, "impl") {
		if p := points[impl]; len(p) > 1 {
			slices.SortFunc(p, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
			impls = append(impls, impl)
		}
	}
	return impls, points, ticks
}

func (r *results) draw(c chart) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.title, c.xlabel, c.ylabel
	p.Add(plotter.NewGrid())
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font.Size = vg.Points(10)
	legend.Padding = vg.Points(2)
	impls, points, ticks := r.lines(c)
	for i, impl := range impls {
		line, marks, err := plotter.NewLinePoints(points[impl])
		if err != nil {
			return nil, err
		}
		line.Color, marks.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes, marks.Shape = plotutil.Dashes(i/len(plotutil.DefaultColors)), plotutil.Shape(i)
		line.Width = vg.Points(1.2)
		p.Add(line, marks)
		legend.Add(impl, line, marks)
	}
	p.X.Tick.Marker = ticks
	// A logarithmic axis without a point has no end.
	if len(impls) > 0 && c.xlog {
		p.X.Scale = plot.LogScale{}
	}
	if len(impls) > 0 && c.ylog {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	const width, height, side = 8 * vg.Inch, 4.5 * vg.Inch, 2.2 * vg.Inch
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	p.Draw(draw.Crop(whole, 0, -side, 0, 0))
	legend.Draw(draw.Crop(whole, width-side+vg.Points(10), 0, 0, -vg.Points(25)))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}
