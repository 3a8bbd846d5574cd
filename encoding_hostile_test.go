package bloom

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestTruncatedRecords(t *testing.T) {
	for _, w := range writtenFilters(t) {
		data := encode(t, w.filter)
		for n := range data {
			got := fresh(w.filter)
			err := got.UnmarshalBinary(data[:n])
			require.ErrorIs(t, err, ErrIncomplete, "%s, %d bytes", w.name, n)
			_, err = got.ReadFrom(iotest.OneByteReader(bytes.NewReader(data[:n])))
			require.ErrorIs(t, err, ErrIncomplete, "%s, %d bytes", w.name, n)
			require.Equal(t, fresh(w.filter), got)
		}
	}
}

// limitedWriter fails after so many bytes.
type limitedWriter struct{ left int }

func (w *limitedWriter) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	if n < len(b) {
		return n, io.ErrClosedPipe
	}
	return n, nil
}

func TestWritersThatFail(t *testing.T) {
	for _, w := range writtenFilters(t) {
		data := encode(t, w.filter)
		for n := range data {
			wrote, err := w.filter.WriteTo(&limitedWriter{n})
			require.ErrorIs(t, err, io.ErrClosedPipe)
			require.EqualValues(t, n, wrote)
		}
	}
}

// sumAgain makes the checksums of a record right, as far as its header says where they are.
func sumAgain(data []byte) {
	if len(data) < headerUnit {
		return
	}
	size := binary.LittleEndian.Uint64(data[8:])
	if size < headerUnit || size > uint64(len(data)) {
		size = headerUnit
	}
	binary.LittleEndian.PutUint32(data[size-4:], crc32.Checksum(data[:size-4], castagnoli))
	if rest := data[size:]; len(rest) >= 4 {
		binary.LittleEndian.PutUint32(rest[len(rest)-4:], crc32.Checksum(rest[:len(rest)-4], castagnoli))
	}
}

// requireSafe decodes inputs that may be anything. Each is refused, or is a filter that gives the same
// bytes again; and all together take no more memory than one of them may, 64 KiB and four times the input.
func requireSafe(t *testing.T, inputs ...[]byte) {
	type decoded struct {
		filter     any
		err, piped error
	}
	got := make([]decoded, len(inputs))
	least := len(inputs[0])
	before := allocated()
	for i, data := range inputs {
		got[i].filter, got[i].err = readAny(data, knownLength)
		least = min(least, len(data))
	}
	known := allocated()
	for i, data := range inputs {
		_, got[i].piped = readAny(data, unknownLength)
	}
	unknown := allocated() - known
	known -= before
	require.LessOrEqual(t, known, uint64(64<<10+4*least))
	require.LessOrEqual(t, unknown, uint64(64<<10+4*least))
	for i, data := range inputs {
		require.Equal(t, got[i].err == nil, got[i].piped == nil, "%v, %v", got[i].err, got[i].piped)
		if got[i].err != nil {
			continue
		}
		f := got[i].filter.(encodedFilter)
		require.True(t, bytes.HasPrefix(data, encode(t, f)), "another record than it was")
		f.ContainsUint64(1)
		if info := f.Info(); !(info.ErrorRate >= 0 && info.ErrorRate <= 1) {
			t.Fatalf("error rate is %v", info.ErrorRate)
		}
	}
}

// mutateRecord changes some bytes of a record, most of them in the header, and half of the time
// makes its checksums right again.
func mutateRecord(r *rand.Rand, good []byte) (data []byte, summed bool) {
	values := []uint64{0, 1, 63, 64, 1 << 31, 1<<31 - 1, 1 << 32, 1 << 48, 1<<48 + 1, 1 << 60, 1<<63 - 1, math.MaxUint64}
	header := int(binary.LittleEndian.Uint64(good[8:]))
	data = bytes.Clone(good)
	for range 1 + r.IntN(3) {
		at := r.IntN(header)
		switch r.IntN(6) {
		case 0:
			data[at] ^= 1 << r.IntN(8)
		case 1:
			data[at] = byte(r.Uint32())
		case 2:
			binary.LittleEndian.PutUint64(data[at&^7:], values[r.IntN(len(values))])
		case 3:
			binary.LittleEndian.PutUint32(data[at&^3:], uint32(values[r.IntN(len(values))]))
		case 4:
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		case 5:
			data = data[:headerUnit+r.IntN(len(data)-headerUnit)]
			data = append(data, make([]byte, max(0, header+8-len(data)))...)
		}
	}
	if summed = r.IntN(2) == 0; summed {
		sumAgain(data)
	}
	return data, summed
}

func TestMutatedRecords(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 2000
	}
	for _, w := range writtenFilters(t) {
		good := encode(t, w.filter)
		r := newRand(uint64(len(good)))
		refused := 0
		var group [10][]byte
		for i := range count {
			data, summed := mutateRecord(r, good)
			group[i%len(group)] = data
			if _, err := readAny(data, knownLength); err != nil {
				refused++
			} else if !summed {
				require.Equal(t, good, data, "it passes its checksums")
			}
			if i%len(group) == len(group)-1 {
				requireSafe(t, group[:]...)
			}
		}
		require.Greater(t, refused, count/2, w.name)
		require.Less(t, refused, count, "%s: no mutation got past the checks", w.name)
	}
}

