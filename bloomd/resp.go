package bloomd

import (
	"bytes"
	"errors"
	"math"
)

// This file takes commands off a stream of bytes, in the protocol of RESP2 and RESP3 (which differ in replies only) and
// as lines for a person at a terminal.
//
// It is not a library's since none that was looked at bounds what a client may send: sizes here are checked
// before anything is allocated, and the parser goes on where it stopped when more bytes come instead of
// starting the command over.

// protocolError is what a client is told before it is disconnected.
type protocolError string

func (e protocolError) Error() string { return "ERR Protocol error: " + string(e) }

// errShort means that the rest of the command has not come.
var errShort = errors.New("bloomd: incomplete command")

// limits bound one command.
type limits struct {
	args    int // arguments
	bulk    int // bytes of one
	command int // bytes of all, with what is around them

	stranger bool // they are those before AUTH
}

// passed says that a client passed a limit.
func (l *limits) passed(what string) protocolError {
	if l.stranger {
		return protocolError("unauthenticated " + what)
	}
	return protocolError("invalid " + what)
}

const (
	maxLine   = 64 << 10 // bytes of a command that is a line
	maxNumber = 32       // bytes of a line that is a number
)

// parser takes commands off a buffer. The zero value is ready.
type parser struct {
	left int // arguments that the command still lacks
	next int // where in the buffer the next one begins
	ends []int
	args [][]byte
}

// parse takes one command off the front of b. It returns its arguments, which are slices of b or of memory of their
// own, and how many bytes it took. A command without arguments is to be ignored. With errShort nothing was taken: parse
// again with more bytes behind the same ones. Any other error is a protocolError.
func (p *parser) parse(b []byte, l *limits) (args [][]byte, n int, err error) {
	if p.left == 0 {
		if len(b) == 0 {
			return nil, 0, errShort
		}
		if b[0] != '*' {
			return p.parseLine(b)
		}
		count, end, err := number(b, 1, "multibulk length")
		if err != nil {
			return nil, 0, err
		}
		if count > l.args {
			return nil, 0, l.passed("multibulk length")
		}
		if count <= 0 {
			return nil, end, nil
		}
		p.left, p.next, p.ends = count, end, p.ends[:0]
	}
	for p.left > 0 {
		start, end, err := bulk(b, p.next, l)
		if err != nil {
			return nil, 0, err
		}
		p.ends = append(p.ends, start, end)
		p.next = end + 2
		p.left--
	}
	p.args = p.args[:0]
	for i := 0; i < len(p.ends); i += 2 {
		p.args = append(p.args, b[p.ends[i]:p.ends[i+1]:p.ends[i+1]])
	}
	return p.args, p.next, nil
}

// bulk finds the argument that begins at i: where its bytes start and end.
func bulk(b []byte, i int, l *limits) (start, end int, err error) {
	if i >= len(b) {
		return 0, 0, errShort
	}
	if c := b[i]; c != '$' {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		return 0, 0, protocolError("expected '$', got '" + string([]byte{c}) + "'")
	}
	size, start, err := number(b, i+1, "bulk length")
	if err != nil {
		return 0, 0, err
	}
	if size < 0 {
		return 0, 0, protocolError("invalid bulk length")
	}
	if size > l.bulk {
		return 0, 0, l.passed("bulk length")
	}
	if end = start + size; end > l.command-2 {
		return 0, 0, protocolError("too big command")
	}
	if len(b)-2 < end {
		return 0, 0, errShort
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return 0, 0, protocolError("expected CRLF after a bulk string")
	}
	return start, end, nil
}

// number reads a decimal number from b[i:] to the end of its line, and returns where the next line begins.
func number(b []byte, i int, what string) (n, end int, err error) {
	// Most are of one to three digits, and here.
	if j := i; i+4 <= len(b) && b[i]-'1' < 9 {
		for n = int(b[j] - '0'); j < i+2 && b[j+1]-'0' < 10; j++ {
			n = n*10 + int(b[j+1]-'0')
		}
		if j+2 < len(b) && b[j+1] == '\r' && b[j+2] == '\n' {
			return n, j + 3, nil
		}
	}
	line := b[i:min(len(b), i+maxNumber)]
	cr := bytes.IndexByte(line, '\r')
	switch {
	case cr < 0 && len(line) == maxNumber:
		return 0, 0, protocolError("invalid " + what)
	case cr < 0 || i+cr+1 == len(b):
		return 0, 0, errShort
	case b[i+cr+1] != '\n':
		return 0, 0, protocolError("invalid " + what)
	}
	n, ok := atoi(line[:cr])
	if !ok {
		return 0, 0, protocolError("invalid " + what)
	}
	return n, i + cr + 2, nil
}

// atoi reads a number in its one canonical form.
func atoi(b []byte) (int, bool) {
	negative := len(b) > 1 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 10 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' || n > (math.MaxInt32-9)/10 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	if negative {
		n = -n
	}
	return n, true
}

// parseLine takes a command that is a line, with arguments between spaces, in quotes where need be.
func (p *parser) parseLine(b []byte) (args [][]byte, n int, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxLine)], '\n')
	if end < 0 {
		if len(b) >= maxLine {
			return nil, 0, protocolError("too big inline request")
		}
		return nil, 0, errShort
	}
	args, ok := splitLine(bytes.TrimSuffix(b[:end], []byte{'\r'}))
	if !ok {
		return nil, 0, protocolError("unbalanced quotes in request")
	}
	return args, end + 1, nil
}

// splitLine splits a line into words, which share no memory with it. "…" has the escapes \n, \r, \t, \b, \a, \xHH and
// \ before any other byte, '…' has \' only; a closing quote must end its word.
func splitLine(line []byte) (words [][]byte, ok bool) {
	for {
		line = bytes.TrimLeft(line, " \t\r\n\v\f\x00")
		if len(line) == 0 {
			return words, true
		}
		word := []byte{}
		for len(line) > 0 && bytes.IndexByte([]byte(" \t\r\n\x00"), line[0]) < 0 {
			c := line[0]
			line = line[1:]
			if c != '"' && c != '\'' {
				word = append(word, c)
				continue
			}
			if word, line, ok = quoted(word, line, c); !ok || len(line) > 0 && !isSpace(line[0]) {
				return nil, false
			}
		}
		words = append(words, word)
	}
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// quoted appends what is in quotes to word; line is what follows the opening one.
func quoted(word, line []byte, quote byte) (_, rest []byte, ok bool) {
	for len(line) > 0 {
		c := line[0]
		line = line[1:]
		switch {
		case c == quote:
			return word, line, true
		case c != '\\' || len(line) == 0 || quote == '\'' && line[0] != '\'':
			word = append(word, c)
			continue
		}
		c = line[0]
		line = line[1:]
		if c == 'x' && len(line) >= 2 {
			high, low := hexDigit(line[0]), hexDigit(line[1])
			if high >= 0 && low >= 0 {
				word = append(word, byte(high<<4|low))
				line = line[2:]
				continue
			}
		}
		if i := bytes.IndexByte([]byte("nrtba"), c); i >= 0 && quote == '"' {
			c = "\n\r\t\b\a"[i]
		}
		word = append(word, c)
	}
	return nil, nil, false
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
