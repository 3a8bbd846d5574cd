package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What check prints and what check -v prints are all lines, in order.
func TestCheckSplitsLines(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			out := temp(t, "f.bloom")
			present, absent := decimal("in", 0, 3000), decimal("out", 0, 3000)
			mustRun(t, present, "build", "-n", "3000", "-p", "0.05", "--kind", kind, "-o", out)
			maybe, not := mustRun(t, present+absent, "check", out), mustRun(t, present+absent, "check", "-v", out)
			assert.True(t, strings.HasPrefix(maybe, present), "no line that was added is called absent")
			falsePositives := strings.Count(maybe, "\n") - 3000
			assert.Equal(t, 3000, falsePositives+strings.Count(not, "\n"))
			assert.Less(t, falsePositives, 300)
			for _, line := range split(not, '\n') {
				assert.NotContains(t, maybe, line+"\n")
			}
			assert.Equal(t, strconv.Itoa(3000+falsePositives)+"\n", mustRun(t, present+absent, "check", "-c", out))
		})
	}
}

func TestCheckRefusesDamage(t *testing.T) {
	out := temp(t, "f.bloom")
	mustRun(t, decimal("w", 0, 1000), "build", "-n", "1000", "-o", out)
	data := read(t, out)
	for _, at := range []int{5, 30, 200, len(data) - 1} {
		bad := append([]byte{}, data...)
		bad[at] ^= 1
		require.NoError(t, os.WriteFile(out, bad, 0o666))
		r := runBloom(strings.NewReader("w1\n"), "check", out)
		assert.Equal(t, exitFailed, r.code)
		assert.Empty(t, r.stdout)
	}
	for _, bad := range [][]byte{data[:len(data)-1], data[:40], data[:3], {}, append(append([]byte{}, data...), 0)} {
		require.NoError(t, os.WriteFile(out, bad, 0o666))
		assert.Equal(t, exitFailed, runBloom(strings.NewReader("w1\n"), "check", out).code, len(bad))
	}
	require.NoError(t, os.WriteFile(out, append(append([]byte{}, data...), data...), 0o666))
	r := runBloom(strings.NewReader("w1\n"), "check", out)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "2 filters follow each other")
}

func TestCheckReadsTheFilterFromStandardInput(t *testing.T) {
	words := write(t, "a\nb\n")
	filter := mustRun(t, "a\n", "build", "-n", "10", "-p", "1e-9", "-o", "-")
	assert.Equal(t, "a\n", mustRun(t, filter, "check", "-", words))
}

// Keys that the originals find, in filters that they wrote.
func TestCheckOfOtherLibraries(t *testing.T) {
	var answers []struct {
		Name    string `json:"name"`
		Present int    `json:"present"`
	}
	require.NoError(t, json.Unmarshal(read(t, filepath.Join(guavaDir, "answers.json")), &answers))
	present := map[string]int{}
	for _, a := range answers {
		present[a.Name] = a.Present
	}
	keys := map[string]func(i int) string{
		"long": func(i int) string { return strconv.FormatInt(int64(uint64(i)*0x9e3779b97f4a7c15), 10) },
		"int":  func(i int) string { return strconv.FormatInt(int64(int32(uint32(i)*0x9e3779b1)), 10) },
		"chars": func(i int) string {
			if i%2 == 1 {
				return "ключ 日本 😀 " + strconv.Itoa(i)
			}
			return "user:" + strconv.Itoa(i)
		},
	}
	keys["string"] = keys["chars"]
	for name, funnel := range map[string]string{"utf8-64": "string", "utf8-32": "string", "chars-64": "chars", "long-64": "long", "int-32": "int"} {
		require.NotZero(t, present[name], name)
		var lines strings.Builder
		for i := range present[name] {
			lines.WriteString(keys[funnel](i) + "\n")
		}
		file := filepath.Join(guavaDir, name+".bin")
		assert.Equal(t, lines.String(), mustRun(t, lines.String(), "check", "--funnel", funnel, file), name)
		if funnel == "long" || funnel == "int" {
			assert.Equal(t, exitNone, runBloom(strings.NewReader("no number\n"), "check", "--funnel", funnel, file).code)
		}
	}
}

func TestCheckOfABitmap(t *testing.T) {
	f := bloom.Must(bloom.New(100, 1e-9, bloom.WithSeed(7)))
	f.AddString("alice")
	bitmap := write(t, strings.TrimRight(string(f.RedisBitmap()), "\x00")) // as Redis has it
	args := []string{"check", "--bits", strconv.FormatUint(f.Bits(), 10), "--hashes", strconv.Itoa(f.Hashes()), "--seed", "7", bitmap}
	assert.Equal(t, "alice\n", mustRun(t, "alice\nbob\n", args...))
	for _, args := range [][]string{{"check", bitmap}, {"check", "--hashes", "7", bitmap}, {"check", "--format", "bitmap", "--bits", "100", bitmap}} {
		assert.Equal(t, exitFailed, runBloom(strings.NewReader("alice\n"), args...).code)
	}
}
