package bloom

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// script is what a fuzzer wrote: operations and keys, a byte each. At its end it gives zeros.
type script []byte

func (s *script) next() (b byte) {
	if len(*s) > 0 {
		b, *s = (*s)[0], (*s)[1:]
	}
	return b
}

// key is one of 256: nothing, numbers, and bytes of other lengths.
func (s *script) key() []byte {
	switch b := s.next(); {
	case b == 0:
		return nil
	case b < 128:
		key := uint64Bytes(uint64(b))
		return key[:]
	default:
		return golden.PatternKey(int(b - 127))
	}
}

func (s *script) keys() (keys [][]byte) {
	for range s.next() % 80 { // more than a batch
		keys = append(keys, s.key())
	}
	return keys
}

func asStrings(keys [][]byte) (texts []string) {
	for _, key := range keys {
		texts = append(texts, string(key))
	}
	return texts
}

// ask calls one of the four twins of a method.
func ask[R any](form byte, key []byte, digest func([]byte) Digest,
	ofBytes func([]byte) R, ofString func(string) R, ofUint64 func(uint64) R, ofDigest func(Digest) R) R {
	switch {
	case form%4 == 1:
		return ofString(string(key))
	case form%4 == 2:
		return ofDigest(digest(key))
	case form%4 == 3 && len(key) == 8:
		return ofUint64(binary.LittleEndian.Uint64(key))
	}
	return ofBytes(key)
}

// setFilter is what Filter, Concurrent and Blocked have alike.
type setFilter[F any] interface {
	Digest(key []byte) Digest
	Positions(dst []uint64, key []byte) []uint64
	Add(key []byte) bool
	AddString(key string) bool
	AddUint64(key uint64) bool
	AddDigest(d Digest) bool
	AddMany(dst []bool, keys [][]byte) []bool
	AddManyString(dst []bool, keys []string) []bool
	Contains(key []byte) bool
	ContainsString(key string) bool
	ContainsUint64(key uint64) bool
	ContainsDigest(d Digest) bool
	ContainsMany(dst []bool, keys [][]byte) []bool
	ContainsManyString(dst []bool, keys []string) []bool
	Union(F) error
	Equal(F) bool
	Clone() F
	Reset()
	Len() uint64
	Bits() uint64
	EstimateLen() float64
	Info() Info
}

// setModel is a filter beside the positions that should be set in it, and the keys that
// were added to it.
type setModel[F setFilter[F]] struct {
	f         F
	set       map[uint64]bool
	keys      map[string]bool
	len       uint64
	estimated bool
}

func (m *setModel[F]) contains(key []byte) bool {
	for _, p := range m.f.Positions(nil, key) {
		if !m.set[p] {
			return false
		}
	}
	return true
}

func (m *setModel[F]) add(key []byte) bool {
	if m.keys[string(key)] = true; m.contains(key) {
		return false
	}
	for _, p := range m.f.Positions(nil, key) {
		m.set[p] = true
	}
	m.len++
	return true
}

func (m *setModel[F]) check(t *testing.T) {
	info := m.f.Info()
	require.Equal(t, float64(len(m.set))/float64(m.f.Bits()), info.FillRatio)
	require.True(t, info.ErrorRate >= 0 && info.ErrorRate <= 1)
	require.Equal(t, m.estimated, info.LenEstimated)
	require.Equal(t, m.f.Len(), info.Len)
	if !m.estimated {
		require.Equal(t, m.len, info.Len)
	}
	if estimate := m.f.EstimateLen(); len(m.set) == int(m.f.Bits()) {
		require.True(t, math.IsInf(estimate, 1))
	} else {
		require.True(t, estimate >= 0 && !math.IsInf(estimate, 1))
	}
	for key := range m.keys {
		require.True(t, m.f.ContainsString(key), "a key that was added is not found")
	}
}

