package bloomd

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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
		{"*1\r\n:1\r\n", nil, failed("expected '$', got ':'")}, {"*1\r\n\x00", nil, failed("expected '$', got '?'")}, {"*2\r\n$1\r\nx\r\n*", nil, failed("expected '$', got '*'")},
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

// random is a command as a client writes it, and mostly a right one.
func random(r *rand.Rand) []byte {
	var b []byte
	n := r.IntN(6)
	b = fmt.Appendf(b, "*%d\r\n", n)
	for range n {
		size := r.IntN(12)
		b = fmt.Appendf(b, "$%d\r\n", size)
		for range size {
			b = append(b, byte(r.Uint32()))
		}
		b = append(b, "\r\n"...)
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

// A million inputs that are malformed, or cut off, or neither: no panic, and the same commands whatever pieces they
// come in.
func TestMalformed(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 20_000
	}
	r := rand.New(rand.NewPCG(7, 7))
	wrong := 0
	for range n {
		var b []byte
		for range 1 + r.IntN(3) {
			b = append(b, random(r)...)
		}
		for range r.IntN(4) {
			b = damage(r, b)
		}
		commands, end := parsed(b, &testLimits)
		again, sameEnd := inPieces(b, &testLimits, func() int { return 1 + r.IntN(7) })
		if end != sameEnd || len(commands) != len(again) {
			require.Equal(t, end, sameEnd, "%q", b)
			require.Equal(t, commands, again, "%q", b)
		}
		if end != "" {
			wrong++
		}
	}
	require.Greater(t, wrong, n/3)
	require.Less(t, wrong, n*9/10)
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
	l := limits{1 << 20, 1 << 29, 1 << 30}
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

func BenchmarkParse(b *testing.B) {
	var p parser
	command := []byte("*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nk\r\n$12\r\n000000123456\r\n")
	l := limits{1 << 20, 1 << 29, 1 << 30}
	for b.Loop() {
		p.parse(command, &l)
	}
}
