package redisbloom

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom/internal/ascii"
	"github.com/stretchr/testify/require"
)

// Words that commands are put together from: names, options, numbers at the edges of every range.
var fuzzWords = func() []string {
	words := []string{
		"", "a", "b", "k", "key", "x\x00y", "nokey", "ITEMS", "items", "CAPACITY", "ERROR", "EXPANSION", "NOCREATE", "NONSCALING", "BUCKETSIZE", "MAXITERATIONS",
		"0", "1", "2", "3", "4", "7", "-1", "10", "100", "255", "256", "1000", "32768", "32769", "65535", "65536", "1073741824", "1073741825", "9223372036854775807",
		"-9223372036854775808", "99999999999999999999", "01", "+1", "0x1", "1e3", "0.01", "0.25", "0.5", "1.5", "nan", "inf", "1e-300", "1e-400", ".5", "5.",
		"USAGE", "GET", "SET", "MATCH", "COUNT", "TYPE", "string", "*", "[", "bf-*", "bf-initial-size", "cf-max-expansions", "cf-bucket-size", "bf-error-rate", "maxmemory", "1mb",
		"i", "c", "e", "er", "n", "noc", "SAMPLES", "ASYNC", strings.Repeat("long", 300),
	}
	for c := range Commands() {
		words = append(words, c.Name)
	}
	return words
}()

// wellFormed takes one reply off the front of b and returns what is left.
func wellFormed(t *testing.T, b []byte, resp3 bool) []byte {
	line, rest, ok := bytes.Cut(b, []byte("\r\n"))
	require.True(t, ok && len(line) > 0, "%.100q", b)
	require.NotContains(t, string(line), "\n")
	kind, text := line[0], string(line[1:])
	switch kind {
	case '+', '-':
		return rest
	case '_', '#', ',':
		require.True(t, resp3)
		return rest
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	switch kind {
	case ':':
	case '$', '=':
		if n >= 0 {
			require.Equal(t, "\r\n", string(rest[n:n+2]))
			rest = rest[n+2:]
		} else {
			require.False(t, resp3)
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~':
		for range n {
			rest = wellFormed(t, rest, resp3)
		}
	default:
		require.FailNow(t, "unknown kind of reply", "%q", line)
	}
	return rest
}

// Do answers anything with one well-formed reply, and counts its memory right.
func FuzzDo(f *testing.F) {
	f.Add([]byte("BF.ADD\x00k\x00a\xffBF.SCANDUMP\x00k\x000\xffBF.LOADCHUNK\x00k2\x001\x00bad"))
	f.Add([]byte("\x01\x02\xffBF.INSERT\x00k\x00CAPACITY\x005\x00NONSCALING\x00ITEMS\x00a\x00b\x00c\x00d\x00e\x00f"))
	f.Add([]byte("CF.RESERVE\x00c\x004\x00BUCKETSIZE\x001\xffCF.INSERT\x00c\x00ITEMS\x00a\x00a\x00a\x00a\x00a\xffCF.COMPACT\x00c"))
	f.Add([]byte("BF.LOADCHUNK\x00k\x001\x00" + oldHeader() + "\xffBF.INFO\x00k\xffBF.LOADCHUNK\x00k\x0014\x00abcdefghijklm"))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := New()
		e.SetMaxMemory(1 << 22)
		for command := range bytes.SplitSeq(data, []byte{0xff}) {
			var args [][]byte
			for arg := range bytes.SplitSeq(command, []byte{0}) {
				if len(arg) == 1 && arg[0] >= 0x80 { // one of the words, as the fuzzer finds them seldom
					arg = []byte(fuzzWords[int(arg[0]-0x80)%len(fuzzWords)])
				}
				args = append(args, arg)
			}
			if ascii.Is(args[0], "config") && len(args) > 3 && ascii.Is(args[2], "maxmemory") {
				continue // it is there to bound what the fuzzer allocates
			}
			reply := e.Do(args...)
			require.Empty(t, wellFormed(t, reply.Append(nil, 2), false))
			require.Empty(t, wellFormed(t, reply.Append(nil, 3), true))
		}
		checkMemory(t, e)
	})
}

// model is what the answers of an engine must agree with.
type model map[string]*modelKey

type modelKey struct {
	kind  string         // as TYPE has it
	items map[string]int // and how often
	card  int64          // adds that were answered 1
}

// FuzzModel runs commands that are all well formed against a model: whatever happens, an item that was added is
// found until its key goes, counters count, and types are what was made.
func FuzzModel(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	f.Add(bytes.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 20))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3000 {
			return
		}
		e, m := New(), model{}
		e.SetMaxMemory(1 << 20)
		for len(data) >= 3 {
			m.step(t, e, data[0], "k"+string('0'+data[1]%4), strconv.Itoa(int(data[2])))
			data = data[3:]
		}
		m.check(t, e)
		var file bytes.Buffer
		_, err := e.WriteTo(&file)
		require.NoError(t, err)
		loaded := New()
		_, err = loaded.ReadFrom(&file)
		require.NoError(t, err)
		m.check(t, loaded)
		require.Equal(t, state(e), state(loaded))
	})
}

func (m model) get(key, kind string) *modelKey {
	if m[key] == nil {
		m[key] = &modelKey{kind: kind, items: map[string]int{}}
	}
	return m[key]
}

// added notes the answer to an add.
func (m model) added(t *testing.T, key, kind, item string, r Reply) {
	if r.Kind == Error {
		if e := ErrorReply(r.Str); e == ErrWrongType {
			require.NotEqual(t, kind, m[key].kind)
		} else {
			require.Contains(t, []ErrorReply{ErrBFFull, ErrCFFull, ErrOutOfMemory, ErrCFExpansions}, e)
		}
		return
	}
	k := m.get(key, kind)
	require.Equal(t, kind, k.kind)
	if r.Int == 0 { // there already, or so it seems
		if kind == "MBbloom--" {
			k.items[item]++
		}
		return
	}
	require.Equal(t, int64(1), r.Int)
	if kind == "MBbloom--" {
		require.Zero(t, k.items[item])
	}
	k.items[item]++
	k.card++
}

func (m model) step(t *testing.T, e *Engine, op byte, key, item string) {
	switch op % 20 {
	case 0:
		if do(e, "BF.RESERVE "+key+" 0.1 4").Kind == Simple {
			m.get(key, "MBbloom--")
		}
	case 1:
		if do(e, "BF.RESERVE "+key+" 0.01 2 NONSCALING").Kind == Simple {
			m.get(key, "MBbloom--")
		}
	case 2:
		if do(e, "CF.RESERVE "+key+" 4 BUCKETSIZE 1 EXPANSION 2").Kind == Simple {
			m.get(key, "MBbloomCF")
		}
	case 3:
		if do(e, "CF.RESERVE "+key+" 8 EXPANSION 0").Kind == Simple {
			m.get(key, "MBbloomCF")
		}
	case 4:
		m.addAll(t, e, key, "MBbloom--", "BF.MADD "+key+" ", item)
	case 5:
		m.addAll(t, e, key, "MBbloomCF", "CF.INSERT "+key+" ITEMS ", item)
	case 6, 7:
		m.added(t, key, "MBbloom--", item, do(e, "BF.ADD "+key+" "+item))
	case 8, 9:
		m.added(t, key, "MBbloomCF", item, do(e, "CF.ADD "+key+" "+item))
	case 10:
		m.added(t, key, "MBbloomCF", item, do(e, "CF.ADDNX "+key+" "+item))
	case 11:
		// Only what was added may be deleted.
		if k := m[key]; k != nil && k.kind == "MBbloomCF" && k.items[item] > 0 {
			require.Equal(t, int64(1), do(e, "CF.DEL "+key+" "+item).Int)
			k.items[item]--
			k.card--
		}
	case 12:
		do(e, "CF.COMPACT "+key)
	case 13:
		if do(e, "SET "+key+" v").Kind == Simple {
			m[key] = &modelKey{kind: "string"}
		}
	case 14:
		require.Equal(t, m[key] != nil, do(e, "DEL "+key).Int == 1)
		delete(m, key)
	case 15, 16:
		m.copy(t, e, key, "k"+item[:1])
	case 17:
		if item == "7" {
			do(e, "FLUSHALL")
			clear(m)
		}
	default:
		m.check(t, e)
	}
}

// addAll sends ten items in one command.
func (m model) addAll(t *testing.T, e *Engine, key, kind, command, item string) {
	var items []string
	for i := range 10 {
		items = append(items, item+strconv.Itoa(i))
	}
	r := do(e, command+strings.Join(items, " "))
	if r.Kind == Error {
		m.added(t, key, kind, item, r)
		return
	}
	m.get(key, kind)
	for i, reply := range r.Elems {
		if reply.Int >= 0 { // not refused
			m.added(t, key, kind, items[i], reply)
		}
	}
}

// copy loads a dump of one key into another one.
func (m model) copy(t *testing.T, e *Engine, from, to string) {
	if m[from] == nil || m[to] != nil || m[from].kind == "string" {
		return
	}
	scan, load := e.BFScanDump, e.BFLoadChunk
	if m[from].kind == "MBbloomCF" {
		scan, load = e.CFScanDump, e.CFLoadChunk
	}
	for i, d := range pieces(t, scan, from) {
		if err := load(to, d.Iter, d.Data); err != nil {
			require.Equal(t, ErrOutOfMemory, err)
			require.Zero(t, i) // for the whole of it, at the header
			return
		}
		k := *m[from]
		m[to] = &modelKey{k.kind, map[string]int{}, k.card}
		for item, n := range k.items {
			m[to].items[item] = n
		}
	}
}

func (m model) check(t *testing.T, e *Engine) {
	require.Equal(t, len(m), e.Len())
	checkMemory(t, e)
	for key, k := range m {
		require.Equal(t, k.kind, e.Type(key))
		for item, n := range k.items {
			if n <= 0 {
				continue
			}
			if k.kind == "MBbloom--" {
				require.Equal(t, ":1", resp(e, "BF.EXISTS "+key+" "+item))
				continue
			}
			require.Equal(t, ":1", resp(e, "CF.EXISTS "+key+" "+item))
			count, err := e.CFCount(key, item)
			require.NoError(t, err)
			require.GreaterOrEqual(t, count, int64(n))
		}
		switch k.kind {
		case "MBbloom--":
			n, err := e.BFCard(key)
			require.NoError(t, err)
			require.Equal(t, k.card, n)
		case "MBbloomCF":
			info, err := e.CFInfo(key)
			require.NoError(t, err)
			require.Equal(t, k.card, info.NumItemsInserted)
		}
	}
}
