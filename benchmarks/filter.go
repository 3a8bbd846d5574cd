package main

import (
	"runtime"
	"slices"

	"github.com/redbloom-go/bloom"
)

// filter is an implementation under test, holding some keys. Each method takes
// many keys and has its own loop with direct calls, so that the harness adds the
// same few instructions to each operation of each implementation, and no
// indirect call.
type filter interface {
	addBytes(keys [][]byte)
	addStrings(keys []string)
	containsBytes(keys [][]byte) (yes int)
	containsStrings(keys []string) (yes int)
}

// builder is a filter that is made of all its keys at once, after the last add.
type builder interface{ build() }

// sized is a filter that knows what its table takes. Of another the heap tells.
type sized interface{ memoryBits() uint64 }

// implementation makes filters of a kind.
type implementation struct {
	name string
	make func(n int, p float64) filter

	parallel    bool // lookups may run in several goroutines
	parallelAdd bool // adds too
	maxN        int  // where more would take too much memory; 0 for no limit
	variant     bool // made for another rate than the one asked for
}

func (i implementation) takes(n int) bool { return i.maxN == 0 || n <= i.maxN }

func add(f filter, k keySet) {
	if k.bytes != nil {
		f.addBytes(k.bytes)
	} else {
		f.addStrings(k.strings)
	}
}

func contains(f filter, k keySet) int {
	if k.bytes != nil {
		return f.containsBytes(k.bytes)
	}
	return f.containsStrings(k.strings)
}

func finish(f filter) {
	if b, ok := f.(builder); ok {
		b.build()
	}
}

// filled makes a filter for as many keys as there are and adds them. It returns the
// memory it then takes, in bits.
func (i implementation) filled(keys keySet, p float64) (f filter, bits uint64) {
	before := heap()
	f = i.make(keys.len(), p)
	add(f, keys)
	finish(f)
	if s, ok := f.(sized); ok {
		return f, s.memoryBits()
	}
	bits = (heap() - before) * 8
	runtime.KeepAlive(f)
	runtime.KeepAlive(keys)
	return f, bits
}

// heap is how many bytes are in use. It collects garbage first.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// batchSize is how many keys AddMany and ContainsMany get in one call.
const batchSize = 64

// implementations are all there are, in the order of the tables.
func implementations() []implementation { return append(ours(), peers()...) }

// pick returns the implementations of some names, in the order of the tables.
func pick(names ...string) []implementation {
	return slices.DeleteFunc(implementations(), func(i implementation) bool { return !slices.Contains(names, i.name) })
}

func must[F any](f F, err error) F { return bloom.Must(f, err) }
