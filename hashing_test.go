package bloom

import (
	"bufio"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/redbloom-go/bloom/internal/golden"
	spaolacci "github.com/spaolacci/murmur3"
	"github.com/stretchr/testify/require"
)

var allSchemes = []Scheme{Murmur3, XXHash, RedisBloom, SipHash}

// newRand is a generator with a fixed seed, so that tests repeat.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func TestMurmur3Vectors(t *testing.T) {
	for _, v := range []struct {
		key          string
		seed, h1, h2 uint64
	}{
		{"", 0, 0, 0},
		{"a", 0, 0x85555565f6597889, 0xe6b53a48510e895a},
		{"hello", 0, 0xcbd8a7b341bd9b02, 0x5b1e906a48ae1d19},
		{"0123456789abcde", 0, 0xa62dd5f6c0bf2351, 0x4fccf50c7c544cf0},
		{"0123456789abcdef", 0, 0x4be06d94cf4ad1a7, 0x87c35b5c63a708da},
		{"0123456789abcdef0", 0, 0xeb24ae8785a5c075, 0x73fb68b3313128ca},
		{"", math.MaxUint32, 0x6af1df4d9d3bc9ec, 0x857421121ee6446b},
	} {
		h1, h2 := hashingOf(Murmur3, v.seed).sum([]byte(v.key))
		require.Equal(t, [2]uint64{v.h1, v.h2}, [2]uint64{h1, h2}, "%q seed %#x", v.key, v.seed)
	}
}

// Every length to 300 at every alignment, under three seeds, against an
// independent implementation. That one reads words in the order of the machine, so
// that on big-endian machines it is not MurmurHash3; there the checksum of
// all hashes, which was taken where both agree, has to do.
func TestMurmur3AgainstReference(t *testing.T) {
	buf := make([]byte, 320)
	r := newRand(1)
	for i := range buf {
		buf[i] = byte(r.Uint32())
	}
	sum := uint64(0)
	for _, seed := range []uint32{0, 1, math.MaxUint32} {
		for n := range 301 {
			for at := range 17 {
				key := buf[at : at+n]
				h1, h2 := hashingOf(Murmur3, uint64(seed)).sum(key)
				sum = splitMix64(splitMix64(sum^h1) ^ h2)
				if !littleEndian {
					continue
				}
				if w1, w2 := spaolacci.Sum128WithSeed(key, seed); h1 != w1 || h2 != w2 {
					t.Fatalf("length %d at offset %d, seed %#x: %x %x, want %x %x", n, at, seed, h1, h2, w1, w2)
				}
			}
		}
	}
	require.Equal(t, uint64(0xb87868d15a93b90a), sum)
}

func TestMurmur64A(t *testing.T) {
	require.Equal(t, uint64(0), murmur64A(nil, 0))
	require.Equal(t, uint64(0x071717d2d36b6b11), murmur64A([]byte("a"), 0))
	require.Equal(t, uint64(0xd3ba2368a832afce), murmur64A([]byte("hello world"), 0))

	file, err := os.Open("testdata/golden/hash-murmur64a.txt")
	require.NoError(t, err)
	defer file.Close()
	lines := 0
	for s := bufio.NewScanner(file); s.Scan(); lines++ {
		var n int
		var a, b, c uint64
		_, err := fmt.Sscanf(s.Text(), "%d %x %x %x", &n, &a, &b, &c)
		require.NoError(t, err)
		h1, h2 := hashingOf(RedisBloom, 0).sum(golden.PatternKey(n))
		require.Equal(t, [3]uint64{a, b, c}, [3]uint64{h1, h2, murmur64A(golden.PatternKey(n), 0)}, "length %d", n)
	}
	require.Greater(t, lines, 130)
}

