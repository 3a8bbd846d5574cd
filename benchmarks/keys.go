package main

import (
	"encoding/binary"
	"strconv"
)

// The workload: docs/REFERENCE.md describes it for other languages and must
// change with this file. A key is made from a number, its id, in one of two forms.
const (
	formBytes  = "bytes16"
	formString = "string"
)

// Absent ids, by form: far above all that are added, and of strings of the same
// length as theirs.
const (
	missBytesFrom, missBytesRange     = 1 << 40, 1 << 40
	missStringsFrom, missStringsRange = 1 << 26, 1 << 24
)

// mix is the finalizer of SplitMix64 after one step of its generator.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// keySet is a row of keys in one form; the other field is nil.
type keySet struct {
	bytes   [][]byte
	strings []string
}

func (k keySet) len() int { return max(len(k.bytes), len(k.strings)) }

func (k keySet) slice(from, to int) keySet {
	if k.bytes != nil {
		return keySet{bytes: k.bytes[from:to]}
	}
	return keySet{strings: k.strings[from:to]}
}

// newKeySet makes count keys with the ids that id gives for 0, 1, 2, ….
func newKeySet(form string, count int, id func(j uint64) uint64) keySet {
	var k keySet
	if form == formBytes {
		k.bytes = make([][]byte, count)
		buf := make([]byte, 16*count)
		for j := range k.bytes {
			k.bytes[j] = buf[16*j : 16*j+16 : 16*j+16]
		}
	} else {
		k.strings = make([]string, count)
	}
	k.fill(id)
	return k
}

// fill makes the set's keys anew, in place where they are bytes.
func (k keySet) fill(id func(j uint64) uint64) {
	for j, b := range k.bytes {
		x := id(uint64(j))
		binary.LittleEndian.PutUint64(b, x)
		binary.LittleEndian.PutUint64(b[8:], mix(x))
	}
	for j := range k.strings {
		k.strings[j] = "user:" + strconv.FormatUint(10_000_000+id(uint64(j)), 10)
	}
}

// addedKeys are the keys of a filter of n, in the order they are added.
func addedKeys(form string, n int) keySet {
	return newKeySet(form, n, func(j uint64) uint64 { return j })
}

// hitKeys are keys to ask for that were added, in no order.
func hitKeys(form string, n, count int) keySet {
	return newKeySet(form, count, func(j uint64) uint64 { return mix(j) % uint64(n) })
}

// missKeys are keys to ask for that were never added, in no order.
func missKeys(form string, count int) keySet {
	from, within := missIDs(form)
	return newKeySet(form, count, func(j uint64) uint64 { return from + mix(j)%within })
}

// absentKeys are distinct keys that were never added, to measure a rate with.
func absentKeys(form string, count int) keySet {
	from, _ := missIDs(form)
	return newKeySet(form, count, func(j uint64) uint64 { return from + j })
}

func missIDs(form string) (from, within uint64) {
	if form == formBytes {
		return missBytesFrom, missBytesRange
	}
	return missStringsFrom, missStringsRange
}
