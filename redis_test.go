package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reserveGolden makes the filter that a recorded BF.RESERVE made. The command takes rates
// above 0.25 as 0.25.
func reserveGolden(t *testing.T, life goldenLife) *Scalable {
	capacity, rate, opts := uint64(100), 0.01, []Option{WithScheme(RedisBloom)}
	if args := life.Reserve; args != nil {
		var err error
		rate, err = strconv.ParseFloat(args[2], 64)
		require.NoError(t, err)
		rate = min(rate, 0.25)
		capacity, err = strconv.ParseUint(args[3], 10, 64)
		require.NoError(t, err)
		for i := 4; i < len(args); i++ {
			switch strings.ToUpper(args[i]) {
			case "NONSCALING":
				opts = append(opts, WithNonScaling())
			case "EXPANSION":
				i++
				growth, err := strconv.Atoi(args[i])
				require.NoError(t, err)
				opts = append(opts, WithGrowth(growth))
			default:
				require.FailNow(t, "unknown option", args[i])
			}
		}
	}
	return Must(NewScalable(capacity, rate, opts...))
}

func replayBloom(t *testing.T, s *Scalable, steps []goldenStep) {
	for _, step := range steps {
		switch step.Op {
		case "BF.ADD":
			step.eachReply(t, func(item []byte) byte {
				added, err := s.Add(item)
				if err != nil {
					require.ErrorIs(t, err, ErrFull)
					return 'E'
				}
				return bit(added)
			})
		case "BF.MADD":
			replayMAdd(t, s, step)
		case "BF.EXISTS", "BF.MEXISTS":
			step.eachReply(t, func(item []byte) byte { return bit(s.Contains(item)) })
		default:
			require.FailNow(t, "unknown op", step.Op)
		}
		if step.Card != nil {
			require.Equal(t, *step.Card, s.Len())
		}
	}
}

// replayMAdd sends 500 items a command: each ends at its first refusal, so that
// its later items have no reply.
func replayMAdd(t *testing.T, s *Scalable, step goldenStep) {
	var replies []byte
	for from := uint64(0); from < step.Count; from += 500 {
		var keys [][]byte
		for i := from; i < min(from+500, step.Count); i++ {
			keys = append(keys, step.item(t, step.From+i))
		}
		answers, err := s.AddMany(nil, keys)
		for _, a := range answers {
			replies = append(replies, bit(a))
		}
		if err != nil {
			require.ErrorIs(t, err, ErrFull)
			replies = append(replies, 'E')
		}
	}
	replayed := step
	replayed.Count = uint64(len(replies))
	i := 0
	replayed.eachReply(t, func([]byte) byte { i++; return replies[i-1] })
}

func checkBloomEnd(t *testing.T, s *Scalable, life goldenLife) {
	i := 0
	for cursor, chunk := range s.ScanDump(0) {
		require.Less(t, i, len(life.Chunks))
		life.Chunks[i].same(t, cursor, chunk)
		i++
	}
	require.Equal(t, len(life.Chunks), i)

	links := slices.Collect(s.Links())
	info := life.infoNumbers()
	require.Equal(t, info["Capacity"], float64(s.Capacity()))
	require.Equal(t, info["Size"], float64(32+64*uint64(len(links))+s.SizeBytes()))
	require.Equal(t, info["Number of filters"], float64(len(links)))
	require.Equal(t, info["Number of items inserted"], float64(s.Len()))
	require.Equal(t, fmt.Sprint("size:", s.Len()), life.Debug[0])
	for i, l := range links {
		require.Equal(t, fmt.Sprintf("bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%.6g",
			l.SizeBytes, l.Bits, l.Hashes, l.Capacity, l.Len, l.TargetRate), life.Debug[i+1])
	}
}

// Every recorded life: replies, exact false positives, counts and numbers, and each byte of the
// dump; then the dump loaded, which answers alike and dumps alike.
func TestGoldenBloom(t *testing.T) {
	for _, life := range loadGolden(t, "bf") {
		t.Run(life.Name, func(t *testing.T) {
			s := reserveGolden(t, life)
			replayBloom(t, s, life.Steps)
			checkBloomEnd(t, s, life)

			loader := NewScalableLoader()
			for _, c := range life.Chunks {
				if c.B64 == "" {
					return
				}
				_, err := loader.Finish()
				require.ErrorIs(t, err, ErrIncomplete)
				require.NoError(t, loader.LoadChunk(c.Iter, c.data(t)))
			}
			loaded, err := loader.Finish()
			require.NoError(t, err)
			require.True(t, loaded.Equal(s))
			require.Equal(t, s.TargetRate(), loaded.TargetRate())
			checkBloomEnd(t, loaded, life)
			for _, step := range life.Steps {
				for i := range step.Count {
					item := step.item(t, step.From+i)
					require.Equal(t, s.Contains(item), loaded.Contains(item))
				}
			}
			// Both go on alike.
			for i := range uint64(3000) {
				a, errA := s.AddUint64(i)
				b, errB := loaded.AddUint64(i)
				require.Equal(t, a, b)
				require.Equal(t, errors.Is(errA, ErrFull), errors.Is(errB, ErrFull))
			}
			require.True(t, loaded.Equal(s))

			_, err = loader.Finish()
			require.ErrorIs(t, err, ErrIncomplete, "a loader that has delivered starts afresh")
		})
	}
}

