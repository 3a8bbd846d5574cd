package migrate

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

var errBroken = errors.New("broken")

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Truncations, what follows, and readers of all kinds, for every fixture.
func TestReading(t *testing.T) {
	for _, f := range formats[:2] {
		before := f.build(128, 2, [][]byte{[]byte("before")})
		list := records(t, f.name)
		for _, record := range list {
			d := f.new()
			require.NoError(t, d.UnmarshalBinary(before))
			unchanged := func(err error, want error, format string, args ...any) {
				was := f.new()
				require.NoError(t, was.UnmarshalBinary(before))
				require.ErrorIs(t, err, want, format, args)
				require.Equal(t, was, d)
			}
			for n := range record {
				unchanged(d.UnmarshalBinary(record[:n]), bloom.ErrIncomplete, "%d bytes", n)
				read, err := d.ReadFrom(iotest.HalfReader(bytes.NewReader(record[:n])))
				unchanged(err, bloom.ErrIncomplete, "%d bytes", n)
				require.EqualValues(t, n, read)
				require.Equal(t, n == 0, errors.Is(err, io.EOF))
				require.Equal(t, n > 0, errors.Is(err, io.ErrUnexpectedEOF))

				_, err = d.ReadFrom(io.MultiReader(bytes.NewReader(record[:n]), iotest.ErrReader(fmt.Errorf("wrapped: %w", io.EOF))))
				unchanged(err, bloom.ErrIncomplete, "%d bytes", n)
				require.NotErrorIs(t, err, io.EOF, "that is for the end of a stream of records")

				read, err = d.ReadFrom(io.MultiReader(bytes.NewReader(record[:n]), iotest.ErrReader(errBroken)))
				unchanged(err, errBroken, "%d bytes", n)
				require.NotErrorIs(t, err, bloom.ErrIncomplete)
				require.EqualValues(t, n, read)
			}
			unchanged(d.UnmarshalBinary(append(bytes.Clone(record), 0)), bloom.ErrCorrupt, "a byte more")

			require.NoError(t, d.UnmarshalBinary(record))
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"bytes":    func(r io.Reader) io.Reader { return r },
				"reader":   func(r io.Reader) io.Reader { return struct{ io.Reader }{r} },
				"one byte": iotest.OneByteReader,
				"half":     iotest.HalfReader,
				"data err": iotest.DataErrReader,
			} {
				other := f.new()
				src := bytes.NewReader(append(bytes.Clone(record), "1234"...))
				read, err := other.ReadFrom(wrap(src))
				require.NoError(t, err, name)
				require.EqualValues(t, len(record), read)
				require.Equal(t, d, other, name)
				if name != "data err" { // which reads ahead
					rest, err := io.ReadAll(src)
					require.NoError(t, err)
					require.Equal(t, "1234", string(rest), name)
				}
			}
		}

		stream := bytes.NewReader(bytes.Join(list, nil))
		for _, record := range list {
			d, want := f.new(), f.new()
			_, err := d.ReadFrom(stream)
			require.NoError(t, err)
			require.NoError(t, want.UnmarshalBinary(record))
			require.Equal(t, want, d)
		}
		_, err := f.new().ReadFrom(stream)
		require.ErrorIs(t, err, io.EOF)
	}
}

