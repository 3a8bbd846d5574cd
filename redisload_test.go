package bloom

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// serverTakesBloom says whether a server takes a header, by the rules in docs/REDIS.md;
// it knows nothing of the loader.
func serverTakesBloom(h []byte) bool {
	if len(h) < 20 {
		return false
	}
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	f64 := func(b []byte) float64 { return math.Float64frombits(u64(b)) }
	links := int(u32(h[8:]))
	if links == 0 || len(h) != 20+53*links || u32(h[12:]) > 15 {
		return false
	}
	sum := uint64(0)
	for h := h[20:]; len(h) > 0; h = h[53:] {
		bytes, bits, rate, bpe, n2 := u64(h), u64(h[8:]), f64(h[24:]), f64(h[32:]), h[52]
		if !(rate > 0 && rate < 1) || n2 > 63 || n2 != 0 && bits < 1<<n2 || bits == 0 || bits > 8*bytes ||
			float64(u32(h[40:])) != math.Ceil(0.693147180559945*bpe) {
			return false
		}
		sum += u64(h[16:])
	}
	return sum == u64(h)
}

// A mutation of a dump is an error, or a filter that the server takes too; it costs no
// more memory than a small multiple of the dump.
func TestMutatedBloomDumps(t *testing.T) {
	mutations := 50_000
	if testing.Short() {
		mutations /= 50
	}
	r := newRand(70)
	lives := slices.DeleteFunc(golden.Lives(t, "testdata/golden", "bf"), golden.Life.Partial)
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
		l := NewScalableLoader()
		err := l.LoadChunk(1, chunks[0])
		for j := 1; err == nil && j < len(chunks); j++ {
			err = l.LoadChunk(life.Chunks[j].Iter, chunks[j])
		}
		var s *Scalable
		if err == nil {
			s, err = l.Finish()
		}
		require.Less(t, allocated()-before, uint64(64<<10+4*total))
		if err != nil {
			refused++
			require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrIncomplete) || errors.Is(err, ErrVersion) || errors.Is(err, ErrTooLarge), "%v", err)
			continue
		}
		require.True(t, serverTakesBloom(chunks[0]))
		s.Contains([]byte("a"))
		s.Info()
		_, again := dumpOf(s, 0)
		require.Equal(t, chunks[0], again[0])
	}
	require.Greater(t, refused, mutations/4)
	for _, life := range lives { // every truncation of every header
		header := life.Chunks[0].Data(t)
		for n := range header {
			_, err := parseBloomHeader(header[:n])
			require.Error(t, err)
		}
	}
}

// mutate changes one byte or cuts chunks[victim].
func mutate(r *rand.Rand, chunks [][]byte, victim int) {
	c := chunks[victim]
	if r.IntN(8) == 0 {
		chunks[victim] = c[:r.IntN(len(c))]
		return
	}
	at := r.IntN(len(c))
	switch r.IntN(3) {
	case 0:
		c[at] ^= 1 << r.IntN(8)
	case 1:
		c[at] = byte(r.Uint32())
	default:
		c[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A header may claim what it likes: memory follows the bytes that arrive.
func TestLoaderDoesNotTrustSizes(t *testing.T) {
	header := oldHeader(5, 2, 1<<40, 8<<40, 0, 0.01, sizeRedis(1, 0.01).bitsPerEntry, 7, 100, 0)
	before := allocated()
	l := NewScalableLoader()
	if err := l.LoadChunk(1, header); err != nil {
		require.ErrorIs(t, err, ErrTooLarge) // on a 32-bit machine
	} else {
		require.NoError(t, l.LoadChunk(1001, make([]byte, 1000)))
		_, err := l.Finish()
		require.ErrorIs(t, err, ErrIncomplete)
		require.ErrorContains(t, err, "bytes 1000 to 1099511627776 have not arrived")
	}
	require.Less(t, allocated()-before, uint64(16<<10))
}

func TestSpans(t *testing.T) {
	r := newRand(71)
	for range 200 {
		var s spans
		model := make([]bool, 60)
		for range r.IntN(12) {
			from := r.IntN(60)
			to := from + 1 + r.IntN(60-from)
			s.add(uint64(from), uint64(to))
			for i := from; i < to; i++ {
				model[i] = true
			}
			for i := 1; i < len(s); i++ {
				require.Less(t, s[i-1].to, s[i].from, "ascending and apart: %v", s)
			}
		}
		from := slices.Index(model, false)
		gotFrom, gotTo := s.gap(60)
		if from < 0 {
			require.GreaterOrEqual(t, gotFrom, gotTo)
			continue
		}
		to := from
		for to < 60 && !model[to] {
			to++
		}
		require.Equal(t, [2]uint64{uint64(from), uint64(to)}, [2]uint64{gotFrom, gotTo})
	}
}

func FuzzScalableLoader(f *testing.F) {
	s := Must(NewScalable(4, 0.1, WithScheme(RedisBloom)))
	for i := range uint64(10) {
		s.AddUint64(i)
	}
	_, chunks := dumpOf(s, 0)
	f.Add(chunks[0], slices.Concat(chunks[1:]...), uint8(5))
	f.Add(make([]byte, 65), []byte{}, uint8(0))
	f.Add(make([]byte, 38), []byte{}, uint8(0))
	f.Add(oldHeader(5, 2, 0, math.MaxUint64, 0, 0.01, sizeRedis(1, 0.01).bitsPerEntry, 7, 100, 0), []byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, header, data []byte, size uint8) {
		l := NewScalableLoader()
		if l.LoadChunk(1, header) != nil {
			return
		}
		require.True(t, serverTakesBloom(header))
		cursor := int64(1)
		for len(data) > 0 {
			n := min(int(size)+1, len(data))
			cursor += int64(n)
			l.LoadChunk(cursor, data[:n])
			data = data[n:]
		}
		s, err := l.Finish()
		if err != nil {
			return
		}
		s.Info()
		if _, err := s.AddString("a"); err == nil {
			require.True(t, s.ContainsString("a"))
		}
	})
}