func TestXXHash(t *testing.T) {
	h1, h2 := xxhash64(nil, 0)
	require.Equal(t, uint64(0xef46db3751d8e999), h1) // published
	require.Equal(t, splitMix64(h1), h2)
	require.Equal(t, uint64(0xe220a8397b1dcdaf), splitMix64(0)) // first output of the generator from state 0
	for n := range 301 {
		d := xxhash.NewWithSeed(12345)
		d.Write(golden.PatternKey(n))
		h1, _ := xxhash64(golden.PatternKey(n), 12345)
		require.Equal(t, d.Sum64(), h1)
		h1, _ = xxhash64(golden.PatternKey(n), 0)
		require.Equal(t, xxhash.Sum64(golden.PatternKey(n)), h1)
	}
}

// Bytes outside the key neither matter nor change.
func TestHashStaysInsideTheKey(t *testing.T) {
	for _, s := range allSchemes {
		h := hashingOf(s, 0)
		clean, dirty := golden.PatternKey(40), make([]byte, 60)
		for i := range 40 {
			for j := i; j < 40; j++ {
				for k := range dirty {
					dirty[k] = 0xa5
				}
				at := 7 + i%8
				copy(dirty[at:], clean[i:j])
				before := string(dirty)
				w1, w2 := h.sum(append([]byte(nil), clean[i:j]...))
				h1, h2 := h.sum(dirty[at : at+j-i])
				require.Equal(t, [2]uint64{w1, w2}, [2]uint64{h1, h2}, "%v [%d:%d]", s, i, j)
				require.Equal(t, before, string(dirty))
			}
		}
	}
}

func TestHashSeesEveryBit(t *testing.T) {
	for _, s := range allSchemes {
		h := hashingOf(s, 0)
		for n := range 65 {
			key := golden.PatternKey(n)
			w1, w2 := h.sum(key)
			for bit := range 8 * n {
				key[bit/8] ^= 1 << (bit % 8)
				h1, h2 := h.sum(key)
				require.False(t, h1 == w1 || h2 == w2, "%v length %d bit %d", s, n, bit)
				key[bit/8] ^= 1 << (bit % 8)
			}
		}
	}
}

// bigPositions is the formula of a scheme, computed with math/big.
func bigPositions(s Scheme, h1, h2, m uint64, k int) []uint64 {
	wrap := new(big.Int).Lsh(big.NewInt(1), 64)
	mod := new(big.Int).SetUint64(m)
	var out []uint64
	for i := range int64(k) {
		x := new(big.Int).SetUint64(h2)
		x.Mul(x, big.NewInt(i))
		x.Add(x, new(big.Int).SetUint64(h1))
		if s != RedisBloom {
			x.Add(x, big.NewInt(i*i))
		}
		x.Mod(x, wrap)
		x.Mod(x, mod)
		out = append(out, x.Uint64())
	}
	return out
}

// randomSize draws m from 64 … 2^48: any number, a multiple of 64, a power of
// two or its neighbour.
func randomSize(r *rand.Rand) uint64 {
	m := uint64(64) << r.IntN(43)
	switch r.IntN(4) {
	case 0:
		return m
	case 1:
		return min(max(64, m+r.Uint64N(3)-1), 1<<48)
	case 2:
		return min(m+64*r.Uint64N(max(1, m/64)), 1<<48)
	default:
		return min(m+r.Uint64N(m), 1<<48)
	}
}

func TestPositionsAreTheFormula(t *testing.T) {
	r := newRand(2)
	for _, s := range allSchemes {
		for i := range 10_000 {
			p := Params{Bits: randomSize(r), Hashes: 1 + r.IntN(40), Scheme: s}
			l := testLayout(p, 0)
			h1, h2 := r.Uint64(), r.Uint64()
			switch i % 8 {
			case 0:
				h2 = 0
			case 1:
				h2 = p.Bits * r.Uint64N(math.MaxUint64/p.Bits)
			case 2:
				h1, h2 = math.MaxUint64-r.Uint64N(99), math.MaxUint64-r.Uint64N(99)
			}
			got := l.positions(nil, l.probes(h1, h2))
			require.Equal(t, bigPositions(s, h1, h2, p.Bits, p.Hashes), got, "%+v h1 %#x h2 %#x", p, h1, h2)
		}
	}
}

