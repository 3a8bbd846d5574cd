package bloom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// reserveGolden makes the filter that a recorded BF.RESERVE made. The command takes rates
// above 0.25 as 0.25.
func reserveGolden(t *testing.T, life golden.Life) *Scalable {
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

func replayBloom(t *testing.T, s *Scalable, steps []golden.Step) {
	for _, step := range steps {
		switch step.Op {
		case "BF.ADD":
			step.EachReply(t, func(item []byte) byte {
				added, err := s.Add(item)
				if err != nil {
					require.ErrorIs(t, err, ErrFull)
					return 'E'
				}
				return golden.Bit(added)
			})
		case "BF.MADD":
			replayMAdd(t, s, step)
		case "BF.EXISTS", "BF.MEXISTS":
			step.EachReply(t, func(item []byte) byte { return golden.Bit(s.Contains(item)) })
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
func replayMAdd(t *testing.T, s *Scalable, step golden.Step) {
	var replies []byte
	for from := uint64(0); from < step.Count; from += 500 {
		var keys [][]byte
		for i := from; i < min(from+500, step.Count); i++ {
			keys = append(keys, step.Item(t, step.From+i))
		}
		answers, err := s.AddMany(nil, keys)
		for _, a := range answers {
			replies = append(replies, golden.Bit(a))
		}
		if err != nil {
			require.ErrorIs(t, err, ErrFull)
			replies = append(replies, 'E')
		}
	}
	replayed := step
	replayed.Count = uint64(len(replies))
	i := 0
	replayed.EachReply(t, func([]byte) byte { i++; return replies[i-1] })
}

func checkBloomEnd(t *testing.T, s *Scalable, life golden.Life) {
	i := 0
	for cursor, chunk := range s.ScanDump(0) {
		require.Less(t, i, len(life.Chunks))
		life.Chunks[i].Same(t, cursor, chunk)
		i++
	}
	require.Equal(t, len(life.Chunks), i)

	links := slices.Collect(s.Links())
	info := life.InfoNumbers()
	require.Equal(t, info["Capacity"], float64(s.Capacity()))
	require.Equal(t, info["Size"], float64(32+64*uint64(len(links))+s.SizeBytes()))
	require.Equal(t, info["Number of filters"], float64(len(links)))
	require.Equal(t, info["Number of items inserted"], float64(s.Len()))
	debug := life.Debug.([]any)
	require.Equal(t, fmt.Sprint("size:", s.Len()), debug[0])
	for i, l := range links {
		require.Equal(t, fmt.Sprintf("bytes:%d bits:%d hashes:%d hashwidth:64 capacity:%d size:%d ratio:%.6g",
			l.SizeBytes, l.Bits, l.Hashes, l.Capacity, l.Len, l.TargetRate), debug[i+1])
	}
}

// Every recorded life: replies, exact false positives, counts and numbers, and each byte of the
// dump; then the dump loaded, which answers alike and dumps alike.
func TestGoldenBloom(t *testing.T) {
	for _, life := range golden.Lives(t, "testdata/golden", "bf") {
		t.Run(life.Name, func(t *testing.T) {
			s := reserveGolden(t, life)
			replayBloom(t, s, life.Steps)
			checkBloomEnd(t, s, life)

			if life.Partial() {
				return
			}
			loader := NewScalableLoader()
			for _, c := range life.Chunks {
				_, err := loader.Finish()
				require.ErrorIs(t, err, ErrIncomplete)
				require.NoError(t, loader.LoadChunk(c.Iter, c.Data(t)))
			}
			loaded, err := loader.Finish()
			require.NoError(t, err)
			require.True(t, loaded.Equal(s))
			require.Equal(t, s.TargetRate(), loaded.TargetRate())
			checkBloomEnd(t, loaded, life)
			for _, step := range life.Steps {
				for i := range step.Count {
					item := step.Item(t, step.From+i)
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

	// An iteration gives out the filter as it is when it begins.
	dump := s.ScanDump(0)
	for i := range uint64(400) {
		s.AddUint64(1000 + i)
	}
	l := NewScalableLoader()
	for cursor, chunk := range dump {
		require.NoError(t, l.LoadChunk(cursor, chunk))
	}
	loaded := Must(l.Finish())
	require.True(t, loaded.Equal(s))
	require.Equal(t, s.Len(), loaded.Len())
}

// A chain whose next link would have a rate of 0 refuses to grow.
func TestRateUnderflows(t *testing.T) {
	_, err := NewScalable(1, math.SmallestNonzeroFloat64, WithScheme(RedisBloom))
	require.ErrorIs(t, err, ErrTooLarge)

	rate := math.SmallestNonzeroFloat64
	l := NewScalableLoader()
	bpe := sizeRedis(1, rate).bitsPerEntry
	size := wordsFor(uint64(bpe)) * 8
	require.NoError(t, l.LoadChunk(1, oldHeader(5, 2, size, 8*size, 0, rate, bpe, uint32(sizeRedis(1, rate).hashes), 1, 0)))
	require.NoError(t, l.LoadChunk(1+int64(size), make([]byte, size)))
	s := Must(l.Finish())
	_, err = s.AddString("a")
	require.NoError(t, err)
	before := s.Clone()
	_, err = s.AddString("b")
	require.ErrorIs(t, err, ErrTooLarge)
	require.True(t, s.Equal(before) && s.Len() == 1)
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
	entriesWrap := put(link+44, math.MaxUint64, 8)
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
		"bits wrap":    {oldHeader(5, 2, 0, math.MaxUint64, 0, 0.01, sizeRedis(1, 0.01).bitsPerEntry, 7, 100, 0), ErrCorrupt},
		"entries wrap": {entriesWrap, ErrCorrupt},
		"1.x layout":   {make([]byte, 65), ErrCorrupt}, "cuckoo": {make([]byte, 38), ErrCorrupt},
	} {
		_, err := parseBloomHeader(c.header)
		require.ErrorIs(t, err, c.kind, name)
		before := allocated()
		_, _ = parseBloomHeader(c.header)
		require.Less(t, allocated()-before, uint64(2<<10), name)
	}
	legacy := make([]byte, 65)
	legacy[8] = 1
	_, err := parseBloomHeader(legacy)
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "legacy")
	_, err = parseBloomHeader(make([]byte, 38))
	require.ErrorContains(t, err, "cuckoo")
}

// oldHeader is the header of a one-link chain as servers of other times wrote it.
func oldHeader(options, expansion uint32, bytes, bits, count uint64, rate, bpe float64, k uint32, entries uint64, n2 uint8) []byte {
	h := binary.LittleEndian.AppendUint64(nil, count)
	for _, v := range []uint32{1, options, expansion} {
		h = binary.LittleEndian.AppendUint32(h, v)
	}
	for _, v := range []uint64{bytes, bits, count, math.Float64bits(rate), math.Float64bits(bpe)} {
		h = binary.LittleEndian.AppendUint64(h, v)
	}
	h = binary.LittleEndian.AppendUint32(h, k)
	return append(binary.LittleEndian.AppendUint64(h, entries), n2)
}

// Layouts of older servers are read with their own modulus and written back
// byte for byte.
func TestOldBloomDumps(t *testing.T) {
	bpe := func(rate float64) float64 { return sizeRedis(1, rate).bitsPerEntry }
	for name, c := range map[string]struct {
		header []byte
		m      uint64
	}{
		"not whole words":                           {oldHeader(5, 2, 51_532, 412_256, 0, 0.5e-4, bpe(0.5e-4), 15, 20_000, 0), 412_256},
		"not whole bytes":                           {oldHeader(5, 2, 120, 958, 0, 0.01, bpe(0.01), 7, 100, 0), 958},
		"words, bits of its own":                    {oldHeader(5, 2, 120, 955, 0, 0.01, bpe(0.01), 7, 100, 0), 955},
		"power of two, small":                       {oldHeader(4, 2, 128, 1024, 0, 0.01, bpe(0.01), 7, 106, 10), 1024},
		"power of two, NONSCALING, entries as bits": {oldHeader(4|2|8, 2, 128, 1024, 0, 0.01, bpe(0.01), 7, 106, 10), 1024},
		"no power, bits count":                      {oldHeader(4, 2, 128, 1024, 0, 0.01, bpe(0.01), 7, 106, 0), 1024},
	} {
		t.Run(name, func(t *testing.T) {
			l := NewScalableLoader()
			require.NoError(t, l.LoadChunk(1, c.header))
			size := l.size(0)
			data := make([]byte, size)
			// Set the bits of some keys as the server of that time did.
			var positions []uint64
			for i := range 20 {
				h1, h2 := hashingOf(RedisBloom, 0).sum(golden.PatternKey(i))
				positions = bigPositions(RedisBloom, h1, h2, c.m, l.chain.links[0].k)
				for _, p := range positions {
					data[p/8] |= 1 << (p % 8)
				}
			}
			require.NoError(t, l.LoadChunk(1+int64(size), data))
			s, err := l.Finish()
			require.NoError(t, err)
			require.Equal(t, c.m, s.Bits())
			for i := range 20 {
				require.True(t, s.Contains(golden.PatternKey(i)))
			}
			require.False(t, s.Contains([]byte("absent")))
			_, chunks := dumpOf(s, 0)
			require.Equal(t, c.header, chunks[0])
			require.Equal(t, data, chunks[1])

			if c.m%8 != 0 { // a bit past the modulus, which no server sets
				l = NewScalableLoader()
				require.NoError(t, l.LoadChunk(1, c.header))
				data[c.m/8] |= 1 << (c.m % 8)
				require.NoError(t, l.LoadChunk(1+int64(size), data))
				_, err = l.Finish()
				require.ErrorIs(t, err, ErrCorrupt)
			}
		})
	}
}

// A chain that rounded to powers of two goes on doing so, with the numbers that
// servers showed.
func TestOldSizes(t *testing.T) {
	for _, c := range []struct {
		n       uint64
		rate    float64
		n2      uint8
		k       int
		entries uint64
	}{{1e7, 1e-7, 29, 24, 16_003_208}, {350_000_000, 0.01, 32, 7, 448_089_842}, {100, 0.01, 10, 7, 106}} {
		l, n2 := sizeRedis(c.n, c.rate).roundedToPowerOfTwo()
		require.Equal(t, c.n2, n2)
		require.Equal(t, c.k, l.hashes)
		require.Equal(t, c.entries, l.entries)
		require.Equal(t, uint64(1)<<c.n2, l.bits)
	}
	l := NewScalableLoader()
	require.NoError(t, l.LoadChunk(1, oldHeader(4, 2, 128, 1024, 0, 0.01, sizeRedis(1, 0.01).bitsPerEntry, 7, 106, 10)))
	require.NoError(t, l.LoadChunk(129, make([]byte, 128)))
	s := Must(l.Finish())
	require.Equal(t, 0.01, s.TargetRate())
	for i := range uint64(110) {
		_, err := s.AddUint64(i)
		require.NoError(t, err)
	}
	require.Len(t, s.links, 2)
	require.Equal(t, uint64(1)<<12, s.links[1].mod.m)
	require.Equal(t, uint8(12), s.links[1].n2)
	_, chunks := dumpOf(s, 0)
	_, err := parseBloomHeader(chunks[0])
	require.NoError(t, err, "what it grew to is a dump again")
}

// The doubles in a header are the server's, which takes log from its C library. That
// library is one bit off the correctly rounded value, which we have, for one rate
// in some 20,000: the bound leaves room for five times that.
func TestBitsPerEntryAgainstTheCLibrary(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil || runtime.GOOS != "linux" || testing.Short() {
		t.Skip("the test asks the C library of servers for logarithms, through python3 on Linux; " +
			"not in -short, which is for emulators too, and starting a program ends some of them")
	}
	r := newRand(72)
	var rates []float64
	var in strings.Builder
	for range 10_000 {
		rate := math.Exp(-math.Ln2*2 - r.Float64()*(math.Log(0.25)-math.Log(1e-12)))
		for range 5 {
			rates = append(rates, rate)
			fmt.Fprintln(&in, strconv.FormatFloat(rate, 'g', -1, 64))
			rate *= 0.5
		}
	}
	cmd := exec.Command(python, "-c", `import math, sys
for line in sys.stdin: print(repr(abs(math.log(float(line)) / 0.480453013918201)))`)
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Fields(string(out))
	require.Len(t, lines, len(rates))
	off := 0
	for i, rate := range rates {
		want, err := strconv.ParseFloat(lines[i], 64)
		require.NoError(t, err)
		if got := sizeRedis(1, rate).bitsPerEntry; got != want {
			off++
			require.InEpsilon(t, want, got, 3e-16, "rate %v: more than the last bit", rate)
		}
	}
	t.Logf("%d of %d differ in the last bit", off, len(rates))
	require.LessOrEqual(t, off, 5*len(rates)/20_000)
}

func TestAppendRedisBitmap(t *testing.T) {
	for _, bits := range []uint64{1, 9, 64, 130, 1000} {
		f := Must(NewWithSize(bits, 3))
		for i := range uint64(bits / 4) {
			f.AddUint64(i)
		}
		all := f.RedisBitmap()
		for from := range uint64(len(all) + 2) {
			for to := range uint64(len(all) + 2) {
				want := []byte("x")
				if from < min(to, uint64(len(all))) {
					want = append(want, all[from:min(to, uint64(len(all)))]...)
				}
				require.Equal(t, want, f.AppendRedisBitmap([]byte("x"), from, to))
			}
		}
	}
	require.Empty(t, new(Filter).AppendRedisBitmap(nil, 0, 9))
}

func TestRedisBitmap(t *testing.T) {
	for _, s := range allSchemes {
		for _, bits := range []uint64{1, 9, 64, 1000, 412_256} {
			f := Must(NewWithSize(bits, 5, withScheme(s)))
			for i := range min(bits, 40) {
				f.AddUint64(i)
			}
			data := f.RedisBitmap()
			require.Len(t, data, int(bits+7)/8)
			for i := range uint64(40) {
				key := uint64Bytes(i)
				for _, p := range f.Positions(nil, key[:]) {
					require.Equal(t, f.bits.test(p), data[p/8]&(0x80>>(p%8)) != 0, "GETBIT %d", p)
				}
			}
			kept := string(data)
			g, err := FromRedisBitmap(data, bits, 5, withScheme(s))
			require.NoError(t, err)
			require.Equal(t, kept, string(data))
			require.True(t, g.Equal(f))
			require.True(t, g.Info().LenEstimated)

			// SETBIT makes a string only as long as its last byte.
			short := strings.TrimRight(string(data), "\x00")
			g, err = FromRedisBitmap([]byte(short), bits, 5, withScheme(s))
			require.NoError(t, err)
			require.True(t, g.Equal(f))

			_, err = FromRedisBitmap(append(data, 0), bits, 5, withScheme(s))
			require.ErrorIs(t, err, ErrCorrupt)
			if bits%8 != 0 {
				data[len(data)-1] |= 1
				_, err = FromRedisBitmap(data, bits, 5, withScheme(s))
				require.ErrorIs(t, err, ErrCorrupt)
			}
		}
	}
	_, err := FromRedisBitmap(nil, 0, 5)
	require.ErrorIs(t, err, ErrInvalid)
	empty := Must(FromRedisBitmap(nil, 100, 5))
	require.Zero(t, empty.Len())
}
