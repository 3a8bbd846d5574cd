package migrate

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// A lookup beside one in a filter of package bloom of the same size.
func BenchmarkContains(b *testing.B) {
	const n, m, k = 10_000, 95_872, 7
	present, absent := make([][]byte, n), make([][]byte, n)
	ours := bloom.Must(bloom.NewWithSize(m, k))
	r := newRand(1)
	for i := range present {
		present[i] = binary.LittleEndian.AppendUint64([]byte("present:"), r.Uint64())
		absent[i] = binary.LittleEndian.AppendUint64([]byte("absent::"), r.Uint64())
		ours.Add(present[i])
	}
	filters := []struct {
		name     string
		contains func([]byte) bool
	}{{"bloom", ours.Contains}, {"bitsandblooms", nil}, {"guava64", nil}, {"guava32", nil}}
	for i, f := range formats {
		d := f.new()
		require.NoError(b, d.UnmarshalBinary(f.build(m, k, present)))
		filters[i+1].contains = d.Contains
	}
	for _, op := range []struct {
		name string
		keys [][]byte
	}{{"hit", present}, {"miss", absent}} {
		for _, f := range filters {
			b.Run("op="+op.name+"/impl="+f.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					f.contains(op.keys[i])
					if i++; i == n {
						i = 0
					}
				}
			})
		}
	}
}

// Reading 16 MiB, where the reader tells what it has and where it does not.
func BenchmarkRead(b *testing.B) {
	words := make([]uint64, 16<<20/8)
	for _, f := range formats[:2] {
		data := f.encode(words, uint64(len(words))*64, 7)
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"bytes":  func(r io.Reader) io.Reader { return r },
			"reader": func(r io.Reader) io.Reader { return struct{ io.Reader }{r} },
		} {
			b.Run("format="+f.name+"/from="+name, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					_, err := f.new().ReadFrom(wrap(bytes.NewReader(data)))
					require.NoError(b, err)
				}
			})
		}
	}
}