// fuzzSet follows a script with two filters of the same parameters. intersect is nil where a kind has
// none.
func fuzzSet[F setFilter[F]](t *testing.T, a, b F, s script, intersect func(a, b F) error) F {
	models := [2]*setModel[F]{{f: a, set: map[uint64]bool{}, keys: map[string]bool{}}, {f: b, set: map[uint64]bool{}, keys: map[string]bool{}}}
	for len(s) > 0 {
		op := s.next()
		m, other := models[op>>7], models[1-op>>7]
		form := op >> 5
		switch op % 8 {
		case 0, 1:
			key := s.key()
			added := ask(form, key, m.f.Digest, m.f.Add, m.f.AddString, m.f.AddUint64, m.f.AddDigest)
			require.Equal(t, m.add(key), added)
		case 2:
			key := s.key()
			require.Equal(t, m.contains(key), ask(form, key, m.f.Digest, m.f.Contains, m.f.ContainsString, m.f.ContainsUint64, m.f.ContainsDigest))
		case 3:
			want, got, keys := []bool{true}, []bool{true}, s.keys()
			for _, key := range keys {
				want = append(want, m.add(key))
			}
			if form%2 == 0 {
				got = m.f.AddMany(got, keys)
			} else {
				got = m.f.AddManyString(got, asStrings(keys))
			}
			require.Equal(t, want, got)
		case 4:
			want, got, keys := []bool{true}, []bool{true}, s.keys()
			for _, key := range keys {
				want = append(want, m.contains(key))
			}
			if form%2 == 0 {
				got = m.f.ContainsMany(got, keys)
			} else {
				got = m.f.ContainsManyString(got, asStrings(keys))
			}
			require.Equal(t, want, got)
		case 5:
			require.NoError(t, m.f.Union(other.f))
			for p := range other.set {
				m.set[p] = true
			}
			for key := range other.keys {
				m.keys[key] = true
			}
			m.estimated = true
		case 6:
			if intersect == nil {
				break
			}
			require.NoError(t, intersect(m.f, other.f))
			for p := range m.set {
				if !other.set[p] {
					delete(m.set, p)
				}
			}
			for key := range m.keys {
				if !other.keys[key] {
					delete(m.keys, key)
				}
			}
			m.estimated = true
		case 7:
			clone := m.f.Clone()
			require.True(t, clone.Equal(m.f) && m.f.Equal(clone))
			if form%2 == 0 {
				m.f.Reset()
				clear(m.set)
				clear(m.keys)
				m.len, m.estimated = 0, false
				require.Equal(t, clone.Info().FillRatio == 0, clone.Equal(m.f))
			} else { // the copy goes on, and what happens to the old one does not matter
				m.f, clone = clone, m.f
				clone.AddMany(nil, s.keys())
			}
		}
		m.check(t)
	}
	return models[0].f
}

func FuzzFilterAgainstMap(f *testing.F) {
	f.Add([]byte("\x00a\x20b\x40c\x60\x05\x02a\x05\x00"), uint16(10), uint8(3), uint8(0))
	f.Add([]byte("\x03\x03abc\x80a\x85\x00\x06\x07\x27\x03\x02ab"), uint16(1000), uint8(6), uint8(1))
	f.Add(bytes.Repeat([]byte("\x03\x4f\x04\x4f"), 90), uint16(4000), uint8(2), uint8(3))
	f.Fuzz(func(t *testing.T, s []byte, bits uint16, hashes, scheme uint8) {
		option := withScheme(allSchemes[int(scheme)%len(allSchemes)])
		size, k := uint64(bits)+1, int(hashes)%40+1
		filter := fuzzSet(t, Must(NewWithSize(size, k, option)), Must(NewWithSize(size, k, option)),
			s[:min(len(s), 500)], (*Filter).Intersect)
		r := filter.bits.n % 64
		require.True(t, r == 0 || filter.bits.words[len(filter.bits.words)-1]>>r == 0, "bits past the end are zero")
		require.True(t, filter.Concurrent().Filter().Equal(filter))
		require.True(t, Must(FromRedisBitmap(filter.RedisBitmap(), size, k, option)).Equal(filter))
	})
}

