package bloom

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMapped(t *testing.T) {
	dir := t.TempDir()
	for _, w := range writtenFilters(t) {
		path := filepath.Join(dir, w.name)
		require.NoError(t, Save(path, w.filter))
		for _, opts := range [][]Option{nil, {WithoutVerify()}} {
			if w.filter.hashing().fn == hashSipHash {
				opts = append(opts, WithKey(testKey))
			}
			m, err := OpenMapped(path, opts...)
			if k := w.filter.kind(); k != kindFilter && k != kindBlocked {
				require.ErrorIs(t, err, ErrMismatch, w.name)
				continue
			}
			require.NoError(t, err, w.name)
			want := w.filter.Info()
			want.Kind = w.filter.kind().String()
			require.Equal(t, want, m.Info())
			require.Equal(t, want.Len, m.Len())
			var words []string
			var keys [][]byte
			var answers []bool
			for key := range uint64(1000) {
				answer := w.filter.ContainsUint64(key)
				b := uint64Bytes(key)
				words, keys, answers = append(words, string(b[:])), append(keys, b[:]), append(answers, answer)
				require.Equal(t, answer, m.ContainsUint64(key))
				require.Equal(t, answer, m.Contains(b[:]))
				require.Equal(t, answer, m.ContainsString(string(b[:])))
				for _, d := range []Digest{m.Digest(b[:]), m.DigestString(string(b[:])), m.DigestUint64(key)} {
					require.Equal(t, answer, m.ContainsDigest(d))
				}
			}
			require.Equal(t, answers, m.ContainsMany(nil, keys))
			require.Equal(t, answers, m.ContainsManyString(nil, words))
			require.Equal(t, [...]uint64{want.Capacity, want.Bits, uint64(want.Hashes), want.SizeBytes},
				[...]uint64{m.Capacity(), m.Bits(), uint64(m.Hashes()), m.SizeBytes()})
			require.Equal(t, [...]float64{want.TargetRate, want.FillRatio, want.ErrorRate}, [...]float64{m.TargetRate(), m.FillRatio(), m.ErrorRate()})
			require.Equal(t, want.Scheme, m.Scheme())
			require.Zero(t, testing.AllocsPerRun(100, func() {
				m.ContainsUint64(3)
				m.ContainsString("a")
				m.ContainsDigest(m.DigestUint64(3))
				answers = m.ContainsMany(answers[:0], keys)
			}))
			require.NoError(t, m.Close())
			require.NoError(t, m.Close())
			require.Panics(t, func() { m.ContainsUint64(1) }, "a closed filter says nothing, least of all absent")
		}
	}
}

func TestMappedRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := Must(New(1000, 0.01))
	f.AddString("a")
	good := encode(t, f)
	open := func(data []byte, opts ...Option) error {
		require.NoError(t, os.WriteFile(path, data, 0o666))
		m, err := OpenMapped(path, opts...)
		if err == nil {
			require.NoError(t, m.Close())
		}
		return err
	}
	require.NoError(t, open(good))
	step := 1
	if testing.Short() {
		step = 13
	}
	for n := 0; n < len(good); n += step {
		require.ErrorIs(t, open(good[:n]), ErrIncomplete)
		require.ErrorIs(t, open(good[:n], WithoutVerify()), ErrIncomplete)
		flipped := append([]byte(nil), good...)
		flipped[n] ^= 1
		require.Error(t, open(flipped))
	}
	require.ErrorIs(t, open(append(good, 0)), ErrCorrupt)
	require.ErrorIs(t, open(append(good, 0), WithoutVerify()), ErrCorrupt)
	require.ErrorIs(t, open(good, WithMaxBytes(8)), ErrTooLarge)
	require.ErrorIs(t, open(good, WithSeed(8)), ErrInvalid)
	odd := encode(t, Must(NewWithSize(1000, 3)))
	odd[len(odd)-5] = 0x80 // past the end
	sumAgain(odd)
	require.ErrorIs(t, open(odd), ErrCorrupt)
	_, err := OpenMapped(t.TempDir())
	require.ErrorIs(t, err, ErrInvalid, "a directory")
	_, err = OpenMapped(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestMappedOutlivesSave: Save puts a new file in the place of one that is in use.
func TestMappedOutlivesSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	b := Must(NewBlocked(10_000, 0.01))
	for key := range uint64(5000) {
		b.AddUint64(key)
	}
	require.NoError(t, Save(path, b))
	m, err := OpenMapped(path)
	require.NoError(t, err)
	defer m.Close()
	if !canMap {
		require.NoError(t, m.Close())
		t.Skip("files are not mapped here")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				for key := range uint64(5000) {
					if !m.ContainsUint64(key) {
						panic(fmt.Sprintf("%d is absent", key))
					}
				}
			}
		})
	}
	for range 20 {
		require.NoError(t, Save(path, Must(NewBlocked(10_000, 0.01))))
	}
	wg.Wait()
}

func BenchmarkOpenMapped(b *testing.B) {
	path := filepath.Join(b.TempDir(), "f")
	f := Must(NewWithSize(128<<23, 7))
	for i := range f.bits.words {
		f.bits.words[i] = splitMix64(uint64(i))
	}
	require.NoError(b, Save(path, f))
	for name, opts := range map[string][]Option{"yes": nil, "no": {WithoutVerify()}} {
		b.Run("size=128MiB/verify="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m, err := OpenMapped(path, opts...)
				require.NoError(b, err)
				m.ContainsUint64(1)
				require.NoError(b, m.Close())
			}
		})
	}
	m, err := OpenMapped(path)
	require.NoError(b, err)
	defer m.Close()
	b.Run("size=128MiB/op=contains", func(b *testing.B) {
		var key [16]byte
		i := uint64(0)
		for b.Loop() {
			binary.LittleEndian.PutUint64(key[:], i)
			m.Contains(key[:])
			i++
		}
	})
}
