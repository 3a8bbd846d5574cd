package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

// The README in each language, and what it calls the keys of a filter.
var readmes = map[string]string{"README.md": "keys", "README.zh-CN.md": "key 数"}

// figure is a cell of a table in both READMEs that says what another page says, or what the library does: in the
// column'th cell, from 0, of the only row that contains row, the number at the end.
type figure struct {
	row    string
	column int
	value  string
}

// rowOf returns the cells of the only line that begins with prefix, after the line that contains after.
func rowOf(t *testing.T, page, after, prefix string) []string {
	t.Helper()
	_, rest, ok := strings.Cut(read(t, page), after)
	require.True(t, ok, "%s has no %q", page, after)
	for line := range strings.Lines(rest) {
		if strings.HasPrefix(line, prefix) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			return cells
		}
	}
	require.Fail(t, "no such row", "%s: %q after %q", page, prefix, after)
	return nil
}

// first returns a cell up to the first space: the figure without what stands in brackets behind it.
func first(cell string) string {
	value, _, _ := strings.Cut(cell, " ")
	return strings.TrimSuffix(value, ",")
}

func figures(t *testing.T) (all []figure) {
	const n = 1_000_000
	perKey := func(bytes uint64) string { return fmt.Sprintf("%.1f", 8*float64(bytes)/n) }
	both := func(cells []string, hit, miss int) string { return first(cells[hit]) + " · " + first(cells[miss]) }
	bench := func(impl string) []string {
		return rowOf(t, "docs/BENCHMARKS.md", "n = 1e6, bytes16 keys:", "| "+impl+" |")
	}

	for row, impl := range map[string]string{
		"`Filter`": "bloom", "`Concurrent`": "bloom-concurrent", "`Blocked`": "bloom-blocked",
		"`Scalable`": "bloom-scalable", "`Cuckoo`": "bloom-cuckoo", "`Counting`": "bloom-counting",
	} {
		all = append(all, figure{"| " + row + " |", 5, both(bench(impl), 2, 3)})
	}
	filter := perKey(bloom.Must(bloom.New(n, 0.01)).SizeBytes())
	buckets := bloom.Must(rolling.NewRotating(n/4, 0.01, rolling.RotatingOptions{Span: time.Hour, Keep: 4}))
	rotatingBits := perKey(buckets.SizeBytes())
	rotating := rowOf(t, "docs/DELETING.md", "## What each costs", "| `Rotating`, Keep = 4 |")
	require.Equal(t, first(rotating[1]), rotatingBits)
	attack := rowOf(t, "docs/GUARD.md", "### Queries that reach the database", "| **guard 1 %** | 1 |")
	remembered := rowOf(t, "docs/GUARD.md", "### Queries that reach the database", "| null cache only")
	trip := strings.ReplaceAll(first(rowOf(t, "docs/GUARD.md", "### A lookup of a key", "| one GETBIT")[2]), ",", "")
	ns, err := strconv.Atoi(trip)
	require.NoError(t, err)
	full := rowOf(t, "docs/SIZING.md", "## What to expect past capacity", "| 1.00 |")
	const (
		measuredTimes   = "(docs/BENCHMARKS.md#tables)"
		measuredQueries = "(docs/GUARD.md#queries-that-reach-the-database-in-an-attack)"
		measuredRate    = "| [SIZING](docs/SIZING.md#what-to-expect-past-capacity)"
	)
	return append(all,
		figure{"| `Filter` |", 4, filter},
		figure{"| `Concurrent` |", 4, filter},
		figure{"| `Blocked` |", 4, perKey(bloom.Must(bloom.NewBlocked(n, 0.01)).SizeBytes())},
		figure{"| `Scalable` |", 4, bench("bloom-scalable")[5]},
		figure{"| `Cuckoo` |", 4, perKey(bloom.Must(bloom.NewCuckoo(n, 0.01)).SizeBytes())},
		figure{"| `Counting` |", 4, perKey(bloom.Must(bloom.NewCounting(n, 0.01)).SizeBytes())},
		figure{"[`rolling.Rotating`]", 4, rotatingBits},
		figure{"[`rolling.Rotating`]", 5, both(rotating, 2, 3)},
		figure{"[`guard.Guard`]", 4, filter},
		figure{"[`guard.Guard`]", 5, "– · " + first(rowOf(t, "docs/GUARD.md", "### A lookup of a key", "| **guard** | 1e6 |")[2])},
		figure{"| Redis", 4, perKey(bloom.Must(bloom.NewScalable(n, 0.01, bloom.WithScheme(bloom.RedisBloom))).SizeBytes())},
		figure{"| Redis", 5, fmt.Sprintf("%d,000", (ns+500)/1000)},
		figure{measuredTimes, 1, both(bench("bloom"), 2, 3)},
		figure{measuredTimes, 2, both(bench("bits-and-blooms"), 2, 3)},
		figure{measuredQueries, 1, attack[3]},
		figure{measuredQueries, 2, remembered[3]},
		figure{measuredRate, 1, full[2]},
		figure{measuredRate, 2, full[1]},
	)
}

var trailingNumber = regexp.MustCompile(`(–|\d[\d,.]*)( · (–|\d[\d,.]*))?( %)?$`)

