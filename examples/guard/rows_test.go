package main

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"github.com/stretchr/testify/require"
)

func keysOf(d *dataset) []string {
	var keys []string
	for _, r := range d.rows {
		keys = append(keys, r.key)
	}
	return keys
}

func TestReadKeys(t *testing.T) {
	longest := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		name, content string
		want          []string
	}{
		{"unix", "a\nb\n", []string{"a", "b"}},
		{"windows", "a\r\nb\r\n", []string{"a", "b"}},
		{"mixed", "a\r\nb\nc", []string{"a", "b", "c"}},
		{"no last newline", "a\nb", []string{"a", "b"}},
		{"byte order mark", "\ufeffa\nb\n", []string{"a", "b"}},
		{"byte order mark only first", "a\n\ufeffb\n", []string{"a", "\ufeffb"}},
		{"blank lines", "\n\na\n\r\n \t\nb\n\n", []string{"a", "b"}},
		{"repeated", "a\nb\na\r\nb", []string{"a", "b"}},
		{"spaces belong to the key", " a\na \na\n", []string{" a", "a ", "a"}},
		{"inner carriage return", "a\rb\n", []string{"a\rb"}},
		{"any bytes", "\xff\n\x00\nä\n", []string{"\xff", "\x00", "ä"}},
		{"longest", longest, []string{longest}},
		{"longest, unix", longest + "\nb", []string{longest, "b"}},
		{"longest, windows", longest + "\r\nb", []string{longest, "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := readKeys(strings.NewReader(tt.content), "keys")
			require.NoError(t, err)
			// Not require.Equal, which would print a megabyte if it failed.
			require.True(t, equal(keysOf(d), tt.want), "%d keys, want %d", len(d.rows), len(tt.want))
			require.Len(t, d.index, len(tt.want))
			for i, r := range d.rows {
				require.Equal(t, i, d.index[r.key])
			}
		})
	}
}

func equal(a, b []string) bool {
	return strings.Join(a, "\n") == strings.Join(b, "\n") && len(a) == len(b)
}

func TestReadKeysValues(t *testing.T) {
	d, err := readKeys(strings.NewReader("\na\n\nb\na\n"), "keys")
	require.NoError(t, err)
	require.Equal(t, []row{{"a", "line 2"}, {"b", "line 4"}}, d.rows)
}

func TestReadKeysErrors(t *testing.T) {
	tooLong := strings.Repeat("x", maxLine+1)
	for name, content := range map[string]string{
		"at the end":   "a\n" + tooLong,
		"unix":         "a\n" + tooLong + "\nb\n",
		"windows":      "a\r\n" + tooLong + "\r\nb\r\n",
		"far too long": "a\n" + strings.Repeat(tooLong, 3),
	} {
		_, err := readKeys(strings.NewReader(content), "keys")
		require.EqualError(t, err, "keys: line 2 is longer than 1048576 bytes", name)
	}

	broken := errors.New("disk on fire")
	_, err := readKeys(iotest.ErrReader(broken), "keys")
	require.ErrorIs(t, err, broken)

	_, err = readKeys(strings.NewReader("\ufeff\n"), "keys")
	require.EqualError(t, err, "keys: no keys in this file")
}

func TestUnicodeRows(t *testing.T) {
	d := unicodeRows()
	// 149,251 in Unicode 15.0, more in later versions.
	require.GreaterOrEqual(t, len(d.rows), 149_251)
	require.Less(t, len(d.rows), 200_000)
	require.Len(t, d.index, len(d.rows))

	for key, want := range map[string]string{
		"U+0000":   "<control>",
		"U+0041":   "LATIN CAPITAL LETTER A",
		"U+4E2D":   "<CJK Ideograph>",
		"U+AC00":   "<Hangul Syllable>",
		"U+1F600":  "GRINNING FACE",
		"U+E01EF":  "VARIATION SELECTOR-256",
		"U+D800":   "", // a surrogate
		"U+E000":   "", // private use
		"U+10FFFD": "",
		"U+0378":   "", // unassigned
	} {
		i, found := d.index[key]
		require.Equal(t, want != "", found, key)
		if found {
			require.Equal(t, row{key, want}, d.rows[i])
		}
	}

	special := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.Co, unicode.Cs) {
			special++
		}
	}
	require.Equal(t, int(unicode.MaxRune)+1, len(d.rows)+len(d.unassigned)+special)
}
