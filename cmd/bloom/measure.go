package main

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/redbloom-go/bloom"
)

const (
	// modelKeys is how many keys the filter has at most that rates are measured on: enough for three digits, and few
	// enough to be done at once.
	modelKeys = 100_000

	// largestMade is how large a filter is made only to be asked for its size. Memory is not touched for that.
	largestMade = 1 << 30
)

// measured is a kind whose rate at a load has no formula in package bloom: it is that of a filter with so many keys.
func measured(name string, kind kindValue, n uint64, rate float64, opts ...bloom.Option) *kindSize {
	model := min(n, modelKeys)
	k := &kindSize{Kind: name, Measured: model}
	f, err := kind.make(n, rate, append(opts, bloom.WithMaxBytes(largestMade))...)
	if errors.Is(err, bloom.ErrTooLarge) && n > model {
		k.Estimated = true
		f, err = kind.make(model, rate, opts...)
	}
	if err != nil {
		k.Error = refusal(err)
		return k
	}
	i := f.Info()
	scale := 1.0
	if k.Estimated {
		scale = float64(n) / float64(model)
	}
	k.Bits, k.Bytes, k.Hashes = uint64(float64(i.Bits)*scale), uint64(float64(i.SizeBytes)*scale), i.Hashes
	k.BitsPerKey = 8 * float64(i.SizeBytes) * scale / float64(n)
	k.rates = func(loads []float64) []float64 { return measureRates(kind, model, rate, loads, opts) }
	return k
}

// measureRates fills a filter and returns its rate at each load, in rising order; NaN once it refuses a key.
func measureRates(kind kindValue, n uint64, rate float64, loads []float64, opts []bloom.Option) []float64 {
	f := bloom.Must(kind.make(n, rate, opts...)) // as measured found
	add, err := adderOf(f)
	if c, ok := f.(*bloom.Cuckoo); ok {
		add = c.AddMany // the keys are distinct, so that none that seems to be there is
	}
	rates := make([]float64, len(loads))
	next := uint64(0)
	for i, load := range loads {
		if until := uint64(math.Round(load * float64(n))); err == nil && until > next {
			_, err = add(nil, numbers(next, until))
			next = until
		}
		if rates[i] = f.Info().ErrorRate; err != nil {
			rates[i] = math.NaN()
		}
	}
	return rates
}

// numbers are keys: the numbers from … to−1, 8 bytes each.
func numbers(from, to uint64) [][]byte {
	bytes := make([]byte, 0, 8*(to-from))
	keys := make([][]byte, 0, to-from)
	for n := from; n < to; n++ {
		bytes = binary.LittleEndian.AppendUint64(bytes, n)
		keys = append(keys, bytes[len(bytes)-8:])
	}
	return keys
}
