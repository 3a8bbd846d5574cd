package migrate

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	spaolacci "github.com/spaolacci/murmur3"
	"github.com/stretchr/testify/require"
)

// decoder is what both kinds of filter have.
type decoder interface {
	UnmarshalBinary([]byte) error
	ReadFrom(io.Reader) (int64, error)
	Contains([]byte) bool
	ContainsString(string) bool
	Bits() uint64
	Hashes() int
	SizeBytes() uint64
	FillRatio() float64
	EstimateLen() float64
	ErrorRate() float64
}

// format is a kind of filter, with what the tests know of it.
type format struct {
	name   string
	new    func() decoder
	header int
	// positions are those of a key, by the formula in docs/MIGRATE.md and another MurmurHash3.
	positions func(key []byte, m uint64, k int) []uint64
	// encode makes a record of words.
	encode func(words []uint64, m uint64, k int) []byte
}

var formats = []format{
	{"bitsandblooms", func() decoder { return new(BitsAndBlooms) }, 24, bitsAndBloomsPositions, func(words []uint64, m uint64, k int) []byte {
		b := binary.BigEndian.AppendUint64(nil, m)
		b = binary.BigEndian.AppendUint64(b, uint64(k))
		return appendWords(binary.BigEndian.AppendUint64(b, m), words)
	}},
	{"guava", func() decoder { return new(Guava) }, 6, guava64Positions, encodeGuava(mitz64)},
	{"guava", func() decoder { return new(Guava) }, 6, guava32Positions, encodeGuava(mitz32)},
}

func encodeGuava(strategy byte) func([]uint64, uint64, int) []byte {
	return func(words []uint64, _ uint64, k int) []byte {
		return appendWords(binary.BigEndian.AppendUint32([]byte{strategy, byte(k)}, uint32(len(words))), words)
	}
}

func appendWords(b []byte, words []uint64) []byte {
	for _, w := range words {
		b = binary.BigEndian.AppendUint64(b, w)
	}
	return b
}

// sum128 is MurmurHash3. The other implementation reads words in the order of the machine, so that on
// big-endian ones it is none; there the fixtures have to do, which the originals made.
func sum128(key []byte) (h1, h2 uint64) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return spaolacci.Sum128(key)
	}
	return murmur.Digest(key).Words()
}

func bitsAndBloomsPositions(key []byte, m uint64, k int) (p []uint64) {
	a, b := sum128(key)
	c, d := sum128(append(bytes.Clone(key), 1))
	for i := range uint64(k) {
		switch i % 4 {
		case 0:
			p = append(p, (a+i*c)%m)
		case 1:
			p = append(p, (b+i*d)%m)
		case 2:
			p = append(p, (a+i*d)%m)
		case 3:
			p = append(p, (b+i*c)%m)
		}
	}
	return p
}

func guava64Positions(key []byte, m uint64, k int) (p []uint64) {
	a, b := sum128(key)
	for i := range uint64(k) {
		p = append(p, (a+i*b)%(1<<63)%m)
	}
	return p
}

func guava32Positions(key []byte, m uint64, k int) (p []uint64) {
	h, _ := sum128(key)
	a, b := int32(h), int32(h>>32)
	for i := range int32(k) {
		x := a + (i+1)*b
		if x < 0 {
			x = -x - 1
		}
		p = append(p, uint64(x)%m)
	}
	return p
}

// build makes a record of a filter that holds keys.
func (f *format) build(m uint64, k int, keys [][]byte) []byte {
	words := make([]uint64, (m+63)/64)
	for _, key := range keys {
		for _, p := range f.positions(key, m, k) {
			words[p/64] |= 1 << (p % 64)
		}
	}
	return f.encode(words, m, k)
}

// bit is bit i of a record in big-endian words.
func (f *format) bit(record []byte, i uint64) bool {
	return record[uint64(f.header)+i/64*8+7-i%64/8]>>(i%8)&1 != 0
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func randomKeys(r *rand.Rand, n, length int) [][]byte {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = make([]byte, r.IntN(length))
		for j := range keys[i] {
			keys[i][j] = byte(r.Uint32())
		}
	}
	return keys
}

