package bloom

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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
