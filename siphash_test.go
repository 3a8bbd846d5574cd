package bloom

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// testKey is the key of the published vectors: the bytes 0 … 15.
var testKey = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// withScheme is WithScheme, and testKey where that takes one.
func withScheme(s Scheme) Option { return withSeed(s, 0) }

// withSeed gives a scheme a seed; in SipHash the seed changes the key.
func withSeed(s Scheme, seed uint64) Option {
	return func(c *config) {
		WithScheme(s)(c)
		if s == SipHash {
			WithKey(testConfig(s, seed).key)(c)
		} else if seed != 0 {
			WithSeed(seed)(c)
		}
	}
}

func hashingOf(s Scheme, seed uint64) hashing {
	c := testConfig(s, seed)
	return c.hashing()
}

func testLayout(p Params, seed uint64) layout { return newLayout(p, testConfig(p.Scheme, seed)) }

func testConfig(s Scheme, seed uint64) config {
	c := config{scheme: s, seed: seed, key: testKey}
	for i, b := range uint64Bytes(seed) {
		c.key[i] ^= b
	}
	return c
}

// The 64 vectors that the authors publish for the output of 128 bits: of the messages
// of 0 … 63 bytes 0, 1, 2, … under testKey. OpenSSL computed the file.
func TestSipHashVectors(t *testing.T) {
	file, err := os.Open("testdata/siphash128.txt")
	require.NoError(t, err)
	defer file.Close()
	message := []byte{}
	for s := bufio.NewScanner(file); s.Scan(); message = append(message, byte(len(message))) {
		h1, h2 := hashingOf(SipHash, 0).sum(message)
		b1, b2 := uint64Bytes(h1), uint64Bytes(h2)
		require.Equal(t, s.Text(), hex.EncodeToString(b1[:])+hex.EncodeToString(b2[:]), "length %d", len(message))
	}
	require.Len(t, message, 64)
}

// plainSipHash is SipHash-2-4 with 128 bits of output as its paper has it, a byte and a
// statement at a time.
func plainSipHash(key [16]byte, message []byte) (h1, h2 uint64) {
	word := littleEndianWord
	k0, k1 := word(key[:8]), word(key[8:])
	v := [4]uint64{
		k0 ^ word([]byte("uespemos")), k1 ^ word([]byte("modnarod")) ^ 0xee,
		k0 ^ word([]byte("arenegyl")), k1 ^ word([]byte("setybdet")),
	}
	half := func(a, b, c, d int, s, t int) {
		v[a] += v[b]
		v[c] += v[d]
		v[b] = bits.RotateLeft64(v[b], s)
		v[d] = bits.RotateLeft64(v[d], t)
		v[b] ^= v[a]
		v[d] ^= v[c]
		v[a] = bits.RotateLeft64(v[a], 32)
	}
	rounds := func(n int) {
		for range n {
			half(0, 1, 2, 3, 13, 16)
			half(2, 1, 0, 3, 17, 21)
		}
	}
	padded := append([]byte(nil), message...)
	for len(padded)%8 != 7 {
		padded = append(padded, 0)
	}
	padded = append(padded, byte(len(message)))
	for ; len(padded) > 0; padded = padded[8:] {
		m := word(padded)
		v[3] ^= m
		rounds(2)
		v[0] ^= m
	}
	v[2] ^= 0xee
	rounds(4)
	h1 = v[0] ^ v[1] ^ v[2] ^ v[3]
	v[1] ^= 0xdd
	rounds(4)
	return h1, v[0] ^ v[1] ^ v[2] ^ v[3]
}

// Every length to 600 at every alignment, under three keys.
func TestSipHashAgainstPlain(t *testing.T) {
	buf := make([]byte, 620)
	r := newRand(21)
	for i := range buf {
		buf[i] = byte(r.Uint32())
	}
	for _, seed := range []uint64{0, 1, r.Uint64()} {
		c := testConfig(SipHash, seed)
		h := c.hashing()
		for n := range 601 {
			key := buf[n%17 : n%17+n]
			h1, h2 := h.sum(key)
			w1, w2 := plainSipHash(c.key, key)
			require.Equal(t, [2]uint64{w1, w2}, [2]uint64{h1, h2}, "length %d", n)
		}
	}
}

