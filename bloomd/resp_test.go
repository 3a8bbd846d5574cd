package bloomd

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var testLimits = limits{args: 100, bulk: 1000, command: 2000}

// parsed is all commands in b, and how it ends: "" where every byte was taken.
func parsed(b []byte, l *limits) (commands [][]string, end string) {
	var p parser
	for len(b) > 0 {
		args, n, err := p.parse(b, l)
		if err == errShort {
			return commands, "short"
		}
		if err != nil {
			return commands, err.Error()
		}
		if len(args) > 0 {
			var command []string
			for _, arg := range args {
				command = append(command, string(arg))
			}
			commands = append(commands, command)
		}
		b = b[n:]
	}
	return commands, ""
}

func TestParse(t *testing.T) {
	failed := func(what string) string { return "ERR Protocol error: " + what }
	for _, c := range []struct {
		in       string
		commands [][]string
		end      string
	}{
		{"", nil, ""},
		{"*1\r\n$4\r\nPING\r\n", [][]string{{"PING"}}, ""},
		{"*2\r\n$0\r\n\r\n$5\r\na\r\nb\x00\r\n*1\r\n$1\r\nx\r\n", [][]string{{"", "a\r\nb\x00"}, {"x"}}, ""},
		{"*0\r\n*-1\r\n*1\r\n$1\r\nx\r\n", [][]string{{"x"}}, ""}, // no commands
		{"*", nil, "short"}, {"*1", nil, "short"}, {"*1\r", nil, "short"}, {"*1\r\n", nil, "short"}, {"*1\r\n$", nil, "short"}, {"*1\r\n$1\r\n", nil, "short"},
		{"*1\r\n$1\r\nx", nil, "short"}, {"*1\r\n$1\r\nx\r", nil, "short"}, {"*2\r\n$1\r\nx\r\n", nil, "short"},
		{"*x\r\n", nil, failed("invalid multibulk length")}, {"*\r\n", nil, failed("invalid multibulk length")}, {"*01\r\n", nil, failed("invalid multibulk length")},
		{"*+1\r\n", nil, failed("invalid multibulk length")}, {"*1 \r\n", nil, failed("invalid multibulk length")}, {"*1\rx", nil, failed("invalid multibulk length")},
		{"*-0\r\n", nil, failed("invalid multibulk length")}, {"*101\r\n", nil, failed("invalid multibulk length")}, {"*9223372036854775807\r\n", nil, failed("invalid multibulk length")},
		{"*" + strings.Repeat("1", 40), nil, failed("invalid multibulk length")}, {"*4294967297\r\n", nil, failed("invalid multibulk length")},
		{"*1\r\n:1\r\n", nil, failed("expected '$', got ':'")}, {"*1\r\n\x00", nil, failed("expected '$', got '\x00'")}, {"*2\r\n$1\r\nx\r\n*", nil, failed("expected '$', got '*'")},
		{"*1\r\n$-1\r\n", nil, failed("invalid bulk length")}, {"*1\r\n$x\r\n", nil, failed("invalid bulk length")}, {"*1\r\n$1001\r\n", nil, failed("invalid bulk length")},
		{"*1\r\n$9223372036854775807\r\n", nil, failed("invalid bulk length")}, {"*1\r\n$9223372036854775806\r\n", nil, failed("invalid bulk length")},
		{"*1\r\n$" + strings.Repeat("0", 40), nil, failed("invalid bulk length")}, {"*1\r\n$2147483647\r\n", nil, failed("invalid bulk length")},
		{"*1\r\n$1\r\nxyz", nil, failed("expected CRLF after a bulk string")}, {"*1\r\n$1\r\nx\n\r", nil, failed("expected CRLF after a bulk string")},
		{"*3\r\n$1000\r\n" + strings.Repeat("a", 1000) + "\r\n$1000\r\n", nil, failed("too big command")},
		{"PING\r\n", [][]string{{"PING"}}, ""}, {"PING\n \r\n\r\nGET a\r\n", [][]string{{"PING"}, {"GET", "a"}}, ""}, {"PING", nil, "short"}, {"PING\r", nil, "short"},
		{"  set\ta  'b c' \"d\\n\\x41\\\"\\q\\xzz\" ''\r\n", [][]string{{"set", "a", "b c", "d\nA\"qxzz", ""}}, ""},
		{`'it\'s' 'a\n'` + "\n", [][]string{{"it's", `a\n`}}, ""}, {`"\r\t\b\a\\"` + "\n", [][]string{{"\r\t\b\a\\"}}, ""}, {`a"b c"` + "\n", [][]string{{"ab c"}}, ""},
		{"\"a\r\n", nil, failed("unbalanced quotes in request")}, {"'a\r\n", nil, failed("unbalanced quotes in request")}, {`"a"b` + "\n", nil, failed("unbalanced quotes in request")},
		{`"a\` + "\n", nil, failed("unbalanced quotes in request")},
		{strings.Repeat("x", maxLine-1), nil, "short"}, {strings.Repeat("x", maxLine), nil, failed("too big inline request")},
		{"GET /\r\nHost: x\r\n", [][]string{{"GET", "/"}, {"Host:", "x"}}, ""},
	} {
		commands, end := parsed([]byte(c.in), &testLimits)
		require.Equal(t, c.end, end, "%.100q", c.in)
		require.Equal(t, c.commands, commands, "%.100q", c.in)
	}
}

var names = strings.Fields(`BF.RESERVE BF.ADD BF.MADD BF.INSERT BF.EXISTS BF.MEXISTS BF.INFO BF.CARD BF.DEBUG BF.SCANDUMP BF.LOADCHUNK CF.RESERVE CF.ADD CF.ADDNX
	CF.INSERT CF.INSERTNX CF.EXISTS CF.MEXISTS CF.COUNT CF.DEL CF.COMPACT CF.INFO CF.DEBUG CF.SCANDUMP CF.LOADCHUNK SET GET DEL KEYS SCAN MULTI EXEC HELLO CLIENT QUIT
	COMMAND CONFIG INFO MEMORY AUTH WATCH ITEMS 0.01 3 2 1 0 -1 a b`)

// random is a command as a client writes it, and mostly a right one.
func random(r *rand.Rand) []byte {
	var b []byte
	n := r.IntN(6)
	b = fmt.Appendf(b, "*%d\r\n", n)
	for range n {
		var arg []byte
		if r.IntN(4) > 0 {
			arg = []byte(names[r.IntN(len(names))])
		} else {
			for range r.IntN(12) {
				arg = append(arg, byte(r.Uint32()))
			}
		}
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b
}

// damage makes it a wrong one, in one of the ways in which it can be.
func damage(r *rand.Rand, b []byte) []byte {
	words := []string{"-1", "0", "1", "99", "1000", "1001", "2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e9", "", " 1", "+1", "01"}
	switch at := r.IntN(len(b) + 1); r.IntN(6) {
	case 0:
		return b[:at]
	case 1:
		if at < len(b) {
			b[at] ^= byte(1 + r.IntN(255))
		}
	case 2: // a number that is another one
		if i := bytes.LastIndexAny(b[:at], "*$"); i >= 0 {
			if end := bytes.IndexByte(b[i:], '\r'); end > 0 {
				return bytes.Join([][]byte{b[:i+1], []byte(words[r.IntN(len(words))]), b[i+end:]}, nil)
			}
		}
	case 3:
		return bytes.Join([][]byte{b[:at], random(r), b[at:]}, nil)
	case 4:
		return append(b[:at:at], b[min(len(b), at+1+r.IntN(8)):]...)
	default:
		garbage := make([]byte, r.IntN(40))
		for i := range garbage {
			garbage[i] = byte(r.Uint32())
		}
		return bytes.Join([][]byte{b[:at], garbage, b[at:]}, nil)
	}
	return b
}

// inPieces is parsed, with the bytes coming as they do from a network.
func inPieces(b []byte, l *limits, piece func() int) (commands [][]string, end string) {
	var p parser
	from, to := 0, 0
	for {
		for from < to {
			args, n, err := p.parse(b[from:to], l)
			if err == errShort {
				break
			}
			if err != nil {
				return commands, err.Error()
			}
			if len(args) > 0 {
				var command []string
				for _, arg := range args {
					command = append(command, string(arg))
				}
				commands = append(commands, command)
			}
			from += n
		}
		if to == len(b) {
			if from < to {
				return commands, "short"
			}
			return commands, ""
		}
		to = min(len(b), to+piece())
	}
}

// input is a connection of which everything is known before.
type input struct {
	net.Conn
	left   []byte
	piece  func() int
	out    []byte
	closed bool
}

func (c *input) Read(b []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.piece())], c.left)
	c.left = c.left[n:]
	return n, nil
}

func (c *input) Write(b []byte) (int, error) {
	c.out = append(c.out, b...)
	return len(b), nil
}

func (c *input) Close() error {
	c.closed = true
	return nil
}

func (c *input) SetReadDeadline(time.Time) error  { return nil }
func (c *input) SetWriteDeadline(time.Time) error { return nil }
func (c *input) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *input) LocalAddr() net.Addr              { return &net.TCPAddr{} }

var malformed = flag.Int("malformed", 100_000, "inputs of TestMalformed")

// Connections whose bytes are malformed or cut off, some after commands that are right, in pieces of all
// sizes: no panic, the same commands however the pieces are cut, an error and the end for what is malformed,
// and nothing that stays. A million of them:
//
//	go test -C bloomd -run TestMalformed . -malformed 1000000
func TestMalformed(t *testing.T) {
	n := *malformed
	if testing.Short() {
		n = min(n, 20_000)
	}
	s, err := New(Config{MaxArgs: testLimits.args, MaxBulk: testLimits.bulk, MaxCommand: testLimits.command})
	require.NoError(t, err)
	s.Engine().SetMaxMemory(1 << 20)
	r := rand.New(rand.NewPCG(7, 7))
	piece := func() int { return 1 + r.IntN(40) }
	goroutines, wrong, right := runtime.NumGoroutine(), 0, 0
	for wrong < n {
		var b []byte
		for range 1 + r.IntN(3) {
			b = append(b, random(r)...)
		}
		for range r.IntN(4) {
			b = damage(r, b)
		}
		commands, end := parsed(b, &testLimits)
		again, sameEnd := inPieces(b, &testLimits, piece)
		if end != sameEnd || len(commands) != len(again) {
			require.Equal(t, end, sameEnd, "%q", b)
			require.Equal(t, commands, again, "%q", b)
		}
		if end != "" {
			wrong++
		} else {
			right++
		}

		in := &input{left: bytes.Clone(b), piece: piece}
		c := newConn(s, in)
		c.serve()
		quit := slices.ContainsFunc(commands, func(args []string) bool { return strings.EqualFold(args[0], "quit") })
		said := end != "" && bytes.HasSuffix(in.out, []byte("-"+end+"\r\n"))
		if !in.closed || !quit && said != strings.HasPrefix(end, "ERR ") {
			require.FailNow(t, "a wrong end", "%q: %q, want %q", b, in.out, end)
		}
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the last that wrote replies is about to end
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
	require.Zero(t, s.buffers.Load())
	t.Log(wrong, "that were wrong, and", right, "that were right")
	require.Less(t, right, 2*n)
	require.Greater(t, right, n/10)
}

func FuzzParse(f *testing.F) {
	for _, in := range []string{"*1\r\n$4\r\nPING\r\n", "*2\r\n$-1\r\n", "set 'a b' \"c\\x00\"\r\n*1\r\n$1\r\nx\r\n", "*9223372036854775807\r\n"} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		commands, end := parsed(b, &testLimits)
		again, sameEnd := inPieces(b, &testLimits, func() int { return 1 })
		require.Equal(t, commands, again)
		require.Equal(t, end, sameEnd)
	})
}

// Parsing allocates nothing once it has seen a command of the kind, and no more than a little whatever is claimed.
func TestParseAllocations(t *testing.T) {
	var p parser
	command := []byte("*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nk\r\n$4\r\nitem\r\n")
	l := limits{args: 1 << 20, bulk: 1 << 29, command: 1 << 30}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if _, _, err := p.parse(command, &l); err != nil {
			panic(err)
		}
	}))
	for _, claim := range []string{"*1048576\r\n$1\r\nx\r\n", "*1\r\n$536870912\r\nx"} {
		require.Less(t, testing.AllocsPerRun(10, func() {
			var p parser
			p.parse([]byte(claim), &l)
		}), 10.0)
	}
}

// A batch of what is asked most is run and answered without an allocation.
func TestServingAllocations(t *testing.T) {
	s, err := New(Config{})
	require.NoError(t, err)
	c := newConn(s, &input{})
	c.buf = make([]byte, readSize)
	batch := []byte(strings.Repeat("*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nb\r\n$4\r\nitem\r\n*3\r\n$6\r\nBF.ADD\r\n$1\r\nb\r\n$4\r\nitem\r\n", 8))
	serve := func() {
		c.out = c.out[:0]
		c.w = copy(c.buf, batch)
		if err := c.runAll(); err != nil {
			panic(err)
		}
	}
	serve()
	require.Zero(t, testing.AllocsPerRun(100, serve))
	require.Equal(t, strings.Repeat(":1\r\n:0\r\n", 8), string(c.out))
}

func BenchmarkServing(b *testing.B) {
	s, err := New(Config{})
	require.NoError(b, err)
	c := newConn(s, &input{})
	c.buf = make([]byte, readSize)
	batch := []byte(strings.Repeat("*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nb\r\n$4\r\nitem\r\n", 16))
	for b.Loop() {
		c.out = c.out[:0]
		c.w = copy(c.buf, batch)
		if err := c.runAll(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/command")
}

func BenchmarkParse(b *testing.B) {
	var p parser
	command := []byte("*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nk\r\n$12\r\n000000123456\r\n")
	l := limits{args: 1 << 20, bulk: 1 << 29, command: 1 << 30}
	for b.Loop() {
		p.parse(command, &l)
	}
}
