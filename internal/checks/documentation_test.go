package checks

import (
	"go/ast"
	"go/doc"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every package says what it is, and every exported name what it means, in whole sentences.
func TestEverythingIsDocumented(t *testing.T) {
	for _, p := range packages(t) {
		switch {
		case p.Name == "main":
			assert.Regexp(t, `^Command [a-z-]+ [^.]`, p.Doc, "%s: package comment", p.dir)
		case p.Doc != "" || len(p.Filenames) > 0:
			assert.Regexp(t, `^Package `+p.Name+` [^.]`, p.Doc, "%s: package comment", p.dir)
		}
		synopsis := p.Synopsis(p.Doc)
		assert.True(t, strings.HasSuffix(synopsis, ".") || strings.HasSuffix(synopsis, ":"), "%s: the synopsis is no sentence: %q", p.dir, synopsis)
		if p.Name == "main" {
			continue
		}
		for _, v := range slices.Concat(p.Consts, p.Vars) {
			requireValue(t, p, v)
		}
		for _, f := range p.Funcs {
			requireFunc(t, p, f)
		}
		for _, typ := range p.Types {
			requireDoc(t, p, typ.Decl, typ.Name, typ.Doc)
			for _, spec := range typ.Decl.Specs {
				if public(p) {
					requireFields(t, p, spec.(*ast.TypeSpec))
				}
			}
			for _, v := range slices.Concat(typ.Consts, typ.Vars) {
				requireValue(t, p, v)
			}
			for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
				requireFunc(t, p, f)
			}
		}
	}
}

// requireDoc wants a comment that begins with the name and is made of sentences.
func requireDoc(t *testing.T, p documentedPackage, n ast.Node, name, text string) {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	assert.Contains(t, []string{name, "A", "An", "The", "Deprecated:"}, first, "%s: the comment of %s does not begin with its name", p.at(n), name)
	assert.True(t, sentences(text), "%s: the comment of %s is no sentence: %q", p.at(n), name, text)
}

// sentences tells whether each paragraph ends as a sentence does, or leads to an indented block or a list.
func sentences(text string) bool {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	last := paragraphs[len(paragraphs)-1]
	indented := strings.HasPrefix(last, "\t") || strings.HasPrefix(last, "  ")
	return last != "" && (indented || strings.ContainsAny(last[len(last)-1:], ".:?)"))
}

func requireFunc(t *testing.T, p documentedPackage, f *doc.Func) {
	t.Helper()
	requireDoc(t, p, f.Decl, f.Name, f.Doc)
}

// requireValue accepts a comment of the group or one of each name, before it or behind it.
func requireValue(t *testing.T, p documentedPackage, v *doc.Value) {
	t.Helper()
	if v.Doc != "" {
		assert.True(t, sentences(v.Doc), "%s: no sentence: %q", p.at(v.Decl), v.Doc)
	}
	for _, spec := range v.Decl.Specs {
		spec := spec.(*ast.ValueSpec)
		if slices.ContainsFunc(spec.Names, func(n *ast.Ident) bool { return token.IsExported(n.Name) }) {
			assert.True(t, v.Doc != "" || spec.Doc != nil || spec.Comment != nil, "%s: %s has no comment", p.at(spec), spec.Names[0])
		}
	}
}

// plain are names that the packages use for one thing everywhere, or that leave nothing to be said.
var plain = []string{
	"Bits", "Hashes", "Capacity", "ErrorRate", "TargetRate", "FillRatio", "SizeBytes", "Scheme", "BucketSize",
	"MaxIterations", "Expansion", "Key", "Value", "Items", "TTL", "QueryContext",
}

// requireFields wants a comment on every exported field and method: before it, behind it, or before the lines
// that it is one of. A field that is called as its type needs none.
func requireFields(t *testing.T, p documentedPackage, spec *ast.TypeSpec) {
	t.Helper()
	var fields *ast.FieldList
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		fields = typ.Fields
	case *ast.InterfaceType:
		fields = typ.Methods
	default:
		return
	}
	documented, line := false, 0
	for _, f := range fields.List {
		if f.Doc != nil {
			documented = true
		} else if p.fset.Position(f.Pos()).Line != line+1 {
			documented = false
		}
		line = p.fset.Position(f.End()).Line
		for _, name := range f.Names {
			if token.IsExported(name.Name) && !documented && f.Comment == nil && !slices.Contains(plain, name.Name) {
				typ, _ := baseType(f.Type).(*ast.Ident)
				assert.True(t, typ != nil && typ.Name == name.Name, "%s: %s.%s has no comment", p.at(f), spec.Name, name)
			}
		}
	}
}

func baseType(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.IndexExpr:
		return e.X
	case *ast.IndexListExpr:
		return e.X
	}
	return e
}

// Pages made of the comments, as pkg.go.dev's are, show no methods that come from an embedded type in an embedded type.
func TestMethodsAreListed(t *testing.T) {
	names := func(p documentedPackage) (all []string) {
		for _, typ := range p.Types {
			for _, f := range typ.Methods {
				all = append(all, typ.Name+"."+f.Name)
			}
		}
		return all
	}
	all, listed := packages(t), packagesAs(t, 0)
	for i, p := range all {
		if public(p) {
			assert.Equal(t, names(p), names(listed[i]), p.dir)
		}
	}
}

// What these examples do needs a Redis server, so they are compiled and not run. The programs of
// examples/redis are run.
var needRedis = []string{"goredis"}

// What these have is shown where there is what it needs: a driver of a database in examples/sqlload, and a client of
// Redis in examples/redis.
var shownElsewhere = []string{"guard/sqlload", "goredis"}

// Every example is a test, and every constructor has one.
func TestEveryExampleHasAnOutput(t *testing.T) {
	count := 0
	for _, p := range packages(t) {
		called := map[string]bool{}
		for _, e := range examples(p) {
			count++
			ast.Inspect(e.Code, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					called[s.Sel.Name] = true
				}
				return true
			})
			if !slices.Contains(needRedis, p.dir) {
				assert.True(t, e.Output != "" || e.EmptyOutput, "%s: Example%s has no output", p.dir, e.Name)
			}
		}
		if p.Name == "main" || !public(p) {
			continue
		}
		funcs := slices.Clone(p.Funcs)
		for _, typ := range p.Types {
			funcs = append(funcs, typ.Funcs...)
		}
		for _, f := range funcs {
			if constructor.MatchString(f.Name) && !slices.Contains(shownElsewhere, p.dir) {
				assert.True(t, called[f.Name], "%s: no example calls %s", p.dir, f.Name)
			}
		}
	}
	require.Greater(t, count, 40)
}

var constructor = regexp.MustCompile(`^(New|Open|Read|Load|Save|Start|Estimate|From)`)

// public tells whether other modules are meant to import the package.
func public(p documentedPackage) bool {
	return !slices.ContainsFunc(strings.Split(p.dir, "/"), func(element string) bool {
		return element == "internal" || element == "examples" || element == "benchmarks"
	})
}

// examples returns those of the package, its functions, its types and their methods.
func examples(p documentedPackage) (all []*doc.Example) {
	all = append(all, p.Examples...)
	for _, f := range p.Funcs {
		all = append(all, f.Examples...)
	}
	for _, typ := range p.Types {
		all = append(all, typ.Examples...)
		for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
			all = append(all, f.Examples...)
		}
	}
	return all
}
