package rolling

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/redbloom-go/bloom"
)

// Lookups and adds in full buckets, by how many are live, beside a bloom.Concurrent for as many keys
// as one bucket. clock=none is a Now that costs nothing, to tell what reading the
// system's costs.
func BenchmarkRotating(b *testing.B) {
	const input = 1 << 16
	var hits, misses [input][16]byte
	fill := func(key *[16]byte, i uint64) {
		binary.LittleEndian.PutUint64(key[:], i*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(key[8:], i)
	}
	run := func(name string, keys *[input][16]byte, ask func([]byte) bool) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i, yes := 0, 0
			for b.Loop() {
				if ask(keys[i%input][:]) {
					yes++
				}
				i++
			}
			b.ReportMetric(float64(yes)/float64(b.N), "yes/op")
		})
	}
	for _, n := range []uint64{1e4, 1e6} {
		all := uint64(0)
		for _, keep := range []int{2, 4, 8} {
			for _, clock := range []string{"system", "none"} {
				o := RotatingOptions{Span: time.Hour, Keep: keep}
				if clock == "none" {
					start := time.Now()
					o.Now = func() time.Time { return start }
				}
				r := bloom.Must(NewRotating(n, 0.01, o))
				all = 0
				for range keep {
					r.Rotate()
					for range n {
						fill(&hits[0], all)
						r.Add(hits[0][:])
						all++
					}
				}
				for i := range hits {
					fill(&hits[i], (uint64(i)*0x9e3779b97f4a7c15)%all)
					fill(&misses[i], 1<<40+uint64(i))
				}
				at := fmt.Sprintf("/keep=%d/clock=%s/n=%.0e", keep, clock, float64(n))
				run("op=hit"+at, &hits, r.Contains)
				run("op=miss"+at, &misses, r.Contains)
				run("op=readd"+at, &hits, r.Add)
			}
		}
		c := bloom.Must(bloom.NewConcurrent(n, 0.01))
		for i := range n {
			fill(&hits[0], i)
			c.Add(hits[0][:])
		}
		for i := range hits {
			fill(&hits[i], (uint64(i)*0x9e3779b97f4a7c15)%n)
		}
		at := fmt.Sprintf("/impl=Concurrent/n=%.0e", float64(n))
		run("op=hit"+at, &hits, c.Contains)
		run("op=miss"+at, &misses, c.Contains)
		run("op=readd"+at, &hits, c.Add)
	}
}

// What the add that rotates pays: making one bucket.
func BenchmarkRotate(b *testing.B) {
	for _, n := range []uint64{1e4, 1e6, 1e7} {
		b.Run(fmt.Sprintf("n=%.0e", float64(n)), func(b *testing.B) {
			r := bloom.Must(NewRotating(n, 0.01, RotatingOptions{Span: time.Hour, Keep: 4}))
			b.SetBytes(int64(r.SizeBytes() / 5))
			b.ReportAllocs()
			for b.Loop() {
				r.Rotate()
			}
		})
	}
}
