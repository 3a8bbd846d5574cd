package main

import (
	"github.com/FastFilter/xorfilter"
	"github.com/cespare/xxhash/v2"
	seiflotfy "github.com/seiflotfy/cuckoofilter"
)

// The sets that are no Bloom filters.

// seiflotfyFilter counts the keys that it refused: a cuckoo filter can be full before
// it holds what it was made for, and loses a key then.
type seiflotfyFilter struct {
	*seiflotfy.Filter
	refused int
}

func (f *seiflotfyFilter) memoryBits() uint64 { return uint64(len(f.Encode())) * 8 }

func (f *seiflotfyFilter) addBytes(keys [][]byte) {
	for _, k := range keys {
		if !f.Insert(k) {
			f.refused++
		}
	}
}

func (f *seiflotfyFilter) addStrings(keys []string) {
	for _, k := range keys {
		if !f.Insert([]byte(k)) {
			f.refused++
		}
	}
}

func (f *seiflotfyFilter) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Lookup(k) {
			yes++
		}
	}
	return yes
}

func (f *seiflotfyFilter) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Lookup([]byte(k)) {
			yes++
		}
	}
	return yes
}

// fuse8 collects hashes until it is built.
type fuse8 struct {
	*xorfilter.BinaryFuse8
	hashes []uint64
}

func (f *fuse8) build() {
	f.BinaryFuse8 = must(xorfilter.PopulateBinaryFuse8(f.hashes))
	f.hashes = nil
}

func (f *fuse8) memoryBits() uint64 { return uint64(len(f.Fingerprints)) * 8 }

func (f *fuse8) addBytes(keys [][]byte) {
	for _, k := range keys {
		f.hashes = append(f.hashes, xxhash.Sum64(k))
	}
}

func (f *fuse8) addStrings(keys []string) {
	for _, k := range keys {
		f.hashes = append(f.hashes, xxhash.Sum64String(k))
	}
}

func (f *fuse8) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if f.Contains(xxhash.Sum64(k)) {
			yes++
		}
	}
	return yes
}

func (f *fuse8) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if f.Contains(xxhash.Sum64String(k)) {
			yes++
		}
	}
	return yes
}

// mapSet is Go's own exact set. It keeps a copy of a key that is bytes, and shares the
// memory of one that is a string.
type mapSet map[string]struct{}

func (f mapSet) addBytes(keys [][]byte) {
	for _, k := range keys {
		f[string(k)] = struct{}{}
	}
}

func (f mapSet) addStrings(keys []string) {
	for _, k := range keys {
		f[k] = struct{}{}
	}
}

func (f mapSet) containsBytes(keys [][]byte) (yes int) {
	for _, k := range keys {
		if _, ok := f[string(k)]; ok {
			yes++
		}
	}
	return yes
}

func (f mapSet) containsStrings(keys []string) (yes int) {
	for _, k := range keys {
		if _, ok := f[k]; ok {
			yes++
		}
	}
	return yes
}
