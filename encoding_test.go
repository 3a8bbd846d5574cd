package bloom

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// written is a filter in its binary form, and what makes it again.
type written struct {
	name   string
	filter encodedFilter
}

// encodedFilter is what all kinds have.
type encodedFilter interface {
	encoded
	AppendBinary([]byte) ([]byte, error)
	MarshalBinary() ([]byte, error)
	UnmarshalBinary([]byte) error
	MarshalText() ([]byte, error)
	UnmarshalText([]byte) error
	io.WriterTo
	io.ReaderFrom
	ContainsUint64(uint64) bool
	Info() Info
}

// writtenFilters has each kind in each scheme, small, with some keys; a grown one where it grows.
func writtenFilters(t testing.TB) []written {
	var all []written
	add := func(name string, f encodedFilter) { all = append(all, written{name, f}) }
	for _, s := range []Scheme{Murmur3, XXHash, RedisBloom, SipHash} {
		opts := []Option{withScheme(s)}
		if s == Murmur3 || s == XXHash {
			opts = append(opts, WithSeed(0x9e3779b97f4a7c15))
		}
		name := strings.ToLower(s.String())
		f := Must(New(100, 0.01, opts...))
		counting := Must(NewCounting(60, 0.02, opts...))
		scalable := Must(NewScalable(20, 0.01, opts...))
		for key := range uint64(100) {
			f.AddUint64(key)
			counting.AddUint64(key % 60)
			_, err := scalable.AddUint64(key)
			require.NoError(t, err)
		}
		add("filter-"+name, f)
		add("concurrent-"+name, f.Concurrent())
		add("counting-"+name, counting)
		add("scalable-"+name, scalable)
		rate := 0.01
		if s == RedisBloom {
			rate = 0
		}
		cuckoo := Must(NewCuckoo(30, rate, append(opts, WithGrowth(2), WithMaxBytes(1<<20))...))
		for key := range uint64(100) {
			_, err := cuckoo.AddUint64(key)
			require.NoError(t, err)
		}
		cuckoo.RemoveUint64(99)
		add("cuckoo-"+name, cuckoo)
		if s != RedisBloom {
			blocked := Must(NewBlocked(100, 0.01, opts...))
			for key := range uint64(100) {
				blocked.AddUint64(key)
			}
			add("blocked-"+name, blocked)
		}
	}
	odd := Must(NewWithSize(1000, 3)) // not whole words
	odd.AddString("a")
	require.NoError(t, odd.Union(odd)) // and an estimate
	add("filter-odd-size", odd)
	full := Must(NewCuckoo(8, 0.01, WithBucketSize(1)))
	for key := uint64(0); full.Len() < full.Capacity(); key++ {
		_, err := full.AddUint64(key % 3)
		require.NoError(t, err)
	}
	require.Greater(t, len(full.filters), 1, "it overflows")
	add("cuckoo-overflow", full)
	fixed := Must(NewScalable(10, 0.1, WithNonScaling()))
	add("scalable-fixed-empty", fixed)
	return all
}

// fresh is a new filter of the same kind, with nothing but its key.
func fresh(f encodedFilter) encodedFilter {
	var h hasher
	if f.hashing().fn == hashSipHash {
		h.hash = f.hashing()
	}
	switch f.(type) {
	case *Filter:
		return &Filter{layout: layout{hasher: h}}
	case *Concurrent:
		return &Concurrent{layout: layout{hasher: h}}
	case *Counting:
		return &Counting{layout: layout{hasher: h}}
	case *Scalable:
		return &Scalable{hasher: h}
	case *Cuckoo:
		return &Cuckoo{hasher: h}
	}
	return &Blocked{hasher: h}
}

// readAny is ReadAny of data through wrap, with the key of the tests where it is for that scheme.
func readAny(data []byte, wrap func(io.Reader) io.Reader) (any, error) {
	r := wrap(bytes.NewReader(data))
	if len(data) > 6 && Scheme(data[6]) == SipHash {
		return ReadAny(r, WithKey(testKey))
	}
	return ReadAny(r)
}

func knownLength(r io.Reader) io.Reader { return r }

func unknownLength(r io.Reader) io.Reader { return io.MultiReader(r) }

func encode(t testing.TB, f encodedFilter) []byte {
	data, err := f.AppendBinary(nil)
	require.NoError(t, err)
	return data
}

