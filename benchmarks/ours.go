package main

import (
	"math"
	"slices"
	"sync"

	"github.com/redbloom-go/bloom"
)

// This library's filters, called as its users call them.
func ours() []implementation {
	return append([]implementation{
		{name: "bloom", parallel: true, make: newClassic(bloom.Murmur3)},
		{name: "bloom-xxhash", parallel: true, make: newClassic(bloom.XXHash)},
		{name: "bloom-redisbloom", parallel: true, make: newClassic(bloom.RedisBloom)},
		{name: "bloom-many", parallel: true, make: func(n int, p float64) filter {
			return classicMany{newFilter(n, p)}
		}},
		{name: "bloom-rwmutex", parallel: true, parallelAdd: true, make: func(n int, p float64) filter {
			return &locked{f: newFilter(n, p)}
		}},
		{name: "bloom-scalable", parallel: true, make: func(n int, p float64) filter {
			// Links of 1, 2, 4 and 8 parts in 15.
			return scalable{must(bloom.NewScalable(uint64(n+14)/15, p))}
		}},
		{name: "bloom-counting", parallel: true, make: func(n int, p float64) filter {
			return counting{must(bloom.NewCounting(uint64(n), p))}
		}},
		{name: "bloom-cuckoo", parallel: true, make: newCuckoo},
		{name: "bloom-cuckoo@3%", variant: true, parallel: true, make: func(n int, _ float64) filter {
			return newCuckoo(n, 2.*4/255) // two buckets of four 8-bit fingerprints, as seiflotfy's has
		}},
		{name: "bloom@ristretto", variant: true, parallel: true, make: func(n int, p float64) filter {
			return classic{newFilter(n, rateOfPowerOfTwo(n, p))}
		}},
	}, special()...)
}

func newCuckoo(n int, p float64) filter { return cuckoo{must(bloom.NewCuckoo(uint64(n), p))} }

func newFilter(n int, p float64, opts ...bloom.Option) *bloom.Filter {
	return must(bloom.New(uint64(n), p, opts...))
}

func newClassic(s bloom.Scheme) func(n int, p float64) filter {
	return func(n int, p float64) filter { return classic{newFilter(n, p, bloom.WithScheme(s))} }
}

// rateOfPowerOfTwo is the rate of a filter whose textbook size is rounded up to a
// power of two, which is what ristretto's has.
func rateOfPowerOfTwo(n int, p float64) float64 {
	m := math.Exp2(math.Ceil(math.Log2(float64(bloom.OptimalBits(uint64(n), p)))))
	k := math.Ceil(-math.Log2(p))
	return math.Pow(-math.Expm1(-k*float64(n)/m), k)
}

// accept is for adds that a filter can refuse.
func accept(_ bool, err error) { check(err) }

func count(answers []bool) (yes int) {
	for _, a := range answers {
		if a {
			yes++
		}
	}
	return yes
}

type classic struct{ *bloom.Filter }

func (f classic) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f classic) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f classic) addStrings(keys []string) {
	for _, k := range keys {
		f.AddString(k)
	}
}

func (f classic) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(k) {
			yes++
		}
	}
	return yes
}

func (f classic) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsString(k) {
			yes++
		}
	}
	return yes
}

func (f classic) many() filter { return classicMany(f) }

// classicMany is classic asked for many keys a call.
type classicMany struct{ *bloom.Filter }

func (f classicMany) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f classicMany) addBytes(keys [][]byte) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		f.AddMany(answers[:0], batch)
	}
}

func (f classicMany) addStrings(keys []string) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		f.AddManyString(answers[:0], batch)
	}
}

func (f classicMany) containsBytes(keys [][]byte) (yes int) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		yes += count(f.ContainsMany(answers[:0], batch))
	}
	return yes
}

func (f classicMany) containsStrings(keys []string) (yes int) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		yes += count(f.ContainsManyString(answers[:0], batch))
	}
	return yes
}

// locked is a Filter behind a lock, the usual way to share one.
type locked struct {
	mu sync.RWMutex
	f  *bloom.Filter
}

func (f *locked) memoryBits() uint64 { return f.f.SizeBytes() * 8 }

func (f *locked) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.mu.Lock()
		f.f.Add(k)
		f.mu.Unlock()
	}
}

func (f *locked) addStrings(keys []string) {
	for _, k := range keys {
		f.mu.Lock()
		f.f.AddString(k)
		f.mu.Unlock()
	}
}

func (f *locked) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		f.mu.RLock()
		if f.f.Contains(k) {
			yes++
		}
		f.mu.RUnlock()
	}
	return yes
}

func (f *locked) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		f.mu.RLock()
		if f.f.ContainsString(k) {
			yes++
		}
		f.mu.RUnlock()
	}
	return yes
}

type scalable struct{ *bloom.Scalable }

func (f scalable) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f scalable) addBytes(keys [][]byte) {
	for _, k := range keys {
		accept(f.Add(k))
	}
}

func (f scalable) addStrings(keys []string) {
	for _, k := range keys {
		accept(f.AddString(k))
	}
}

func (f scalable) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(k) {
			yes++
		}
	}
	return yes
}

func (f scalable) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsString(k) {
			yes++
		}
	}
	return yes
}

type counting struct{ *bloom.Counting }

func (f counting) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f counting) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f counting) addStrings(keys []string) {
	for _, k := range keys {
		f.AddString(k)
	}
}

func (f counting) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(k) {
			yes++
		}
	}
	return yes
}

func (f counting) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsString(k) {
			yes++
		}
	}
	return yes
}

type cuckoo struct{ *bloom.Cuckoo }

func (f cuckoo) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f cuckoo) addBytes(keys [][]byte) {
	for _, k := range keys {
		accept(f.Add(k))
	}
}

func (f cuckoo) addStrings(keys []string) {
	for _, k := range keys {
		accept(f.AddString(k))
	}
}

func (f cuckoo) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(k) {
			yes++
		}
	}
	return yes
}

func (f cuckoo) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsString(k) {
			yes++
		}
	}
	return yes
}
