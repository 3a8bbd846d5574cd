package main

import (
	"fmt"
	"io"

	"github.com/redbloom-go/bloom"
)

// keyed is what all filters of package bloom can do, whatever their kind.
type keyed interface {
	io.WriterTo
	Info() bloom.Info
	ContainsMany(dst []bool, keys [][]byte) []bool
}

// kindValue is the value of --kind; empty for what suits the input.
type kindValue string

const (
	kindFilter   kindValue = "filter"
	kindBlocked  kindValue = "blocked"
	kindCounting kindValue = "counting"
	kindCuckoo   kindValue = "cuckoo"
	kindScalable kindValue = "scalable"
)

var kinds = []string{string(kindFilter), string(kindBlocked), string(kindCounting), string(kindCuckoo), string(kindScalable)}

// make makes an empty filter of a kind. One that the machine has no memory for is an error; to try would end the
// program.
func (k kindValue) make(capacity uint64, rate float64, opts ...bloom.Option) (keyed, error) {
	if p, err := bloom.Estimate(capacity, rate); err == nil { // else the constructor tells
		size := p.Bits / 8
		if k == kindCounting {
			size *= 4
		}
		if has := memory(); size > has {
			return nil, fmt.Errorf("%w: %d keys at %v take about %s bytes, this machine has %s", bloom.ErrTooLarge, capacity, rate, grouped(size), grouped(has))
		}
	}
	switch k {
	case kindBlocked:
		return typed(bloom.NewBlocked(capacity, rate, opts...))
	case kindCounting:
		return typed(bloom.NewCounting(capacity, rate, opts...))
	case kindCuckoo:
		return typed(bloom.NewCuckoo(capacity, rate, opts...))
	case kindScalable:
		return typed(bloom.NewScalable(capacity, rate, opts...))
	default:
		return typed(bloom.New(capacity, rate, opts...))
	}
}

// typed makes an interface of a constructor's results, nil if there is an error.
func typed[F keyed](f F, err error) (keyed, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// adder adds keys and appends for each whether it was absent.
type adder func(dst []bool, keys [][]byte) ([]bool, error)

// adderOf returns how keys are added to a set; a Counting counts them.
func adderOf(f keyed) (adder, error) {
	switch f := f.(type) {
	case interface {
		AddMany(dst []bool, keys [][]byte) []bool
	}: // Filter, Blocked, Counting
		return func(dst []bool, keys [][]byte) ([]bool, error) { return f.AddMany(dst, keys), nil }, nil
	case *bloom.Cuckoo: // a repeated key would take a slot each time
		return f.AddUniqueMany, nil
	case *bloom.Scalable:
		return f.AddMany, nil
	}
	return nil, fmt.Errorf("keys cannot be added to a %s", f.Info().Kind)
}

// overfull says so if a filter holds more keys than it was made for, and nothing otherwise. A chain grows, and a
// Cuckoo refuses.
func overfull(f keyed) string {
	switch f.(type) {
	case *bloom.Scalable, *bloom.Cuckoo:
		return ""
	}
	i := f.Info()
	if i.Len <= i.Capacity || i.ErrorRate <= i.TargetRate {
		return ""
	}
	return fmt.Sprintf("%d keys in a filter that was made for %d: its rate of false positives is %.3g, not %.3g",
		i.Len, i.Capacity, i.ErrorRate, i.TargetRate)
}
