package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runGuard calls run with a temporary directory of its own and makes sure that
// the directory is left empty.
func runGuard(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	tmp := watchTempDir(t)
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	require.Empty(t, entries(t, tmp), "files left behind")
	return code, out.String(), errs.String()
}

func watchTempDir(t *testing.T) string {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("TMP", tmp) // the name on Windows
	return tmp
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return list
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.txt")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// numbers returns the numbers of the table's line with the given name.
func numbers(t *testing.T, table, name string) []float64 {
	t.Helper()
	for line := range strings.Lines(table) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+" ")
		if !ok {
			continue
		}
		var found []float64
		for _, s := range regexp.MustCompile(`[0-9][0-9,]*(\.[0-9]+)?`).FindAllString(rest, -1) {
			f, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
			require.NoError(t, err)
			found = append(found, f)
		}
		return found
	}
	require.Failf(t, "no such line", "%q in\n%s", name, table)
	return nil
}

func TestBadUsage(t *testing.T) {
	empty := writeFile(t, "")
	blank := writeFile(t, "\n \r\n\t\n")
	long := writeFile(t, "short\n"+strings.Repeat("x", maxLine+1)+"\n")
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-n", "0"}, "-n is 0, want at least 1"},
		{[]string{"-n", "-5"}, "-n is -5, want at least 1"},
		{[]string{"-n", "many"}, `invalid value "many" for flag -n: parse error`},
		{[]string{"-n", "99999999999999999999"}, "flag -n: value out of range"},
		{[]string{"-n"}, "flag needs an argument: -n"},
		{[]string{"-p", "0"}, "-p is 0, want a rate between 0 and 1"},
		{[]string{"-p", "1"}, "-p is 1, want a rate"},
		{[]string{"-p", "-0.1"}, "-p is -0.1, want a rate"},
		{[]string{"-p", "NaN"}, "-p is NaN, want a rate"},
		{[]string{"-p", "Inf"}, "-p is +Inf, want a rate"},
		{[]string{"-p", "1%"}, `invalid value "1%" for flag -p`},
		{[]string{"-absent", "1.01"}, "-absent is 1.01, want a share from 0 to 1"},
		{[]string{"-absent", "-0.01"}, "-absent is -0.01, want a share"},
		{[]string{"-absent", "NaN"}, "-absent is NaN, want a share"},
		{[]string{"-absent", "-Inf"}, "-absent is -Inf, want a share"},
		{[]string{"-seed", "-1"}, `invalid value "-1" for flag -seed`},
		{[]string{"-nope"}, "flag provided but not defined: -nope"},
		{[]string{"-two\nlines"}, "flag provided but not defined: -two; lines"},
		{[]string{"keys.txt"}, `unexpected argument "keys.txt"`},
		{[]string{"-keys", ""}, "-keys is empty, want a file name"},
		{[]string{"-keys", filepath.Join(dir, "missing")}, "missing"},
		{[]string{"-keys", dir}, dir},
		{[]string{"-keys", empty}, "no keys in this file"},
		{[]string{"-keys", blank}, "no keys in this file"},
		{[]string{"-keys", long}, "line 2 is longer than 1048576 bytes"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, stdout, stderr := runGuard(t, t.Context(), tt.args...)
			require.Equal(t, exitUsage, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, tt.want)
			require.True(t, strings.HasPrefix(stderr, "guard: "), stderr)
			require.Equal(t, len(stderr)-1, strings.Index(stderr, "\n"), "one line, ended: %q", stderr)
		})
	}
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		code, stdout, stderr := runGuard(t, t.Context(), arg)
		require.Equal(t, exitOK, code)
		require.Empty(t, stderr)
		for _, name := range []string{"usage: guard", "-n lookups", "-p rate", "-absent share", "-keys file", "-seed seed"} {
			require.Contains(t, stdout, name)
		}
	}
}

func TestUnicodeRun(t *testing.T) {
	if testing.Short() {
		t.Skip("loads 149,251 rows and reads them again and again")
	}
	code, table, stderr := runGuard(t, t.Context(), "-n", "20000")
	require.Equal(t, exitOK, code, stderr)
	require.Empty(t, stderr, "no bar may be drawn on something that is not a terminal")
	require.Contains(t, table, "Unicode ")
	checkTable(t, table, 20000)

	// Hot rows are asked for often enough for the cache to matter, and most of
	// the attack stops at the filter.
	require.Greater(t, numbers(t, table, "answered by the cache")[0], 500.0)
	require.Greater(t, numbers(t, table, "answered by the filter")[0], 0.97*0.9*20000)
}

