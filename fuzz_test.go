package bloom

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"testing"

	"github.com/cespare/xxhash/v2"
	spaolacci "github.com/spaolacci/murmur3"
	"github.com/stretchr/testify/require"
)

// Here are the fuzz targets of hashes, positions and Redis strings; fuzz_filters_test.go has those of filters,
// and the ones of the loaders and of Cuckoo are beside the models that they share with other tests. All run on
// their seeds with go test. An input that ever failed becomes a file in testdata/fuzz, named for
// what it showed.

// littleEndianWord reads up to 8 bytes, a byte at a time.
func littleEndianWord(b []byte) (w uint64) {
	for i := range min(8, len(b)) {
		w |= uint64(b[i]) << (8 * i)
	}
	return w
}

// plainMurmur3 is MurmurHash3 x64 128 as docs/REFERENCE.md has it.
func plainMurmur3(key []byte, seed uint64) (h1, h2 uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	h1, h2 = seed, seed
	rest := key
	for ; len(rest) >= 16; rest = rest[16:] {
		h1 ^= bits.RotateLeft64(littleEndianWord(rest)*c1, 31) * c2
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= bits.RotateLeft64(littleEndianWord(rest[8:])*c2, 33) * c1
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	// A word of zeros enters as zero.
	h2 ^= bits.RotateLeft64(littleEndianWord(rest[min(8, len(rest)):])*c2, 33) * c1
	h1 ^= bits.RotateLeft64(littleEndianWord(rest)*c1, 31) * c2
	fmix := func(x uint64) uint64 {
		for _, c := range []uint64{0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53} {
			x = (x ^ x>>33) * c
		}
		return x ^ x>>33
	}
	h1 ^= uint64(len(key))
	h2 ^= uint64(len(key))
	h1 += h2
	h2 += h1
	h1, h2 = fmix(h1), fmix(h2)
	h1 += h2
	return h1, h2 + h1
}

// plainMurmur64A is MurmurHash64A as docs/REFERENCE.md has it.
func plainMurmur64A(key []byte, seed uint64) uint64 {
	const q = 0xc6a4a7935bd1e995
	h := seed ^ uint64(len(key))*q
	for ; len(key) >= 8; key = key[8:] {
		a := littleEndianWord(key) * q
		a ^= a >> 47
		h = (h ^ a*q) * q
	}
	if len(key) > 0 {
		h = (h ^ littleEndianWord(key)) * q
	}
	h = (h ^ h>>47) * q
	return h ^ h>>47
}

// Every hash, of bytes that lie anywhere, against others' code or a plain writing of
// the algorithm.
func FuzzHashes(f *testing.F) {
	f.Add([]byte{}, uint64(0), uint8(0))
	f.Add([]byte("a"), uint64(1), uint8(1))
	f.Add([]byte("0123456789abcde"), uint64(math.MaxUint32), uint8(7))
	f.Add([]byte("0123456789abcdef0123456789abcdef0"), uint64(1<<63), uint8(3))
	f.Add(bytes.Repeat([]byte{0xff, 0x80, 0}, 100), uint64(math.MaxUint64), uint8(255))
	f.Fuzz(func(t *testing.T, key []byte, seed uint64, shift uint8) {
		around := bytes.Repeat([]byte{0xa5}, int(shift)%64+len(key)+9)
		key = append(around[:int(shift)%64], key...)[int(shift)%64:]
		before := string(around)
		words := func(s Scheme) [2]uint64 {
			h1, h2 := hashingOf(s, seed).sum(key)
			return [2]uint64{h1, h2}
		}
		w1, w2 := plainMurmur3(key, seed)
		require.Equal(t, [2]uint64{w1, w2}, words(Murmur3))
		if littleEndian && seed <= math.MaxUint32 { // elsewhere theirs is another hash
			w1, w2 = spaolacci.Sum128WithSeed(key, uint32(seed))
			require.Equal(t, [2]uint64{w1, w2}, words(Murmur3))
		}

		half := len(key) / 2
		x := xxhash.NewWithSeed(seed)
		x.Write(key[:half])
		x.Write(key[half:])
		require.Equal(t, [2]uint64{x.Sum64(), splitMix64(x.Sum64())}, words(XXHash))

		a := plainMurmur64A(key, 0xc6a4a7935bd1e995)
		require.Equal(t, [2]uint64{a, plainMurmur64A(key, a)}, words(RedisBloom))
		h1, h2 := hashing{origin: origin{0, hashRedisCuckoo}}.sum(key)
		require.Equal(t, [2]uint64{plainMurmur64A(key, 0), 0}, [2]uint64{h1, h2})

		w1, w2 = plainSipHash(testConfig(SipHash, seed).key, key)
		require.Equal(t, [2]uint64{w1, w2}, words(SipHash))
		require.Equal(t, before, string(around), "keys are not changed")
	})
}

// Positions, lines and buckets from two words, against the formulas in numbers without
// bounds.
func FuzzPositions(f *testing.F) {
	f.Add([]byte("key"), uint64(9592), uint16(7), uint64(0))
	f.Add([]byte{}, uint64(1), uint16(1), uint64(math.MaxUint64))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1), uint64(1)<<48, uint16(1999), uint64(1))
	f.Add([]byte("0123456789abcdef"), uint64(3<<29), uint16(13), uint64(1))
	f.Add(bytes.Repeat([]byte{0xff}, 16), uint64(64*77), uint16(13), uint64(1))
	f.Fuzz(func(t *testing.T, key []byte, m uint64, k uint16, seed uint64) {
		m, k = m%(1<<48)+1, k%maxHashes+1
		for _, s := range allSchemes {
			l := testLayout(Params{m, int(k), s}, seed)
			h1, h2 := l.Digest(key).Words()
			require.Equal(t, bigPositions(s, h1, h2, m, int(k)), l.Positions(nil, key))
		}

		// Words that a hash would hardly give: the bytes themselves.
		h1, h2 := littleEndianWord(key), littleEndianWord(key[min(8, len(key)):])
		for _, s := range []Scheme{Murmur3, RedisBloom} {
			l := testLayout(Params{m, int(k), s}, 0)
			require.Equal(t, bigPositions(s, h1, h2, m, int(k)), l.positions(nil, l.probes(h1, h2)))
		}
		// Of whole words without a division, which errs first just below a multiple of m, where
		// numbers are large.
		whole := wordsFor(m) * 64
		d := newModulus(whole)
		for _, x := range []uint64{h1/whole*whole - 1, h1 / whole * whole, math.MaxUint64/whole*whole - 1} {
			require.Equal(t, x%whole, d.of(x))
		}

		number := func(x uint64) *big.Int { return new(big.Int).SetUint64(x) }
		ls := newLines(m%5000 + 1)
		line := number(h1)
		line.Mul(line, number(uint64(len(ls)))).Rsh(line, 64)
		require.Equal(t, line.Uint64(), ls.of(h1))

		width := 8 + uint64(k)%25
		c := &Cuckoo{cuckooShape: cuckooShape{width: width}}
		fp := number(h2)
		fp.Mul(fp, number(1<<width-1)).Rsh(fp, 64)
		fingerprint := fp.Uint64() + 1
		require.Equal(t, fingerprint, c.fingerprint(h1, h2))
		buckets := m%(1<<42) + 1
		filter := subFilter{mod: newModulus(64 * buckets)}
		first := filter.bucket(h1)
		require.Equal(t, h1/64%buckets, first)
		second := number(fingerprint)
		second.Mul(second, number(0x9e3779b97f4a7c15))
		second.Mod(second, new(big.Int).Lsh(big.NewInt(1), 64)).Rsh(second, 6)
		second.Sub(second, number(first)).Mod(second, number(buckets)) // Mod is never negative
		require.Equal(t, second.Uint64(), filter.alternate(first, fingerprint))
	})
}

