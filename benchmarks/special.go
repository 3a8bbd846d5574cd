package main

import (
	"math"
	"slices"

	"github.com/redbloom-go/bloom"
)

// The filters made for one cache line a key, and for many writers.
func special() []implementation {
	return []implementation{
		{name: "bloom-blocked", parallel: true, make: func(n int, p float64) filter {
			return blocked{newBlocked(n, p)}
		}},
		{name: "bloom-blocked-many", parallel: true, make: func(n int, p float64) filter {
			return blockedMany{newBlocked(n, p)}
		}},
		{name: "bloom-concurrent", parallel: true, parallelAdd: true, make: func(n int, p float64) filter {
			return concurrent{must(bloom.NewConcurrent(uint64(n), p))}
		}},
		{name: "bloom-blocked@fuse8", variant: true, parallel: true, make: func(n int, _ float64) filter {
			return blocked{newBlocked(n, math.Exp2(-8))}
		}},
	}
}

func newBlocked(n int, p float64) *bloom.Blocked { return must(bloom.NewBlocked(uint64(n), p)) }

type blocked struct{ *bloom.Blocked }

func (f blocked) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f blocked) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f blocked) addStrings(keys []string) {
	for _, k := range keys {
		f.AddString(k)
	}
}

func (f blocked) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(k) {
			yes++
		}
	}
	return yes
}

func (f blocked) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsString(k) {
			yes++
		}
	}
	return yes
}

func (f blocked) many() filter { return blockedMany(f) }

// blockedMany is blocked asked for many keys a call.
type blockedMany struct{ *bloom.Blocked }

func (f blockedMany) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f blockedMany) addBytes(keys [][]byte) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		f.AddMany(answers[:0], batch)
	}
}

func (f blockedMany) addStrings(keys []string) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		f.AddManyString(answers[:0], batch)
	}
}

func (f blockedMany) containsBytes(keys [][]byte) (yes int) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		yes += count(f.ContainsMany(answers[:0], batch))
	}
	return yes
}

func (f blockedMany) containsStrings(keys []string) (yes int) {
	var answers [batchSize]bool
	for batch := range slices.Chunk(keys, batchSize) {
		yes += count(f.ContainsManyString(answers[:0], batch))
	}
	return yes
}

type concurrent struct{ *bloom.Concurrent }

func (f concurrent) memoryBits() uint64 { return f.SizeBytes() * 8 }

func (f concurrent) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.Add(k)
	}
}

func (f concurrent) addStrings(keys []string) {
	for _, k := range keys {
		f.AddString(k)
	}
}

func (f concurrent) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(k) {
			yes++
		}
	}
	return yes
}

func (f concurrent) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.ContainsString(k) {
			yes++
		}
	}
	return yes
}