func FuzzConcurrentAgainstMap(f *testing.F) {
	f.Add([]byte("\x00a\x20b\x40c\x60\x05\x02a\x05\x00"), uint16(10), uint8(3), uint8(0))
	f.Add([]byte("\x03\x03abc\x80a\x85\x00\x07\x27\x03\x02ab"), uint16(1000), uint8(6), uint8(1))
	f.Fuzz(func(t *testing.T, s []byte, bits uint16, hashes, scheme uint8) {
		option := withScheme(allSchemes[int(scheme)%len(allSchemes)])
		filter := func() *Concurrent { return Must(NewWithSize(uint64(bits)+1, int(hashes)%40+1, option)).Concurrent() }
		fuzzSet(t, filter(), filter(), s[:min(len(s), 500)], nil)
	})
}

func FuzzBlockedAgainstMap(f *testing.F) {
	f.Add([]byte("\x00a\x20b\x40c\x60\x05\x02a\x05\x00"), uint16(10), uint8(0), uint8(0))
	f.Add([]byte("\x03\x03abc\x80a\x85\x00\x06\x07\x27\x03\x02ab"), uint16(1000), uint8(1), uint8(1))
	f.Add(bytes.Repeat([]byte("\x03\x4f\x04\x4f"), 90), uint16(4000), uint8(2), uint8(2))
	f.Fuzz(func(t *testing.T, s []byte, capacity uint16, rate, scheme uint8) {
		option := withScheme(blockedSchemes[int(scheme)%len(blockedSchemes)])
		filter := func() *Blocked {
			return Must(NewBlocked(uint64(capacity)%5000+1, []float64{0.01, 1e-6, 1e-9}[rate%3], option)) // 1, 2 and 3 rows
		}
		fuzzSet(t, filter(), filter(), s[:min(len(s), 500)], (*Blocked).Intersect)
	})
}

// answer is what an add that can be refused returns.
type answer struct {
	added bool
	err   error
}

func answerOf[K any](add func(K) (bool, error)) func(K) answer {
	return func(key K) answer {
		added, err := add(key)
		return answer{added, err}
	}
}

// chainHas is Contains of a chain, link by link and bit by bit.
func chainHas(f *Scalable, key []byte) bool {
	h1, h2 := f.Digest(key).Words()
	return slices.ContainsFunc(f.links, func(l link) bool {
		return !slices.ContainsFunc(bigPositions(f.scheme, h1, h2, l.mod.m, l.k), func(p uint64) bool { return !l.bits.test(p) })
	})
}

