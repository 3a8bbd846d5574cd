package guard

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/redbloom-go/bloom"
)

// benchGuard has a filter of the even numbers from 0, n of them.
func benchGuard[K comparable](b *testing.B, n int, change func(*Options[K, string]), key func(int) K) *Guard[K, string] {
	b.Helper()
	o := Options[K, string]{
		Loader:   LoaderFunc[K, string](func(context.Context, K) (string, error) { return "", ErrNotFound }),
		Capacity: uint64(n),
	}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := g.Rebuild(b.Context(), evens(n, key), RebuildOptions[K]{}); err != nil {
		b.Fatal(err)
	}
	return g
}

func evens[K any](n int, key func(int) K) Scan[K] {
	return func(context.Context, time.Time) iter.Seq2[K, error] {
		return func(yield func(K, error) bool) {
			for i := range n {
				if !yield(key(2*i), nil) {
					return
				}
			}
		}
	}
}

// rejectedKeys are odd numbers that the filter rejects, in an order far from that of their making.
func rejectedKeys[K comparable](b *testing.B, g *Guard[K, string], key func(int) K) []K {
	const keys = 1 << 16
	ks := make([]K, 0, keys)
	for i := 0; len(ks) < keys; i++ {
		if k := key(2*(i*7919%100_000_007) + 1); g.Check(b.Context(), k) == Absent {
			ks = append(ks, k)
		}
	}
	return ks
}

func integer(i int) int64 { return int64(i) }
func word(i int) string   { return fmt.Sprintf("user:%012d", i) }
func array(i int) (a [16]byte) {
	copy(a[:], fmt.Sprintf("%016d", i))
	return a
}

func BenchmarkRejectedGet(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("key=int64/n=%d", n), func(b *testing.B) { benchRejected(b, n, nil, integer) })
	}
	const n = 1_000_000
	b.Run("key=string/n=1000000", func(b *testing.B) { benchRejected(b, n, nil, word) })
	b.Run("key=array16/n=1000000", func(b *testing.B) { benchRejected(b, n, nil, array) })
	b.Run("key=int64/n=1000000/scheme=Murmur3", func(b *testing.B) {
		benchRejected(b, n, func(o *Options[int64, string]) { o.Hash = []bloom.Option{} }, integer)
	})
	for _, kind := range []Kind{Blocked, Scalable} {
		b.Run("key=int64/n=1000000/kind="+kind.String(), func(b *testing.B) {
			benchRejected(b, n, func(o *Options[int64, string]) { o.Kind = kind }, integer)
		})
	}
	b.Run("key=int64/n=1000000/Check", func(b *testing.B) {
		g := benchGuard(b, n, nil, integer)
		ks := rejectedKeys(b, g, integer)
		ctx, i := b.Context(), 0
		for b.Loop() {
			g.Check(ctx, ks[i%len(ks)])
			i++
		}
	})
}

func benchRejected[K comparable](b *testing.B, n int, change func(*Options[K, string]), key func(int) K) {
	g := benchGuard(b, n, change, key)
	ks := rejectedKeys(b, g, key)
	ctx, i := b.Context(), 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Get(ctx, ks[i%len(ks)]); err != ErrAbsent {
			b.Fatal(err)
		}
		i++
	}
}

// Times of rejections, one by one, before a rebuild, while one after the other runs, and after. The clock's own
// time, some tens of nanoseconds, is in all of them.
func BenchmarkRebuildLatency(b *testing.B) {
	for _, n := range []int{1_000_000, 10_000_000} {
		g := benchGuard(b, n, nil, integer)
		ks := rejectedKeys(b, g, integer)
		for _, phase := range []string{"before", "during", "after"} {
			b.Run(fmt.Sprintf("n=%d/%s", n, phase), func(b *testing.B) {
				ctx, cancel := context.WithCancel(b.Context())
				var wg sync.WaitGroup
				rebuilds := 0
				if phase == "during" {
					wg.Go(func() {
						for ctx.Err() == nil {
							if _, err := g.Rebuild(ctx, evens(n, integer), RebuildOptions[int64]{Capacity: uint64(n)}); err == nil {
								rebuilds++
							}
						}
					})
				}
				var took [1 << 16]int // by nanoseconds; the last is for all that are longer
				for i := 0; b.Loop(); i++ {
					start := time.Now()
					_, err := g.Get(ctx, ks[i%len(ks)])
					took[min(int(time.Since(start)), len(took)-1)]++
					if err != ErrAbsent && err != ErrNotFound { // a new filter has other false positives
						b.Fatal(err)
					}
				}
				cancel()
				wg.Wait()
				for _, q := range []float64{0.5, 0.99, 0.999} {
					left := int(q * float64(b.N))
					for ns, count := range took {
						if left -= count; left < 0 {
							b.ReportMetric(float64(ns), fmt.Sprintf("p%v-ns", 100*q))
							break
						}
					}
				}
				b.ReportMetric(float64(rebuilds), "rebuilds")
			})
		}
	}
}

