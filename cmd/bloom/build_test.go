package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// load reads a filter file.
func load(t *testing.T, path string, opts ...bloom.Option) keyed {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	filter, err := bloom.ReadAny(f, opts...)
	require.NoError(t, err)
	return filter.(keyed)
}

func TestBuildIsWhatTheLibraryMakes(t *testing.T) {
	text := decimal("word", 0, 5000)
	words := write(t, text)
	keys := [][]byte{}
	for _, w := range split(text, '\n') {
		keys = append(keys, []byte(w))
	}
	keyFile := temp(t, "key")
	require.NoError(t, os.WriteFile(keyFile, []byte("00112233445566778899aabbccddeeff\n"), 0o600))
	key := [16]byte{0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	schemes := map[string][]bloom.Option{
		"murmur3": nil, "xxhash": {bloom.WithScheme(bloom.XXHash)}, "redisbloom": {bloom.WithScheme(bloom.RedisBloom)},
		"siphash": {bloom.WithScheme(bloom.SipHash), bloom.WithKey(key)},
	}
	for _, kind := range kinds {
		for scheme, opts := range schemes {
			if kind == "blocked" && scheme == "redisbloom" {
				continue
			}
			args, rate := []string{}, 0.001
			if kind == "cuckoo" && scheme == "redisbloom" {
				rate = 0
			} else {
				args = append(args, "-p", "0.001")
			}
			if scheme == "siphash" {
				args = append(args, "--key-file", keyFile)
			}
			t.Run(kind+"/"+scheme, func(t *testing.T) {
				out := temp(t, "f.bloom")
				mustRun(t, "", append([]string{"build", "-o", out, "--kind", kind, "--scheme", scheme, words}, args...)...)
				want, err := kindValue(kind).make(5000, rate, opts...)
				require.NoError(t, err)
				add, err := adderOf(want)
				require.NoError(t, err)
				_, err = add(nil, keys)
				require.NoError(t, err)
				var readOpts []bloom.Option
				if scheme == "siphash" {
					readOpts = opts[1:]
				}
				assert.Equal(t, want.Info(), load(t, out, readOpts...).Info())
				expected := temp(t, "want.bloom")
				require.NoError(t, bloom.Save(expected, want))
				assert.Equal(t, read(t, expected), read(t, out))
				count := []string{"check", "-c", out, words}
				if scheme == "siphash" {
					r := runBloom(nil, count...)
					assert.Equal(t, exitFailed, r.code, "without the key")
					count = append(count, "--key-file", keyFile)
				}
				assert.Equal(t, "5000\n", mustRun(t, "", count...))
			})
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
}

func TestBuildSizes(t *testing.T) {
	words := write(t, decimal("w", 0, 1000)+"last")
	stdin, err := os.Open(words)
	require.NoError(t, err)
	defer stdin.Close()
	for _, c := range []struct {
		name     string
		args     []string
		kind     string
		capacity uint64
		len      uint64
	}{
		{"files are counted", []string{words, words}, "Filter", 2002, 1001},
		{"standard input is a file", []string{"-p", "1e-9"}, "Filter", 1001, 1001},
		{"-n", []string{"-n", "5e3", "-p", "1e-9", words}, "Filter", 5000, 1001},
		{"-n of a chain", []string{"-n", "2_000", "-p", "1e-9", "--kind", "scalable", words}, "Scalable", 2000, 1001},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := temp(t, "f.bloom")
			_, err := stdin.Seek(0, 0)
			require.NoError(t, err)
			args := append([]string{"build", "-o", out, "-p", "1e-9"}, c.args...)
			r := runBloom(stdin, args...)
			require.Zero(t, r.code, r.stderr)
			i := load(t, out).Info()
			assert.Equal(t, c.kind, i.Kind)
			assert.Equal(t, c.capacity, i.Capacity)
			assert.Equal(t, c.len, i.Len)
		})
	}
	out := temp(t, "f.bloom")
	mustRun(t, "a\nb\n", "build", "-o", out)
	assert.Equal(t, "Scalable", load(t, out).Info().Kind, "a stream")
	empty := write(t, "")
	mustRun(t, "", "build", "-o", out, empty)
	assert.Equal(t, "Filter", load(t, out).Info().Kind)
	assert.Equal(t, exitNone, runBloom(strings.NewReader("\na\n"), "check", out).code, "an empty filter has no empty line")
}

func TestBuildWarnsPastCapacity(t *testing.T) {
	out := temp(t, "f.bloom")
	r := runBloom(strings.NewReader(decimal("w", 0, 1000)), "build", "-n", "500", "-o", out)
	assert.Zero(t, r.code)
	assert.Regexp(t, `^bloom: warning: 9\d\d keys in a filter that was made for 500: its rate of false positives is 0\.1\d*, not 0\.01\n$`, r.stderr)
	r = runBloom(strings.NewReader(decimal("w", 0, 1000)), "build", "-n", "500", "-o", temp(t, "x"), "--kind", "cuckoo")
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "filter is full")
}

