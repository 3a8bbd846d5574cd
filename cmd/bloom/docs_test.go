package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// program builds the program and returns its path.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bloom")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// The commands of docs/CLI.md print what it says. With -update the page is written anew.
func TestTheDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts programs")
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	bin, work := filepath.Dir(program(t)), t.TempDir()
	page := filepath.Join("..", "..", "docs", "CLI.md")
	text := string(read(t, page))
	var made strings.Builder
	commands, console, skip := 0, false, false
	for line := range strings.Lines(text) {
		command, isCommand := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			console, skip = line == "```console\n", false
		case console && isCommand:
			commands++
			c := exec.Command(shell, "-c", command)
			c.Dir = work
			c.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C")
			out, _ := c.CombinedOutput() // its exit code, where it matters, is printed by the command itself
			made.WriteString(line + string(out))
			skip = true
			continue
		}
		if !skip {
			made.WriteString(line)
		}
	}
	require.Greater(t, commands, 30)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(made.String()), 0o666))
		svg := mustRun(t, "", "size", "-n", "1e6", "-p", "0.01", "--svg", "-")
		require.NoError(t, os.WriteFile(filepath.Join("..", "..", "docs", "cli-rate.svg"), []byte(svg), 0o666))
	}
	assert.Equal(t, text, made.String())
}
