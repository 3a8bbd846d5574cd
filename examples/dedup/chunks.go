package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redbloom-go/bloom"
)

// chunkIndex keeps chunks of text that say the same as others out of an index for retrieval, where
// they would be embedded, stored and found again and again. It compares shingles, which are
// runs of a few words: a chunk is a duplicate if nearly all of its shingles were seen before,
// in whatever chunks. Changed line breaks, punctuation or a word here and there do not hide it.
type chunkIndex struct {
	seen *bloom.Scalable
}

const (
	shingleWords = 5   // words of a shingle
	minWords     = 12  // a shorter chunk is a heading or a line of code, and not indexed
	duplicate    = 0.8 // share of its shingles seen before that makes a chunk a duplicate
)

// add reports the share of the chunk's shingles that were seen before, and adds them if that makes it
// no duplicate.
func (c chunkIndex) add(words []string) (seen float64, err error) {
	known, n := 0, 0
	for s := range shingles(words) {
		n++
		if c.seen.ContainsString(s) {
			known++
		}
	}
	if seen = float64(known) / float64(max(n, 1)); seen >= duplicate {
		return seen, nil
	}
	for s := range shingles(words) {
		if _, err := c.seen.AddString(s); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

func shingles(words []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 0; i+shingleWords <= len(words); i++ {
			if !yield(strings.Join(words[i:i+shingleWords], " ")) {
				return
			}
		}
	}
}

// chunk is a paragraph: lines up to an empty one.
type chunk struct {
	line  int
	words []string // small letters and digits, no punctuation
}

func split(text []byte) (all []chunk) {
	var open chunk
	line := 0
	for l := range bytes.Lines(append(bytes.Clone(text), "\n\n"...)) {
		line++
		switch {
		case len(bytes.TrimSpace(l)) > 0:
			if open.line == 0 {
				open.line = line
			}
			open.words = appendWords(open.words, string(l))
		case open.line > 0:
			all = append(all, open)
			open = chunk{}
		}
	}
	return all
}

// appendWords appends the words of text. In scripts without spaces each character is one.
func appendWords(dst []string, text string) []string {
	start := -1 // of the word that is open
	end := func(i int) {
		if start >= 0 {
			dst = append(dst, text[start:i])
			start = -1
		}
	}
	text = strings.ToLower(text)
	for i, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
			end(i)
			dst = append(dst, string(r))
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r):
			if start < 0 {
				start = i
			}
		default:
			end(i)
		}
	}
	end(len(text))
	return dst
}

// document is a text and where it is from.
type document struct {
	name string
	text []byte
}

// chunks indexes the files, or the documentation of this module.
func chunks(w io.Writer, files []string) error {
	docs, err := read(files)
	if err != nil {
		return err
	}
	const rate = 0.01
	filter, err := bloom.NewScalable(10_000, rate)
	if err != nil {
		return err
	}
	index, exact := chunkIndex{filter}, make(exactIndex)
	short, kept, dropped, words, saved, differ := 0, 0, 0, 0, 0, 0
	for _, d := range docs {
		for _, c := range split(d.text) {
			if len(c.words) < minWords {
				short++
				continue
			}
			seen, err := index.add(c.words)
			if err != nil {
				return err
			}
			if (seen >= duplicate) != (exact.add(c.words) >= duplicate) {
				differ++
			}
			words += len(c.words)
			if seen < duplicate {
				kept++
				continue
			}
			dropped++
			saved += len(c.words)
			if dropped <= 5 {
				fmt.Fprintf(w, "%s:%d, %.0f %% seen before: %s …\n", d.name, c.line, 100*seen, strings.Join(c.words[:8], " "))
			}
		}
	}
	fmt.Fprintf(w, "files                   %6d\n", len(docs))
	fmt.Fprintf(w, "chunks                  %6d, and %d of fewer than %d words\n", kept+dropped, short, minWords)
	fmt.Fprintf(w, "kept                    %6d\n", kept)
	fmt.Fprintf(w, "dropped as duplicates   %6d, with %d of %d words\n", dropped, saved, words)
	fmt.Fprintf(w, "memory of the filter    %6d KB for %d shingles\n", filter.SizeBytes()/1000, filter.Len())
	fmt.Fprintf(w, "an exact set differs on %6d chunks\n", differ)
	smallest := minWords - shingleWords + 1
	fmt.Fprintf(w, `
A false positive is a shingle that seems known. A new chunk is lost only if %.0f %% of its shingles are
false positives: of %d words with %d shingles about %.0e of all chunks, of longer ones fewer. A
filter of whole chunks would lose %g %% of them. No duplicate is kept for an error of the filter.
`, 100*duplicate, minWords, smallest, lostChunks(smallest, rate), 100*rate)
	return nil
}

// exactIndex is a chunkIndex with a set that does not err, to count the errors of the filter.
type exactIndex map[string]bool

func (e exactIndex) add(words []string) (seen float64) {
	known, n := 0, 0
	for s := range shingles(words) {
		n++
		if e[s] {
			known++
		}
	}
	if seen = float64(known) / float64(max(n, 1)); seen < duplicate {
		for s := range shingles(words) {
			e[s] = true
		}
	}
	return seen
}

// lostChunks is the share of new chunks of n shingles that are taken for duplicates.
func lostChunks(n int, rate float64) (share float64) {
	for k := range n + 1 {
		if float64(k) < duplicate*float64(n) {
			continue
		}
		ways := new(big.Int).Binomial(int64(n), int64(k)).Int64()
		share += float64(ways) * math.Pow(rate, float64(k)) * math.Pow(1-rate, float64(n-k))
	}
	return share
}

// read reads the files; without any, the documentation of this module, and its README once more as another
// program might have saved it.
func read(files []string) (docs []document, err error) {
	own := len(files) == 0
	if own {
		if files, err = ownDocs(); err != nil {
			return nil, err
		}
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if !utf8.Valid(text) {
			return nil, fmt.Errorf("%s is not a text in UTF-8", name)
		}
		docs = append(docs, document{filepath.Base(name), text})
	}
	if own {
		last := docs[len(docs)-1]
		docs = append(docs, document{last.name + ", saved again", rewrap(last.text)})
	}
	return docs, nil
}

// ownDocs finds the documentation of this module from any directory in it; the README comes last.
func ownDocs() ([]string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/redbloom-go/bloom\n")) {
			files, err := filepath.Glob(filepath.Join(dir, "docs", "*.md"))
			return append(files, filepath.Join(dir, "README.md")), err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, errors.New("not inside of this module: name the files")
		}
		dir = parent
	}
}

// rewrap breaks the lines of paragraphs at 60 bytes and ends them as Windows does.
func rewrap(text []byte) []byte {
	var b bytes.Buffer
	for paragraph := range bytes.SplitSeq(text, []byte("\n\n")) {
		width := 0
		for word := range bytes.FieldsSeq(paragraph) {
			if width += len(word) + 1; width > 60 {
				b.WriteString("\r\n")
				width = len(word) + 1
			}
			b.Write(word)
			b.WriteByte(' ')
		}
		b.WriteString("\r\n\r\n")
	}
	return b.Bytes()
}