// records are the fixtures of a format, as it is written by default.
func records(t testing.TB, format string) [][]byte {
	files, err := filepath.Glob(filepath.Join("testdata", format, "*.bin"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	var list [][]byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		list = append(list, data)
	}
	return list
}

// life is a filter of the fixtures and what its original answered: testdata/README.md.
type life struct {
	Name, Keys, Strategy    string
	Bits                    uint64
	Hashes, Present, Absent int
	Positive                []int
	Count                   uint64
	Rate                    float64
}

func lives(t *testing.T, format string) []life {
	text, err := os.ReadFile(filepath.Join("testdata", format, "answers.json"))
	require.NoError(t, err)
	var list []life
	require.NoError(t, json.Unmarshal(text, &list))
	require.Len(t, list, len(records(t, format)))
	return list
}

func (l life) read(t *testing.T, format, suffix string) []byte {
	data, err := os.ReadFile(filepath.Join("testdata", format, l.Name+suffix))
	require.NoError(t, err)
	return data
}

// same asks all that the original was asked.
func (l life) same(t *testing.T, ask func(i int) bool) {
	require.GreaterOrEqual(t, l.Absent, 1000, l.Name)
	for i := range l.Present {
		require.True(t, ask(i), "%s: key %d is in it", l.Name, i)
	}
	positive := l.Positive
	for i := l.Present; i < l.Present+l.Absent; i++ {
		want := len(positive) > 0 && positive[0] == i
		if want {
			positive = positive[1:]
		}
		if ask(i) != want {
			require.Equal(t, want, !want, "%s: key %d", l.Name, i)
		}
	}
	require.Empty(t, positive)
}

// bytesKey is key i of the fixtures with keys of bytes.
func bytesKey(i int) []byte {
	if i == 0 {
		return nil
	}
	key := binary.LittleEndian.AppendUint32(nil, uint32(i))
	for j := 4; j < 4+i%37; j++ {
		key = append(key, byte(131*j+7))
	}
	return key
}

// What the formulas say, for filters of all sizes and keys of all lengths.
func TestFormula(t *testing.T) {
	r := newRand(81)
	for _, f := range formats {
		for range 300 {
			m := r.Uint64N(1<<r.IntN(14)) + 1
			if f.name == "guava" {
				m = (m + 63) / 64 * 64
			}
			k := 1 + r.IntN(1<<r.IntN(8))
			keys := randomKeys(r, 1+int(m)*r.IntN(3)/k/2, 300)
			record := f.build(m, k, keys)
			d := f.new()
			require.NoError(t, d.UnmarshalBinary(record))
			require.Equal(t, m, d.Bits())
			require.Equal(t, k, d.Hashes())
			for _, key := range keys {
				require.True(t, d.Contains(key))
				require.True(t, d.ContainsString(string(key)))
			}
			for _, key := range randomKeys(r, 100, 40) {
				want := true
				for _, p := range f.positions(key, m, k) {
					want = want && f.bit(record, p)
				}
				require.Equal(t, want, d.Contains(key), "m %d, k %d, key %x", m, k, key)
				require.Equal(t, want, d.ContainsString(string(key)))
			}
		}
	}
}

// The bytes behind a key do not matter, and are left alone.
func TestNeighboursOfAKey(t *testing.T) {
	for _, f := range formats {
		key := bytes.Repeat([]byte{5}, 40)
		for n := range key {
			d := f.new()
			require.NoError(t, d.UnmarshalBinary(f.build(1024, 9, [][]byte{key[:n]})))
			require.True(t, d.Contains(key[:n]))
			require.True(t, d.Contains(bytes.Clone(key[:n])))
			require.True(t, d.Contains(append(bytes.Clone(key[:n]), 0, 0, 0)[:n]))
			require.Equal(t, bytes.Repeat([]byte{5}, 40), key)
		}
		d := f.new()
		require.NoError(t, d.UnmarshalBinary(f.build(1024, 9, [][]byte{nil})))
		require.True(t, d.Contains(nil) && d.Contains([]byte{}) && d.ContainsString(""))
	}
}

func TestZeroValues(t *testing.T) {
	for _, f := range formats {
		d := f.new()
		require.False(t, d.Contains([]byte("a")) || d.ContainsString("a") || d.Contains(nil))
		require.Zero(t, d.Bits()+d.SizeBytes()+uint64(d.Hashes()))
		require.Zero(t, d.FillRatio()+d.EstimateLen()+d.ErrorRate())
	}
	var g Guava
	require.False(t, g.ContainsUint64(0) || g.ContainsInt32(0) || g.ContainsUTF16(""))
}

func TestFullFilters(t *testing.T) {
	for _, f := range formats {
		d := f.new()
		require.NoError(t, d.UnmarshalBinary(f.encode([]uint64{math.MaxUint64}, 64, 3)))
		require.True(t, d.Contains([]byte("a")))
		require.Equal(t, 1.0, d.FillRatio())
		require.Equal(t, 1.0, d.ErrorRate())
		require.True(t, math.IsInf(d.EstimateLen(), 1))
	}
}

// raceDetector reports whether the tests were built with -race.
var raceDetector = func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}()