// A size is a claim until the bytes have come.
func TestForgedSizes(t *testing.T) {
	bigEndian := func(numbers ...uint64) []byte { return appendWords(nil, numbers) }
	for name, c := range map[string]struct {
		f      format
		header []byte
	}{
		"2^47 bits":       {formats[0], bigEndian(1<<47, 7, 1<<47)},
		"2^60 bits":       {formats[0], bigEndian(1<<60, 7, 1<<60)},
		"2^31 - 1 words":  {formats[1], []byte{1, 7, 0x7f, 0xff, 0xff, 0xff}},
		"2^32 - 1 words":  {formats[1], []byte{1, 7, 0xff, 0xff, 0xff, 0xff}},
		"2^27 words":      {formats[1], []byte{0, 7, 0x08, 0, 0, 0}},
		"all bits set":    {formats[0], bytes.Repeat([]byte{0xff}, 24)},
		"2^64 - 1 hashes": {formats[0], bigEndian(64, math.MaxUint64, 64, 0)},
	} {
		for _, received := range []int{0, 1, 8, 100_000, 1 << 20} {
			data := append(bytes.Clone(c.header), make([]byte, received)...)
			for _, r := range []io.Reader{bytes.NewReader(data), struct{ io.Reader }{bytes.NewReader(data)}} {
				d := c.f.new()
				before := allocated()
				_, err := d.ReadFrom(r)
				size := allocated() - before
				require.Error(t, err, name)
				require.LessOrEqual(t, size, uint64(64<<10+4*received), "%s, %d bytes", name, received)
				require.Zero(t, d.Bits())
			}
		}
	}
}

// Whatever bytes come: an error, or the filter that they spell out, at a price in memory that
// follows their number.
func TestMutations(t *testing.T) {
	rounds := 50_000
	if testing.Short() {
		rounds = 3000
	}
	r := newRand(86)
	for _, f := range formats[:2] {
		list := records(t, f.name)
		read := 0
		for range rounds {
			data := bytes.Clone(list[r.IntN(len(list))])
			for range 1 + r.IntN(3) {
				at := r.IntN(len(data))
				if r.IntN(2) == 0 {
					at = r.IntN(min(f.header, len(data)))
				}
				data[at] ^= 1 << r.IntN(8)
			}
			if r.IntN(8) == 0 {
				data = data[:r.IntN(len(data))]
			}
			before := allocated()
			d, err := f.decode(data)
			require.LessOrEqual(t, allocated()-before, uint64(64<<10+4*len(data)))
			if err == nil {
				read++
				f.check(t, d, data)
			}
		}
		require.Greater(t, read, rounds/10, "most mutations of the bits make another filter")
	}
}

func (f *format) decode(data []byte) (decoder, error) {
	d := f.new()
	return d, d.UnmarshalBinary(data)
}

// check holds a filter against the data that it was read from.
func (f *format) check(t *testing.T, d decoder, data []byte) {
	var words []uint64
	switch d := d.(type) {
	case *BitsAndBlooms:
		words = d.words
		require.Equal(t, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, d.m), uint64(d.k)), data[:16])
		if length := binary.BigEndian.Uint64(data[16:]); length == 0 {
			require.Equal(t, uint64(1), d.m)
			words = nil
		} else if length != d.m && length != (d.m+63)/64*64 {
			words = make([]uint64, len(d.words))
			for i, w := range d.words {
				words[i] = bits.ReverseBytes64(w)
			}
		}
	case *Guava:
		words = d.words
		require.Equal(t, encodeGuava(d.strategy)(nil, 0, d.k)[:2], data[:2])
	}
	require.Equal(t, string(appendWords(nil, words)), string(data[f.header:]))
	require.Positive(t, d.Bits())
	require.Positive(t, d.Hashes())
	require.Equal(t, (d.Bits()+63)/64*8, d.SizeBytes())
	require.True(t, d.FillRatio() >= 0 && d.FillRatio() <= 1)
	require.True(t, d.ErrorRate() >= 0 && d.ErrorRate() <= 1)
	require.True(t, d.EstimateLen() >= 0)
	d.Contains(nil)
	d.ContainsString(strings.Repeat("a", 200))
}

// fuzz decodes data by both ways.
func fuzz(f format) func(*testing.T, []byte) {
	return func(t *testing.T, data []byte) {
		d, err := f.decode(data)
		if err == nil {
			f.check(t, d, data)
		}
		other := f.new()
		r := bytes.NewReader(append(bytes.Clone(data), "1234"...))
		read, errFrom := other.ReadFrom(struct{ io.Reader }{r})
		if err == nil {
			require.NoError(t, errFrom)
			require.Equal(t, d, other)
			require.EqualValues(t, len(data), read)
			require.Equal(t, 4, r.Len())
		}
	}
}
