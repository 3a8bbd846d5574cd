package bloom

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What speed rests on and no answer shows: that the compiler inlines the twins of Add,
// Contains and so on, and that it checks no index in the probe loops. It asks the compiler, whose
// output go build repeats when it builds nothing.
func TestWhatTheCompilerMakesOfIt(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the compiler")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m -d=ssa/check_bce", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	inlined, checks := map[string]bool{}, map[string][]string{} // by function, and lines by file
	for line := range strings.Lines(string(out)) {
		if m := regexp.MustCompile(`: can inline \(\*?(\w+)\)\.(\w+)\n`).FindStringSubmatch(line); m != nil {
			inlined[m[1]+"."+m[2]] = true
		}
		if m := regexp.MustCompile(`^\./(\w+\.go):(\d+):\d+: Found Is`).FindStringSubmatch(line); m != nil {
			checks[m[1]] = append(checks[m[1]], m[2])
		}
	}

	// The budget of the inliner has no room for the error that these return.
	called := []string{"Cuckoo.AddUint64", "Cuckoo.AddUniqueUint64", "Scalable.AddUint64"}
	for _, kind := range []any{&Filter{}, &Blocked{}, &Concurrent{}, &Counting{}, &Cuckoo{}, &Scalable{}} {
		methods := reflect.TypeOf(kind)
		found := 0
		for i := range methods.NumMethod() {
			name := methods.Method(i).Name
			twin := regexp.MustCompile(`^(Add|AddUnique|Contains|Count|Remove)(String|Uint64)$`).MatchString(name)
			full := methods.Elem().Name() + "." + name
			if !twin {
				continue
			}
			found++
			want := !slices.Contains(called, full)
			require.Equal(t, want, inlined[full], "%s is inlined", full)
		}
		require.GreaterOrEqual(t, found, 4)
	}

	for _, loop := range []struct {
		file, receiver, name string
		checked              bool
	}{
		{"bitset.go", "bitset", "testAll", false},
		{"bitset.go", "bitset", "setAll", false},
		{"bitset_fields.go", "fields", "nonzeroAll", false},
		{"bitset_fields.go", "rows", "matches", false},
		{"bitset_fields.go", "rows", "load", false}, // but for its first lines, on big-endian machines only
		{"bitset_shared.go", "sharedBits", "testAll", false},
		{"counting.go", "Counting", "bump", false},
		{"bitset_lines.go", "lines", "testAll", false},
		{"bitset_lines.go", "lines", "touch", false},
		{"cuckootable.go", "subFilter", "contains", false},
		// That the compiler does say so where it checks one:
		{"bitset.go", "bitset", "test", true},
		{"bitset_lines.go", "lines", "setAll", true},
	} {
		first, last := sourceLines(t, loop.file, loop.receiver, loop.name)
		var within []string
		for _, line := range checks[loop.file] {
			var n int
			fmt.Sscan(line, &n)
			if first <= n && n <= last {
				within = append(within, loop.file+":"+line)
			}
		}
		require.Equal(t, loop.checked, within != nil, "checks of indexes in %s.%s: %v", loop.receiver, loop.name, within)
	}
}

// linesOf returns the lines on which a method begins and ends.
func sourceLines(t *testing.T, file, receiver, name string) (first, last int) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, 0)
	require.NoError(t, err)
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != name || f.Recv == nil {
			continue
		}
		of := f.Recv.List[0].Type
		if p, ok := of.(*ast.StarExpr); ok {
			of = p.X
		}
		if of.(*ast.Ident).Name == receiver {
			return files.Position(f.Pos()).Line, files.Position(f.End()).Line
		}
	}
	require.Fail(t, "no such method", "%s.%s in %s", receiver, name, file)
	return 0, 0
}
