package bloom

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// The names are op=/scheme=/n=/key=, so that benchstat -col can pivot on any of
// them. At 1 % a filter takes 1.2 bytes a key: n=1e4 is at home in the first
// levels of cache, n=1e6 in the second or at its edge, n=1e7 in the third, n=1e8 in
// memory.
// docs/TUNING.md says how to read the figures.
var benchSizes = []struct {
	name string
	n    uint64
}{{"1e4", 1e4}, {"1e6", 1e6}, {"1e7", 1e7}, {"1e8", 1e8}}

const benchRate = 0.01

// benchKeys is how many keys a benchmark takes in turn: enough that no predictor
// learns them, and for n=1e8 that the lines they touch do not stay in cache.
const benchKeys = 1 << 20

// putKey writes key i of a benchmark: 16 bytes, the number and a mix of it.
func putKey(dst []byte, i uint64) {
	binary.LittleEndian.PutUint64(dst, i)
	binary.LittleEndian.PutUint64(dst[8:], splitMix64(i))
}

// benchInput is a set of keys to ask for, in the three forms a key has.
type benchInput struct {
	bytes   [][]byte
	strings []string
	uints   []uint64
}

// newBenchInput takes count numbers from the range [from, from+n), in an order that
// is fixed but not sequential.
func newBenchInput(from, n uint64, count int) benchInput {
	in := benchInput{make([][]byte, count), make([]string, count), make([]uint64, count)}
	buf := make([]byte, 16*count)
	for i := range count {
		id := from + splitMix64(uint64(i))%n
		in.bytes[i] = buf[16*i : 16*i+16]
		putKey(in.bytes[i], id)
		in.strings[i] = "user:" + strconv.FormatUint(10_000_000+id, 10)
		in.uints[i] = id
	}
	return in
}

var benchFilters sync.Map // by scheme, n and form

// benchFilter is a filter that holds n keys of a form, made once a process.
func benchFilter(s Scheme, n uint64, form string) *Filter {
	key := fmt.Sprint(s, n, form)
	if f, ok := benchFilters.Load(key); ok {
		return f.(*Filter)
	}
	f := Must(New(n, benchRate, withScheme(s)))
	var b [16]byte
	for i := range n {
		switch form {
		case "bytes16":
			putKey(b[:], i)
			f.Add(b[:])
		case "string":
			f.Add(strconv.AppendUint(append(b[:0], "user:"...), 10_000_000+i, 10))
		case "uint64":
			f.AddUint64(i)
		}
	}
	benchFilters.Store(key, f)
	return f
}

// answerer is a way to ask a filter for key i of an input.
type answerer func(f *Filter, in *benchInput, i int) bool

func benchAsk(b *testing.B, f *Filter, n uint64, in *benchInput, ask answerer) {
	i, yes := 0, 0
	for b.Loop() {
		if ask(f, in, i) {
			yes++
		}
		if i++; i == benchKeys {
			i = 0
		}
	}
	b.ReportMetric(float64(yes)/float64(b.N), "yes/op")
	b.ReportMetric(float64(f.Bits())/float64(n), "bits/key")
}

func BenchmarkFilter(b *testing.B) {
	forms := []struct {
		name     string
		contains answerer
		add      answerer
	}{
		{"bytes16",
			func(f *Filter, in *benchInput, i int) bool { return f.Contains(in.bytes[i]) },
			func(f *Filter, in *benchInput, i int) bool { return f.Add(in.bytes[i]) }},
		{"string",
			func(f *Filter, in *benchInput, i int) bool { return f.ContainsString(in.strings[i]) },
			func(f *Filter, in *benchInput, i int) bool { return f.AddString(in.strings[i]) }},
		{"uint64",
			func(f *Filter, in *benchInput, i int) bool { return f.ContainsUint64(in.uints[i]) },
			func(f *Filter, in *benchInput, i int) bool { return f.AddUint64(in.uints[i]) }},
	}
	for _, size := range benchSizes {
		hits := newBenchInput(0, size.n, benchKeys)
		misses := newBenchInput(size.n, 1<<40, benchKeys)
		for s := range schemeNames {
			scheme := Scheme(s)
			for _, form := range forms {
				if size.n > 1e6 && testing.Short() {
					continue
				}
				run := func(op string, in *benchInput, ask answerer) {
					name := fmt.Sprintf("op=%s/scheme=%v/n=%s/key=%s", op, scheme, size.name, form.name)
					b.Run(name, func(b *testing.B) {
						f := benchFilter(scheme, size.n, form.name)
						b.ReportAllocs()
						benchAsk(b, f, size.n, in, ask)
					})
				}
				run("hit", &hits, form.contains)
				run("miss", &misses, form.contains)
				// Keys that are there already, so that the filter stays as it is.
				run("readd", &hits, form.add)
				b.Run(fmt.Sprintf("op=add/scheme=%v/n=%s/key=%s", scheme, size.name, form.name), func(b *testing.B) {
					f := Must(New(size.n, benchRate, withScheme(scheme)))
					in := newBenchInput(0, 1<<40, benchKeys)
					b.ReportAllocs()
					i, added := 0, uint64(0)
					for b.Loop() {
						form.add(f, &in, i)
						if i++; i == benchKeys {
							i = 0
						}
						// Start again at capacity: a filter that fills up writes less and less.
						if added++; added == size.n {
							b.StopTimer()
							f.Reset()
							b.StartTimer()
							added = 0
						}
					}
				})
			}
		}
	}
}