func BenchmarkRejectedGetParallel(b *testing.B) {
	g := benchGuard(b, 1_000_000, nil, integer)
	ks := rejectedKeys(b, g, integer)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for i := 0; pb.Next(); i++ {
			if _, err := g.Get(ctx, ks[i%len(ks)]); err != ErrAbsent {
				b.Error(err)
			}
		}
	})
}

// Marks without and with a load of the key under way.
func BenchmarkMarkCreated(b *testing.B) {
	g := benchGuard(b, 1_000_000, nil, integer)
	ctx, i := b.Context(), 0
	b.Run("quiet", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := g.MarkCreated(ctx, int64(i)); err != nil {
				b.Fatal(err)
			}
			i++
		}
	})
}

func BenchmarkSnapshot(b *testing.B) {
	g := benchGuard(b, 10_000_000, func(o *Options[int64, string]) { o.Key = testKey }, integer)
	var snapshot bytes.Buffer
	if err := g.Snapshot(&snapshot); err != nil {
		b.Fatal(err)
	}
	nothing := evens(0, integer)
	b.Run("Snapshot", func(b *testing.B) {
		b.SetBytes(int64(snapshot.Len()))
		for b.Loop() {
			if err := g.Snapshot(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Restore", func(b *testing.B) {
		b.SetBytes(int64(snapshot.Len()))
		for b.Loop() {
			if _, err := g.Restore(b.Context(), bytes.NewReader(snapshot.Bytes()), nothing); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkHit(b *testing.B) {
	g := benchGuard(b, 1_000_000, func(o *Options[int64, string]) {
		o.Loader = LoaderFunc[int64, string](func(context.Context, int64) (string, error) { return "row", nil })
	}, integer)
	ctx, i := b.Context(), 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Get(ctx, int64(2*(i%4096))); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkLoad(b *testing.B) {
	g := benchGuard(b, 1_000_000, func(o *Options[int64, string]) {
		o.Loader = LoaderFunc[int64, string](func(context.Context, int64) (string, error) { return "row", nil })
	}, integer)
	ctx, i := b.Context(), 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := g.Get(ctx, int64(2*(i%1_000_000))); err != nil {
			b.Fatal(err)
		}
		i += 7919
	}
}

func BenchmarkMemory(b *testing.B) {
	ctx := context.Background()
	for _, goroutines := range []int{1, 2} {
		b.Run(fmt.Sprintf("get/goroutines=%d", goroutines), func(b *testing.B) {
			m := NewMemory[int, string](100_000)
			for k := range 50_000 {
				_ = m.Set(ctx, k, Entry[string]{Value: "row"}, time.Hour)
			}
			var wg sync.WaitGroup
			for w := range goroutines {
				wg.Go(func() {
					for i := range b.N / goroutines {
						_, _, _ = m.Get(ctx, (i*7919+w)%50_000)
					}
				})
			}
			wg.Wait()
		})
	}
}

// A scan of n keys in several parts. Work is what reading a row costs beside, in hashes of 64 bytes of some 20 ns; a
// driver of a database takes hundreds of nanoseconds a row.
func BenchmarkScanInParts(b *testing.B) {
	row := make([]byte, 64)
	for _, n := range []int{1_000_000, 10_000_000} {
		for _, work := range []int{0, 50} {
			for _, parts := range []int{1, 2} {
				b.Run(fmt.Sprintf("n=%d/work=%d/parts=%d", n, work, parts), func(b *testing.B) {
					var scans []Scan[int]
					for i := range parts {
						scans = append(scans, func(context.Context, time.Time) iter.Seq2[int, error] {
							return func(yield func(int, error) bool) {
								for k := i; k < n; k += parts {
									for range work {
										crc32.Update(0, castagnoli, row)
									}
									if !yield(k, nil) {
										return
									}
								}
							}
						})
					}
					g := newGuard(b, newDatabase(), func(o *options) { o.Capacity, o.ErrorRate = uint64(n), 0.01 })
					for b.Loop() {
						if _, err := g.Rebuild(b.Context(), nil, RebuildOptions[int]{Scans: scans}); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
				})
			}
		}
	}
}
