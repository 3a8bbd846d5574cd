package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/redbloom-go/bloom"
	"github.com/spf13/cobra"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

type sizeFlags struct {
	capacity, bits count
	hashes         int
	rate           float64
	json           bool
	svg            string
}

func newSize() *cobra.Command {
	var o sizeFlags
	c := &cobra.Command{
		Use:   "size -n KEYS [-p RATE] | size --bits M --hashes K",
		Short: "Say how large a filter is, and what its rate is by load",
		Long: `size says, for a number of keys and a rate of false positives, how large a filter of each kind is, and which rate it
has when it holds half of the keys it was made for, all of them, or twice as many. With --bits and --hashes it says
what a filter of that size does.

BF.RESERVE is what that command makes in a Redis server, and NONSCALING what it makes with that option. Kinds that grow
do so at 100 %; their sizes are those before. Sizes and rates of a Filter, a Counting and NONSCALING come from
formulas. The rates of the others are measured, by the bits that keys set in a filter for as many keys, or for 100,000
if there are more.`,
		Example: `  bloom size -n 1e6 -p 0.01
  bloom size -n 50_000_000 -p 1e-4 --svg rate.svg
  bloom size --bits 9585059 --hashes 7          # what is somebody else's filter good for?
  bloom size -n 1e6 --json | jq '.kinds[] | {kind, bytes}'`,
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return o.run(c) },
	}
	f := c.Flags()
	f.VarP(&o.capacity, "capacity", "n", "how many keys")
	f.Float64VarP(&o.rate, "rate", "p", 0.01, "rate of false positives, between 0 and 1")
	f.Var(&o.bits, "bits", "the size of a filter that exists, in bits")
	f.IntVar(&o.hashes, "hashes", 0, "the number of positions that a key has in it (default: the best for -n keys)")
	f.BoolVar(&o.json, "json", false, "print an object")
	f.StringVar(&o.svg, "svg", "", "draw the rates by load to a `file`; \"-\" is standard output, in place of the table")
	return c
}

// sizes is what size prints.
type sizes struct {
	Capacity uint64      `json:"capacity"`
	Rate     float64     `json:"rate"` // asked for, or of a given size at Capacity keys
	Kinds    []*kindSize `json:"kinds"`
}

// kindSize is one kind of filter.
type kindSize struct {
	Kind       string      `json:"kind"`
	Bits       uint64      `json:"bits,omitempty"` // counters of a Counting, slots of a Cuckoo
	Hashes     int         `json:"hashes,omitempty"`
	Bytes      uint64      `json:"bytes,omitempty"`
	BitsPerKey float64     `json:"bits_per_key,omitempty"`
	Estimated  bool        `json:"estimated,omitempty"` // sizes are scaled from those of a smaller filter
	Measured   uint64      `json:"measured,omitempty"`  // keys of the filter that the rates are measured on; 0 for a formula
	Loads      []loadPoint `json:"loads,omitempty"`
	Error      string      `json:"error,omitempty"` // why there is no such filter

	rates func(loads []float64) []float64 // NaN where the filter is full
}

type loadPoint struct {
	Load float64  `json:"load"` // keys ÷ capacity
	Rate *float64 `json:"rate"` // null where the filter is full
}

var tableLoads = []float64{0.5, 0.8, 1, 1.5, 2}

func (o *sizeFlags) run(c *cobra.Command) error {
	s, err := o.sizes(c)
	if err != nil {
		return err
	}
	if o.svg != "" {
		drawn, err := s.svg()
		if err != nil {
			return err
		}
		if o.svg == "-" {
			return writeOut(c, drawn)
		}
		if err := save(c, o.svg, bytes.NewBuffer(drawn)); err != nil {
			return err
		}
	}
	for _, k := range s.Kinds {
		if k.Error != "" {
			continue
		}
		for i, rate := range k.rates(tableLoads) {
			k.Loads = append(k.Loads, loadPoint{Load: tableLoads[i]})
			if !math.IsNaN(rate) {
				k.Loads[i].Rate = &rate
			}
		}
	}
	var text bytes.Buffer
	if o.json {
		e := json.NewEncoder(&text)
		e.SetIndent("", "  ")
		if err := e.Encode(s); err != nil {
			return err
		}
	} else {
		s.print(&text)
	}
	return writeOut(c, text.Bytes())
}

func writeOut(c *cobra.Command, text []byte) error {
	out := newOutput(c)
	out.Write(text)
	return out.flush()
}

