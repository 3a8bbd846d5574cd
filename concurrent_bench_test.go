package bloom

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// Each operation by as many goroutines as -cpu says, beside a Filter that is only read,
// and one in Locked. The figures are time per operation of all of them together.
func BenchmarkConcurrent(b *testing.B) {
	for _, size := range benchSizes {
		if size.n > 1e6 {
			continue
		}
		f := benchFilter(Murmur3, size.n, "bytes16")
		c, l := f.Concurrent(), NewLocked(f.Clone())
		hits, misses := newBenchInput(0, size.n, benchKeys), newBenchInput(size.n, 1<<40, benchKeys)
		locked := func(key []byte) (yes bool) {
			l.Read(func(f *Filter) { yes = f.Contains(key) })
			return yes
		}
		for _, op := range []struct {
			name, impl string
			in         *benchInput
			ask        func([]byte) bool
		}{
			{"hit", "Concurrent", &hits, c.Contains},
			{"hit", "Filter", &hits, f.Contains},
			{"hit", "Locked", &hits, locked},
			{"miss", "Concurrent", &misses, c.Contains},
			{"miss", "Filter", &misses, f.Contains},
			{"miss", "Locked", &misses, locked},
			{"readd", "Concurrent", &hits, c.Add},
			{"readd", "Locked", &hits, func(key []byte) (yes bool) {
				l.Write(func(f *Filter) { yes = f.Add(key) })
				return yes
			}},
		} {
			b.Run(fmt.Sprintf("op=%s/impl=%s/n=%s", op.name, op.impl, size.name), func(b *testing.B) {
				b.ReportAllocs()
				var start atomic.Uint64
				b.RunParallel(func(pb *testing.PB) {
					for i := start.Add(benchKeys / 16); pb.Next(); i++ {
						op.ask(op.in.bytes[i%benchKeys])
					}
				})
			})
		}
	}
}