// A Redis string is the filter that GETBIT reads from it, or no filter.
func FuzzFromRedisBitmap(f *testing.F) {
	f.Add([]byte{}, uint16(0), uint8(0), uint8(0))
	f.Add([]byte{0x80, 0, 1}, uint16(23), uint8(3), uint8(0))
	f.Add([]byte{0xff, 0xff}, uint16(14), uint8(3), uint8(1)) // a bit past the end
	f.Add([]byte{1, 2, 3, 0}, uint16(23), uint8(3), uint8(1)) // a byte past the end
	f.Fuzz(func(t *testing.T, data []byte, size uint16, hashes, scheme uint8) {
		bits, kept := uint64(size)+1, string(data)
		filter, err := FromRedisBitmap(data, bits, int(hashes)+1, withScheme(allSchemes[int(scheme)%len(allSchemes)]))
		require.Equal(t, kept, string(data))
		getbit := func(i uint64) bool { return i/8 < uint64(len(data)) && data[i/8]&(0x80>>(i%8)) != 0 }
		past := uint64(len(data)) > (bits+7)/8
		for i := bits; i < (bits+7)/8*8; i++ {
			past = past || getbit(i)
		}
		if past {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		require.NoError(t, err)
		for key := range uint64(20) {
			want := true
			b := uint64Bytes(key)
			for _, p := range filter.Positions(nil, b[:]) {
				want = want && getbit(p)
			}
			require.Equal(t, want, filter.ContainsUint64(key))
		}
		back := filter.RedisBitmap()
		require.True(t, bytes.HasPrefix(back, data) && uint64(len(back)) == (bits+7)/8)
		require.Zero(t, bytes.Trim(back[len(data):], "\x00"))
		require.True(t, Must(FromRedisBitmap(back, bits, int(hashes)+1, withScheme(filter.Scheme()))).Equal(filter))
	})
}