// requireSame checks that two filters are one in all that can be seen.
func requireSame(t testing.TB, want, got encodedFilter) {
	wantInfo := want.Info()
	if want.kind() == kindFilter {
		wantInfo.Kind = got.Info().Kind // Filter or Concurrent
	}
	require.Equal(t, wantInfo, got.Info())
	for key := range uint64(2000) {
		require.Equal(t, want.ContainsUint64(key), got.ContainsUint64(key), key)
	}
	require.Equal(t, encode(t, want), encode(t, got))
}

// TestGoldenRecords holds the format: what this version writes is what is in testdata, and what
// any earlier one wrote can be read. Run it with -update for new kinds only.
func TestGoldenRecords(t *testing.T) {
	for _, w := range writtenFilters(t) {
		t.Run(w.name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", "v1", w.name+".bloom")
			data := encode(t, w.filter)
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
				require.NoError(t, os.WriteFile(path, data, 0o666))
			}
			old, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, old, data)
			got := fresh(w.filter)
			require.NoError(t, got.UnmarshalBinary(old))
			requireSame(t, w.filter, got)
			any, err := readAny(old, knownLength)
			require.NoError(t, err)
			require.Equal(t, data, encode(t, any.(encodedFilter)))
		})
	}
}

func TestEncodedForms(t *testing.T) {
	for _, w := range writtenFilters(t) {
		t.Run(w.name, func(t *testing.T) {
			data := encode(t, w.filter)

			t.Run("append", func(t *testing.T) {
				got, err := w.filter.AppendBinary([]byte("before"))
				require.NoError(t, err)
				require.Equal(t, "before"+string(data), string(got))
				got, err = w.filter.MarshalBinary()
				require.NoError(t, err)
				require.Equal(t, data, got)
			})
			t.Run("write", func(t *testing.T) {
				var b bytes.Buffer
				n, err := w.filter.WriteTo(&b)
				require.NoError(t, err)
				require.EqualValues(t, len(data), n)
				require.Equal(t, data, b.Bytes())
			})
			t.Run("gob", func(t *testing.T) {
				var b bytes.Buffer
				require.NoError(t, gob.NewEncoder(&b).Encode(w.filter))
				got := fresh(w.filter)
				require.NoError(t, gob.NewDecoder(&b).Decode(got))
				requireSame(t, w.filter, got)
			})
			t.Run("json", func(t *testing.T) {
				text, err := json.Marshal(w.filter)
				require.NoError(t, err)
				require.LessOrEqual(t, float64(len(text)), 1.4*float64(len(data)))
				got := fresh(w.filter)
				require.NoError(t, json.Unmarshal(text, got))
				requireSame(t, w.filter, got)
			})
			t.Run("readers", func(t *testing.T) {
				for name, wrap := range map[string]func(io.Reader) io.Reader{
					"plain": func(r io.Reader) io.Reader { return r }, "one": iotest.OneByteReader, "half": iotest.HalfReader,
					"error with data": iotest.DataErrReader,
				} {
					// Exactly one record is read, also over an old filter.
					stream := bytes.NewReader(append(bytes.Repeat(data, 2), "1234"...))
					r := wrap(stream)
					got := fresh(w.filter)
					for range 2 {
						n, err := got.ReadFrom(r)
						require.NoError(t, err, name)
						require.EqualValues(t, len(data), n)
						requireSame(t, w.filter, got)
					}
					rest, err := io.ReadAll(r)
					require.NoError(t, err)
					require.Equal(t, "1234", string(rest))
				}
			})
			t.Run("other kinds", func(t *testing.T) {
				for _, other := range writtenFilters(t) {
					if c, ok := other.filter.(*Cuckoo); ok {
						c.SetMaxBytes(math.MaxUint64) // it would keep its own
					}
					before := encode(t, other.filter)
					err := other.filter.UnmarshalBinary(data)
					keyed := (w.filter.hashing().fn == hashSipHash) == (other.filter.hashing().fn == hashSipHash)
					if other.filter.kind() == w.filter.kind() && keyed {
						require.NoError(t, err)
						requireSame(t, w.filter, other.filter)
						continue
					}
					require.ErrorIs(t, err, ErrMismatch)
					require.Equal(t, before, encode(t, other.filter))
				}
			})
		})
	}
}

