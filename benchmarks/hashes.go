package main

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"runtime"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"golang.org/x/perf/benchfmt"
)

// hashFunc turns a key into the two words that positions are made from.
type hashFunc struct {
	name string
	sum  func(key []byte) (h1, h2 uint64)
}

func hashFuncs() []hashFunc {
	scheme := func(s bloom.Scheme) func(key []byte) (h1, h2 uint64) {
		f := must(bloom.New(1, rate, bloom.WithScheme(s)))
		return func(key []byte) (h1, h2 uint64) { return f.Digest(key).Words() }
	}
	first16 := func(b []byte) (h1, h2 uint64) {
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	}
	return []hashFunc{
		{"MurmurHash3", scheme(bloom.Murmur3)},
		{"xxHash", scheme(bloom.XXHash)},
		{"MurmurHash64A-twice", scheme(bloom.RedisBloom)},
		// 64 bits, of which each half serves as a word.
		{"FNV-1a-64", func(key []byte) (h1, h2 uint64) {
			h := fnv.New64a()
			h.Write(key)
			x := h.Sum64()
			return x >> 32, x & 0xffffffff
		}},
		{"FNV-1a-128", func(key []byte) (h1, h2 uint64) {
			var b [16]byte
			h := fnv.New128a()
			h.Write(key)
			h.Sum(b[:0])
			return binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])
		}},
		{"SHA-256", func(key []byte) (h1, h2 uint64) {
			sum := sha256.Sum256(key)
			return first16(sum[:])
		}},
		{"MD5", func(key []byte) (h1, h2 uint64) {
			sum := md5.Sum(key)
			return first16(sum[:])
		}},
	}
}

// hashes measures what each hash costs, and what rate of false positives a filter has
// that is made with it: 9.585 bits a key, the textbook's size for 1 %, and 7 positions.
func (p plan) hashes(r *record.Writer) {
	n := p.hashed
	r.Say("hashes of %d strings", n)
	added, absent := stringsAsBytes(0, n), stringsAsBytes(n, p.absent)
	all := hashFuncs()
	rates := make([]float64, len(all))
	for i, h := range all {
		rates[i] = h.rate(added, absent)
	}
	p.rounds(len(all), func(i int) {
		runtime.GC()
		s := record.Counted(func() (ops int, elapsed time.Duration) {
			var x uint64
			start := time.Now()
			for elapsed < p.time {
				for _, key := range added {
					h1, h2 := all[i].sum(key)
					x ^= h1 ^ h2
				}
				ops += n
				elapsed = time.Since(start)
			}
			runtime.KeepAlive(x)
			return ops, elapsed
		})
		r.Record("Hash/fn="+all[i].name+"/n="+short(n), s.Ops,
			s.Values(benchfmt.Value{Value: rates[i], Unit: "fp-rate"})...)
	})
}

// rate adds keys to a filter and asks it for others.
func (h hashFunc) rate(added, absent [][]byte) float64 {
	const k = 7
	m := uint64(len(added)) * 9585 / 1000
	set := make([]bool, m)
	for _, key := range added {
		h1, h2 := h.sum(key)
		for i := range uint64(k) {
			set[(h1+i*h2+i*i)%m] = true
		}
	}
	wrong := 0
	for _, key := range absent {
		h1, h2 := h.sum(key)
		all := true
		for i := range uint64(k) {
			all = all && set[(h1+i*h2+i*i)%m]
		}
		if all {
			wrong++
		}
	}
	return float64(wrong) / float64(len(absent))
}

// stringsAsBytes are string keys with consecutive ids, as bytes.
func stringsAsBytes(from, count int) [][]byte {
	keys := newKeySet(formString, count, func(j uint64) uint64 { return uint64(from) + j })
	b := make([][]byte, count)
	for i, s := range keys.strings {
		b[i] = []byte(s)
	}
	return b
}
