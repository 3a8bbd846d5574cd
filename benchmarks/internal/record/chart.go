package record

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Chart is a plot of lines, with a legend at its right.
type Chart struct {
	Title, XLabel, YLabel string
	XLog, YLog            bool
	Ticks                 plot.Ticker // of the horizontal axis; nil for those that gonum chooses
	Lines                 []Line
}

// Line is a line of a [Chart]. Its points are in the order of X.
type Line struct {
	Name   string
	Points plotter.XYs
}

// SVG draws the chart. The same chart gives the same bytes.
func (c Chart) SVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.XLabel, c.YLabel
	p.Add(plotter.NewGrid())
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.TextStyle.Font.Size = vg.Points(10)
	legend.Padding = vg.Points(2)
	for i, l := range c.Lines {
		line, marks, err := plotter.NewLinePoints(l.Points)
		if err != nil {
			return nil, err
		}
		line.Color, marks.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes, marks.Shape = plotutil.Dashes(i/len(plotutil.DefaultColors)), plotutil.Shape(i)
		line.Width = vg.Points(1.2)
		p.Add(line, marks)
		legend.Add(l.Name, line, marks)
	}
	if c.Ticks != nil {
		p.X.Tick.Marker = c.Ticks
	}
	// A logarithmic axis without a point has no end.
	if len(c.Lines) > 0 && c.XLog {
		p.X.Scale = plot.LogScale{}
	}
	if len(c.Lines) > 0 && c.YLog {
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