// TestForgedRecords are claims whose checksums are right.
func TestForgedRecords(t *testing.T) {
	forge := func(f encodedFilter, change func(header []byte)) []byte {
		data := encode(t, f)
		change(data)
		sumAgain(data)
		return data
	}
	u64 := func(at int, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	u32 := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[at:], v) }
	}
	set := func(at int, v byte) func([]byte) { return func(b []byte) { b[at] = v } }
	f, b := Must(NewWithSize(1000, 3)), Must(NewBlocked(100, 0.01))
	s, c := Must(NewScalable(100, 0.01)), Must(NewCuckoo(100, 0.01))
	for _, test := range []struct {
		name string
		data []byte
		want error
	}{
		{"magic", forge(f, set(0, 0)), ErrCorrupt},
		{"version 0", forge(f, set(4, 0)), ErrVersion},
		{"version 2", forge(f, set(4, 2)), ErrVersion},
		{"kind 0", forge(f, set(5, 0)), ErrVersion},
		{"kind 6", forge(f, set(5, 6)), ErrVersion},
		{"scheme", forge(f, set(6, 200)), ErrVersion},
		{"flags", forge(f, set(7, 2)), ErrVersion},
		{"rate NaN", forge(f, u64(32, math.Float64bits(math.NaN()))), ErrCorrupt},
		{"body 2^60 bits", forge(f, u64(48, 1<<57)), ErrTooLarge},
		{"0 bits", forge(f, u64(56, 0)), ErrCorrupt},
		{"2^60 bits", forge(f, u64(56, 1<<60)), ErrTooLarge},
		{"bits and body differ", forge(f, u64(56, 1<<40)), nil}, // too large on 32-bit machines
		{"k = 0", forge(f, u32(64, 0)), ErrCorrupt},
		{"k = 2001", forge(f, u32(64, 2001)), ErrCorrupt},
		{"padding", forge(f, set(80, 1)), ErrCorrupt},
		{"dirty bits", forge(f, func(b []byte) { b[128+125] = 1 }), ErrCorrupt},
		{"dirty last bit", forge(f, func(b []byte) { b[128+127] = 0x80 }), ErrCorrupt},
		{"seed of RedisBloom", forge(Must(New(10, 0.1, WithScheme(RedisBloom))), u64(16, 1)), ErrCorrupt},
		{"lines", forge(b, u64(56, 1<<40)), ErrTooLarge},
		{"no lines", forge(b, u64(56, 0)), ErrCorrupt},
		{"rows", forge(b, u32(64, 4)), ErrCorrupt},
		{"blocked RedisBloom", forge(b, set(6, byte(RedisBloom))), ErrCorrupt},
		{"no links", forge(s, u32(80, 0)), ErrCorrupt},
		{"2^32-1 links", forge(s, u32(80, math.MaxUint32)), ErrCorrupt},
		{"options", forge(s, u32(84, 4)), ErrCorrupt},
		{"growth", forge(s, u32(88, math.MaxUint32)), ErrCorrupt},
		{"tightening", forge(s, u64(56, math.Float64bits(1))), ErrCorrupt},
		{"counts", forge(s, u64(40, 1)), ErrCorrupt},
		{"no buckets", forge(c, u64(56, 0)), ErrCorrupt},
		{"sub-filters", forge(c, u64(72, 5)), ErrCorrupt},
		{"no sub-filters", forge(c, u64(72, 0)), ErrCorrupt},
		{"bucket size", forge(c, u32(88, 9|2000<<16)), ErrCorrupt},
		{"iterations", forge(c, u32(88, 4)), ErrCorrupt},
		{"width", forge(c, u32(92, 33<<16)), ErrCorrupt},
		{"items", forge(c, u64(40, 1000)), ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			requireSafe(t, test.data)
			_, err := readAny(test.data, knownLength)
			require.Error(t, err)
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
		})
	}
	// Many parts, of which little or nothing comes.
	many := Must(NewCuckoo(1, 0, WithScheme(RedisBloom), WithBucketSize(1)))
	many.AddString("a")
	record := forge(many, func(b []byte) {
		binary.LittleEndian.PutUint64(b[48:], 8*65536)
		binary.LittleEndian.PutUint64(b[72:], 65536)
	})
	requireSafe(t, record)
	_, err := readAny(record, unknownLength)
	require.ErrorIs(t, err, ErrIncomplete)
	chain := &Scalable{hasher: newHasher(config{scheme: RedisBloom}), rate: 0.01, growth: 1, tightening: 0.5}
	chain.redis = redisChain{redisNoRounding | redisHash64, 1}
	one, err := (&Scalable{hasher: chain.hasher, redis: chain.redis, maxBytes: math.MaxUint64}).newLink(1, 0.005)
	require.NoError(t, err)
	for range 300_000 {
		chain.links = append(chain.links, one)
	}
	whole := encode(t, chain)
	if !raceEnabled { // which makes what is allocated larger
		requireSafe(t, whole)
		requireSafe(t, whole[:binary.LittleEndian.Uint64(whole[8:])])
	}
	chain.links = append(chain.links, chain.links[:20_000]...)
	_, err = chain.MarshalBinary()
	require.ErrorIs(t, err, ErrTooLarge)

	for _, claim := range []uint64{1 << 20, 1 << 30, 1 << 46} {
		// All checksums of what is there are right, but the bits do not come.
		data := forge(f, func(b []byte) {
			binary.LittleEndian.PutUint64(b[48:], claim/8)
			binary.LittleEndian.PutUint64(b[56:], claim)
		})
		requireSafe(t, data)
		_, err := readAny(data, unknownLength)
		require.Error(t, err)
	}
}