func TestEncodedInContainers(t *testing.T) {
	f := Must(New(100, 0.01))
	f.AddString("a")
	type holder struct {
		F Filter
		P *Filter
		M map[string]Filter
		S []Filter
	}
	in := holder{*f, f, map[string]Filter{"x": *f}, []Filter{*f}}
	check := func(out holder) {
		for _, got := range []*Filter{&out.F, out.P, new(out.M["x"]), &out.S[0]} {
			requireSame(t, f, got)
		}
	}
	text, err := json.Marshal(in) // by value: not addressable
	require.NoError(t, err)
	var out holder
	require.NoError(t, json.Unmarshal(text, &out))
	check(out)
	var b bytes.Buffer
	require.NoError(t, gob.NewEncoder(&b).Encode(in))
	out = holder{}
	require.NoError(t, gob.NewDecoder(&b).Decode(&out))
	check(out)

	_, err = json.Marshal(holder{})
	require.ErrorIs(t, err, ErrInvalid, "a zero value has no encoding")
	out = holder{}
	require.NoError(t, json.Unmarshal([]byte(`{"F":null,"P":null}`), &out))
	require.False(t, out.F.ContainsString("a"))
	require.Error(t, json.Unmarshal([]byte(`{"F":{}}`), &out))
	require.ErrorIs(t, json.Unmarshal([]byte(`{"F":""}`), &out), ErrIncomplete)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"F":"%"}`), &out), ErrCorrupt)
	for _, zero := range []encodedFilter{new(Filter), new(Concurrent), new(Counting), new(Scalable), new(Cuckoo), new(Blocked)} {
		_, err := zero.MarshalBinary()
		require.ErrorIs(t, err, ErrInvalid)
		_, err = zero.WriteTo(io.Discard)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

func TestReadMore(t *testing.T) {
	f := Must(New(1000, 0.01))
	data := encode(t, f)
	got, err := Read[Filter](bytes.NewReader(data))
	require.NoError(t, err)
	require.True(t, f.Equal(got))
	c, err := Read[Concurrent](bytes.NewReader(data))
	require.NoError(t, err)
	require.True(t, f.Equal(c.Filter()))
	_, err = Read[Filter](bytes.NewReader(data), WithMaxBytes(f.SizeBytes()-1))
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Read[Filter](bytes.NewReader(data), WithMaxBytes(f.SizeBytes()))
	require.NoError(t, err)
	_, err = Read[Filter](bytes.NewReader(data), WithSeed(1))
	require.ErrorIs(t, err, ErrInvalid)
	_, err = ReadAny(bytes.NewReader(data), WithSeed(1))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, new(Filter).UnmarshalBinary(append(data, 0)), ErrCorrupt)

	_, err = Read[Filter](bytes.NewReader(nil))
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, err, ErrIncomplete)
	_, err = Read[Filter](bytes.NewReader(data[:1]))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, io.EOF)
	broken := errors.New("broken")
	_, err = Read[Filter](io.MultiReader(bytes.NewReader(data[:200]), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, ErrIncomplete)
	// A reader may wrap io.EOF: in the middle of a record that is no clean end.
	wrapped := fmt.Errorf("connection: %w", io.EOF)
	_, err = Read[Filter](io.MultiReader(bytes.NewReader(data[:200]), iotest.ErrReader(wrapped)))
	require.ErrorIs(t, err, ErrIncomplete)
	require.NotErrorIs(t, err, io.EOF)
	_, err = Read[Filter](iotest.ErrReader(wrapped))
	require.ErrorIs(t, err, io.EOF)

	// What bounds growth is kept, unless the reader has a bound of its own.
	s := Must(NewScalable(100, 0.01, WithMaxBytes(1<<10)))
	data = encode(t, s)
	s2, err := Read[Scalable](bytes.NewReader(data))
	require.NoError(t, err)
	require.EqualValues(t, 1<<10, s2.maxBytes)
	s2, err = Read[Scalable](bytes.NewReader(data), WithMaxBytes(1<<12))
	require.NoError(t, err)
	require.EqualValues(t, 1<<12, s2.maxBytes)
	own := Must(NewScalable(10, 0.1, WithMaxBytes(1<<9)))
	require.NoError(t, own.UnmarshalBinary(data))
	require.EqualValues(t, 1<<9, own.maxBytes)
	require.ErrorIs(t, Must(NewScalable(10, 0.1, WithMaxBytes(100))).UnmarshalBinary(data), ErrTooLarge)

	// A count that is forged is no obstacle to writing and reading what comes of it.
	for _, f := range []*Cuckoo{Must(NewCuckoo(8, 0.01)), Must(NewCuckoo(8, 0, WithScheme(RedisBloom)))} {
		f.len = f.slots()
		for i := range uint64(3) {
			_, err := f.AddUint64(i)
			require.NoError(t, err)
		}
		got, err := Read[Cuckoo](bytes.NewReader(encode(t, f)))
		require.NoError(t, err)
		require.True(t, got.ContainsUint64(2))
	}
}

// TestReadKey: what was written under a key is read under that key.
func TestReadKey(t *testing.T) {
	f := Must(New(100, 0.01, withScheme(SipHash)))
	f.AddString("a")
	data := encode(t, f)
	require.NotContains(t, string(data), string(testKey[:8]))
	other := testKey
	other[0]++

	got, err := Read[Filter](bytes.NewReader(data), WithKey(testKey))
	require.NoError(t, err)
	require.True(t, f.Equal(got))
	_, err = Read[Filter](bytes.NewReader(data), WithKey([16]byte{}))
	require.ErrorIs(t, err, ErrInvalid)
	for _, opts := range [][]Option{nil, {WithKey(other)}} {
		_, err = Read[Filter](bytes.NewReader(data), opts...)
		require.ErrorIs(t, err, ErrMismatch)
		require.ErrorContains(t, err, "key of fingerprint")
	}
	same := Must(NewConcurrent(1, 0.5, withScheme(SipHash)))
	require.NoError(t, same.UnmarshalBinary(data))
	require.True(t, same.ContainsString("a"))
	_, err = same.ReadFrom(bytes.NewReader(data))
	require.NoError(t, err)
	require.ErrorIs(t, new(Filter).UnmarshalBinary(data), ErrMismatch)
	require.ErrorIs(t, Must(New(1, 0.5)).UnmarshalBinary(data), ErrMismatch)
	stranger := Must(New(1, 0.5, WithScheme(SipHash), WithKey(other)))
	require.ErrorIs(t, stranger.UnmarshalBinary(data), ErrMismatch)
	require.EqualValues(t, 1, stranger.Capacity())
	plain := encode(t, Must(New(100, 0.01)))
	_, err = Read[Filter](bytes.NewReader(plain), WithKey(testKey))
	require.ErrorIs(t, err, ErrMismatch, "whoever can write the file could do without the key")
	require.ErrorIs(t, stranger.UnmarshalBinary(plain), ErrMismatch)
}

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

func TestEncodeConcurrently(t *testing.T) {
	c := Must(NewConcurrent(100_000, 0.01))
	for key := range uint64(1000) {
		c.AddUint64(key)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		for key := range uint64(50_000) {
			c.AddUint64(1000 + key)
		}
	}()
	for range 20 {
		got := new(Filter)
		require.NoError(t, got.UnmarshalBinary(encode(t, c)))
		for key := range uint64(1000) {
			require.True(t, got.ContainsUint64(key))
		}
	}
	<-done
}

// TestReadMemory: a source that tells its length is read into the bits at once, another one costs half as
// much more.
func TestReadMemory(t *testing.T) {
	f := Must(New(8<<20, 0.01))
	data := encode(t, f)
	measure := func(r io.Reader) float64 {
		before := allocated()
		_, err := Read[Filter](r)
		require.NoError(t, err)
		return float64(allocated()-before) / float64(f.SizeBytes())
	}
	const megabyte = 1 << 20
	slack := megabyte / float64(f.SizeBytes())
	require.Less(t, measure(bytes.NewReader(data)), 1+slack)
	require.Less(t, measure(io.MultiReader(bytes.NewReader(data))), 2+slack)
	require.Zero(t, testing.AllocsPerRun(5, func() {
		var err error
		data, err = f.AppendBinary(data[:0])
		require.NoError(t, err)
	}) > 10, "a handful of small things")
	before := allocated()
	_, err := f.WriteTo(io.Discard)
	require.NoError(t, err)
	require.Less(t, allocated()-before, uint64(megabyte))
}

func FuzzRead(f *testing.F) {
	for _, w := range writtenFilters(f) {
		f.Add(encode(f, w.filter))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sumAgain(data)
		requireSafe(t, data)
	})
}

func BenchmarkEncoding(b *testing.B) {
	f := Must(NewWithSize(128<<23, 7))
	for i := range f.bits.words {
		f.bits.words[i] = splitMix64(uint64(i))
	}
	data := encode(b, f)
	buf := make([]byte, 0, len(data))
	for _, bench := range []struct {
		op  string
		run func() error
	}{
		{"append", func() error { _, err := f.AppendBinary(buf); return err }},
		{"marshal", func() error { _, err := f.MarshalBinary(); return err }},
		{"write", func() error { _, err := f.WriteTo(io.Discard); return err }},
		{"unmarshal", func() error { return new(Filter).UnmarshalBinary(data) }},
		{"read-unknown-length", func() error { _, err := new(Filter).ReadFrom(io.MultiReader(bytes.NewReader(data))); return err }},
	} {
		b.Run(fmt.Sprintf("op=%s/size=128MiB", bench.op), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, bench.run())
			}
		})
	}
}
