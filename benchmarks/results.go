package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// results are a run's samples, by name and unit.
type results struct {
	config  map[string]string
	samples map[string]map[string][]float64
	names   []string // in the order of the run
}

var gomaxprocs = regexp.MustCompile(`-\d+$`)

func readResults(in io.Reader, file string) (*results, error) {
	r := &results{config: map[string]string{}, samples: map[string]map[string][]float64{}}
	for in := benchfmt.NewReader(in, file); ; {
		if !in.Scan() {
			if len(r.names) == 0 && in.Err() == nil {
				return nil, fmt.Errorf("%s: no results in it", file)
			}
			return r, in.Err()
		}
		switch record := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			for _, c := range record.Config {
				r.config[c.Key] = string(c.Value)
			}
			name := gomaxprocs.ReplaceAllString(record.Name.String(), "")
			if r.samples[name] == nil {
				r.samples[name] = map[string][]float64{}
				r.names = append(r.names, name)
			}
			for _, v := range record.Values {
				// The reader turns some units into others, ns/op into sec/op.
				if v.OrigUnit != "" {
					v.Value, v.Unit = v.OrigValue, v.OrigUnit
				}
				r.samples[name][v.Unit] = append(r.samples[name][v.Unit], v.Value)
			}
		}
	}
}

// median returns the median of a row's samples.
func (r *results) median(name, unit string) (float64, bool) {
	return quantile(r.samples[name][unit], 0.5)
}

func (r *results) ns(o row) (float64, bool) { return r.median(o.name(), "ns/op") }

// spread is half of the range that the middle half of the samples lies in, relative to
// the median.
func (r *results) spread(o row) float64 {
	s := r.samples[o.name()]["ns/op"]
	low, _ := quantile(s, 0.25)
	high, _ := quantile(s, 0.75)
	middle, ok := quantile(s, 0.5)
	if !ok {
		return 0
	}
	return (high - low) / 2 / middle
}

// quantile interpolates between the samples next to it.
func quantile(s []float64, q float64) (float64, bool) {
	if len(s) == 0 {
		return 0, false
	}
	s = slices.Sorted(slices.Values(s))
	at := q * float64(len(s)-1)
	i := int(at)
	if i+1 == len(s) {
		return s[i], true
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i]), true
}

// part returns the value of a key in a name: part("a/n=1e4", "n") is 1e4.
func part(name, key string) string {
	for field := range strings.SplitSeq(name, "/") {
		if value, ok := strings.CutPrefix(field, key+"="); ok {
			return value
		}
	}
	return ""
}

// values returns the values that a key has in the names that start with prefix, in the order of the
// run.
func (r *results) values(prefix, key string) (all []string) {
	for _, name := range r.names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if v := part(name, key); v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
