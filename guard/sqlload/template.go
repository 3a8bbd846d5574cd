package sqlload

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom"
)

// Style is how a driver wants placeholders to be written.
type Style uint8

const (
	// Question is a question mark for each argument, as MySQL and SQLite take it. The default.
	Question Style = iota

	// Dollar is $1, $2 and so on, as PostgreSQL takes it.
	Dollar
)

// marker is a name in braces. Whatever else is in braces is left as it is.
var marker = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// template is a query cut at its markers.
type template struct {
	texts []string // one more than there are names
	names []string
}

// parse cuts query at its markers, each of which must be among given or wanted; each of wanted must occur
// exactly once.
func parse(query string, given map[string]any, wanted ...string) (template, error) {
	var t template
	left := 0
	seen := map[string]int{}
	for _, at := range marker.FindAllStringIndex(query, -1) {
		name := query[at[0]+1 : at[1]-1]
		t.texts, t.names = append(t.texts, query[left:at[0]]), append(t.names, name)
		left = at[1]
		seen[name]++
	}
	t.texts = append(t.texts, query[left:])
	for _, name := range wanted {
		if _, twice := given[name]; twice {
			return t, fmt.Errorf("%w: Args has %q, which is the name of a marker of this package", bloom.ErrInvalid, name)
		}
		if seen[name] != 1 {
			return t, fmt.Errorf("%w: {%s} is %d times in the query %q, want once", bloom.ErrInvalid, name, seen[name], query)
		}
		delete(seen, name)
	}
	for name := range seen {
		if _, ok := given[name]; !ok {
			return t, fmt.Errorf("%w: Args has nothing for {%s} in the query %q", bloom.ErrInvalid, name, query)
		}
	}
	return t, nil
}

// statement is a query in the making.
type statement struct {
	text  strings.Builder
	args  []any
	style Style
}

// arg adds a placeholder with its value.
func (s *statement) arg(value any) {
	s.args = append(s.args, value)
	if s.style == Dollar {
		s.text.WriteByte('$')
		s.text.WriteString(strconv.Itoa(len(s.args)))
		return
	}
	s.text.WriteByte('?')
}

// fill adds the template. Each marker becomes a placeholder for its value; those of a []any become
// placeholders with commas between them.
func (s *statement) fill(t template, values func(name string) any) {
	for i, name := range t.names {
		s.text.WriteString(t.texts[i])
		value := values(name)
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for j, v := range list {
			if j > 0 {
				s.text.WriteByte(',')
			}
			s.arg(v)
		}
	}
	s.text.WriteString(t.texts[len(t.names)])
}