// What the READMEs say in figures is what the pages that they name say, and what the library does.
func TestFiguresOfTheReadme(t *testing.T) {
	all := figures(t)
	for name, keys := range readmes {
		lines := strings.Split(read(t, name), "\n")
		for _, f := range all {
			found := 0
			for i, line := range lines {
				if !strings.HasPrefix(line, "|") || !strings.Contains(line, f.row) {
					continue
				}
				found++
				cells := strings.Split(line, "|")
				cell := strings.TrimSpace(cells[f.column+1])
				want := trailingNumber.ReplaceAllLiteralString(cell, f.value)
				if *update {
					cells[f.column+1] = " " + want + " "
					lines[i] = strings.Join(cells, "|")
				} else {
					assert.Equal(t, want, cell, "%s: %s: go test ./internal/checks -run Readme -update", name, f.row)
				}
				assert.True(t, strings.HasSuffix(want, f.value), "%s: no number in %q", name, cell)
			}
			assert.Equal(t, 1, found, "%s: rows with %s", name, f.row)
		}
		page := strings.Join(lines, "\n")
		open, end := "<!-- generated: sizes -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(page, open)
		require.True(t, ok)
		table, after, ok := strings.Cut(rest, end)
		require.True(t, ok)
		if *update {
			text := before + open + sizes(keys) + end + after
			require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
		} else {
			assert.Equal(t, sizes(keys), table, "%s: go test ./internal/checks -run Readme -update", name)
		}
	}
}

// sizes is the table of what filters take.
func sizes(keys string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | 1 %% | 0.1 %% | 0.01 %% | 1e-6 |\n|---|---|---|---|---|\n", keys)
	for _, n := range []uint64{1000, 100_000, 10_000_000, 1_000_000_000} {
		fmt.Fprintf(&b, "| %s ", grouped(n))
		for _, rate := range []float64{0.01, 0.001, 0.0001, 1e-6} {
			p := bloom.Must(bloom.Estimate(n, rate))
			bytes, unit := float64(p.Bits)/8, 0
			for ; bytes >= 1000; unit++ {
				bytes /= 1000
			}
			fmt.Fprintf(&b, "| %.3g %s, %d ", bytes, []string{"B", "kB", "MB", "GB"}[unit], p.Hashes)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// blocks returns what stands in the fenced blocks of a language.
func blocks(page, language string) (all []string) {
	for _, m := range regexp.MustCompile("(?ms)^ *```"+language+"\n(.*?)^ *```").FindAllStringSubmatch(page, -1) {
		all = append(all, m[1])
	}
	return all
}

// The program of each README does what its comments say.
func TestProgramOfTheReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the go command")
	}
	for name := range readmes {
		program := blocks(read(t, name), "go")[0]
		require.True(t, strings.HasPrefix(program, "package main\n"), name)
		file := filepath.Join(t.TempDir(), "main.go")
		require.NoError(t, os.WriteFile(file, []byte(program), 0o644))
		run := exec.Command("go", "run", file)
		run.Dir = root
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
		var want strings.Builder
		for _, m := range regexp.MustCompile(`Println\(.*// (\w+)`).FindAllStringSubmatch(program, -1) {
			want.WriteString(m[1] + "\n")
		}
		require.NotEmpty(t, want.String())
		require.Equal(t, want.String(), string(out), name)
	}
}

// Other blocks of Go are parts of code_test.go, but for their comments, and so compile.
func TestCodeOfThePages(t *testing.T) {
	source := squeeze(read(t, "internal/checks/code_test.go"))
	count := 0
	for _, name := range []string{
		"README.md", "README.zh-CN.md", "docs/CHOOSING.md", "docs/CONCURRENCY.md", "docs/PERSISTENCE.md",
		"docs/IMPLEMENTING.md", "docs/PERFORMANCE.md",
	} {
		for _, block := range blocks(read(t, name), "go") {
			if !strings.HasPrefix(block, "package main\n") {
				count++
				assert.Contains(t, source, squeeze(block), "%s: a block that internal/checks/code_test.go does not have", name)
			}
		}
	}
	require.GreaterOrEqual(t, count, 6)
}

// squeeze takes comments and indentation away.
func squeeze(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		line, _, _ = strings.Cut(line, "//")
		if fields := strings.Fields(line); len(fields) > 0 {
			b.WriteString(strings.Join(fields, " ") + "\n")
		}
	}
	return b.String()
}

// Commands in the READMEs' blocks are ones that CI runs, and programs that any page starts from a checkout are there.
func TestCommandsOfThePages(t *testing.T) {
	ci := "\n" + read(t, ".ci/run")
	for name := range readmes {
		commands := 0
		for _, block := range blocks(read(t, name), "sh") {
			for command := range strings.Lines(block) {
				commands++
				command = strings.TrimSpace(command)
				if command == "go get "+module {
					continue // needs what is published
				}
				assert.Contains(t, ci, "\n"+command, "%s: CI does not run this", name)
			}
		}
		assert.GreaterOrEqual(t, commands, 3, name)
	}
	programs := regexp.MustCompile(`go (run|build|install)( -C (\S+))?( -\w+ \S+)* (\./[\w./-]*|\.|` + module + `/[\w./@-]+)`)
	count := 0
	walk(t, ".md", func(page string) {
		for _, m := range programs.FindAllStringSubmatch(read(t, page), -1) {
			dir := path.Join(m[3], m[5])
			if m[1] == "install" {
				dir, _, _ = strings.Cut(strings.TrimPrefix(dir, module+"/"), "@")
			}
			count++
			files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
			require.NoError(t, err)
			assert.NotEmpty(t, files, "%s: %s: no program there", page, m[0])
		}
	})
	require.GreaterOrEqual(t, count, 20)
}
