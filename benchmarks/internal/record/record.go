// Package record reads results in Go's benchmark format and puts them into pages.
package record

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// Results are a run's samples, by name and unit.
type Results struct {
	Config  map[string]string
	Samples map[string]map[string][]float64
	Names   []string // in the order of the run
}

var gomaxprocs = regexp.MustCompile(`-\d+$`)

// Read reads results; file names them in errors. It is an error if there are none.
func Read(in io.Reader, file string) (*Results, error) {
	r := &Results{Config: map[string]string{}, Samples: map[string]map[string][]float64{}}
	for in := benchfmt.NewReader(in, file); ; {
		if !in.Scan() {
			if len(r.Names) == 0 && in.Err() == nil {
				return nil, fmt.Errorf("%s: no results in it", file)
			}
			return r, in.Err()
		}
		switch record := in.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, record
		case *benchfmt.Result:
			for _, c := range record.Config {
				r.Config[c.Key] = string(c.Value)
			}
			name := gomaxprocs.ReplaceAllString(record.Name.String(), "")
			if r.Samples[name] == nil {
				r.Samples[name] = map[string][]float64{}
				r.Names = append(r.Names, name)
			}
			for _, v := range record.Values {
				// The reader turns some units into others, ns/op into sec/op.
				if v.OrigUnit != "" {
					v.Value, v.Unit = v.OrigValue, v.OrigUnit
				}
				r.Samples[name][v.Unit] = append(r.Samples[name][v.Unit], v.Value)
			}
		}
	}
}

// Median returns the median of a row's samples.
func (r *Results) Median(name, unit string) (float64, bool) {
	return Quantile(r.Samples[name][unit], 0.5)
}

// Quantile returns the q-quantile of s, and whether there is one. It interpolates between the samples next to it.
func Quantile(s []float64, q float64) (float64, bool) {
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

// Part returns the value of a key in a name: Part("a/n=1e4", "n") is 1e4.
func Part(name, key string) string {
	for field := range strings.SplitSeq(name, "/") {
		if value, ok := strings.CutPrefix(field, key+"="); ok {
			return value
		}
	}
	return ""
}

// Values returns the values that a key has in the names that start with prefix, in the order of the
// run.
func (r *Results) Values(prefix, key string) (all []string) {
	for _, name := range r.Names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if v := Part(name, key); v != "" && !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}