// checkTable checks everything about the table that must hold for any run.
func checkTable(t *testing.T, table string, lookups float64) {
	t.Helper()
	without := func(name string) float64 { return numbers(t, table, name)[0] }
	with := func(name string) float64 { n := numbers(t, table, name); return n[len(n)-1] }

	require.Equal(t, []float64{lookups, lookups}, numbers(t, table, "lookups"))
	require.Equal(t, lookups, without("answered by the cache")+without("answered by the database"))
	require.Equal(t, lookups,
		with("answered by the filter")+with("answered by the cache")+with("answered by the database"))
	require.Equal(t, numbers(t, table, "answered by the database"), numbers(t, table, "database queries"))
	require.Equal(t, []float64{0, 0}, numbers(t, table, "wrong answers"))

	// Without the filter the database answers every lookup of an absent key;
	// with it, each of them is rejected or a false positive.
	absent := without("of these for absent keys")
	seen := with("of these for absent keys")
	require.Equal(t, absent, with("answered by the filter")+seen)

	fp := numbers(t, table, "false positives")
	require.Len(t, fp, 3)
	require.Equal(t, seen, fp[2])
	// Five sigma, and some more for a handful of expected ones: the table rounds,
	// and the rate of a tiny filter depends on which keys it holds.
	require.LessOrEqual(t, math.Abs(fp[0]-seen), 5*fp[1]+3, "expected %v ± %v", fp[0], fp[1])
	require.Greater(t, numbers(t, table, "filter")[0], 0.0)
	require.EqualValues(t, rebuilds, numbers(t, table, "rebuilds under load")[0])
	meanwhile := numbers(t, table, "meanwhile")
	require.Len(t, meanwhile, 4)
	require.Equal(t, []float64{0, 0}, meanwhile[2:])
}

func TestOwnKeys(t *testing.T) {
	odd := []string{"plain", "it's", `"quoted"`, "a\x00b", "a\x00c", "\xff\xfe", "naïve", " spaces ", "%s", "tab\there",
		strings.Repeat("k", maxLine), "-1", "U+0041"}
	var words strings.Builder
	for i := range 3000 {
		words.WriteString("word" + strconv.Itoa(i) + "\r\n")
	}
	for _, keys := range []struct {
		name, content string
		lookups       int
	}{
		{"one key", "only", 500},
		{"odd keys", strings.Join(odd, "\n"), 300},
		{"many keys", words.String(), 5000},
	} {
		path := writeFile(t, keys.content)
		for _, args := range [][]string{
			nil, {"-absent", "0"}, {"-absent", "1"}, {"-p", "0.5"}, {"-p", "0.999"}, {"-p", "1e-9"}, {"-seed", "7"},
		} {
			t.Run(keys.name+" "+strings.Join(args, " "), func(t *testing.T) {
				args := append(args, "-n", strconv.Itoa(keys.lookups), "-keys", path)
				code, table, stderr := runGuard(t, t.Context(), args...)
				require.Equal(t, exitOK, code, stderr)
				require.Empty(t, stderr)
				checkTable(t, table, float64(keys.lookups))
			})
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, stdout, stderr := runGuard(t, ctx, "-keys", writeFile(t, "a\nb\n"))
	require.Equal(t, exitInterrupted, code)
	require.Empty(t, stdout)
	require.Equal(t, "guard: interrupted\n", stderr)
}

func TestNoTemporaryDirectory(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	keys := writeFile(t, "a\n")
	t.Setenv("TMPDIR", missing)
	t.Setenv("TMP", missing)
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-keys", keys}, &out, &errs))
	require.Empty(t, out.String())
	require.Contains(t, errs.String(), missing)
}

func TestFinish(t *testing.T) {
	good := func(t *testing.T) report {
		data, err := readKeys(strings.NewReader("a\nb\n"), "keys")
		require.NoError(t, err)
		return report{data: data}
	}
	t.Run("good", func(t *testing.T) {
		var out, errs bytes.Buffer
		require.Equal(t, exitOK, finish(good(t), &out, &errs))
		require.NotEmpty(t, out.String())
		require.Empty(t, errs.String())
	})
	for name, spoil := range map[string]func(*report){
		"wrong without filter": func(r *report) { r.without.blame("key %q", "a") },
		"wrong with filter":    func(r *report) { r.with.blame("key %q", "a") },
		"denied":               func(r *report) { r.denied = []string{"a"} },
		"lost under load":      func(r *report) { r.rebuilds.lost, r.rebuilds.firstBad = 1, `"a"` },
		"wrong under load":     func(r *report) { r.rebuilds.wrong, r.rebuilds.firstBad = 1, `"a"` },
	} {
		t.Run(name, func(t *testing.T) {
			rep := good(t)
			spoil(&rep)
			var out, errs bytes.Buffer
			require.Equal(t, exitFailed, finish(rep, &out, &errs))
			require.Contains(t, errs.String(), "guard: 1 wrong answers, the first: ")
			require.Contains(t, errs.String(), `"a"`)
			require.NotEmpty(t, out.String(), "the table helps to see what went wrong")
		})
	}
	t.Run("unwritable", func(t *testing.T) {
		var errs bytes.Buffer
		require.Equal(t, exitFailed, finish(good(t), brokenWriter{}, &errs))
		require.Equal(t, "guard: write the table: no space\n", errs.String())
	})
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }
