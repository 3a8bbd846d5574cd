package redisbloom

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pieces is a dump as SCANDUMP gives it out.
func pieces(t *testing.T, scan func(string, int64) (ScanDump, error), key string) (all []ScanDump) {
	for cursor := int64(0); ; {
		d, err := scan(key, cursor)
		require.NoError(t, err)
		if d.Iter == 0 {
			return all
		}
		all = append(all, d)
		cursor = d.Iter
	}
}

// fill adds items to a Bloom filter b of three links and a cuckoo filter c of two sub-filters.
func fill(t *testing.T, e *Engine) {
	require.NoError(t, e.BFReserve("b", 0.01, 100))
	require.NoError(t, e.CFReserve("c", 512))
	for i := range 650 {
		_, err := e.BFAdd("b", strconv.Itoa(i))
		require.NoError(t, err)
		_, err = e.CFAdd("c", strconv.Itoa(i))
		require.NoError(t, err)
	}
	b, err := e.BFInfo("b")
	require.NoError(t, err)
	require.Equal(t, int64(3), b.Filters)
	c, err := e.CFInfo("c")
	require.NoError(t, err)
	require.Equal(t, int64(2), c.NumFilters)
}

// A key some bytes of which are missing says so, whatever is asked that needs them: it never calls
// an item absent. What its header tells it answers.
func TestIncompleteKeys(t *testing.T) {
	source, e := New(), New()
	fill(t, source)
	for _, d := range pieces(t, source.BFScanDump, "b")[:3] { // the last link is missing
		require.NoError(t, e.BFLoadChunk("b", d.Iter, d.Data))
	}
	for _, d := range pieces(t, source.CFScanDump, "c")[:2] {
		require.NoError(t, e.CFLoadChunk("c", d.Iter, d.Data))
	}
	for _, command := range []string{
		"BF.ADD b 1", "BF.MADD b 1 2", "BF.EXISTS b 1", "BF.MEXISTS b 1 2", "BF.INSERT b ITEMS 1", "BF.INSERT b NOCREATE ITEMS 1", "BF.SCANDUMP b 0", "BF.SCANDUMP b 1",
		"CF.ADD c 1", "CF.ADDNX c 1", "CF.INSERT c ITEMS 1", "CF.INSERTNX c ITEMS 1", "CF.EXISTS c 1", "CF.MEXISTS c 1 2", "CF.COUNT c 1", "CF.DEL c 1", "CF.COMPACT c",
		"CF.SCANDUMP c 0", "CF.SCANDUMP c 1",
	} {
		reply := do(e, command)
		require.Equal(t, Error, reply.Kind, "%s", command)
		require.True(t, IsIncomplete(reply.Err()), "%s: %s", command, reply.Str)
		require.Contains(t, reply.Str, "have not arrived")
	}
	require.False(t, IsIncomplete(ErrNotFound))
	require.False(t, IsIncomplete(nil))
	for _, command := range []string{
		"BF.INFO b", "BF.CARD b", "BF.DEBUG b", "MEMORY USAGE b", "TYPE b", "EXISTS b b c", "CF.INFO c", "CF.DEBUG c", "MEMORY USAGE c", "TYPE c",
		"BF.RESERVE b 0.1 10", "CF.RESERVE c 10", "BF.EXISTS c 1", "CF.EXISTS b 1", "CF.ADD b 1", "BF.ADD c 1", "CF.DEL b 1", "CF.LOADCHUNK c 1 x", "BF.LOADCHUNK b 1 xx",
		"BF.LOADCHUNK b 9999999 x", "BF.LOADCHUNK b 146 xx", "CF.LOADCHUNK c 9999999 x",
	} {
		require.Equal(t, resp(source, command), resp(e, command), "%s", command)
	}
	checkMemory(t, e)

	d := pieces(t, source.BFScanDump, "b")[3]
	require.NoError(t, e.BFLoadChunk("b", d.Iter, d.Data))
	d = pieces(t, source.CFScanDump, "c")[2]
	require.NoError(t, e.CFLoadChunk("c", d.Iter, d.Data))
	for i := range 650 {
		require.Equal(t, ":1", resp(e, fmt.Sprint("BF.EXISTS b ", i)))
		require.Equal(t, ":1", resp(e, fmt.Sprint("CF.EXISTS c ", i)))
	}
	require.Equal(t, pieces(t, source.BFScanDump, "b"), pieces(t, e.BFScanDump, "b"))
	require.Equal(t, pieces(t, source.CFScanDump, "c"), pieces(t, e.CFScanDump, "c"))
	require.Equal(t, source.UsedMemory(), e.UsedMemory())
	checkMemory(t, e)
}

// Chunks may come in any order and of any size, also several times, with adds to other keys between.
func TestLoadInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	source := New()
	fill(t, source)
	for size := range 40 {
		size = size*7 + 1
		e := New()
		for kind, scan := range map[string]func(string, int64) (ScanDump, error){"b": source.BFScanDump, "c": source.CFScanDump} {
			all := pieces(t, scan, kind)
			load := map[string]func(string, int64, string) error{"b": e.BFLoadChunk, "c": e.CFLoadChunk}[kind]
			require.NoError(t, load(kind, 1, all[0].Data))
			var small []ScanDump
			for _, d := range all[1:] {
				for at := 0; at < len(d.Data); at += size {
					end := min(at+size, len(d.Data))
					small = append(small, ScanDump{d.Iter - int64(len(d.Data)-end), d.Data[at:end]})
				}
			}
			r.Shuffle(len(small), func(i, j int) { small[i], small[j] = small[j], small[i] })
			for _, d := range append(small, small[:3]...) {
				require.NoError(t, load(kind, d.Iter, d.Data))
			}
			require.Equal(t, all, pieces(t, map[string]func(string, int64) (ScanDump, error){"b": e.BFScanDump, "c": e.CFScanDump}[kind], kind))
		}
		checkMemory(t, e)
	}
}

// A chunk for a complete filter replaces what is there, as on the server.
func TestLoadOverACompleteFilter(t *testing.T) {
	source, e := New(), New()
	fill(t, source)
	fill(t, e)
	for i := 650; i < 690; i++ {
		require.NotContains(t, resp(e, fmt.Sprint("BF.ADD b ", i)), "-")
		require.NotContains(t, resp(e, fmt.Sprint("CF.ADD c ", i)), "-")
	}
	require.NotEqual(t, pieces(t, source.BFScanDump, "b")[1:], pieces(t, e.BFScanDump, "b")[1:])
	for _, d := range pieces(t, source.BFScanDump, "b")[1:] {
		require.NoError(t, e.BFLoadChunk("b", d.Iter, d.Data))
	}
	for _, d := range pieces(t, source.CFScanDump, "c")[1:] {
		require.NoError(t, e.CFLoadChunk("c", d.Iter, d.Data))
	}
	require.Equal(t, pieces(t, source.BFScanDump, "b")[1:], pieces(t, e.BFScanDump, "b")[1:])
	require.Equal(t, pieces(t, source.CFScanDump, "c")[1:], pieces(t, e.CFScanDump, "c")[1:])
	n, err := e.BFCard("b") // counts stay
	require.NoError(t, err)
	require.Greater(t, n, int64(680))

	// Without a header, into filters that were reserved. This one has no dump of its own.
	require.NoError(t, e.BFReserve("b2", 0.01, 100))
	require.NoError(t, e.CFReserve("c2", 512))
	d := pieces(t, source.BFScanDump, "b")[1]
	require.NoError(t, e.BFLoadChunk("b2", d.Iter, d.Data))
	require.Equal(t, ":1", resp(e, "BF.EXISTS b2 7"))
	d = pieces(t, source.CFScanDump, "c")[1]
	require.NoError(t, e.CFLoadChunk("c2", d.Iter, d.Data))
	require.Equal(t, ":1", resp(e, "CF.EXISTS c2 7"))
	require.Equal(t, "*2 :0 $-1", resp(e, "CF.SCANDUMP c2 0")) // it counts no items
	checkMemory(t, e)
}

// The errors of LOADCHUNK leave the key as it was.
func TestLoadRefusals(t *testing.T) {
	e := New()
	fill(t, e)
	before := [][]ScanDump{pieces(t, e.BFScanDump, "b"), pieces(t, e.CFScanDump, "c")}
	header := before[0][0].Data
	require.Equal(t, "*2 :0 ", resp(e, "BF.SCANDUMP b -9223372036854775808"))
	for command, want := range map[string]string{
		"BF.LOADCHUNK x 0 a":                      "-ERR not found",
		"BF.LOADCHUNK x -1 a":                     "-ERR not found",
		"BF.LOADCHUNK x 01 a":                     "-ERR Second argument must be numeric",
		"BF.LOADCHUNK b 0 a":                      "-ERR received bad data",
		"BF.LOADCHUNK b 1 ab":                     "-ERR received bad data",
		"BF.LOADCHUNK b 2 abc":                    "-ERR received bad data",
		"BF.LOADCHUNK b 3 abc":                    "-ERR invalid offset - no link found",
		"BF.LOADCHUNK b 145 " + long(145):         "-ERR invalid offset - no link found",
		"BF.LOADCHUNK b 146 " + long(145):         "-ERR invalid chunk - Too big for current filter",
		"BF.LOADCHUNK b 9223372036854775807 a":    "-ERR invalid offset - no link found",
		"BF.LOADCHUNK b 1154 ab":                  "-ERR invalid chunk - Too big for current filter",
		"BF.LOADCHUNK b 1155 ab":                  "-ERR invalid offset - no link found",
		`BF.LOADCHUNK b 9 ""`:                     "+OK",
		`BF.LOADCHUNK b 0 ""`:                     "-ERR received bad data",
		`BF.LOADCHUNK b 1154 ""`:                  "-ERR invalid offset - no link found",
		"CF.LOADCHUNK x -1 a":                     "-Invalid position",
		"CF.LOADCHUNK x 2 a":                      "-ERR not found",
		"CF.LOADCHUNK c 2 ab":                     "-Couldn't load chunk!",
		"CF.LOADCHUNK c 9223372036854775807 abcd": "-Couldn't load chunk!",
		`CF.LOADCHUNK c 9 ""`:                     "-Couldn't load chunk!",
		"CF.LOADCHUNK x 1 " + header:              "-Invalid header",
		"CF.SCANDUMP c x":                         "-Invalid position",
		"BF.SCANDUMP b 1.0":                       "-Second argument must be numeric",
	} {
		args := strings.SplitN(command, " ", 4)
		if len(args) == 4 && args[3] == `""` {
			args[3] = ""
		}
		require.Equal(t, want, strings.TrimSuffix(string(e.call(args...).Append(nil, 2)), "\r\n"), "%.100q", command)
	}
	require.Equal(t, before, [][]ScanDump{pieces(t, e.BFScanDump, "b"), pieces(t, e.CFScanDump, "c")})
	require.Equal(t, int64(2), e.Exists("b", "c", "x"))
	checkMemory(t, e)
}

func long(n int) string { return strings.Repeat("x", n) }

// Every mutation of a header is a filter that works or an error, and leaves no key behind it.
func TestMutatedHeaders(t *testing.T) {
	source := New()
	fill(t, source)
	bf, cf := pieces(t, source.BFScanDump, "b")[0].Data, pieces(t, source.CFScanDump, "c")[0].Data
	for at := range len(bf) {
		for _, flip := range []byte{1, 0x80, 0xff} {
			e := New()
			header := []byte(bf)
			header[at] ^= flip
			if err := e.BFLoadChunk("k", 1, string(header)); err != nil {
				require.Equal(t, 0, e.Len())
				require.Zero(t, e.UsedMemory())
				continue
			}
			require.True(t, IsIncomplete(do(e, "BF.EXISTS k 1").Err()))
			checkMemory(t, e)
		}
	}
	for at := range len(cf) {
		for _, flip := range []byte{1, 0x80, 0xff} {
			e := New()
			header := []byte(cf)
			header[at] ^= flip
			if err := e.CFLoadChunk("k", 1, string(header)); err != nil {
				require.Equal(t, 0, e.Len())
				require.Zero(t, e.UsedMemory())
				continue
			}
			require.True(t, IsIncomplete(do(e, "CF.EXISTS k 1").Err()))
			checkMemory(t, e)
		}
	}
}

// oldHeader is a header of a server that did not round bits to whole words: 100 bits in 13 bytes.
func oldHeader() string {
	le := binary.LittleEndian
	h := le.AppendUint64(nil, 1)
	h = le.AppendUint32(h, 1)
	h = le.AppendUint32(h, 5)
	h = le.AppendUint32(h, 2)
	h = le.AppendUint64(h, 13)
	h = le.AppendUint64(h, 100)
	h = le.AppendUint64(h, 1)
	h = le.AppendUint64(h, 0x3f747ae147ae147b) // 0.005
	h = le.AppendUint64(h, 0x402607350f8bcd14) // about 11 bits an entry
	h = le.AppendUint32(h, 8)
	h = le.AppendUint64(h, 9)
	return string(append(h, 0))
}

// Bits past the size of an old link are refused when the last byte comes; then all may come again.
func TestOldDumpWithBitsPastItsEnd(t *testing.T) {
	e := New()
	require.NoError(t, e.BFLoadChunk("k", 1, oldHeader()))
	require.Equal(t, ErrBadData, e.BFLoadChunk("k", 14, long(12)+"\xff"))
	require.True(t, IsIncomplete(do(e, "BF.EXISTS k 1").Err()))
	checkMemory(t, e)
	require.NoError(t, e.BFLoadChunk("k", 14, long(12)+"\x0f"))
	require.Contains(t, resp(e, "BF.DEBUG k"), "bytes:13 bits:100 hashes:8")
	require.NotContains(t, resp(e, "BF.EXISTS k 1"), "-")
	require.Equal(t, ErrBadData, e.BFLoadChunk("k", 14, "\xff"))
	checkMemory(t, e)
	require.Equal(t, long(12)+"\x0f", pieces(t, e.BFScanDump, "k")[1].Data)
}

// A header is counted with what it claims, and takes no more than it has: memory goes by what came.
func TestHeaderClaims(t *testing.T) {
	e := New()
	e.SetMaxMemory(1 << 30)
	le := binary.LittleEndian
	h := le.AppendUint64(nil, 0)
	for _, v := range []uint64{1 << 29, 0, 1} {
		h = le.AppendUint64(h, v)
	}
	h = le.AppendUint16(le.AppendUint16(le.AppendUint16(h, 1), 20), 1)
	allocated := testing.AllocsPerRun(1, func() {
		e.Del("k")
		require.NoError(t, e.CFLoadChunk("k", 1, string(h)))
	})
	require.Less(t, allocated, 100.0)
	require.Greater(t, e.UsedMemory(), uint64(1<<29))
	require.Equal(t, ErrOutOfMemory, e.CFLoadChunk("k2", 1, string(h)))
	// A byte at a time would take many times its size beside the filter: that is counted too.
	e.SetMaxMemory(e.UsedMemory() + 10*chunkOverhead)
	for i := range 10 {
		require.NoError(t, e.CFLoadChunk("k", int64(2+2*i), "x"))
	}
	require.Equal(t, ErrOutOfMemory, e.CFLoadChunk("k", 1000, "x"))
	checkMemory(t, e)
	e.Del("k")
	require.Zero(t, e.UsedMemory())
}