func (o *sizeFlags) sizes(c *cobra.Command) (*sizes, error) {
	set := c.Flags().Changed
	if o.bits > 0 || o.hashes != 0 {
		return o.given(set("rate"))
	}
	if !set("capacity") {
		return nil, usagef("want -n, the number of keys, or --bits and --hashes")
	}
	n := uint64(o.capacity)
	filter, err := bloom.Estimate(n, o.rate)
	if err != nil {
		return nil, err
	}
	s := &sizes{Capacity: n, Rate: o.rate, Kinds: []*kindSize{
		closed("Filter", filter, 1, n, false),
		measured("Blocked", kindBlocked, n, o.rate),
		measured("Cuckoo", kindCuckoo, n, o.rate),
		closed("Counting", filter, 4, n, false),
		measured("Scalable", kindScalable, n, o.rate),
		measured("BF.RESERVE", kindScalable, n, o.rate, bloom.WithScheme(bloom.RedisBloom)),
	}}
	if redis, err := bloom.Estimate(n, o.rate, bloom.WithScheme(bloom.RedisBloom)); err == nil {
		s.Kinds = append(s.Kinds, closed("NONSCALING", redis, 1, n, true))
	}
	return s, nil
}

// given is for the size of a filter that exists: what it is for follows from the rate, or is what half of the bits
// set make.
func (o *sizeFlags) given(rateGiven bool) (*sizes, error) {
	m, n := uint64(o.bits), uint64(o.capacity)
	p := bloom.Params{Bits: m, Hashes: o.hashes}
	switch {
	case m == 0:
		return nil, usagef("--hashes wants --bits")
	case o.hashes < 0 || o.hashes > 2000:
		return nil, usagef("--hashes is %d, want 1 to 2000", o.hashes)
	case m > 1<<48:
		return nil, usagef("--bits is %d, want at most 2^48", m)
	case n > 0 && rateGiven:
		return nil, usagef("with --bits and -n the rate follows: leave -p out")
	case o.hashes == 0 && n == 0:
		return nil, usagef("--bits wants --hashes, or -n to find the best")
	case o.hashes == 0:
		p.Hashes = bloom.OptimalHashes(m, n)
	case n == 0 && rateGiven:
		if n = p.Capacity(o.rate); n == 0 {
			return nil, fmt.Errorf("one key passes a rate of %v in %d bits with %d hashes", o.rate, m, p.Hashes)
		}
	case n == 0:
		n = max(1, uint64(math.Round(float64(m)/float64(p.Hashes)*math.Ln2)))
	}
	redis := p
	redis.Scheme = bloom.RedisBloom
	return &sizes{Capacity: n, Rate: p.ErrorRate(n), Kinds: []*kindSize{
		closed("Filter", p, 1, n, false),
		closed("Counting", p, 4, n, false),
		closed("RedisBloom", redis, 1, n, false),
	}}, nil
}

// closed is a kind with formulas; one that refuses keys is full past its capacity.
func closed(kind string, p bloom.Params, bitsEach, n uint64, refuses bool) *kindSize {
	size := (p.Bits*bitsEach + 63) / 64 * 8
	return &kindSize{
		Kind: kind, Bits: p.Bits, Hashes: p.Hashes, Bytes: size, BitsPerKey: float64(p.Bits*bitsEach) / float64(n),
		rates: func(loads []float64) []float64 {
			var rates []float64
			for _, load := range loads {
				rate := p.ErrorRate(uint64(math.Round(load * float64(n))))
				if refuses && load > 1 {
					rate = math.NaN()
				}
				rates = append(rates, rate)
			}
			return rates
		},
	}
}

var printer = message.NewPrinter(language.English)

// grouped is a number like 1,000,000.
func grouped(n uint64) string { return printer.Sprintf("%d", n) }

func (s *sizes) print(w io.Writer) {
	fmt.Fprintf(w, "%s keys at a rate of false positives of %.4g\n\n", grouped(s.Capacity), s.Rate)
	fmt.Fprintf(w, "%-11s %15s %7s %15s %9s", "kind", "bits", "hashes", "bytes", "bits/key")
	for _, load := range tableLoads {
		fmt.Fprintf(w, " %9s", fmt.Sprintf("at %.0f %%", 100*load))
	}
	fmt.Fprintln(w)
	var notes []string
	for _, k := range s.Kinds {
		if k.Error != "" {
			fmt.Fprintf(w, "%-11s %15s\n", k.Kind, "–")
			notes = append(notes, k.Kind+": "+k.Error)
			continue
		}
		about := ""
		if k.Estimated {
			about = "~"
		}
		fmt.Fprintf(w, "%-11s %15s %7d %15s %9s", k.Kind, about+grouped(k.Bits), k.Hashes, about+grouped(k.Bytes), fmt.Sprintf("%s%.2f", about, k.BitsPerKey))
		for _, l := range k.Loads {
			rate := "full"
			if l.Rate != nil {
				rate = fmt.Sprintf("%.3g", *l.Rate)
			}
			fmt.Fprintf(w, " %9s", rate)
		}
		fmt.Fprintln(w)
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(notes, "\n"))
	}
}

// refusal is an error as a note of the table: without the name of its sentinel.
func refusal(err error) string {
	for _, sentinel := range []error{bloom.ErrInvalid, bloom.ErrTooLarge} {
		if errors.Is(err, sentinel) {
			return strings.TrimPrefix(err.Error(), sentinel.Error()+": ")
		}
	}
	return err.Error()
}
