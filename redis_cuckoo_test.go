package bloom

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// dumpCuckoo collects a dump, with chunks copied.
func dumpCuckoo(c *Cuckoo, maxChunk int) (cursors []int64, chunks [][]byte) {
	for cursor, chunk := range c.ScanDump(maxChunk) {
		cursors, chunks = append(cursors, cursor), append(chunks, slices.Clone(chunk))
	}
	return cursors, chunks
}

// Every recorded dump, loaded from the recorded chunks, dumps the same again, at
// any limit on chunks and in any order.
func TestCuckooDumps(t *testing.T) {
	for _, life := range golden.Lives(t, "testdata/golden", "cf") {
		l := NewCuckooLoader()
		for _, c := range life.Chunks {
			_, err := l.Finish()
			require.ErrorIs(t, err, ErrIncomplete)
			require.NoError(t, l.LoadChunk(c.Iter, c.Data(t)))
		}
		c, err := l.Finish()
		require.NoError(t, err)
		cursors, chunks := dumpCuckoo(c, 0)
		require.Len(t, chunks, len(life.Chunks))
		for i, want := range life.Chunks {
			want.Same(t, cursors[i], chunks[i])
		}
		size := int(c.filters[0].slots.byteLen())
		for _, limit := range []int{1, 7, size - 1, size, size + 1} {
			cursors, chunks := dumpCuckoo(c, limit)
			require.NoError(t, l.LoadChunk(cursors[0], chunks[0]))
			for i := len(chunks) - 1; i > 0; i-- {
				require.LessOrEqual(t, len(chunks[i]), limit)
				_, err := l.Finish()
				require.ErrorIs(t, err, ErrIncomplete)
				require.NoError(t, l.LoadChunk(cursors[i], chunks[i]))
			}
			again, err := l.Finish()
			require.NoError(t, err)
			require.True(t, again.Equal(c))
			require.Equal(t, c.Len(), again.Len())
		}
		var cursor int64
		for i := range chunks {
			next, chunk, err := c.ScanDumpAt(cursor, 0)
			require.NoError(t, err)
			require.Equal(t, cursors[i], next)
			require.Equal(t, chunks[i], chunk)
			cursor = next
		}
		next, chunk, err := c.ScanDumpAt(cursor, 0)
		require.NoError(t, err)
		require.True(t, next == 0 && chunk == nil)
	}
}

func TestCuckooDumpEdges(t *testing.T) {
	c := Must(NewCuckoo(64, 0, WithScheme(RedisBloom)))
	for range c.ScanDump(0) {
		require.Fail(t, "a filter that holds nothing has no dump")
	}
	next, chunk, err := c.ScanDumpAt(0, 0)
	require.NoError(t, err)
	require.True(t, next == 0 && chunk == nil)
	_, _, err = Must(NewCuckoo(64, 0.01)).ScanDumpAt(0, 0)
	require.ErrorIs(t, err, ErrInvalid)
	require.Panics(t, func() { Must(NewCuckoo(64, 0.01)).ScanDump(0) })

	_, err = c.AddString("a")
	require.NoError(t, err)
	_, chunks := dumpCuckoo(c, 0)
	_, _, err = c.ScanDumpAt(-1, 0)
	require.ErrorIs(t, err, ErrInvalid)
	l := NewCuckooLoader()
	require.ErrorIs(t, l.LoadChunk(0, chunks[0]), ErrIncomplete)
	require.ErrorIs(t, l.LoadChunk(65, chunks[1]), ErrIncomplete)
	bloomHeader := func() []byte { _, c := dumpOf(newLoadedChain(t, 1), 0); return c[0] }()
	require.ErrorContains(t, l.LoadChunk(1, bloomHeader), "Bloom filter (BF.SCANDUMP)")
	require.NoError(t, l.LoadChunk(1, chunks[0]))
	for _, cursor := range []int64{0, -1, 1, 64, 66, math.MaxInt64, math.MinInt64} {
		require.ErrorIs(t, l.LoadChunk(cursor, chunks[1]), ErrCorrupt)
	}
	require.ErrorIs(t, l.LoadChunk(1, chunks[0]), ErrCorrupt)
	require.ErrorIs(t, l.LoadChunk(65, nil), ErrCorrupt)
	require.NoError(t, l.LoadChunk(65, chunks[1]))
	require.True(t, Must(l.Finish()).Equal(c))
}

// serverTakesCuckoo says whether a server takes a header, by the rules in
// docs/REDIS.md.
func serverTakesCuckoo(h []byte) bool {
	if len(h) != 38 {
		return false
	}
	le := binary.LittleEndian
	buckets, filters, bucketSize, iterations, expansion := le.Uint64(h[8:]), le.Uint64(h[24:]), le.Uint16(h[32:]), le.Uint16(h[34:]), le.Uint16(h[36:])
	if bucketSize == 0 || bucketSize > 255 || iterations == 0 || expansion > 32768 || filters == 0 || filters > 65536 ||
		expansion == 0 && filters > 1 || buckets == 0 || buckets&(buckets-1) != 0 {
		return false
	}
	for range filters {
		if buckets == 0 || buckets > 1<<56-1 {
			return false
		}
		buckets *= uint64(expansion)
	}
	return true
}