// A chain, with limits that it meets, and in the RedisBloom scheme with dumps in between.
func FuzzScalableAgainstMap(f *testing.F) {
	f.Add([]byte("\x00a\x00b\x21c\x02a\x41d\x04\x03\x03xyz"), uint8(0), uint8(2), uint8(0), uint16(0))
	f.Add([]byte("\x00a\x00b\x21c\x02a\x41d\x04\x03\x03xyz\x06\x05"), uint8(1), uint8(0), uint8(2), uint16(100))
	f.Add(bytes.Repeat([]byte("\x03\x4f\x06\x07"), 50), uint8(3), uint8(1), uint8(2), uint16(3000))
	f.Fuzz(func(t *testing.T, text []byte, capacity, growth, scheme uint8, limit uint16) {
		s := script(text[:min(len(text), 500)])
		opts := []Option{withScheme(allSchemes[int(scheme)%len(allSchemes)]), WithMaxBytes(400 + uint64(limit))}
		if growth%4 == 0 {
			opts = append(opts, WithNonScaling())
		} else {
			opts = append(opts, WithGrowth(int(growth%4)))
		}
		filter, err := NewScalable(uint64(capacity)+1, 0.01, opts...)
		if err != nil {
			require.ErrorIs(t, err, ErrTooLarge)
			return
		}
		keys, adds := map[string]bool{}, uint64(0)
		check := func(a answer, before *Scalable, key []byte) {
			present := before.Contains(key)
			if a.err != nil {
				require.True(t, !a.added && !present)
				require.ErrorIs(t, a.err, map[bool]error{true: ErrFull, false: ErrTooLarge}[growth%4 == 0])
				require.True(t, filter.Equal(before))
				return
			}
			require.Equal(t, !present, a.added)
			keys[string(key)] = true
			if a.added {
				adds++
			}
		}
		for len(s) > 0 {
			op := s.next()
			form := op >> 5
			switch op % 8 {
			case 0, 1:
				key, before := s.key(), filter.Clone()
				check(ask(form, key, filter.Digest, answerOf(filter.Add), answerOf(filter.AddString), answerOf(filter.AddUint64),
					answerOf(filter.AddDigest)), before, key)
			case 2:
				key := s.key()
				got := ask(form, key, filter.Digest, filter.Contains, filter.ContainsString, filter.ContainsUint64, filter.ContainsDigest)
				require.Equal(t, chainHas(filter, key), got)
			case 3:
				// The same, key by key, on a copy.
				batch, twin := s.keys(), filter.Clone()
				var want []bool
				var wantErr error
				for _, key := range batch {
					var added bool
					was := chainHas(twin, key)
					if added, wantErr = twin.Add(key); wantErr != nil {
						break
					}
					require.Equal(t, !was, added)
					want = append(want, added)
					keys[string(key)] = true
					if added {
						adds++
					}
				}
				var got []bool
				if form%2 == 0 {
					got, err = filter.AddMany(nil, batch)
				} else {
					got, err = filter.AddManyString(nil, asStrings(batch))
				}
				require.Equal(t, wantErr, err)
				require.True(t, slices.Equal(want, got))
				require.True(t, filter.Equal(twin))
			case 4:
				batch := s.keys()
				got := filter.ContainsMany(nil, batch)
				require.True(t, slices.Equal(got, filter.ContainsManyString(nil, asStrings(batch))))
				for i, key := range batch {
					require.Equal(t, chainHas(filter, key), got[i])
				}
			case 5:
				if form == 0 {
					filter.Reset()
					clear(keys)
					adds = 0
				}
			case 6:
				if filter.Scheme() != RedisBloom {
					break
				}
				cursors, chunks := dumpOf(filter, 1+int(s.next())*5)
				l := NewScalableLoader()
				for i := range chunks {
					require.NoError(t, l.LoadChunk(cursors[i], chunks[i]))
				}
				loaded := Must(l.Finish())
				require.True(t, loaded.Equal(filter))
				require.Equal(t, filter.Len(), loaded.Len())
			case 7:
				old := filter
				filter = filter.Clone()
				require.True(t, filter.Equal(old))
				old.AddMany(nil, s.keys())
			}
			require.Equal(t, adds, filter.Len())
			require.LessOrEqual(t, filter.SizeBytes(), 400+uint64(limit))
			sum := uint64(0)
			for link := range filter.Links() {
				require.LessOrEqual(t, link.Len, link.Capacity)
				sum += link.Len
			}
			require.Equal(t, adds, sum)
			for key := range keys {
				require.True(t, filter.ContainsString(key), "a key that was added is not found")
			}
		}
	})
}

// countingModel is a filter beside its counters.
type countingModel struct {
	c        *Counting
	counters []int
	len      uint64
}

// of returns the counters of a key, each once.
func (m *countingModel) of(key []byte) (counters []*int) {
	for _, p := range slices.Compact(slices.Sorted(slices.Values(m.c.Positions(nil, key)))) {
		counters = append(counters, &m.counters[p])
	}
	return counters
}