// A Filter of the RedisBloom scheme is one NONSCALING link.
func TestRedisFilterIsOneLink(t *testing.T) {
	for _, n := range []uint64{1, 63, 64, 65, 1000} {
		for _, rate := range []float64{0.25, 0.01, 0.37e-7} {
			f := Must(New(n, rate, WithScheme(RedisBloom)))
			s := Must(NewScalable(n, rate, WithScheme(RedisBloom), WithNonScaling()))
			for i := range n {
				added, err := s.AddUint64(i)
				require.NoError(t, err)
				require.Equal(t, added, f.AddUint64(i))
			}
			require.True(t, f.bits.equal(&s.links[0].bits))
			require.Equal(t, f.Hashes(), s.links[0].k)
			require.Equal(t, f.Len(), s.Len())
		}
	}
}

// dumpOf collects a dump, with chunks copied.
func dumpOf(s *Scalable, maxChunk int) (cursors []int64, chunks [][]byte) {
	for cursor, chunk := range s.ScanDump(maxChunk) {
		cursors, chunks = append(cursors, cursor), append(chunks, slices.Clone(chunk))
	}
	return cursors, chunks
}

func newLoadedChain(t *testing.T, keys uint64) *Scalable {
	s := Must(NewScalable(100, 0.01, WithScheme(RedisBloom)))
	for i := range keys {
		_, err := s.AddUint64(i)
		require.NoError(t, err)
	}
	return s
}

// Any limit on chunks restores the same filter, in any order of the chunks.
func TestChunkLimits(t *testing.T) {
	s := newLoadedChain(t, 700)
	size := int(s.links[0].bits.byteLen())
	for _, limit := range []int{-1, 0, 1, 7, size - 1, size, size + 1, 1 << 30} {
		for name, reorder := range map[string]func([]int){
			"in order": func([]int) {}, "reversed": slices.Reverse[[]int],
			"shuffled": func(order []int) {
				newRand(50).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			},
		} {
			cursors, chunks := dumpOf(s, limit)
			order := make([]int, len(chunks)-1)
			for i := range order {
				order[i] = i + 1
			}
			reorder(order)
			l := NewScalableLoader()
			require.NoError(t, l.LoadChunk(cursors[0], chunks[0]))
			for _, i := range order {
				_, err := l.Finish()
				require.ErrorIs(t, err, ErrIncomplete)
				require.NoError(t, l.LoadChunk(cursors[i], chunks[i]))
				if limit > 0 {
					require.LessOrEqual(t, len(chunks[i]), limit)
				}
			}
			loaded, err := l.Finish()
			require.NoError(t, err, "limit %d %s", limit, name)
			require.True(t, loaded.Equal(s))
		}
	}
}

func TestScanDumpAt(t *testing.T) {
	s := newLoadedChain(t, 150)
	var cursor int64
	for want, chunk := range s.ScanDump(50) {
		next, got, err := s.ScanDumpAt(cursor, 50)
		require.NoError(t, err)
		require.Equal(t, want, next)
		require.Equal(t, chunk, got)
		cursor = next
	}
	for _, past := range []int64{cursor, cursor + 1, math.MaxInt64} {
		next, chunk, err := s.ScanDumpAt(past, 50)
		require.NoError(t, err)
		require.Zero(t, next)
		require.Empty(t, chunk)
	}
	_, _, err := s.ScanDumpAt(-1, 50)
	require.ErrorIs(t, err, ErrInvalid)
	_, _, err = Must(NewScalable(10, 0.01)).ScanDumpAt(0, 0)
	require.ErrorIs(t, err, ErrInvalid)
	require.Panics(t, func() { Must(NewScalable(10, 0.01)).ScanDump(0) })
	for range s.ScanDump(0) { // an iteration may stop early
		break
	}
}

