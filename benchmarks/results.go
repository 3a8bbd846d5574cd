package main

import (
	"io"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
)

// results are a run's samples.
type results struct{ *record.Results }

func readResults(in io.Reader, file string) (*results, error) {
	r, err := record.Read(in, file)
	return &results{r}, err
}

func (r *results) ns(o row) (float64, bool) { return r.Median(o.name(), "ns/op") }

// spread is half of the range that the middle half of the samples lies in, relative to
// the median.
func (r *results) spread(o row) float64 {
	s := r.Samples[o.name()]["ns/op"]
	low, _ := record.Quantile(s, 0.25)
	high, _ := record.Quantile(s, 0.75)
	middle, ok := record.Quantile(s, 0.5)
	if !ok {
		return 0
	}
	return (high - low) / 2 / middle
}