func TestSipHashAgainstOpenSSL(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a program")
	}
	r := newRand(22)
	file := filepath.Join(t.TempDir(), "message")
	for i := range 10 {
		var key [16]byte
		message := make([]byte, r.IntN(2000))
		for i := range key {
			key[i] = byte(r.Uint32())
		}
		for i := range message {
			message[i] = byte(r.Uint32())
		}
		require.NoError(t, os.WriteFile(file, message, 0o600))
		out, err := exec.Command("openssl", "mac", "-macopt", "hexkey:"+hex.EncodeToString(key[:]), "-macopt", "size:16",
			"-in", file, "SIPHASH").Output()
		if err != nil && i == 0 {
			t.Skipf("no OpenSSL with SipHash here: %v", err)
		}
		require.NoError(t, err)
		h1, h2 := keyedHashing(key).sum(message)
		b1, b2 := uint64Bytes(h1), uint64Bytes(h2)
		require.Equal(t, strings.ToLower(strings.TrimSpace(string(out))), hex.EncodeToString(b1[:])+hex.EncodeToString(b2[:]))
	}
}

// murmur3Twins are two keys of 32 bytes with one MurmurHash3 x64 128 under every
// seed. A block of 16 bytes is mixed by one-to-one functions before it enters the
// state, so that it can be chosen to enter with any difference. In the first
// block, 2^36 in the first word becomes 2^63 with the rotation, which additions and
// a product with an odd number leave alone: h1 differs by 2^63. 2^32 in the second word
// becomes 2^63 too, and h1 is added to it: no difference of h2. In the second block
// 2^63 in the first word takes that of h1 away.
func murmur3Twins(block [32]byte) (a, b [32]byte) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	inverse := func(c uint64) uint64 { // mod 2^64, by Newton's iteration
		x := c
		for range 6 {
			x *= 2 - c*x
		}
		return x
	}
	flip := func(at int, first, second uint64, rotation int, difference uint64) {
		word := littleEndianWord(block[at:])
		mixed := bits.RotateLeft64(word*first, rotation)*second ^ difference
		word = bits.RotateLeft64(mixed*inverse(second), -rotation) * inverse(first)
		for i, x := range uint64Bytes(word) {
			b[at+i] = x
		}
	}
	a, b = block, block
	flip(0, c1, c2, 31, 1<<36)
	flip(8, c2, c1, 33, 1<<32)
	flip(16, c1, c2, 31, 1<<63)
	return a, b
}

// Keys that collide in MurmurHash3 under every seed: a filter of that scheme that holds one holds
// the other, which under SipHash's key are any two keys.
func TestSipHashAgainstChosenKeys(t *testing.T) {
	r := newRand(23)
	seeds := []uint64{0, 1, 1<<32 - 1, r.Uint64(), r.Uint64(), r.Uint64()}
	filters := make([]*Filter, len(seeds))
	for i, seed := range seeds {
		filters[i] = Must(New(1000, 1e-6, WithSeed(seed)))
	}
	keyed := Must(New(1000, 1e-6, withScheme(SipHash)))
	xx := Must(New(1000, 1e-6, WithScheme(XXHash)))
	for range 1000 {
		var block [32]byte
		for i := range block {
			block[i] = byte(r.Uint32())
		}
		a, b := murmur3Twins(block)
		require.NotEqual(t, a, b)
		for _, f := range filters {
			require.Equal(t, f.Digest(a[:]), f.Digest(b[:]))
			f.Add(a[:])
			require.True(t, f.Contains(b[:]))
		}
		a1, a2 := keyed.Digest(a[:]).Words()
		b1, b2 := keyed.Digest(b[:]).Words()
		require.False(t, a1 == b1 || a2 == b2)
		keyed.Add(a[:])
		xx.Add(a[:])
		require.False(t, keyed.Contains(b[:]), "a false positive has a chance of 1e-6")
		require.False(t, xx.Contains(b[:]))
	}
	// Blocks can be strung together: 2^n keys of 32·n bytes with one hash.
	var keys []string
	for i := range 1 << 10 {
		var key []byte
		for bit := range 10 {
			var block [32]byte
			block[0] = byte(bit)
			a, b := murmur3Twins(block)
			if i>>bit&1 == 0 {
				key = append(key, a[:]...)
			} else {
				key = append(key, b[:]...)
			}
		}
		keys = append(keys, string(key))
	}
	c := Must(NewCuckoo(1<<16, 0.01, WithSeed(r.Uint64())))
	taken := 0
	for _, key := range keys {
		if _, err := c.AddString(key); err != nil {
			break
		}
		taken++
	}
	require.Less(t, taken, 40, "a cuckoo filter for 65,536 keys is full of some that collide")
	c = Must(NewCuckoo(1<<16, 0.01, withScheme(SipHash)))
	for _, key := range keys {
		_, err := c.AddString(key)
		require.NoError(t, err)
	}
}

