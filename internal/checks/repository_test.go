package checks

import (
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write testdata/api.txt and the tables of the READMEs instead of comparing with them")

const (
	root   = "../.."
	module = "github.com/redbloom-go/bloom"
)

// Every platform gets the same answers.
var platform = build.Context{GOOS: "linux", GOARCH: "amd64", Compiler: "gc", CgoEnabled: false}

// walk calls each with the slash-separated path, from the root of the repository, of every file whose name
// ends in suffix. What was not committed here, or is other people's, is left out.
func walk(t *testing.T, suffix string, each func(name string)) {
	t.Helper()
	require.NoError(t, fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".ci" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, suffix) {
			each(name)
		}
		return nil
	}))
}

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(text)
}

// documentedPackage is a package with its documentation and, where it has any, its examples.
type documentedPackage struct {
	*doc.Package
	dir  string // from the root of the repository
	fset *token.FileSet
}

func (p documentedPackage) at(n ast.Node) string {
	position := p.fset.Position(n.Pos())
	position.Filename = path.Join(p.dir, filepath.Base(position.Filename))
	return position.String()
}

// packages returns the packages of all modules, sorted by their directories, with all exported names that they have:
// doc.AllDecls finds also the methods that come from an embedded type in an embedded type.
func packages(t *testing.T) []documentedPackage { return packagesAs(t, doc.AllDecls) }

func packagesAs(t *testing.T, mode doc.Mode) (all []documentedPackage) {
	t.Helper()
	var dirs []string
	files := map[string][]string{}
	walk(t, ".go", func(name string) {
		dir := path.Dir(name)
		if path.Base(dir) == "testdata" {
			return
		}
		if files[dir] == nil {
			dirs = append(dirs, dir)
		}
		files[dir] = append(files[dir], path.Base(name))
	})
	for _, dir := range dirs {
		fset := token.NewFileSet()
		var parsed []*ast.File
		onDisk := filepath.Join(root, filepath.FromSlash(dir))
		for _, name := range files[dir] {
			matches, err := platform.MatchFile(onDisk, name)
			require.NoError(t, err)
			if !matches {
				continue
			}
			f, err := parser.ParseFile(fset, filepath.Join(onDisk, name), nil, parser.ParseComments)
			require.NoError(t, err)
			parsed = append(parsed, f)
		}
		p, err := doc.NewFromFiles(fset, parsed, path.Join(module, dir), mode)
		require.NoError(t, err)
		p.Funcs = slices.DeleteFunc(p.Funcs, unexported)
		p.Types = slices.DeleteFunc(p.Types, func(typ *doc.Type) bool { return !token.IsExported(typ.Name) })
		for _, typ := range p.Types {
			typ.Funcs = slices.DeleteFunc(typ.Funcs, unexported)
			typ.Methods = slices.DeleteFunc(typ.Methods, unexported)
		}
		all = append(all, documentedPackage{p, dir, fset})
	}
	return all
}

func unexported(f *doc.Func) bool { return !token.IsExported(f.Name) }
