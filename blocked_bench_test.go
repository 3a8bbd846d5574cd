package bloom

import (
	"fmt"
	"testing"
)

// As BenchmarkFilter, with 16-byte keys. Batches are of 64 keys, and the figures per key.
func BenchmarkBlocked(b *testing.B) {
	const part = 64
	for _, size := range benchSizes {
		if size.n > 1e6 && testing.Short() {
			continue
		}
		hits, misses := newBenchInput(0, size.n, benchKeys), newBenchInput(size.n, 1<<40, benchKeys)
		for _, s := range blockedSchemes {
			f := Must(NewBlocked(size.n, benchRate, withScheme(s)))
			var key [16]byte
			for i := range size.n {
				putKey(key[:], i)
				f.Add(key[:])
			}
			for _, op := range []struct {
				name string
				in   *benchInput
				ask  func([]byte) bool
				many func([]bool, [][]byte) []bool
			}{
				{"hit", &hits, f.Contains, f.ContainsMany},
				{"miss", &misses, f.Contains, f.ContainsMany},
				{"readd", &hits, f.Add, f.AddMany},
			} {
				name := fmt.Sprintf("op=%s/scheme=%v/n=%s", op.name, s, size.name)
				b.Run(name+"/batch=1", func(b *testing.B) {
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						op.ask(op.in.bytes[i%benchKeys])
					}
					b.ReportMetric(float64(f.Bits())/float64(size.n), "bits/key")
				})
				b.Run(fmt.Sprintf("%s/batch=%d", name, part), func(b *testing.B) {
					b.ReportAllocs()
					dst := make([]bool, 0, part)
					for i := 0; i < b.N; i += part {
						op.many(dst, op.in.bytes[i%benchKeys:][:min(part, b.N-i)])
					}
				})
			}
		}
	}
}
