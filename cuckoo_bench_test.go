package bloom

import (
	"fmt"
	"sync"
	"testing"
)

// The names and sizes are those of BenchmarkFilter; the keys have 16 bytes. op=fill
// is an add, on average from an empty filter to one at capacity; op=cycle
// removes a key of a filter at capacity and adds it again.
func BenchmarkCuckoo(b *testing.B) {
	for _, size := range benchSizes {
		if size.n > 1e6 && testing.Short() {
			continue
		}
		for _, scheme := range []Scheme{Murmur3, XXHash, RedisBloom} {
			rate := benchRate
			if scheme == RedisBloom {
				rate = 0
			}
			var key [16]byte
			filter := sync.OnceValue(func() *Cuckoo {
				f := Must(NewCuckoo(size.n, rate, withScheme(scheme)))
				for i := range size.n {
					putKey(key[:], i)
					Must(f.Add(key[:]))
				}
				return f
			})
			hits, misses := newBenchInput(0, size.n, benchKeys), newBenchInput(size.n, 1<<40, benchKeys)
			run := func(op string, in *benchInput, do func(f *Cuckoo, key []byte) bool) {
				b.Run(fmt.Sprintf("op=%s/scheme=%v/n=%s", op, scheme, size.name), func(b *testing.B) {
					f := filter()
					b.ReportAllocs()
					i, yes := 0, 0
					for b.Loop() {
						if do(f, in.bytes[i]) {
							yes++
						}
						if i++; i == benchKeys {
							i = 0
						}
					}
					b.ReportMetric(float64(yes)/float64(b.N), "yes/op")
					b.ReportMetric(float64(f.SizeBytes()*8)/float64(size.n), "bits/key")
				})
			}
			run("hit", &hits, (*Cuckoo).Contains)
			run("miss", &misses, (*Cuckoo).Contains)
			run("cycle", &hits, func(f *Cuckoo, key []byte) bool {
				ok := f.Remove(key)
				Must(f.Add(key))
				return ok
			})
			b.Run(fmt.Sprintf("op=fill/scheme=%v/n=%s", scheme, size.name), func(b *testing.B) {
				f := Must(NewCuckoo(size.n, rate, withScheme(scheme)))
				b.ReportAllocs()
				i := uint64(0)
				for b.Loop() {
					putKey(key[:], i)
					f.Add(key[:])
					if i++; i == size.n {
						b.StopTimer()
						f.Reset()
						b.StartTimer()
						i = 0
					}
				}
			})
		}
	}
}
