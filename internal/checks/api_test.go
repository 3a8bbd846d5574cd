package checks

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const listing = "testdata/api.txt"

// The exported names of all packages that others import are those of testdata/api.txt. Whoever changes them runs this
// test with -update, sees in the diff what users will see, and says so in CHANGELOG.md.
func TestAPI(t *testing.T) {
	var lines []string
	for _, p := range packages(t) {
		if p.Name != "main" && public(p) {
			for _, line := range api(t, p) {
				lines = append(lines, p.ImportPath+": "+line)
			}
		}
	}
	slices.Sort(lines)
	require.Greater(t, len(lines), 500)
	if *update {
		require.NoError(t, os.WriteFile(listing, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return
	}
	text, err := os.ReadFile(listing)
	require.NoError(t, err)
	committed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	gone, added := without(committed, lines), without(lines, committed)
	if len(gone)+len(added) > 0 {
		t.Errorf("the exported names are others than in %s. What is gone or changed breaks users; what is new goes into "+
			"CHANGELOG.md. Then: go test ./internal/checks -run TestAPI -update\n%d gone:\n\t%s\n%d new:\n\t%s",
			listing, len(gone), strings.Join(gone, "\n\t"), len(added), strings.Join(added, "\n\t"))
	}
}

// without returns what of a is not in b.
func without(a, b []string) (rest []string) {
	in := map[string]bool{}
	for _, line := range b {
		in[line] = true
	}
	for _, line := range a {
		if !in[line] {
			rest = append(rest, line)
		}
	}
	return rest
}

// api returns a line for every exported name of a package: a function, a method, a type, a field, a constant,
// a variable.
func api(t *testing.T, p documentedPackage) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	text := func(n any) string {
		var b bytes.Buffer
		require.NoError(t, printer.Fprint(&b, token.NewFileSet(), n))
		return strings.Join(strings.Fields(b.String()), " ")
	}
	values := func(d *ast.GenDecl) {
		var typ ast.Expr // of the names without one: in a group of constants that of the last with one
		for i, spec := range d.Specs {
			spec := spec.(*ast.ValueSpec)
			if spec.Type != nil || len(spec.Values) > 0 {
				typ = spec.Type
			}
			for j, name := range spec.Names {
				if !name.IsExported() {
					continue
				}
				line := d.Tok.String() + " " + name.Name
				if typ != nil {
					line += " " + text(typ)
				}
				switch {
				case d.Tok == token.CONST && len(spec.Values) > j && text(spec.Values[j]) != "iota":
					line += " = " + text(spec.Values[j])
				case d.Tok == token.CONST:
					line += fmt.Sprintf(" = number %d of its group", i)
				}
				add("%s", line)
			}
		}
	}
	function := func(d *ast.FuncDecl) {
		d.Body, d.Doc = nil, nil
		add("%s", text(d))
	}
	for _, v := range slices.Concat(p.Consts, p.Vars) {
		values(v.Decl)
	}
	for _, f := range p.Funcs {
		function(f.Decl)
	}
	for _, typ := range p.Types {
		for _, v := range slices.Concat(typ.Consts, typ.Vars) {
			values(v.Decl)
		}
		for _, f := range typ.Funcs {
			function(f.Decl)
		}
		for _, f := range typ.Methods {
			// A method that is promoted from an unexported type belongs to the one that embeds it.
			f.Decl.Recv.List[0].Type = ast.NewIdent(f.Recv)
			f.Decl.Recv.List[0].Names = nil
			function(f.Decl)
		}
		for _, spec := range typ.Decl.Specs {
			spec := spec.(*ast.TypeSpec)
			head := "type " + spec.Name.Name
			if spec.TypeParams != nil {
				var parameters []string
				for _, f := range spec.TypeParams.List {
					for _, name := range f.Names {
						parameters = append(parameters, name.Name+" "+text(f.Type))
					}
				}
				head += "[" + strings.Join(parameters, ", ") + "]"
			}
			var fields []*ast.Field
			switch underlying := spec.Type.(type) {
			case *ast.StructType:
				fields = underlying.Fields.List
				head += " struct"
			case *ast.InterfaceType:
				fields = underlying.Methods.List
				head += " interface"
			default:
				head += " " + text(underlying)
			}
			add("%s", head)
			for _, f := range fields {
				embedded := text(f.Type)
				if len(f.Names) == 0 && ast.IsExported(embedded[strings.LastIndexAny(embedded, "*.")+1:]) {
					add("%s, embedded %s", head, embedded)
				}
				for _, name := range f.Names {
					if name.IsExported() {
						add("%s, %s %s", head, name.Name, embedded)
					}
				}
			}
			if spec.Assign.IsValid() {
				add("%s, an alias", head)
			}
		}
	}
	return lines
}
