package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/runenames"
)

// maxLine is the longest key a key file may hold, in bytes.
const maxLine = 1 << 20

type row struct {
	key   string
	value string
}

// dataset is the truth every answer is compared with.
type dataset struct {
	source     string
	rows       []row
	index      map[string]int // key to its place in rows
	unassigned []rune         // code points without a row; only for Unicode rows
}

// add appends a row and reports whether its key is new. As in a table with a
// primary key, the first row of a key stays.
func (d *dataset) add(key, value string) bool {
	if _, exists := d.index[key]; exists {
		return false
	}
	d.index[key] = len(d.rows)
	d.rows = append(d.rows, row{key, value})
	return true
}

// loadDataset reads the key file, or makes the Unicode rows if path is empty.
func loadDataset(path string) (*dataset, error) {
	if path == "" {
		return unicodeRows(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readKeys(f, path)
}

// unicodeRows has a row for every assigned code point. Ideographs and Hangul
// syllables carry the name of their range. Private use and surrogate code
// points have no characters of their own and are neither rows nor absent keys.
func unicodeRows() *dataset {
	d := &dataset{
		source: "Unicode " + runenames.UnicodeVersion,
		index:  make(map[string]int, 160_000),
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.In(r, unicode.Co, unicode.Cs) {
			continue
		}
		if name := runenames.Name(r); name != "" {
			d.add(codePoint(r), name)
		} else {
			d.unassigned = append(d.unassigned, r)
		}
	}
	return d
}

// codePoint is the usual notation: U+0041, U+1F600.
func codePoint(r rune) string { return fmt.Sprintf("U+%04X", r) }

// readKeys reads one key a line. It accepts both line endings, a last line
// without one and a byte order mark; it skips blank lines and repeated keys.
// All other bytes belong to the key.
func readKeys(r io.Reader, name string) (*dataset, error) {
	d := &dataset{source: name, index: make(map[string]int)}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine+len("\r\n")+1)
	n := 0
	for lines.Scan() {
		n++
		key := lines.Text()
		if n == 1 {
			key = strings.TrimPrefix(key, "\ufeff")
		}
		if len(key) > maxLine {
			return nil, tooLong(name, n)
		}
		if strings.TrimSpace(key) != "" {
			d.add(key, fmt.Sprintf("line %d", n))
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, tooLong(name, n+1)
	case err != nil:
		return nil, err
	case len(d.rows) == 0:
		return nil, fmt.Errorf("%s: no keys in this file", name)
	}
	return d, nil
}

func tooLong(name string, line int) error {
	return fmt.Errorf("%s: line %d is longer than %d bytes", name, line, maxLine)
}
