package bloom

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainCuckoo does what docs/REDIS.md says of CF commands, a byte a slot, in the
// plainest way: what the filters of the RedisBloom scheme must agree with.
type plainCuckoo struct {
	buckets, bucketSize, iterations, expansion int
	filters                                    [][]byte
	items, deletes                             int
}

func newPlainCuckoo(capacity, bucketSize, iterations, expansion int) *plainCuckoo {
	p := &plainCuckoo{buckets: 1, bucketSize: bucketSize, iterations: iterations, expansion: expansion}
	for p.buckets < capacity/bucketSize {
		p.buckets *= 2
	}
	for p.expansion&(p.expansion-1) != 0 {
		p.expansion++
	}
	p.filters = [][]byte{make([]byte, p.buckets*bucketSize)}
	return p
}

// bucket returns the slots of bucket h of a sub-filter.
func (p *plainCuckoo) bucket(f int, h uint64) []byte {
	buckets := uint64(len(p.filters[f]) / p.bucketSize)
	return p.filters[f][int(h%buckets)*p.bucketSize:][:p.bucketSize]
}

func plainHashes(key string) (h1, h2 uint64, fp byte) {
	h1 = murmur64A([]byte(key), 0)
	fp = byte(h1%255 + 1)
	return h1, other(h1, fp), fp
}

func other(h uint64, fp byte) uint64 { return h ^ uint64(fp)*0x5bd1e995 }

func put(bucket []byte, from, to byte) bool {
	for i, v := range bucket {
		if v == from {
			bucket[i] = to
			return true
		}
	}
	return false
}

func (p *plainCuckoo) add(key string) bool {
	h1, h2, fp := plainHashes(key)
	for f := len(p.filters) - 1; f >= 0; f-- {
		if put(p.bucket(f, h1), 0, fp) || put(p.bucket(f, h2), 0, fp) {
			p.items++
			return true
		}
	}
	newest := len(p.filters) - 1
	before := append([]byte{}, p.filters[newest]...)
	h, hand, victim := h1, fp, 0
	for range p.iterations {
		b := p.bucket(newest, h)
		hand, b[victim] = b[victim], hand
		h = other(h%uint64(len(before)/p.bucketSize), hand)
		if put(p.bucket(newest, h), 0, hand) {
			p.items++
			return true
		}
		victim = (victim + 1) % p.bucketSize
	}
	copy(p.filters[newest], before)
	if p.expansion == 0 {
		return false
	}
	p.filters = append(p.filters, make([]byte, len(before)*p.expansion))
	return p.add(key)
}

func (p *plainCuckoo) count(key string) (n int) {
	h1, h2, fp := plainHashes(key)
	for f := range p.filters {
		for _, h := range []uint64{h1, h2} {
			for _, v := range p.bucket(f, h) {
				if v == fp {
					n++
				}
			}
		}
	}
	return n
}

func (p *plainCuckoo) remove(key string) bool {
	h1, h2, fp := plainHashes(key)
	for f := len(p.filters) - 1; f >= 0; f-- {
		if put(p.bucket(f, h1), fp, 0) || put(p.bucket(f, h2), fp, 0) {
			p.items--
			p.deletes++
			if len(p.filters) > 1 && float64(p.deletes) > 0.10*float64(p.items) {
				p.compact(false)
			}
			return true
		}
	}
	return false
}

func (p *plainCuckoo) compact(goOn bool) {
	for f := len(p.filters) - 1; f > 0; f-- {
		left := false
		for slot, fp := range p.filters[f] {
			if fp == 0 {
				continue
			}
			moved := false
			for older := 0; older < f && !moved; older++ {
				h := uint64(slot / p.bucketSize)
				moved = put(p.bucket(older, h), 0, fp) || put(p.bucket(older, other(h, fp)), 0, fp)
			}
			if moved {
				p.filters[f][slot] = 0
			} else {
				left = true
			}
		}
		if !left && f == len(p.filters)-1 {
			p.filters = p.filters[:f]
		}
		if left && !goOn {
			break
		}
	}
	p.deletes = 0
}