func TestSipHashKeys(t *testing.T) {
	other := testKey
	other[15] ^= 0x80
	for _, c := range []struct {
		opts    []Option
		message string
	}{
		{[]Option{WithScheme(SipHash)}, "the SipHash scheme needs a key, give one with WithKey"},
		{[]Option{WithScheme(SipHash), WithKey([16]byte{})}, "the key is 16 zeros"},
		{[]Option{WithScheme(SipHash), WithKey(testKey), WithSeed(1)}, "WithSeed(0x1), but the SipHash scheme takes no seed"},
		{[]Option{WithKey(testKey)}, "WithKey, but the scheme is Murmur3, want SipHash"},
		{[]Option{WithScheme(XXHash), WithKey(testKey)}, "WithKey, but the scheme is XXHash"},
		{[]Option{WithScheme(RedisBloom), WithKey(testKey)}, "WithKey, but the scheme is RedisBloom"},
	} {
		check := func(_ any, err error) {
			t.Helper()
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, c.message)
		}
		check(New(100, 0.01, c.opts...))
		check(NewWithSize(100, 3, c.opts...))
		check(NewScalable(100, 0.01, c.opts...))
		check(NewCounting(100, 0.01, c.opts...))
		check(NewCuckoo(100, 0.01, c.opts...))
		check(NewConcurrent(100, 0.01, c.opts...))
		check(NewBlocked(100, 0.01, c.opts...))
		check(FromRedisBitmap(make([]byte, 8), 64, 3, c.opts...))
		if len(c.opts) == 1 && strings.Contains(c.message, "needs") {
			require.Equal(t, Must(New(100, 0.01, withScheme(SipHash))).params(), Must(Estimate(100, 0.01, c.opts...)), "sizes take no key")
			continue
		}
		check(Estimate(100, 0.01, c.opts...))
	}
	a, same := Must(New(100, 0.01, withScheme(SipHash))), Must(New(100, 0.01, WithKey(testKey), WithScheme(SipHash), WithSeed(0)))
	b := Must(New(100, 0.01, WithScheme(SipHash), WithKey(other)))
	require.True(t, a.Equal(same))
	require.NoError(t, a.Union(same))
	require.False(t, a.Equal(b))
	require.ErrorIs(t, a.Union(b), ErrMismatch)
	require.Equal(t, a.DigestString("x"), same.DigestString("x"))
	require.True(t, a.AddDigest(same.DigestString("x")))
	require.PanicsWithValue(t, fmt.Sprintf("bloom: Digest made by SipHash with the key of fingerprint %#x used with a filter that hashes by "+
		"SipHash with the key of fingerprint %#x", b.Info().Seed, a.Info().Seed), func() { a.ContainsDigest(b.DigestString("x")) })
	require.Panics(t, func() { a.ContainsDigest(Must(New(100, 0.01)).DigestString("x")) })

	// Equal of the kinds that compare otherwise.
	scalable := func(key [16]byte) *Scalable { return Must(NewScalable(100, 0.01, WithScheme(SipHash), WithKey(key))) }
	require.True(t, scalable(testKey).Equal(scalable(testKey)))
	require.False(t, scalable(testKey).Equal(scalable(other)))
	cuckoo := func(key [16]byte) *Cuckoo { return Must(NewCuckoo(100, 0.01, WithScheme(SipHash), WithKey(key))) }
	require.True(t, cuckoo(testKey).Equal(cuckoo(testKey)))
	require.False(t, cuckoo(testKey).Equal(cuckoo(other)))
	blocked := func(key [16]byte) *Blocked { return Must(NewBlocked(100, 0.01, WithScheme(SipHash), WithKey(key))) }
	require.True(t, blocked(testKey).Equal(blocked(testKey)))
	require.ErrorIs(t, blocked(testKey).Union(blocked(other)), ErrMismatch)
}

