package redisbloom

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/redbloom-go/bloom/internal/ascii"
)

// This file reads arguments as the server does.

// asString is b without a copy, for functions that do not keep it.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// asBytes is s without a copy, for functions that do not write to it.
func asBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// parseInt reads a decimal integer in its one canonical form: no spaces, no plus sign, no
// leading zeros.
func parseInt(b []byte) (int64, bool) {
	digits := b
	if len(b) > 1 && b[0] == '-' {
		digits = b[1:]
		if digits[0] == '0' {
			return 0, false
		}
	}
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	n, err := strconv.ParseInt(asString(b), 10, 64)
	return n, err == nil && b[0] != '+'
}

// parseDouble reads a decimal floating point number, or inf, in any case. What is out of the
// range of a float64, also to zero, is no number.
func parseDouble(b []byte) (float64, bool) {
	if len(b) == 0 || len(b) > 255 || b[0] == '+' || bytes.ContainsAny(b, "xX_pP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(asString(b), 64)
	if err != nil || math.IsNaN(f) {
		return 0, false
	}
	if f == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(asString(b)), "e")
		if strings.ContainsAny(mantissa, "123456789") {
			return 0, false
		}
	}
	return f, true
}

// index returns where word is first among args, -1 if it is not there.
func index(args [][]byte, word string) int {
	for i, arg := range args {
		if ascii.Is(arg, word) {
			return i
		}
	}
	return -1
}