func TestMutatedCuckooDumps(t *testing.T) {
	mutations := 50_000
	if testing.Short() {
		mutations /= 50
	}
	r := newRand(73)
	lives := golden.Lives(t, "testdata/golden", "cf")
	refused := 0
	for i := range mutations {
		life := lives[i%len(lives)]
		chunks := make([][]byte, len(life.Chunks))
		total := 0
		for j, c := range life.Chunks {
			chunks[j] = c.Data(t)
			total += len(chunks[j])
		}
		victim := 0
		if r.IntN(4) == 0 {
			victim = r.IntN(len(chunks))
		}
		mutate(r, chunks, victim)
		before := allocated()
		l := NewCuckooLoader()
		err := l.LoadChunk(1, chunks[0])
		for j := 1; err == nil && j < len(chunks); j++ {
			err = l.LoadChunk(life.Chunks[j].Iter, chunks[j])
		}
		var c *Cuckoo
		if err == nil {
			c, err = l.Finish()
		}
		require.Less(t, allocated()-before, uint64(64<<10+4*total))
		if err != nil {
			refused++
			require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrIncomplete) || errors.Is(err, ErrTooLarge), "%v", err)
			continue
		}
		require.True(t, serverTakesCuckoo(chunks[0]))
		if c.Len() > 0 {
			_, again := dumpCuckoo(c, 0)
			require.Equal(t, chunks[0], again[0])
		}
		c.Contains([]byte("a"))
		c.Info()
		if i%20 == 0 {
			for k := range uint64(20) {
				c.AddUint64(k)
				c.RemoveUint64(k)
			}
			c.Compact()
		}
	}
	require.Greater(t, refused, mutations/4)
}

func FuzzCuckooLoader(f *testing.F) {
	c := Must(NewCuckoo(8, 0, WithScheme(RedisBloom)))
	for i := range uint64(12) {
		c.AddUint64(i)
	}
	_, chunks := dumpCuckoo(c, 0)
	f.Add(chunks[0], slices.Concat(chunks[1:]...), uint8(5))
	f.Add(make([]byte, 73), []byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, header, data []byte, size uint8) {
		l := NewCuckooLoader()
		if l.LoadChunk(1, header) != nil {
			return
		}
		require.True(t, serverTakesCuckoo(header))
		cursor := int64(1)
		for len(data) > 0 {
			n := min(int(size)+1, len(data))
			cursor += int64(n)
			l.LoadChunk(cursor, data[:n])
			data = data[n:]
		}
		c, err := l.Finish()
		if err != nil {
			return
		}
		c.Info()
		if _, err := c.AddString("a"); err == nil {
			require.True(t, c.ContainsString("a"))
		}
		c.RemoveString("b")
		c.Compact()
	})
}

// Against a multiset, with dumps in between: a filter that was dumped and loaded goes on as
// the one that was not.
func TestCuckooModelWithDumps(t *testing.T) {
	for _, x := range []struct {
		capacity                       uint64
		bucketSize, iterations, growth int
	}{{1, 1, 1, 1}, {63, 3, 20, 2}, {64, 2, 20, 0}, {65, 5, 1, 8}, {1000, 255, 500, 1}} {
		opts := []Option{WithScheme(RedisBloom), WithBucketSize(x.bucketSize), WithMaxIterations(x.iterations), WithGrowth(x.growth)}
		whole, dumped := Must(NewCuckoo(x.capacity, 0, opts...)), Must(NewCuckoo(x.capacity, 0, opts...))
		r := newRand(80)
		model := map[uint64]int{}
		for range 3000 {
			key := r.Uint64N(x.capacity + 20)
			switch r.IntN(5) {
			case 0, 1:
				added, err := whole.AddUint64(key)
				again, errAgain := dumped.AddUint64(key)
				require.True(t, added == again && errors.Is(err, ErrFull) == errors.Is(errAgain, ErrFull))
				if added {
					model[key]++
				}
			case 2:
				if model[key] > 0 {
					require.True(t, whole.RemoveUint64(key) && dumped.RemoveUint64(key))
					model[key]--
				}
			case 3:
				require.Equal(t, whole.CountUint64(key), dumped.CountUint64(key))
				require.GreaterOrEqual(t, whole.CountUint64(key), model[key])
			default:
				if r.IntN(10) == 0 {
					whole.Compact()
					dumped.Compact()
				}
			}
			if r.IntN(100) == 0 && dumped.Len() > 0 {
				cursors, chunks := dumpCuckoo(dumped, 1+r.IntN(500))
				l := NewCuckooLoader()
				for i := range chunks {
					require.NoError(t, l.LoadChunk(cursors[i], chunks[i]))
				}
				dumped = Must(l.Finish())
				require.True(t, dumped.Equal(whole))
			}
		}
		require.True(t, dumped.Equal(whole))
		require.True(t, dumped.Len() == whole.Len() && dumped.Deletes() == whole.Deletes())
	}
}
