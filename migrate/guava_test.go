package migrate

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// text is key i of the fixtures with keys of text.
func text(i int) string {
	if i%2 == 0 {
		return "user:" + strconv.Itoa(i)
	}
	return "ключ 日本 😀 " + strconv.Itoa(i)
}

// composite is what a funnel of its own puts of key i, by every method of PrimitiveSink.
func composite(i int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(le.AppendUint16([]byte{byte(i)}, uint16(i*7)), uint16(i*11))
	b = le.AppendUint64(le.AppendUint32(b, uint32(i)), -uint64(i))
	b = le.AppendUint64(le.AppendUint32(b, math.Float32bits(float32(i)/3)), math.Float64bits(float64(i)/3))
	if i%3 == 0 {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = append(appendUTF16(append(b, bytesKey(i)...), text(i)), text(i)...)
	for _, c := range utf16.Encode([]rune(text(i))) {
		b = binary.BigEndian.AppendUint16(b, c)
	}
	return b
}

// Filters that Guava wrote answer as they answered there.
func TestGuavaFixtures(t *testing.T) {
	for _, l := range lives(t, "guava") {
		data := l.read(t, "guava", ".bin")
		var f Guava
		require.NoError(t, f.UnmarshalBinary(data))
		require.Equal(t, l.Strategy, f.Strategy())
		require.EqualValues(t, len(data)-6, f.SizeBytes())
		require.Equal(t, f.SizeBytes()*8, f.Bits())
		require.EqualValues(t, data[1], f.Hashes())
		require.Equal(t, float64(l.Count), math.Round(f.EstimateLen()), l.Name)
		require.InEpsilon(t, 1+l.Rate, 1+math.Pow(f.FillRatio(), float64(f.Hashes())), 1e-12, l.Name)
		require.GreaterOrEqual(t, f.ErrorRate(), l.Rate, l.Name)

		const odd, odd32 = 0x9e3779b97f4a7c15, 0x9e3779b1
		ask, ok := map[string]func(i int) bool{
			"bytes": func(i int) bool { return f.Contains(bytesKey(i)) },
			"utf8":  func(i int) bool { return f.ContainsString(text(i)) },
			"chars": func(i int) bool { return f.ContainsUTF16(text(i)) },
			"long":  func(i int) bool { return f.ContainsUint64(uint64(i) * odd) },
			"sequence": func(i int) bool {
				return f.Contains(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(i)), -uint64(i)))
			},
			"composite": func(i int) bool { return f.Contains(composite(i)) },
			"int":       func(i int) bool { return f.ContainsInt32(int32(uint32(i) * odd32)) },
		}[l.Keys]
		require.True(t, ok, l.Keys)
		l.same(t, ask)
	}
}

// The forms of a key are the bytes that the docs name.
func TestGuavaForms(t *testing.T) {
	for _, f := range formats[1:] {
		holds := func(key []byte) *Guava {
			var g Guava
			require.NoError(t, g.UnmarshalBinary(f.build(1<<16, 7, [][]byte{key})))
			require.True(t, g.Contains(key))
			return &g
		}
		for _, n := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1 << 40} {
			require.True(t, holds(binary.LittleEndian.AppendUint64(nil, uint64(n))).ContainsUint64(uint64(n)))
		}
		for _, n := range []int32{0, 1, -1, math.MaxInt32, math.MinInt32} {
			require.True(t, holds(binary.LittleEndian.AppendUint32(nil, uint32(n))).ContainsInt32(n))
		}
		g := holds(binary.LittleEndian.AppendUint64(nil, 1))
		require.False(t, g.ContainsInt32(1), "a long is no int")

		long := strings.Repeat("é日😀", 40)
		for _, s := range []string{"", "a", "ÿ", "\u07ff", "\u0800", "\uffff", "\U00010000", "\U0010ffff", long, strings.Repeat("a", shortKey/2), strings.Repeat("a", shortKey/2+1), long[:shortKey/2]} {
			require.True(t, holds([]byte(s)).ContainsString(s))
			var utf16LE []byte
			for _, c := range utf16.Encode([]rune(s)) {
				utf16LE = append(utf16LE, byte(c), byte(c>>8))
			}
			require.True(t, holds(utf16LE).ContainsUTF16(s), "%q", s)
		}
		require.True(t, holds([]byte{0xfd, 0xff}).ContainsUTF16("\xff"), "a byte that is no UTF-8 is U+FFFD")
	}
}

func TestGuavaRefuses(t *testing.T) {
	word := make([]byte, 8)
	for _, c := range []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"strategy 2", append([]byte{2, 7, 0, 0, 0, 1}, word...), bloom.ErrVersion, "strategy 2,"},
		{"strategy -1", append([]byte{0xff, 7, 0, 0, 0, 1}, word...), bloom.ErrVersion, "strategy -1,"},
		{"serialized object", []byte("\xac\xed\x00\x05sr\x00>com.google.common.hash.BloomFilter$SerialForm"), bloom.ErrVersion, "writeTo"},
		{"k = 0", append([]byte{1, 0, 0, 0, 0, 1}, word...), bloom.ErrCorrupt, "0 hashes"},
		{"no words", []byte{1, 7, 0, 0, 0, 0}, bloom.ErrCorrupt, "0 words"},
		{"-1 words", append([]byte{1, 7, 0xff, 0xff, 0xff, 0xff}, word...), bloom.ErrCorrupt, "-1 words"},
	} {
		var f Guava
		err := f.UnmarshalBinary(c.data)
		require.ErrorIs(t, err, c.want, c.name)
		require.ErrorContains(t, err, c.says, c.name)
		require.Zero(t, f)
	}
}

// Sums of 32 bits do not reach the bits past 2^31, so what is set is so of 2^31.
func TestGuavaReach(t *testing.T) {
	require.Equal(t, uint64(1<<31), reach(mitz32, 1<<33))
	require.Equal(t, uint64(1<<33), reach(mitz64, 1<<33))
	require.Equal(t, uint64(64), reach(mitz32, 64))
}

func FuzzGuava(f *testing.F) {
	for _, record := range records(f, "guava") {
		f.Add(record)
	}
	f.Fuzz(fuzz(formats[1]))
}