func (m *countingModel) count(key []byte) int {
	least := maxCount
	for _, c := range m.of(key) {
		least = min(least, *c)
	}
	return least
}

func (m *countingModel) bump(key []byte, delta int) {
	for _, c := range m.of(key) {
		if *c != maxCount { // where counters stick
			*c += delta
		}
	}
	m.len += uint64(delta)
}

// Against counters, so that every answer is known, also of keys that were not added, and that no others
// change. What was added and not removed is there is a property of such counters.
func FuzzCountingAgainstCounters(f *testing.F) {
	f.Add([]byte("\x00a\x00a\x23a\x03b\x05a\x03a\x03a"), uint8(3), uint8(3), uint8(0))
	f.Add(append(bytes.Repeat([]byte("\x00a\x20a\x40a"), 8), bytes.Repeat([]byte("\x83a\x03a\x85a\x06"), 20)...), uint8(0), uint8(7), uint8(2))
	f.Add([]byte("\x00a\x80a\x06\x04\x04abcd\x87\x27\x01\x0faaaaaaaaaaaaaaaa"), uint8(200), uint8(9), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, bits, hashes, scheme uint8) {
		p := Params{uint64(bits) + 1, int(hashes)%20 + 1, allSchemes[int(scheme)%len(allSchemes)]}
		var models [2]*countingModel
		for i := range models {
			models[i] = &countingModel{&Counting{layout: testLayout(p, 0), sizing: p.sizing(), counters: newFields(p.Bits, 4)}, make([]int, p.Bits), 0}
		}
		for s := script(text[:min(len(text), 500)]); len(s) > 0; {
			op := s.next()
			m, other := models[op>>7], models[1-op>>7]
			c, form := m.c, op>>5
			switch op % 8 {
			case 0, 1:
				for _, key := range append(s.keys(), s.key()) {
					absent := m.count(key) == 0
					m.bump(key, 1)
					require.Equal(t, absent, ask(form, key, c.Digest, c.Add, c.AddString, c.AddUint64, c.AddDigest))
				}
			case 2, 3:
				key := s.key()
				present := m.count(key) > 0
				if present {
					m.len = max(m.len, 1)
					m.bump(key, -1)
				}
				require.Equal(t, present, ask(form, key, c.Digest, c.Remove, c.RemoveString, c.RemoveUint64, c.RemoveDigest))
			case 4:
				keys := s.keys()
				for i, present := range c.ContainsMany(nil, keys) {
					require.Equal(t, m.count(keys[i]) > 0, present)
				}
			case 5:
				require.NoError(t, c.Union(other.c))
				for i, n := range other.counters {
					m.counters[i] = min(maxCount, m.counters[i]+n)
				}
				m.len += other.len
			case 6:
				require.NoError(t, c.Intersect(other.c))
				for i, n := range other.counters {
					m.counters[i] = min(m.counters[i], n)
				}
				m.len = c.Len() // an estimate
			case 7:
				if form%2 == 0 {
					c.Reset()
					clear(m.counters)
					m.len = 0
				} else {
					m.c = c.Clone()
					require.True(t, m.c.Equal(c))
					c.AddMany(nil, s.keys())
				}
			}
			c = m.c
			filter := c.Filter()
			for i, n := range m.counters {
				if got := c.counters.get(uint64(i)); got != uint64(n) || filter.bits.test(uint64(i)) != (n > 0) {
					t.Fatalf("counter %d is %d, want %d", i, got, n)
				}
			}
			key := s.key()
			require.Equal(t, m.count(key), ask(form, key, c.Digest, c.Count, c.CountString, c.CountUint64, c.CountDigest))
			require.Equal(t, m.count(key) > 0, ask(form, key, c.Digest, c.Contains, c.ContainsString, c.ContainsUint64, c.ContainsDigest))
			require.Equal(t, m.len, c.Len())
		}
	})
}