func TestBuildOfWhatNoMemoryHolds(t *testing.T) {
	if memory() > 1<<44 {
		t.Skip("this system does not tell how much memory there is")
	}
	r := runBloom(strings.NewReader("a\n"), "build", "-n", "20e12", "-o", temp(t, "x"))
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "this machine has")
	assert.Contains(t, mustRun(t, "", "size", "-n", "20e12"), "20,000,000,000,000 keys", "sizes are told all the same")
}

func TestBuildReplacesWholly(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "f.bloom")
	mustRun(t, "a\n", "build", "-o", out)
	before := read(t, out)
	assert.Equal(t, exitFailed, runBloom(failing("b\n"), "build", "-o", out).code)
	assert.Equal(t, before, read(t, out))
	mustRun(t, "b\n", "build", "-o", out)
	assert.NotEqual(t, before, read(t, out))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1, "no temporary files are left")
	assert.Equal(t, exitFailed, runBloom(strings.NewReader("a\n"), "build", "-o", dir).code, "a directory is no file")
}

func TestBuildToStandardOutput(t *testing.T) {
	out := temp(t, "f.bloom")
	mustRun(t, "a\n", "build", "-n", "10", "-o", out)
	assert.Equal(t, string(read(t, out)), mustRun(t, "a\n", "build", "-n", "10", "-o", "-"))
}

func TestCountingCountsLines(t *testing.T) {
	out := temp(t, "f.bloom")
	mustRun(t, "a\nb\na\n", "build", "-n", "10", "--kind", "counting", "-o", out)
	assert.Equal(t, 2, load(t, out).(*bloom.Counting).CountString("a"))
	mustRun(t, strings.Repeat("a\n", 1000), "build", "-n", "10", "--kind", "cuckoo", "-o", out)
	assert.EqualValues(t, 1, load(t, out).Info().Len)
}

func TestLineEnds(t *testing.T) {
	out := temp(t, "f.bloom")
	mustRun(t, "a\r\nb\r\n", "build", "-n", "10", "-p", "1e-9", "--crlf", "-o", out)
	assert.Equal(t, "a\nb\r\n", mustRun(t, "a\nb\r\nc\n", "check", "--crlf", out), "lines are printed as they were")
	assert.Equal(t, "a\n", mustRun(t, "a\nb\r\nc\n", "check", out))
	mustRun(t, "a\nb\x00c\x00", "build", "-n", "10", "-p", "1e-9", "-z", "-o", out)
	assert.Equal(t, "a\nb\x00c\x00", mustRun(t, "a\nb\x00c\x00d", "check", "-z", out))
	assert.Equal(t, "c\n", mustRun(t, "a\nb\nc", "check", out), "the last line has no end")
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	out := temp(t, "f.bloom")
	mustRun(t, long+"\n", "build", "-n", "10", "-p", "1e-9", "-o", out)
	assert.True(t, mustRun(t, long[1:]+"\n"+long, "check", out) == long+"\n")
}
