package bloom

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
)

// sizesToTry are lengths around the edges of bytes and words.
var sizesToTry = []uint64{1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000, 4096}

func TestBitsetAgainstMap(t *testing.T) {
	r := newRand(10)
	for _, n := range sizesToTry {
		b, model := newBitset(n), map[uint64]bool{}
		for range 2 * n {
			i := r.Uint64N(n)
			require.Equal(t, model[i], b.test(i))
			require.Equal(t, !model[i], b.set(i))
			model[i] = true
		}
		require.Equal(t, uint64(len(model)), b.count())
		for i := range n {
			require.Equal(t, model[i], b.test(i))
		}
	}
}

func TestBitsetSetOperations(t *testing.T) {
	r := newRand(11)
	for _, n := range sizesToTry {
		a, b := newBitset(n), newBitset(n)
		for range n {
			a.set(r.Uint64N(n))
			b.set(r.Uint64N(n))
		}
		union, both := a.clone(), a.clone()
		union.union(&b)
		both.intersect(&b)
		for i := range n {
			require.Equal(t, a.test(i) || b.test(i), union.test(i))
			require.Equal(t, a.test(i) && b.test(i), both.test(i))
		}
		same := a.clone()
		require.True(t, a.equal(&same))
		i := r.Uint64N(n)
		same.words[i/64] ^= 1 << (i % 64)
		require.False(t, a.equal(&same), "a clone shares nothing")
		other := newBitset(n + 1)
		require.False(t, a.equal(&other))
		a.clear()
		require.Zero(t, a.count())
	}
}

func TestByteOrder(t *testing.T) {
	if littleEndian {
		require.EqualValues(t, 1, binary.NativeEndian.Uint16([]byte{1, 0}))
	}
}

func TestBitsetBytes(t *testing.T) {
	r := newRand(12)
	for _, n := range sizesToTry {
		b := newBitset(n)
		for range n {
			b.set(r.Uint64N(n))
		}
		little := b.appendBytes([]byte("x"))[1:]
		redis := b.appendRedisString([]byte("x"), 0, b.byteLen())[1:]
		require.Len(t, little, int(n+7)/8)
		require.Len(t, redis, int(n+7)/8)
		for i := range n {
			require.Equal(t, b.test(i), little[i/8]>>(i%8)&1 != 0)
			require.Equal(t, b.test(i), redis[i/8]&(0x80>>(i%8)) != 0)
		}
		back := newBitset(n)
		kept := bytes.Clone(redis)
		require.NoError(t, back.setRedisString(redis))
		require.True(t, b.equal(&back))
		require.Equal(t, kept, redis, "the input is left alone")

		for from := range uint64(len(little)) {
			for to := from; to <= uint64(len(little)); to += 1 + to/16 {
				require.Equal(t, string(little[from:to]), string(b.bytes(from, to)))
			}
		}

		// Too short, too long, and a bit past the end: refused, nothing changed.
		require.ErrorIs(t, back.setRedisString(redis[1:]), ErrCorrupt)
		require.ErrorIs(t, back.setRedisString(append(redis, 0)), ErrCorrupt)
		if n%8 != 0 {
			dirty := bytes.Clone(redis)
			dirty[0] ^= 1
			dirty[len(dirty)-1] |= 0x80 >> (n % 8)
			require.ErrorIs(t, back.setRedisString(dirty), ErrCorrupt)
		}
		require.True(t, b.equal(&back))
	}
}

func TestFieldsAgainstSlice(t *testing.T) {
	r := newRand(13)
	for width := uint64(1); width <= 64; width++ {
		const n = 200
		f, model := newFields(n, width), make([]uint64, n)
		for range 10 * n {
			i := r.Uint64N(n)
			v := r.Uint64() >> (64 - width)
			require.Equal(t, model[i], f.get(i))
			f.put(i, v)
			model[i] = v
		}
		for i, v := range model {
			require.Equal(t, v, f.get(uint64(i)), "width %d: neighbours never change", width)
		}
		clone := f.clone()
		require.True(t, clone.equal(&f.bitset))
	}
}

func TestNibbles(t *testing.T) {
	const n = 16*16*2 + 5
	a, b := newFields(n, 4), newFields(n, 4)
	for i := range uint64(n) {
		a.put(i, i%16)
		b.put(i, i/16%16)
	}
	sum, least := a.clone(), a.clone()
	sum.addNibbles(&b)
	least.minNibbles(&b)
	set, count := a.nonzeroBits(), uint64(0)
	for i := range uint64(n) {
		x, y := i%16, i/16%16
		require.Equal(t, min(15, x+y), sum.get(i), "%d + %d", x, y)
		require.Equal(t, min(x, y), least.get(i))
		require.Equal(t, x != 0, set.test(i))
		if x != 0 {
			count++
		}
	}
	require.Equal(t, uint64(n), set.n)
	require.Equal(t, count, set.count())
	require.Equal(t, count, a.nonzeroNibbles())
}

// A probe loop agrees with the plain one for every k, whether m is whole words
// or not.
func TestTestAllAgainstTest(t *testing.T) {
	r := newRand(14)
	for _, m := range []uint64{1, 64, 100, 128, 192, 640, 1 << 12} {
		for k := 1; k <= 20; k++ {
			l := testLayout(Params{m, k, Murmur3}, 0)
			b := newBitset(m)
			for range m * 4 { // ends nearly full, so that both answers occur at each k
				p := l.probes(r.Uint64(), r.Uint64())
				want := true
				for _, pos := range l.positions(nil, p) {
					want = want && b.test(pos)
				}
				require.Equal(t, want, b.testAll(&l.mod, p), "m %d k %d", m, k)
				if r.IntN(4*k) == 0 {
					require.Equal(t, !want, b.setAll(&l.mod, p))
				}
			}
		}
	}
	var none bitset
	require.False(t, none.testAll(&modulus{}, probes{}))
}

func TestWordsFor(t *testing.T) {
	for _, n := range []uint64{0, 1, 63, 64, 65, 1 << 48, 1<<64 - 1, 1<<64 - 64} {
		q, r := n/64, n%64
		want := q + uint64(bits.Len64(r)+63)/64
		require.Equal(t, want, wordsFor(n))
	}
}
