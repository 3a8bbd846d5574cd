package checks

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.*)$`)
	code    = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
)

// Links of a page to another, to a heading or to a file or a directory of the repository lead there. Those to
// elsewhere are not followed.
func TestLinks(t *testing.T) {
	count := 0
	walk(t, ".md", func(page string) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
			target, anchor, anchored := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") {
				continue
			}
			count++
			name := page
			if target != "" {
				name = path.Join(path.Dir(page), target)
			}
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
			if assert.NoError(t, err, "%s: link to %s", page, m[1]) && anchored {
				assert.Contains(t, anchors(read(t, name)), anchor, "%s: link to %s", page, m[1])
			}
		}
	})
	require.Greater(t, count, 100)
	index := read(t, "docs/README.md")
	walk(t, ".md", func(page string) {
		if path.Dir(page) == "docs" && page != "docs/README.md" {
			assert.Contains(t, index, "]("+path.Base(page)+")", "docs/README.md does not list %s", page)
		}
	})
}

// anchors returns the names under which the headings of a page can be linked to.
func anchors(page string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, ""), -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

// Text that is read as it is written has lines that an editor shows whole.
const columns = 120

// Tables, code and what a program wrote are as long as they have to be. In Chinese a paragraph is one
// line, since a line break would become a space. docs/BENCHMARKS.md is written by a program for the most part.
func TestLinesOfPages(t *testing.T) {
	walk(t, ".md", func(page string) {
		if strings.HasSuffix(page, ".zh-CN.md") || strings.Contains(page, "testdata/") || page == "docs/BENCHMARKS.md" {
			return
		}
		number := 0
		fenced, generated := false, false
		for line := range strings.Lines(read(t, page)) {
			number++
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if strings.HasPrefix(line, "<!-- ") {
				generated = strings.HasPrefix(line, "<!-- generated: ")
			}
			if fenced || generated || strings.HasPrefix(strings.TrimSpace(line), "|") || strings.HasPrefix(line, "    ") {
				continue
			}
			assert.LessOrEqual(t, utf8.RuneCountInString(line), columns, "%s:%d", page, number)
		}
		assert.False(t, fenced, "%s: a block of code has no end", page)
	})
}

func TestLinesOfComments(t *testing.T) {
	walk(t, ".go", func(file string) {
		number := 0
		for line := range strings.Lines(read(t, file)) {
			number++
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), columns, "%s:%d", file, number)
			}
		}
	})
}