// The fingerprint is what other programs compute too, and nothing that is printed shows the key.
func TestSipHashKeyIsNotShown(t *testing.T) {
	w1, _ := plainSipHash(testKey, []byte("redbloom-go/bloom: fingerprint of a SipHash key"))
	f := Must(New(100, 0.01, withScheme(SipHash)))
	require.Equal(t, w1, f.Info().Seed)
	require.Equal(t, uint64(0x6f8bd8caab444502), w1)

	other := Must(New(100, 0.01, WithScheme(SipHash), WithKey([16]byte{1})))
	js, err := json.Marshal(f.Info())
	require.NoError(t, err)
	texts := []string{string(js), f.hash.String(), f.Union(other).Error()}
	for _, v := range []any{f, *f, f.Info(), f.DigestString("key"), Must(NewCuckoo(100, 0.01, withScheme(SipHash)))} {
		texts = append(texts, fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v))
	}
	_, err = New(100, 0.01, withScheme(SipHash), WithSeed(1))
	require.True(t, errors.Is(err, ErrInvalid))
	texts = append(texts, err.Error())
	k0, k1 := uint64(0x0706050403020100), uint64(0x0f0e0d0c0b0a0908)
	for _, text := range texts {
		for _, word := range []string{fmt.Sprint(k0), fmt.Sprint(k1), fmt.Sprintf("%x", k0), fmt.Sprintf("%x", k1), "0, 1, 2, 3", "0 1 2 3", "0x0, 0x1, 0x2", hex.EncodeToString(testKey[:])} {
			require.NotContains(t, text, word)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	for _, n := range []int{8, 16, 32, 256} {
		key := golden.PatternKey(n)
		for _, s := range allSchemes {
			b.Run(fmt.Sprintf("scheme=%v/bytes=%d", s, n), func(b *testing.B) {
				h := hashingOf(s, 0)
				sum := uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					h1, h2 := h.sum(key)
					sum += h1 ^ h2
				}
				benchSink = sum
			})
		}
	}
}

var benchSink uint64

// TestKeyIsNotPrinted: no verb of package fmt shows the key, in words or in bytes, of any kind of filter.
func TestKeyIsNotPrinted(t *testing.T) {
	k := sipKey{0x0706050403020100, 0x0f0e0d0c0b0a0908} // testKey
	var secrets []string
	for _, word := range []uint64{k.k0, k.k1} {
		for _, verb := range []string{"%d", "%x", "%X", "%o", "%b"} {
			secrets = append(secrets, fmt.Sprintf(verb, word))
		}
	}
	for _, w := range writtenFilters(t) {
		if w.filter.hashing().fn != hashSipHash {
			continue
		}
		for _, verb := range strings.Split("v +v #v s q d t e g c U O x X o b z #s +q p w", " ") {
			for _, v := range []any{w.filter, reflect.ValueOf(w.filter).Elem().Interface(), []any{w.filter}, struct{ F any }{w.filter}} {
				text := fmt.Sprintf("%"+verb, v)
				for _, secret := range secrets {
					require.NotContains(t, text, secret, "%%%s of %s", verb, w.name)
				}
			}
		}
	}
}