func TestCuckooAgainstPlainServer(t *testing.T) {
	for _, capacity := range []int{1, 63, 64, 65, 300} {
		for _, bucketSize := range []int{1, 2, 3, 5, 255} {
			for _, iterations := range []int{1, 20} {
				for _, growth := range []int{0, 1, 2, 3, 8} {
					name := fmt.Sprintf("%d in buckets of %d, %d iterations, growth %d", capacity, bucketSize, iterations, growth)
					r := newRand(60)
					p := newPlainCuckoo(capacity, bucketSize, iterations, growth)
					c := Must(NewCuckoo(uint64(capacity), 0, WithScheme(RedisBloom),
						WithBucketSize(bucketSize), WithMaxIterations(iterations), WithGrowth(growth)))
					adding := true
					for range 1500 {
						if r.IntN(300) == 0 {
							adding = !adding
						}
						key := strconv.Itoa(r.IntN(2 * capacity))
						switch what := r.IntN(100); {
						case what == 0:
							p.compact(true)
							c.Compact()
						case what < 10:
							require.Equal(t, p.count(key), c.CountString(key), name)
							require.Equal(t, p.count(key) > 0, c.ContainsString(key), name)
						case what < 75 == adding && len(p.filters) < 5: // they grow by powers of 8
							want := p.add(key)
							got, err := c.AddString(key)
							require.Equal(t, want, got, name)
							require.Equal(t, want, err == nil, name)
						default:
							require.Equal(t, p.remove(key), c.RemoveString(key), name)
						}
					}
					var slots []byte
					for _, f := range p.filters {
						slots = append(slots, f...)
					}
					require.Equal(t, slots, c.slotBytes(), name)
					require.Equal(t, []int{p.items, p.deletes, len(p.filters)}, []int{int(c.len), int(c.deletes), len(c.filters)}, name)
				}
			}
		}
	}
}

// cuckooModel is a filter beside the multiset of what it took.
type cuckooModel struct {
	t     testing.TB
	c     *Cuckoo
	keys  map[uint64]int
	total int
}

// step does one of the operations with a key, and checks what it must say.
func (m *cuckooModel) step(op int, key uint64) {
	t, c := m.t, m.c
	if op < 3 && len(c.filters) > 4 {
		op = 3 // sub-filters grow by powers of 8
	}
	switch op {
	case 0, 1, 2:
		before := c.Clone()
		added, err := c.AddUint64(key)
		if op == 2 {
			*c = *before.Clone()
			present := c.ContainsUint64(key)
			added, err = c.AddUniqueUint64(key)
			require.Equal(t, present && err == nil, !added && err == nil)
		}
		switch {
		case added:
			require.NoError(t, err)
			m.keys[key]++
			m.total++
		case err != nil:
			require.ErrorIs(t, err, ErrFull)
			require.True(t, c.Equal(before))
			require.Equal(t, before.Len(), c.Len())
		}
	case 3, 4:
		if m.keys[key] > 0 { // another key must not be removed
			require.True(t, c.RemoveUint64(key))
			m.keys[key]--
			m.total--
		} else if !c.ContainsUint64(key) {
			require.False(t, c.RemoveUint64(key))
		}
	case 5:
		c.Compact()
	}
	require.GreaterOrEqual(t, c.CountUint64(key), m.keys[key])
	require.Equal(t, uint64(m.total), c.Len())
}

// finish checks and removes all keys, which leaves nothing.
func (m *cuckooModel) finish() {
	for key, n := range m.keys {
		require.GreaterOrEqual(m.t, m.c.CountUint64(key), n)
		for range n {
			require.True(m.t, m.c.ContainsUint64(key))
			require.True(m.t, m.c.RemoveUint64(key))
		}
	}
	require.Zero(m.t, m.c.Len())
	require.Zero(m.t, m.c.FillRatio())
	m.c.Compact()
	require.Len(m.t, m.c.filters, 1)
}

