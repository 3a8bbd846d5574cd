package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Filters that stand in the repository: of every kind, and by other libraries.
var (
	records  = filepath.Join("..", "..", "testdata", "golden", "v1")
	bitsDir  = filepath.Join("..", "..", "migrate", "testdata", "bitsandblooms")
	guavaDir = filepath.Join("..", "..", "migrate", "testdata", "guava")
)

// sipKey is the key of the filters in records that have one.
func sipKey(t *testing.T) string {
	path := temp(t, "key")
	require.NoError(t, os.WriteFile(path, []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, 0o600))
	return path
}

func TestInfoText(t *testing.T) {
	key := sipKey(t)
	var text strings.Builder
	for _, name := range []string{"filter-murmur3", "filter-odd-size", "blocked-xxhash", "counting-siphash", "cuckoo-murmur3", "cuckoo-redisbloom", "scalable-murmur3", "scalable-redisbloom", "scalable-fixed-empty"} {
		args := []string{"info", filepath.Join(records, name+".bloom")}
		if strings.Contains(name, "siphash") {
			args = append(args, "--key-file", key)
		}
		text.WriteString(mustRun(t, "", args...) + "\n")
	}
	for _, name := range []string{"7299-bits.bin", "7299-bits.json", "7299-bits.little-endian", "new-0-0.bin", "past-capacity.bin"} {
		text.WriteString(mustRun(t, "", "info", filepath.Join(bitsDir, name)) + "\n")
	}
	for _, name := range []string{"utf8-64.bin", "bytes-32.bin"} {
		text.WriteString(mustRun(t, "", "info", filepath.Join(guavaDir, name)) + "\n")
	}
	golden(t, "info.txt", filepath.ToSlash(text.String()))
}

// Every filter that stands in the repository is told by its content, and as what it is.
func TestFormatIsToldByContent(t *testing.T) {
	key := sipKey(t)
	files := 0
	for dir, want := range map[string]format{records: formatBloom, bitsDir: formatBits, guavaDir: formatGuava} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() || strings.HasPrefix(e.Name(), "answers") || strings.HasSuffix(e.Name(), ".java") || strings.HasSuffix(e.Name(), ".md") {
				continue
			}
			path := filepath.Join(dir, e.Name())
			args := []string{"info", "--json", path}
			if strings.Contains(e.Name(), "siphash") {
				args = append(args, "--key-file", key)
			}
			var d, piped description
			require.NoError(t, json.Unmarshal([]byte(mustRun(t, "", args...)), &d), path)
			assert.Equal(t, want, d.Format, path)
			assert.NotZero(t, d.Bits, path)
			files++
			// The same through a pipe.
			args[2] = "-"
			require.NoError(t, json.Unmarshal([]byte(mustRun(t, string(read(t, path)), args...)), &piped), path)
			d.File = "-"
			assert.Equal(t, d, piped)
		}
	}
	assert.Greater(t, files, 60)
}

func TestInfoOfAmbiguousAndForeignFiles(t *testing.T) {
	guava := filepath.Join(guavaDir, "utf8-64.bin")
	size, err := os.Stat(guava)
	require.NoError(t, err)
	bits := []string{"--bits", "1000000", "--hashes", "7"}
	r := runBloom(nil, append([]string{"info", guava}, bits...)...)
	assert.Equal(t, exitFailed, r.code)
	assert.Contains(t, r.stderr, "ambiguous: --bits and --hashes are for bitmaps, and this looks like a filter of Guava; --format says which")
	require.Less(t, size.Size(), int64(125_000))
	assert.Contains(t, mustRun(t, "", append([]string{"info", "--format", "bitmap", guava}, bits...)...), "bitmap: a bitmap in a Redis string")
	for text, want := range map[string]string{
		"":                         "the file is empty",
		"REDIS0011\xfa":            "this is an RDB file of Redis",
		"\x89BK\n\x01\x00\x00\x00": "this is a file of bloomd",
		"\xac\xed\x00\x05sr":       "this is an object that Java serialized",
		"hello\n":                  "no filter that this program knows",
		"\x89BF\n\x02":             "incomplete",
		`{"m":10,"k":2}`:           "corrupt",
	} {
		r := runBloom(nil, "info", write(t, text))
		assert.Equal(t, exitFailed, r.code, text)
		assert.Contains(t, r.stderr, want, text)
		r = runBloom(nil, "info", "--format", "guava", write(t, text))
		assert.Equal(t, exitFailed, r.code, text)
	}
}

func TestInfoOfSeveralRecords(t *testing.T) {
	one, two := bloom.Must(bloom.New(10, 0.1)), bloom.Must(bloom.NewCuckoo(10, 0.1))
	data, err := one.AppendBinary(nil)
	require.NoError(t, err)
	data, err = two.AppendBinary(data)
	require.NoError(t, err)
	path := write(t, string(data))
	text := mustRun(t, "", "info", path)
	assert.Contains(t, text, ", record 1\n")
	assert.Contains(t, text, ", record 2\n")
	d := json.NewDecoder(strings.NewReader(mustRun(t, "", "info", "--json", path)))
	for i, kind := range []string{"Filter", "Cuckoo"} {
		var got description
		require.NoError(t, d.Decode(&got))
		assert.Equal(t, kind, got.Kind)
		assert.Equal(t, i+1, got.Record)
	}
	require.NoError(t, os.WriteFile(path, data[:len(data)-1], 0o666))
	r := runBloom(nil, "info", path)
	assert.Equal(t, exitFailed, r.code)
	assert.Empty(t, r.stdout)
}

// A full filter's estimate is infinite, which JSON cannot say.
func TestInfoOfAFullFilter(t *testing.T) {
	text := mustRun(t, "", "info", "--json", filepath.Join(bitsDir, "new-0-0-one-key.bin"))
	assert.NotContains(t, text, "estimated_len")
	assert.Contains(t, mustRun(t, "", "info", filepath.Join(bitsDir, "new-0-0-one-key.bin")), "all bits are set")
}
