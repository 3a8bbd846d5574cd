package redisbloom

import (
	"math"
	"strconv"
	"strings"
)

// Kind is the type of a [Reply].
type Kind uint8

// The kinds of replies. What RESP2 lacks it has another form for, which
// [Reply.Append] writes.
const (
	Null      Kind = iota // RESP2: a null bulk string
	NullArray             // RESP3: null
	Simple                // Str, one line
	Error                 // Str, one line: the code, then the message
	Int                   // Int
	Bool                  // Int is 1 for true; RESP2: the integer Int
	Double                // Float; RESP2: a bulk string
	Bulk                  // Str, any bytes
	Text                  // Str, a verbatim string of plain text; RESP2: a bulk string
	Array                 // Elems
	Set                   // Elems; RESP2: an array
	Map                   // Elems, keys and values in turn; RESP2: an array of both
	Fields                // as Map; RESP2: an array of the values
)

// Reply is the answer to a command, in the form that both versions of the protocol are
// written from. It is a value: nothing that happens to the engine later changes it.
type Reply struct {
	Kind  Kind    // tells which of the others is used
	Int   int64   // Int, Bool
	Float float64 // Double
	Str   string  // Simple, Error, Bulk, Text
	Elems []Reply // Array, Set, Map, Fields
}

// Err returns the error that the reply is, of type [ErrorReply], or nil for a reply of another
// kind. An array may hold errors all the same: see [Engine.BFMAdd].
func (r Reply) Err() error {
	if r.Kind == Error {
		return ErrorReply(r.Str)
	}
	return nil
}

// Append appends the reply to dst as it goes over the wire, in RESP3 if proto is 3 and in
// RESP2 otherwise, and returns the extended slice. Line breaks in a Simple or an Error become
// spaces.
func (r Reply) Append(dst []byte, proto int) []byte {
	resp3 := proto == 3
	switch r.Kind {
	case Null:
		return append(dst, either(resp3, "_\r\n", "$-1\r\n")...)
	case NullArray:
		return append(dst, either(resp3, "_\r\n", "*-1\r\n")...)
	case Simple:
		return appendLine(dst, '+', r.Str)
	case Error:
		return appendLine(dst, '-', r.Str)
	case Int:
		return appendNumber(dst, ':', r.Int)
	case Bool:
		if resp3 {
			return append(dst, either(r.Int == 1, "#t\r\n", "#f\r\n")...)
		}
		return appendNumber(dst, ':', r.Int)
	case Double:
		if resp3 {
			return appendLine(dst, ',', formatDouble(r.Float))
		}
		return appendBulk(dst, '$', formatDouble(r.Float), "")
	case Bulk:
		return appendBulk(dst, '$', r.Str, "")
	case Text:
		if resp3 {
			return appendBulk(dst, '=', r.Str, "txt:")
		}
		return appendBulk(dst, '$', r.Str, "")
	}
	return r.appendElems(dst, proto)
}

func (r Reply) appendElems(dst []byte, proto int) []byte {
	step := 1
	switch {
	case proto == 3 && (r.Kind == Map || r.Kind == Fields):
		dst = appendNumber(dst, '%', int64(len(r.Elems)/2))
	case proto == 3 && r.Kind == Set:
		dst = appendNumber(dst, '~', int64(len(r.Elems)))
	case r.Kind == Fields:
		dst, step = appendNumber(dst, '*', int64(len(r.Elems)/2)), 2
	default:
		dst = appendNumber(dst, '*', int64(len(r.Elems)))
	}
	for i := step - 1; i < len(r.Elems); i += step {
		dst = r.Elems[i].Append(dst, proto)
	}
	return dst
}

func appendNumber(dst []byte, kind byte, n int64) []byte {
	dst = append(dst, kind)
	if 0 <= n && n <= 9 {
		return append(dst, '0'+byte(n), '\r', '\n')
	}
	return append(strconv.AppendInt(dst, n, 10), '\r', '\n')
}

func appendLine(dst []byte, kind byte, s string) []byte {
	if strings.ContainsAny(s, "\r\n") {
		s = strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
	}
	dst = append(dst, kind)
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

func appendBulk(dst []byte, kind byte, s, prefix string) []byte {
	dst = appendNumber(dst, kind, int64(len(prefix)+len(s)))
	dst = append(dst, prefix...)
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// formatDouble writes infinities as the protocol does.
func formatDouble(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func either(cond bool, yes, no string) string {
	if cond {
		return yes
	}
	return no
}

var replyOK = Reply{Kind: Simple, Str: "OK"}

func boolReply(yes bool) Reply {
	if yes {
		return Reply{Kind: Bool, Int: 1}
	}
	return Reply{Kind: Bool}
}

func intReply[T int | int64 | uint64](n T) Reply { return Reply{Kind: Int, Int: int64(n)} }

func errReply(e ErrorReply) Reply { return Reply{Kind: Error, Str: string(e)} }

// field appends a name and a value to the elements of a map.
func field(elems []Reply, name string, value Reply) []Reply {
	return append(elems, Reply{Kind: Simple, Str: name}, value)
}
