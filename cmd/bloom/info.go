package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/migrate"
	"github.com/spf13/cobra"
)

func newInfo() *cobra.Command {
	var l loading
	var asJSON bool
	c := &cobra.Command{
		Use:   "info FILE...",
		Short: "Describe a filter in a file of any known format",
		Long: `info says what a file is and what the filter in it is like. It knows by their content:

  bloom            what this program and the library's Save write; several records in a file too
  redisbloom       the replies of BF.SCANDUMP or CF.SCANDUMP as frames: cursor (int64), length (uint64), both
                   little-endian, and the chunk
  bits-and-blooms  what WriteTo, MarshalBinary or MarshalJSON of bits-and-blooms/bloom v3 wrote
  guava            what BloomFilter.writeTo of Guava wrote

A bitmap in a Redis string has no mark: it wants --bits and --hashes. Where those are given for a file that looks like
something else the answer is an error, until --format says which it is.

It reads every bit, and checks what checksums there are. The fill and the rate are those of now.`,
		Example: `  bloom info words.bloom
  bloom info --json *.bloom | jq .error_rate
  redis-cli --raw GET bits | head -c -1 > bits.str && bloom info --bits 9600448 --hashes 7 bits.str`,
		Args: atLeast(1, "a file"),
		RunE: func(c *cobra.Command, args []string) error {
			return l.info(c, args, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print an object for each filter")
	l.register(c.Flags())
	return c
}

// info goes on after a file that cannot be read, and then returns its error.
func (l *loading) info(c *cobra.Command, args []string, asJSON bool) error {
	out := newOutput(c)
	var errs []error
	printed := false
	for _, name := range args {
		f, err := l.read(name, c.InOrStdin())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i, filter := range f.filters {
			d := describe(filter)
			d.File, d.Format = name, f.format
			if len(f.filters) > 1 {
				d.Record = i + 1
			}
			d.Frames = f.frames
			switch {
			case asJSON:
				err = json.NewEncoder(out).Encode(d)
			default:
				if printed {
					fmt.Fprintln(out)
				}
				d.print(out)
			}
			if err != nil {
				errs = append(errs, err)
			}
			printed = true
		}
	}
	if err := out.flush(); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// description is what info prints. What a format does not tell is left out.
type description struct {
	File         string   `json:"file"`
	Record       int      `json:"record,omitempty"` // from 1, where there are several
	Format       format   `json:"format"`
	Kind         string   `json:"kind"`
	Scheme       string   `json:"scheme"`
	Seed         *uint64  `json:"seed,omitempty"`
	KeyPrint     string   `json:"key_fingerprint,omitempty"` // of SipHash
	Capacity     *uint64  `json:"capacity,omitempty"`
	Len          *uint64  `json:"len,omitempty"`
	LenEstimated bool     `json:"len_estimated,omitempty"`
	EstimatedLen *float64 `json:"estimated_len,omitempty"` // from the bits; left out where all are set
	Bits         uint64   `json:"bits"`
	Hashes       int      `json:"hashes"`
	SizeBytes    uint64   `json:"size_bytes"`
	FillRatio    float64  `json:"fill_ratio"`
	TargetRate   *float64 `json:"target_rate,omitempty"`
	ErrorRate    float64  `json:"error_rate"`
	Growth       *int     `json:"growth,omitempty"` // of chains; 0 for a fixed size
	Parts        []part   `json:"parts,omitempty"`  // links of a Scalable, sub-filters of a Cuckoo
	BucketSize   int      `json:"bucket_size,omitempty"`
	Frames       int      `json:"frames,omitempty"`
}

type part struct {
	Capacity  uint64  `json:"capacity,omitempty"`
	Len       uint64  `json:"len"`
	Bits      uint64  `json:"bits"` // or slots
	Hashes    int     `json:"hashes,omitempty"`
	SizeBytes uint64  `json:"size_bytes"`
	ErrorRate float64 `json:"error_rate"`
}

func describe(filter any) *description {
	switch f := filter.(type) {
	case *migrate.BitsAndBlooms:
		return describeOther(f, "BitsAndBlooms", "MurmurHash3 twice, as bits-and-blooms places keys")
	case *migrate.Guava:
		return describeOther(f, "Guava", f.Strategy())
	case keyed:
		return describeOurs(f)
	}
	return &description{Kind: fmt.Sprintf("%T", filter)}
}

// describeOther is for filters of other libraries, which keep no count and no parameters.
func describeOther(f interface {
	Bits() uint64
	Hashes() int
	SizeBytes() uint64
	FillRatio() float64
	ErrorRate() float64
	EstimateLen() float64
}, kind, scheme string) *description {
	return &description{
		Kind: kind, Scheme: scheme, Bits: f.Bits(), Hashes: f.Hashes(), SizeBytes: f.SizeBytes(),
		FillRatio: f.FillRatio(), ErrorRate: f.ErrorRate(), EstimatedLen: finite(f.EstimateLen()),
	}
}

func describeOurs(f keyed) *description {
	i := f.Info()
	d := &description{
		Kind: i.Kind, Scheme: i.Scheme.String(), Capacity: &i.Capacity, Len: &i.Len, LenEstimated: i.LenEstimated,
		Bits: i.Bits, Hashes: i.Hashes, SizeBytes: i.SizeBytes, FillRatio: i.FillRatio, TargetRate: &i.TargetRate, ErrorRate: i.ErrorRate,
	}
	switch i.Scheme {
	case bloom.SipHash:
		d.KeyPrint = fmt.Sprintf("%016x", i.Seed)
	case bloom.Murmur3, bloom.XXHash:
		d.Seed = &i.Seed
	}
	if e, ok := f.(interface{ EstimateLen() float64 }); ok {
		d.EstimatedLen = finite(e.EstimateLen())
	}
	switch f := f.(type) {
	case *bloom.Scalable:
		growth := f.Growth()
		d.Growth = &growth
		for l := range f.Links() {
			d.Parts = append(d.Parts, part{l.Capacity, l.Len, l.Bits, l.Hashes, l.SizeBytes, l.ErrorRate})
		}
	case *bloom.Cuckoo:
		growth := f.Growth()
		d.Growth, d.BucketSize = &growth, f.BucketSize()
		for s := range f.SubFilters() {
			d.Parts = append(d.Parts, part{Len: s.Len, Bits: s.Slots, SizeBytes: s.SizeBytes, ErrorRate: s.ErrorRate})
		}
	}
	return d
}

func finite(x float64) *float64 {
	if math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (d *description) print(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	file := d.File
	if d.Record > 0 {
		file += ", record " + strconv.Itoa(d.Record)
	}
	line("file", "%s", file)
	line("format", "%s: %s", d.Format, d.Format.describe())
	line("kind", "%s", d.Kind)
	line("scheme", "%s", d.Scheme)
	if d.Seed != nil && *d.Seed != 0 {
		line("seed", "%d", *d.Seed)
	}
	if d.KeyPrint != "" {
		line("key", "fingerprint %s", d.KeyPrint)
	}
	if d.Capacity != nil {
		line("made for", "%s keys at %.4g", grouped(*d.Capacity), *d.TargetRate)
	}
	switch {
	case d.Len != nil && d.LenEstimated:
		line("keys", "about %s", grouped(*d.Len))
	case d.Len != nil && d.EstimatedLen != nil && d.Kind != "Counting":
		line("keys", "%s that changed a bit; by the bits set about %s", grouped(*d.Len), grouped(uint64(math.Round(*d.EstimatedLen))))
	case d.Len != nil:
		line("keys", "%s", grouped(*d.Len))
	case d.EstimatedLen != nil:
		line("keys", "about %s", grouped(uint64(math.Round(*d.EstimatedLen))))
	default:
		line("keys", "not to be told: all bits are set")
	}
	what, full := "bits", "set"
	switch d.Kind {
	case "Counting":
		what, full = "counters", "not 0"
	case "Cuckoo":
		what, full = "slots", "taken"
	}
	line(what, "%s, %.4g %% of them %s", grouped(d.Bits), 100*d.FillRatio, full)
	if d.Kind != "Cuckoo" {
		line("hashes", "%d a key", d.Hashes)
	} else {
		line("buckets", "of %d slots", d.BucketSize)
	}
	line("size", "%s bytes", grouped(d.SizeBytes))
	line("rate now", "%.4g of false positives", d.ErrorRate)
	if d.Growth != nil {
		grows := "refuses keys when it is full"
		if *d.Growth > 0 {
			grows = fmt.Sprintf("the next part is %d times as large", *d.Growth)
		}
		line("growth", "%s", grows)
	}
	for i, p := range d.Parts {
		of := ""
		if p.Capacity > 0 {
			of = " of " + grouped(p.Capacity)
		}
		line("part "+strconv.Itoa(i+1), "%s%s keys, %s %s, %s bytes, rate %.4g", grouped(p.Len), of, grouped(p.Bits), what, grouped(p.SizeBytes), p.ErrorRate)
	}
	if d.Frames > 0 {
		line("frames", "%d", d.Frames)
	}
}
