package main

import (
	"bytes"
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// decades are ticks of a logarithmic axis, with labels as people write them: gonum's has 9.999999999999999e-05.
type decades struct{}

func (decades) Ticks(low, high float64) []plot.Tick {
	ticks := plot.LogTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = fmt.Sprintf("%.1g", t.Value)
		}
	}
	return ticks
}

// chartLoads are the loads of the chart, in steps of 2.5 %.
func chartLoads() []float64 {
	var loads []float64
	for i := 4; i <= 80; i++ {
		loads = append(loads, float64(i)/40)
	}
	return loads
}

// svg draws the rate of each kind by its load.
func (s *sizes) svg() ([]byte, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("False positives of filters for %s keys at %.4g", grouped(s.Capacity), s.Rate)
	p.X.Label.Text, p.Y.Label.Text = "keys ÷ capacity", "rate of false positives"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	legend := plot.NewLegend()
	legend.Top, legend.Left = true, true
	legend.Padding, legend.TextStyle.Font.Size, legend.ThumbnailWidth = vg.Points(3), vg.Points(10), vg.Points(28)
	p.Add(plotter.NewGrid())
	loads := chartLoads()
	low, high := s.Rate, s.Rate
	for i, k := range s.Kinds {
		if k.Error != "" || k.Kind == "Counting" { // which has the rates of a Filter
			continue
		}
		var points plotter.XYs
		for j, rate := range k.rates(loads) {
			// Far below the rate asked for there is nothing to see, and a logarithmic axis has no 0.
			if rate > max(s.Rate*1e-5, 1e-300) { // and no NaN
				points = append(points, plotter.XY{X: loads[j], Y: rate})
				low, high = min(low, rate), max(high, rate)
			}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			continue // no points
		}
		line.Color, line.Dashes, line.Width = plotutil.Color(i), plotutil.Dashes(i), vg.Points(1.5)
		p.Add(line)
		legend.Add(k.Kind, line)
	}
	if s.Rate > 0 {
		asked := plotter.NewFunction(func(float64) float64 { return s.Rate })
		asked.XMin, asked.XMax, asked.Color, asked.Dashes = 0, 2, color.Gray{128}, []vg.Length{vg.Points(1), vg.Points(3)}
		p.Add(asked)
	}
	if !(low > 0) { // nothing to be seen, which a logarithmic axis cannot show
		low, high = 1e-300, 1
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 2, low/2, min(1, high*2)
	const width, height, side = 8 * vg.Inch, 4.5 * vg.Inch, 1.6 * vg.Inch // the legend stands at the right
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
