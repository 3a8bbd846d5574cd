package rolling

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/redbloom-go/bloom"
)

// deleter is one of the ways to delete from a filter, ready for use by several goroutines.
type deleter struct {
	add, contains, delete func(key uint64) bool
	sizeBytes             func() uint64
}

const (
	deleteKeys      = 1_000_000
	deletedKeys     = 100_000 // that an overlay holds
	deleteRate      = 0.01
	deleteKeep      = 4
	deleteBenchName = "/n=1e6"
)

func lockedDeleter[F any](f F, add, contains, remove func(F, uint64) bool, size func(F) uint64) deleter {
	l := bloom.NewLocked(f)
	write := func(do func(F, uint64) bool) func(uint64) bool {
		return func(key uint64) (yes bool) {
			l.Write(func(f F) { yes = do(f, key) })
			return yes
		}
	}
	return deleter{
		add:    write(add),
		delete: write(remove),
		contains: func(key uint64) (yes bool) {
			l.Read(func(f F) { yes = contains(f, key) })
			return yes
		},
		sizeBytes: func() uint64 { return size(f) },
	}
}

var deleters = []struct {
	name string
	make func() deleter
}{
	{"rebuild", func() deleter {
		s := NewSwap(bloom.Must(bloom.NewConcurrent(deleteKeys, deleteRate)))
		return deleter{
			add: func(key uint64) (yes bool) {
				_ = s.Write(func(f *bloom.Concurrent) error { yes = f.AddUint64(key); return nil })
				return yes
			},
			contains: func(key uint64) bool {
				f, ok := s.Load()
				return !ok || f.ContainsUint64(key)
			},
			sizeBytes: func() uint64 { f, _ := s.Load(); return f.SizeBytes() },
		}
	}},
	{"overlay", func() deleter {
		o := NewOverlay[uint64, *bloom.Concurrent](deleteKeys+deletedKeys, 0)
		f := bloom.Must(bloom.NewConcurrent(deleteKeys, deleteRate))
		if err := o.Rebuild(context.Background(), f, func(context.Context) error { return nil }); err != nil {
			panic(err)
		}
		for key := range uint64(deletedKeys) { // of keys that nobody asks for
			o.Delete(1<<60 + key)
		}
		return deleter{
			add: func(key uint64) (yes bool) {
				_ = o.Add(key, func(f *bloom.Concurrent) error { yes = f.AddUint64(key); return nil })
				return yes
			},
			contains: func(key uint64) bool {
				return o.Contains(key, func(f *bloom.Concurrent) bool { return f.ContainsUint64(key) })
			},
			delete:    o.Delete,
			sizeBytes: f.SizeBytes,
		}
	}},
	{"counting", func() deleter {
		return lockedDeleter(bloom.Must(bloom.NewCounting(deleteKeys, deleteRate)),
			(*bloom.Counting).AddUint64, (*bloom.Counting).ContainsUint64, (*bloom.Counting).RemoveUint64, (*bloom.Counting).SizeBytes)
	}},
	{"cuckoo", func() deleter {
		return lockedDeleter(bloom.Must(bloom.NewCuckoo(deleteKeys, deleteRate)),
			func(c *bloom.Cuckoo, key uint64) bool { return bloom.Must(c.AddUint64(key)) },
			(*bloom.Cuckoo).ContainsUint64, (*bloom.Cuckoo).RemoveUint64, (*bloom.Cuckoo).SizeBytes)
	}},
	{"buckets", func() deleter {
		r := bloom.Must(NewRotating(deleteKeys/deleteKeep, deleteRate, RotatingOptions{Span: time.Hour, Keep: deleteKeep}))
		n := 0
		return deleter{
			add: func(key uint64) bool {
				if n > 0 && n%(deleteKeys/deleteKeep) == 0 {
					r.Rotate()
				}
				n++
				return r.AddUint64(key)
			},
			contains:  r.ContainsUint64,
			sizeBytes: r.SizeBytes,
		}
	}},
}

// The figures of docs/DELETING.md: a million keys at 1 %, four full buckets in the case of time.
// While it is asked the overlay holds 100,000 deletions. op=delete is one of a million, on the way from
// all keys to none.
func BenchmarkDeleting(b *testing.B) {
	for _, d := range deleters {
		f := d.make()
		for key := range uint64(deleteKeys) {
			f.add(key)
		}
		run := func(op string, do func(key uint64) bool) {
			b.Run("op="+op+"/impl="+d.name+deleteBenchName, func(b *testing.B) {
				b.ReportAllocs()
				i, yes := uint64(0), 0
				for b.Loop() {
					if do(i * 0x9e3779b97f4a7c15) {
						yes++
					}
					i++
				}
				b.ReportMetric(float64(yes)/float64(b.N), "yes/op")
				b.ReportMetric(float64(f.sizeBytes()*8)/deleteKeys, "bits/key")
			})
		}
		run("hit", func(x uint64) bool { return f.contains(x % deleteKeys) })
		run("miss", func(x uint64) bool { return f.contains(x | 1<<32) })
		if f.delete == nil {
			continue
		}
		b.Run("op=delete/impl="+d.name+deleteBenchName, func(b *testing.B) {
			b.ReportAllocs()
			key := uint64(0)
			for b.Loop() {
				f.delete(key)
				if key++; key == deleteKeys {
					b.StopTimer()
					for key := range uint64(deleteKeys) {
						f.add(key)
					}
					b.StartTimer()
					key = 0
				}
			}
		})
	}
}

// What a rebuild costs a key that is left, reading the keys themselves for nothing.
func BenchmarkDeletingRebuild(b *testing.B) {
	s := NewSwap(bloom.Must(bloom.NewConcurrent(deleteKeys, deleteRate)))
	for b.Loop() {
		f := bloom.Must(bloom.NewConcurrent(deleteKeys, deleteRate))
		if err := s.Rebuild(context.Background(), f, func(context.Context) error {
			for key := range uint64(deleteKeys) {
				f.AddUint64(key)
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deleteKeys, "ns/key")
}

// The memory of a deletion in an overlay.
func BenchmarkDeletingMemory(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := heap()
		numbers := NewOverlay[uint64, *bloom.Concurrent](deletedKeys, 0)
		for key := range uint64(deletedKeys) {
			numbers.Delete(key)
		}
		b.ReportMetric(float64(heap()-before)/deletedKeys, "B/uint64")
		before = heap()
		texts := NewOverlay[string, *bloom.Concurrent](deletedKeys, 0)
		buf := make([]byte, 16)
		for key := range uint64(deletedKeys) {
			buf[0], buf[1], buf[2] = byte(key), byte(key>>8), byte(key>>16)
			texts.Delete(string(buf))
		}
		b.ReportMetric(float64(heap()-before)/deletedKeys, "B/string16")
		runtime.KeepAlive(numbers)
		runtime.KeepAlive(texts)
	}
}