func TestFilterPositions(t *testing.T) {
	r := newRand(3)
	sizes := []uint64{1, 2, 63, 64, 65, 127, 128, 4096, 9592, 1<<20 + 1}
	if !raceEnabled { // which takes several times the memory
		sizes = append(sizes, 3<<29)
	}
	if math.MaxInt > math.MaxInt32 && !testing.Short() {
		sizes = append(sizes, 1<<33) // a GiB, more than a 32-bit machine or an emulator should be asked for
	}
	for _, s := range allSchemes {
		for _, m := range sizes {
			f := Must(NewWithSize(m, 13, withScheme(s)))
			require.Equal(t, m, f.Bits())
			key := make([]byte, r.IntN(40))
			for range 20 {
				for i := range key {
					key[i] = byte(r.Uint32())
				}
				h1, h2 := f.Digest(key).Words()
				want := bigPositions(s, h1, h2, m, 13)
				got := f.Positions([]uint64{42}, key)
				require.Equal(t, append([]uint64{42}, want...), got)
				for _, pos := range want {
					f.bits.set(pos)
				}
				require.True(t, f.Contains(key), "the bits at its positions make a key present")
				require.False(t, f.Add(key))
			}
		}
	}
}

// In the native schemes an h2 that is nothing mod m still gives k bits.
func TestPositionsDoNotCollapse(t *testing.T) {
	for _, s := range []Scheme{Murmur3, XXHash, SipHash} {
		for _, k := range []int{2, 7, 30} {
			for _, m := range []uint64{uint64(k*k) + 1, 64 * uint64(k*k), 1 << 20, 958_592} {
				l := testLayout(Params{m, k, s}, 0)
				for _, h2 := range []uint64{0, m, 17 * m} {
					seen := map[uint64]bool{}
					for _, pos := range l.positions(nil, l.probes(m-1, h2)) {
						seen[pos] = true
					}
					require.Len(t, seen, k, "%v m %d h2 %d", s, m, h2)
				}
			}
		}
	}
}

func TestModulusIsExact(t *testing.T) {
	r := newRand(4)
	check := func(m uint64) {
		d := newModulus(m)
		xs := []uint64{0, 1, 63, 64, m - 1, m, m + 1, 2*m - 1, math.MaxUint64, math.MaxUint64 - 63,
			math.MaxUint64 / m * m, math.MaxUint64/m*m - 1, r.Uint64(), r.Uint64(), r.Uint64() >> 20}
		for _, x := range xs {
			if got := d.of(x); got != x%m {
				t.Fatalf("%d mod %d: %d, want %d", x, m, got, x%m)
			}
		}
	}
	for m := uint64(1); m <= 300; m++ {
		check(m)
	}
	for w := uint64(1); w <= 100_000; w++ {
		check(64 * w)
	}
	for shift := 7; shift <= 48; shift++ {
		for around := uint64(0); around <= 8; around++ {
			check(1<<shift + 64*around)
			check(1<<shift - 64*around + 64*8)
		}
	}
	for range 100_000 {
		check(randomSize(r))
	}
}

func TestKeyForms(t *testing.T) {
	for _, s := range allSchemes {
		f := Must(New(100, 0.01, withScheme(s)))
		require.Equal(t, f.Digest(nil), f.Digest([]byte{}))
		require.Equal(t, f.Digest(nil), f.DigestString(""))
		require.Equal(t, f.Digest([]byte("κλειδί")), f.DigestString("κλειδί"))
		require.Equal(t, f.Digest([]byte{8, 7, 6, 5, 4, 3, 2, 1}), f.DigestUint64(0x0102030405060708))
		require.NotEqual(t, f.DigestString("a"), f.DigestString("b"))

		require.False(t, f.Contains(nil), "an empty filter holds not even the empty key")
		require.True(t, f.Add(nil))
		require.True(t, f.ContainsString(""))
		require.False(t, f.Add([]byte{}))
	}
}