// Pairs that no dump has are refused and change nothing: after each the loader goes on to
// the same filter.
func TestBadChunks(t *testing.T) {
	s := newLoadedChain(t, 250)
	cursors, chunks := dumpOf(s, 100)
	l := NewScalableLoader()
	require.ErrorIs(t, l.LoadChunk(101, chunks[1]), ErrIncomplete, "no header yet")
	require.ErrorIs(t, l.LoadChunk(0, chunks[0]), ErrIncomplete, "the cursor that was sent, not the one that came")
	require.NoError(t, l.LoadChunk(1, chunks[0]))
	end := cursors[len(cursors)-1]
	first := int64(s.links[0].bits.byteLen())
	for _, c := range []struct {
		cursor int64
		chunk  []byte
	}{
		{1, chunks[0]}, {1, chunks[1]}, {0, chunks[1]}, {-5, chunks[1]}, {math.MinInt64, chunks[1]},
		{100, chunks[1]}, {101, nil}, {101, []byte{}}, {1, nil},
		{end + 1, chunks[1]}, {end + 1000, chunks[1]}, {math.MaxInt64, chunks[1]},
		{first + 2, make([]byte, 2)}, {end, make([]byte, end-1)},
	} {
		before := len(l.parts)
		require.ErrorIs(t, l.LoadChunk(c.cursor, c.chunk), ErrCorrupt, "cursor %d, %d bytes", c.cursor, len(c.chunk))
		require.Len(t, l.parts, before)
	}
	for i := 1; i < len(chunks); i++ {
		require.NoError(t, l.LoadChunk(cursors[i], chunks[i]))
		require.NoError(t, l.LoadChunk(cursors[i], chunks[i]), "again")
	}
	loaded, err := l.Finish()
	require.NoError(t, err)
	require.True(t, loaded.Equal(s))
}

// Every field of a header in turn, set to what it cannot be.
func TestBadBloomHeaders(t *testing.T) {
	s := newLoadedChain(t, 250)
	_, chunks := dumpOf(s, 0)
	good := chunks[0]
	put := func(at int, v uint64, size int) []byte {
		h := slices.Clone(good)
		copy(h[at:at+size], binary.LittleEndian.AppendUint64(nil, v))
		return h
	}
	nan, inf := math.Float64bits(math.NaN()), math.Float64bits(math.Inf(1))
	link := bloomHeader
	for name, c := range map[string]struct {
		header []byte
		kind   error
	}{
		"empty": {nil, ErrCorrupt}, "short": {good[:len(good)-1], ErrCorrupt}, "long": {append(slices.Clone(good), 0), ErrCorrupt},
		"count too low": {put(0, 249, 8), ErrCorrupt}, "count too high": {put(0, 251, 8), ErrCorrupt},
		"links 0": {put(8, 0, 4), ErrCorrupt}, "links many": {put(8, math.MaxUint32, 4), ErrCorrupt},
		"unknown option": {put(12, 16+5, 4), ErrCorrupt}, "32-bit hash": {put(12, 1, 4), ErrVersion},
		"expansion 0": {put(16, 0, 4), ErrCorrupt}, "expansion high": {put(16, 32769, 4), ErrCorrupt},
		"bytes 0": {put(link, 0, 8), ErrCorrupt}, "bytes many": {put(link, math.MaxUint64, 8), ErrCorrupt},
		"bits 0": {put(link+8, 0, 8), ErrCorrupt}, "bits past bytes": {put(link+8, 8*144+1, 8), ErrCorrupt},
		"bits far below bytes": {put(link+8, 64, 8), ErrCorrupt},
		"counts wrap":          {put(link+16, math.MaxUint64, 8), ErrCorrupt},
		"rate 0":               {put(link+24, 0, 8), ErrCorrupt}, "rate NaN": {put(link+24, nan, 8), ErrCorrupt}, "rate inf": {put(link+24, inf, 8), ErrCorrupt},
		"bpe 0": {put(link+32, 0, 8), ErrCorrupt}, "bpe NaN": {put(link+32, nan, 8), ErrCorrupt}, "bpe inf": {put(link+32, inf, 8), ErrCorrupt},
		"k": {put(link+40, 0x7fffffff, 4), ErrCorrupt}, "k 0": {put(link+40, 0, 4), ErrCorrupt}, "k other": {put(link+40, 9, 4), ErrCorrupt},
		"entries 0": {put(link+44, 0, 8), ErrCorrupt}, "n2 64": {put(link+52, 64, 1), ErrCorrupt}, "n2 with no rounding": {put(link+52, 10, 1), ErrCorrupt},
		"1.x layout": {make([]byte, 65), ErrCorrupt}, "cuckoo": {make([]byte, 38), ErrCorrupt},
	} {
		_, err := parseBloomHeader(c.header)
		require.ErrorIs(t, err, c.kind, name)
		allocated := testing.AllocsPerRun(10, func() { parseBloomHeader(c.header) })
		require.Less(t, allocated, 30.0, name)
	}
	legacy := make([]byte, 65)
	legacy[8] = 1
	_, err := parseBloomHeader(legacy)
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "legacy")
	_, err = parseBloomHeader(make([]byte, 38))
	require.ErrorContains(t, err, "cuckoo")
}