func TestCuckooModel(t *testing.T) {
	for _, s := range allSchemes {
		sizes, rate := []int{1, 2, 3, 4, 5, 7, 8}, 0.03
		if s == RedisBloom {
			sizes, rate = []int{1, 2, 3, 4, 5, 255}, 0
		}
		for _, bucketSize := range sizes {
			for _, iterations := range []int{1, 20} {
				for _, growth := range []int{0, 1, 2, 8} {
					for _, capacity := range []uint64{1, 7, 65} {
						m := &cuckooModel{t: t, keys: map[uint64]int{}, c: Must(NewCuckoo(capacity, rate, withScheme(s),
							WithBucketSize(bucketSize), WithMaxIterations(iterations), WithGrowth(growth)))}
						r := newRand(61)
						adds := 3
						for i := range 1000 {
							if i%200 == 199 {
								adds ^= 3 ^ 1 // three, then one of five operations add
							}
							op := 3
							if r.IntN(5) < adds {
								op = r.IntN(3)
							}
							if r.IntN(100) == 0 {
								op = 5
							}
							m.step(op, r.Uint64N(capacity+1))
						}
						m.finish()
					}
				}
			}
		}
	}
}

func FuzzCuckooAgainstMultiset(f *testing.F) {
	f.Add([]byte("\x00a\x00a\x00a\x03a\x05a"), uint8(3), uint8(0), uint8(4), uint8(0))
	f.Add([]byte("\x00a\x01b\x02c\x00d\x03a\x05a\x00e"), uint8(1), uint8(2), uint8(1), uint8(2))
	f.Fuzz(func(t *testing.T, script []byte, capacity, scheme, bucketSize, growth uint8) {
		s, rate := allSchemes[int(scheme)%len(allSchemes)], 0.01
		if s == RedisBloom {
			rate = 0
		}
		m := &cuckooModel{t: t, keys: map[uint64]int{}, c: Must(NewCuckoo(uint64(capacity)+1, rate, withScheme(s),
			WithBucketSize(int(bucketSize)%8+1), WithMaxIterations(5), WithGrowth(int(growth)%4)))}
		for i := 0; i+1 < min(len(script), 500); i += 2 {
			m.step(int(script[i])%6, uint64(script[i+1]))
		}
		m.finish()
	})
}

func TestRowsAgainstSlices(t *testing.T) {
	r := newRand(62)
	for _, width := range []uint64{8, 9, 13, 16, 20, 31, 32} {
		for _, each := range []uint64{1, 2, 3, 4, 5, 7, 8, 9, 255} {
			const n = 20
			rows, want := newRows(newBitset(n*each*width), each, width), make([]uint64, n*each)
			for range 3000 {
				// Few values, the extremes among them, so that many are equal.
				v := []uint64{0, 1, 1<<width - 1, 1<<width - 2, 1 << (width - 1)}[r.IntN(5)]
				field := r.Uint64N(n * each)
				rows.put(field, v)
				want[field] = v
				i, j := r.Uint64N(n), r.Uint64N(n)
				count, first := 0, uint64(0)
				for f := (i + 1) * each; f > i*each; f-- {
					if want[f-1] == v {
						count, first = count+1, f-1
					}
				}
				got, ok := rows.find(i, v)
				require.Equal(t, count > 0, ok)
				require.Equal(t, first, got)
				require.Equal(t, count, rows.occurrences(i, v))
				require.Equal(t, count+rows.occurrences(j, v) > 0, rows.either(i, j, v))
			}
			zeros := 0
			for _, v := range want {
				if v == 0 {
					zeros++
				}
			}
			require.Equal(t, n*each-uint64(zeros), rows.nonzero())
		}
	}
}