func TestForeignDigestPanics(t *testing.T) {
	murmur := Must(New(100, 0.01))
	seeded := Must(New(100, 0.01, WithSeed(1)))
	xx := Must(New(100, 0.01, WithScheme(XXHash)))
	redis := Must(New(100, 0.01, WithScheme(RedisBloom)))
	bigger := Must(New(100_000, 0.001))
	counting := Must(NewCounting(100, 0.01))
	d := murmur.DigestString("key")
	for _, f := range []*Filter{seeded, xx, redis} {
		require.Panics(t, func() { f.AddDigest(d) })
		require.Panics(t, func() { f.ContainsDigest(d) })
	}
	require.PanicsWithValue(t, "bloom: Digest made by Murmur3 used with a filter that hashes by Murmur3 with seed 0x1",
		func() { seeded.AddDigest(d) })
	require.Panics(t, func() { murmur.ContainsDigest(Digest{}) }, "the zero Digest belongs to no filter")
	require.Panics(t, func() { counting.AddDigest(xx.DigestString("key")) })
	require.Panics(t, func() { counting.RemoveDigest(xx.DigestString("key")) })
	require.Panics(t, func() { counting.CountDigest(xx.DigestString("key")) })

	cuckoo := Must(NewCuckoo(100, 0, WithScheme(RedisBloom)))
	require.Panics(t, func() { cuckoo.AddDigest(redis.DigestString("key")) }, "Redis hashes keys of the two kinds differently")
	require.Panics(t, func() { cuckoo.RemoveDigest(redis.DigestString("key")) })
	require.Panics(t, func() { redis.AddDigest(cuckoo.DigestString("key")) })

	require.True(t, bigger.AddDigest(d), "sizes do not matter")
	require.True(t, bigger.ContainsString("key"))
	require.True(t, counting.AddDigest(d))
	require.True(t, counting.ContainsString("key"))
}

func TestSchemeNames(t *testing.T) {
	require.Equal(t, "Murmur3 XXHash RedisBloom SipHash Scheme(9)",
		strings.Join([]string{Murmur3.String(), XXHash.String(), RedisBloom.String(), SipHash.String(), Scheme(9).String()}, " "))
}

func TestParamsPositions(t *testing.T) {
	for _, scheme := range []Scheme{Murmur3, XXHash, SipHash, RedisBloom} {
		for _, bits := range []uint64{1, 63, 64, 1000, 1 << 20, 10_000_019} {
			opts := []Option{WithScheme(scheme)}
			switch scheme {
			case SipHash:
				opts = append(opts, WithKey([16]byte{1, 2, 3}))
			case Murmur3, XXHash:
				opts = append(opts, WithSeed(99))
			}
			f := Must(NewWithSize(bits, 9, opts...))
			small := Must(NewWithSize(64, 1, opts...))
			for i := range uint64(50) {
				key := []byte(strconv.FormatUint(i, 36))
				p := Params{Bits: bits, Hashes: 9, Scheme: scheme}
				require.Equal(t, f.Positions(nil, key), p.Positions(nil, small.Digest(key)))
			}
		}
	}
	d := Must(New(1, 0.1)).DigestString("a")
	require.Empty(t, Params{Hashes: 3}.Positions(nil, d))
	require.Panics(t, func() { Params{Bits: 64, Hashes: 3, Scheme: RedisBloom}.Positions(nil, d) })
	require.Panics(t, func() { Params{Bits: 64, Hashes: 3, Scheme: 200}.Positions(nil, d) })
	require.Panics(t, func() {
		Params{Bits: 64, Hashes: 3, Scheme: RedisBloom}.Positions(nil, Must(NewCuckoo(9, 0, WithScheme(RedisBloom))).DigestString("a"))
	})
}
