package bloom

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"unique"
)

// WithKey gives the [SipHash] scheme its key, which it cannot do without; in other
// schemes it is an error, and so is a key of 16 zeros, which is what a key that was never
// read looks like. Draw the key with crypto/rand and keep it as you keep any secret:
// whoever knows it can make keys that collide, as with any other hash.
//
// Filters are combined, digests shared and encodings read only under the key that
// they were made with. Encodings, [Info] and error messages have in its place a fingerprint
// of 64 bits, h1 of the text "redbloom-go/bloom: fingerprint of a SipHash key": two keys are told
// apart by it but for a chance of 2^-64, and nothing about a random key follows from
// it. A key that can be guessed can be found out by it.
func WithKey(key [16]byte) Option {
	return func(c *config) { c.key, c.given = key, c.given|optKey }
}

const fingerprintText = "redbloom-go/bloom: fingerprint of a SipHash key"

// checkKey holds the rules of scheme, seed and key together.
func (c *config) checkKey(needed bool) error {
	given := c.given&optKey != 0
	switch {
	case c.scheme != SipHash && given:
		return fmt.Errorf("%w: WithKey, but the scheme is %v, want SipHash", ErrInvalid, c.scheme)
	case c.scheme != SipHash:
		return nil
	case c.seed != 0:
		return fmt.Errorf("%w: WithSeed(%#x), but the SipHash scheme takes no seed: another key does what a seed would",
			ErrInvalid, c.seed)
	case needed && !given:
		return fmt.Errorf("%w: the SipHash scheme needs a key, give one with WithKey", ErrInvalid)
	}
	return nil
}

// keyedHashing is the hashing of the SipHash scheme.
func keyedHashing(key [16]byte) hashing {
	k := sipKey{binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])}
	fingerprint, _ := k.sum([]byte(fingerprintText))
	return hashing{origin{fingerprint, hashSipHash}, unique.Make(k.hide())}
}

// sipKey is a key of SipHash as the two words that it is used in.
type sipKey struct{ k0, k1 uint64 }

// hiddenKey is a sipKey under a mask of this process: package fmt follows the pointer of a handle for some
// verbs, and what it prints must not be the key.
type hiddenKey sipKey

var keyMask = sync.OnceValue(func() (mask sipKey) {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return sipKey{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
})

func (k sipKey) hide() hiddenKey {
	m := keyMask()
	return hiddenKey{k.k0 ^ m.k0, k.k1 ^ m.k1}
}

func (k hiddenKey) key() sipKey { return sipKey(sipKey(k).hide()) }

func (k sipKey) bytes() (key [16]byte) {
	binary.LittleEndian.PutUint64(key[:], k.k0)
	binary.LittleEndian.PutUint64(key[8:], k.k1)
	return key
}

// sum is SipHash-2-4 of data with an output of 128 bits, as two little-endian words
// (Aumasson and Bernstein, 2012; the longer output is the authors' of 2014: 0xee in place
// of 0xff, and four more rounds).
func (k sipKey) sum(data []byte) (h1, h2 uint64) {
	v0, v1 := k.k0^0x736f6d6570736575, k.k1^0x646f72616e646f6d^0xee
	v2, v3 := k.k0^0x6c7967656e657261, k.k1^0x7465646279746573
	last := uint64(len(data)) << 56 // and the bytes that fill no word
	for len(data) >= 8 {
		m := binary.LittleEndian.Uint64(data)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
		data = data[8:]
	}
	if len(data) > 0 {
		last |= partial(data)
	}
	v3 ^= last
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= last
	v2 ^= 0xee
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	h1 = v0 ^ v1 ^ v2 ^ v3
	v1 ^= 0xdd
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return h1, v0 ^ v1 ^ v2 ^ v3
}

// sipRound is small enough that the compiler puts it in place of each call.
func sipRound(v0, v1, v2, v3 uint64) (_, _, _, _ uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v1
	v0 += v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
