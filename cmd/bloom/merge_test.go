package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMergeIsTheFilterOfAllKeys(t *testing.T) {
	for _, kind := range []string{"filter", "blocked", "counting"} {
		build := func(lines string) string {
			path := temp(t, "f.bloom")
			mustRun(t, lines, "build", "-n", "3000", "--kind", kind, "-o", path)
			return path
		}
		a, b, c := build(decimal("a", 0, 1000)), build(decimal("b", 0, 1000)), build(decimal("c", 0, 1000))
		all := build(decimal("a", 0, 1000) + decimal("b", 0, 1000) + decimal("c", 0, 1000))
		mustRun(t, "", "merge", "-o", a, a, b, c) // into one of them
		assert.Equal(t, "3000\n", mustRun(t, decimal("a", 0, 1000)+decimal("b", 0, 1000)+decimal("c", 0, 1000), "check", "-c", a))
		switch want := load(t, all).(type) {
		case *bloom.Filter:
			assert.True(t, want.Equal(load(t, a).(*bloom.Filter)))
		case *bloom.Blocked:
			assert.True(t, want.Equal(load(t, a).(*bloom.Blocked)))
		case *bloom.Counting:
			assert.True(t, want.Equal(load(t, a).(*bloom.Counting)))
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	build := func(args ...string) string {
		path := temp(t, "f.bloom")
		mustRun(t, "a\n", append([]string{"build", "-o", path}, args...)...)
		return path
	}
	f := build("-n", "100")
	for other, want := range map[string]string{
		build("-n", "200"):                       "filters do not match",
		build("-n", "100", "-p", "0.1"):          "filters do not match",
		build("-n", "100", "--seed", "1"):        "filters do not match",
		build("-n", "100", "--scheme", "xxhash"): "filters do not match",
		build("-n", "100", "--kind", "blocked"):  "a Blocked, and those before are Filter",
		build("-n", "100", "--kind", "scalable"): "a Scalable has no union",
		build("-n", "100", "--kind", "cuckoo"):   "a Cuckoo has no union",
		filepath.Join(guavaDir, "utf8-64.bin"):   "a filter of another library has no union here",
		temp(t, "missing"):                       "no such file",
	} {
		out := temp(t, "out")
		r := runBloom(nil, "merge", "-o", out, f, other)
		assert.Equal(t, exitFailed, r.code)
		assert.Contains(t, r.stderr, want)
		assert.NoFileExists(t, out)
	}
}

func TestMergeWarnsPastCapacity(t *testing.T) {
	a, b := temp(t, "a"), temp(t, "b")
	mustRun(t, decimal("a", 0, 1000), "build", "-n", "1000", "-o", a)
	mustRun(t, decimal("b", 0, 1000), "build", "-n", "1000", "-o", b)
	r := runBloom(nil, "merge", "-o", a, a, b)
	require.Zero(t, r.code, r.stderr)
	assert.True(t, strings.HasPrefix(r.stderr, "bloom: warning: about "), r.stderr)
}
