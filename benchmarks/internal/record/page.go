package record

import (
	"fmt"
	"strings"
)

// Section is a generated part of a page. It stands between a comment with its name and another one:
//
//	<!-- generated: run -->
//	…
//	<!-- end -->
type Section struct{ Name, Text string }

// Splice returns page with the sections made anew. It is an error if page lacks the place of one.
func Splice(page string, sections []Section) (string, error) {
	for _, s := range sections {
		open, end := "<!-- generated: "+s.Name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(page, open)
		if !ok {
			return "", fmt.Errorf("no line %q in it", strings.TrimSpace(open))
		}
		_, after, ok := strings.Cut(rest, end)
		if !ok {
			return "", fmt.Errorf("no %q after %q", end, strings.TrimSpace(open))
		}
		page = before + open + s.Text + end + after
	}
	return page, nil
}
