package main

import (
	bitsbloom "github.com/bits-and-blooms/bloom/v3"
	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/ristretto/v2/z"
	holiman "github.com/holiman/bloomfilter/v2"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
	boom "github.com/tylertreat/BoomFilters"
)

// The other libraries, each made and called as its documentation says. Those that take
// a 64-bit hash for a key (holiman, ristretto, xorfilter) get XXH64, which is what
// ristretto itself and the users of holiman's take; hashing is in every figure. Those
// that take only []byte are given []byte(s) for a string.
func peers() []implementation {
	return []implementation{
		{name: "bits-and-blooms", parallel: true, make: func(n int, p float64) filter {
			return bitsAndBlooms{bitsbloom.NewWithEstimates(uint(n), p)}
		}},
		{name: "holiman", parallel: true, parallelAdd: true, make: func(n int, p float64) filter {
			return holimanFilter{must(holiman.NewOptimal(uint64(n), p))}
		}},
		{name: "ristretto", parallel: true, make: func(n int, p float64) filter {
			return ristretto{z.NewBloomFilter(float64(n), p)}
		}},
		// Its filters share one hash state, also for lookups: one goroutine only.
		{name: "boomfilters-classic", make: func(n int, p float64) filter {
			return boomClassic{boom.NewBloomFilter(uint(n), p)}
		}},
		{name: "boomfilters-scalable", make: newBoomScalable},
		{name: "boomfilters-counting", make: func(n int, p float64) filter {
			return boomCounting{boom.NewDefaultCountingBloomFilter(uint(n), p)}
		}},
		// It makes room for 8n buckets, each a slice of four slices: 1 GB for a million keys.
		{name: "boomfilters-cuckoo", maxN: 1e4, make: func(n int, p float64) filter {
			return boomCuckoo{boom.NewCuckooFilter(uint(n), p)}
		}},
		{name: "seiflotfy", parallel: true, make: func(n int, _ float64) filter {
			return &seiflotfyFilter{Filter: seiflotfy.NewFilter(uint(n))}
		}},
		{name: "fuse8", parallel: true, make: func(n int, _ float64) filter {
			return &fuse8{hashes: make([]uint64, 0, n)}
		}},
		{name: "map", parallel: true, make: func(n int, _ float64) filter {
			return make(mapSet, n)
		}},

		// Those that miss the rate, made such that they keep it.
		{name: "boomfilters-scalable@1%", variant: true, make: func(n int, p float64) filter {
			return newBoomScalable(n, p/2.4)
		}},
		{name: "seiflotfy@1%", variant: true, parallel: true, make: func(n int, p float64) filter {
			// Two buckets of four, and fingerprints from 1 to 255, of which load are in use.
			return &seiflotfyFilter{Filter: seiflotfy.NewFilter(uint(float64(n) * 8 / 255 / p))}
		}},
	}
}

type bitsAndBlooms struct{ *bitsbloom.BloomFilter }

func (f bitsAndBlooms) memoryBits() uint64 { return uint64(f.Cap()) }

func (f bitsAndBlooms) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f bitsAndBlooms) addStrings(keys []string) {
	for _, k := range keys {
		f.AddString(k)
	}
}

func (f bitsAndBlooms) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Test(k) {
			yes++
		}
	}
	return yes
}

func (f bitsAndBlooms) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.TestString(k) {
			yes++
		}
	}
	return yes
}

type holimanFilter struct{ *holiman.Filter }

func (f holimanFilter) memoryBits() uint64 { return f.M() }

func (f holimanFilter) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.AddHash(xxhash.Sum64(k))
	}
}

func (f holimanFilter) addStrings(keys []string) {
	for _, k := range keys {
		f.AddHash(xxhash.Sum64String(k))
	}
}

func (f holimanFilter) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.ContainsHash(xxhash.Sum64(k)) {
			yes++
		}
	}
	return yes
}

func (f holimanFilter) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsHash(xxhash.Sum64String(k)) {
			yes++
		}
	}
	return yes
}

type ristretto struct{ *z.Bloom }

// Its TotalSize counts five words beside the bits.
func (f ristretto) memoryBits() uint64 { return uint64(f.TotalSize()-40) * 8 }

func (f ristretto) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(xxhash.Sum64(k))
	}
}

func (f ristretto) addStrings(keys []string) {
	for _, k := range keys {
		f.Add(xxhash.Sum64String(k))
	}
}

func (f ristretto) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Has(xxhash.Sum64(k)) {
			yes++
		}
	}
	return yes
}

func (f ristretto) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Has(xxhash.Sum64String(k)) {
			yes++
		}
	}
	return yes
}
