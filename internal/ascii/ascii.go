// Package ascii compares the words of a protocol, in any case, byte by byte.
package ascii

import "bytes"

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// Is reports whether arg is word, which is in lower case, in any case of ASCII.
func Is(arg []byte, word string) bool {
	if len(arg) != len(word) {
		return false
	}
	for i, c := range arg {
		if lower(c) != word[i] {
			return false
		}
	}
	return true
}

// Quotable returns what error messages say of an argument: up to max bytes of it, and none from a zero byte on.
func Quotable(arg []byte, max int) string {
	arg = arg[:min(len(arg), max)]
	if i := bytes.IndexByte(arg, 0); i >= 0 {
		arg = arg[:i]
	}
	return string(arg)
}

// Letter returns letter i of arg in lower case, 0 past its end.
func Letter(arg []byte, i int) byte {
	if i < len(arg) {
		return lower(arg[i])
	}
	return 0
}

// Find returns what a table has under name, in any case; the zero value if there is nothing. Keys of the
// table are in lower case and of at most 32 bytes. It does not allocate.
func Find[V any](table map[string]V, name []byte) (v V) {
	var buf [32]byte
	if len(name) > len(buf) {
		return v
	}
	for i, c := range name {
		buf[i] = lower(c)
	}
	return table[string(buf[:len(name)])]
}