func TestNoAllocations(t *testing.T) {
	short, long := bytes.Repeat([]byte("a"), 16), bytes.Repeat([]byte("a"), 1000)
	for _, f := range formats {
		d := f.new()
		require.NoError(t, d.UnmarshalBinary(f.build(10_000, 7, [][]byte{short, long})))
		shortString, longString := string(short), string(long)
		g, _ := d.(*Guava)
		for name, op := range map[string]func(){
			"Contains":             func() { d.Contains(short) },
			"Contains, long":       func() { d.Contains(long) },
			"ContainsString":       func() { d.ContainsString(shortString) },
			"ContainsString, long": func() { d.ContainsString(longString) },
			"ContainsUTF16":        func() { _ = g != nil && g.ContainsUTF16(shortString) },
			"ContainsUTF16, long":  func() { _ = g != nil && g.ContainsUTF16(longString) },
			"ContainsUint64":       func() { _ = g != nil && g.ContainsUint64(7) },
			"ContainsInt32":        func() { _ = g != nil && g.ContainsInt32(7) },
		} {
			if raceDetector && strings.HasSuffix(name, "long") {
				continue // there sync.Pool drops buffers at random
			}
			require.Zero(t, testing.AllocsPerRun(1000, op), "%s %s", f.name, name)
		}
	}
}

func TestManyReaders(t *testing.T) {
	r := newRand(82)
	for _, f := range formats {
		keys := randomKeys(r, 500, 300)
		d := f.new()
		require.NoError(t, d.UnmarshalBinary(f.build(6400, 7, keys)))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					for _, key := range keys {
						if !d.Contains(key) {
							t.Errorf("%x is missing", key)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

// The rate is what is measured or above, by as much as the doc of ErrorRate says, with 5 sigma for
// the number of hits.
func TestErrorRate(t *testing.T) {
	const lookups = 2_000_000
	for _, c := range []struct {
		n       int
		m       uint64
		k       int
		filters int
		most    float64 // ErrorRate over the rate that is measured
	}{
		{1000, 14_400, 10, 4, 1.1}, // 0.1 %
		{10, 192, 13, 400, 8},      // 0.1 % by the textbook, where it knows nothing of double hashing
	} {
		for _, f := range formats {
			r := newRand(83)
			hits, expected, independent := 0.0, 0.0, 0.0
			each := lookups / c.filters
			if testing.Short() {
				each /= 10
			}
			for range c.filters {
				keys := make([][]byte, c.n)
				for i := range keys {
					keys[i] = binary.LittleEndian.AppendUint64(nil, r.Uint64())
				}
				d := f.new()
				require.NoError(t, d.UnmarshalBinary(f.build(c.m, c.k, keys)))
				expected += d.ErrorRate() * float64(each)
				independent += math.Pow(d.FillRatio(), float64(c.k)) * float64(each)
				var key [8]byte
				for range each {
					binary.LittleEndian.PutUint64(key[:], r.Uint64())
					if d.Contains(key[:]) {
						hits++
					}
				}
			}
			sigma := math.Sqrt(expected)
			t.Logf("%s, %d keys: %.0f hits, %.0f expected, %.0f by fill^k", f.name, c.n, hits, expected, independent)
			require.LessOrEqual(t, hits, expected+5*sigma)
			require.GreaterOrEqual(t, hits, expected/c.most-5*sigma)
		}
	}
}
