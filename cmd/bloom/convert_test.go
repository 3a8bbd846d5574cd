package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is built and converted is what a Redis server has after the same keys, byte for byte.
func TestDumpIsTheServers(t *testing.T) {
	for _, c := range []struct {
		vector, keys string
		args         []string
	}{
		{"bf-docs-tiny", decimal("item", 1, 2), []string{"--kind", "scalable", "-n", "10", "-p", "0.1"}},
		{"bf-p01-n1000-half", decimal("user:", 0, 500), []string{"--kind", "scalable", "-n", "1000"}},
	} {
		t.Run(c.vector, func(t *testing.T) {
			filter, out := temp(t, "f.bloom"), temp(t, "f.dump")
			mustRun(t, c.keys, append([]string{"build", "--scheme", "redisbloom", "-o", filter}, c.args...)...)
			mustRun(t, "", "convert", "--to", "redisbloom", filter, out)
			var vector struct {
				Chunks []struct {
					Iter   int64  `json:"iter"`
					Len    int    `json:"len"`
					SHA256 string `json:"sha256"`
				} `json:"chunks"`
			}
			require.NoError(t, json.Unmarshal(read(t, filepath.Join("..", "..", "testdata", "golden", c.vector+".json")), &vector))
			data := read(t, out)
			for _, chunk := range vector.Chunks {
				require.GreaterOrEqual(t, len(data), frameHead+chunk.Len)
				assert.EqualValues(t, chunk.Iter, binary.LittleEndian.Uint64(data))
				assert.EqualValues(t, chunk.Len, binary.LittleEndian.Uint64(data[8:]))
				sum := sha256.Sum256(data[frameHead : frameHead+chunk.Len])
				assert.Equal(t, chunk.SHA256, hex.EncodeToString(sum[:]))
				data = data[frameHead+chunk.Len:]
			}
			assert.Empty(t, data)
		})
	}
}

func TestDumpsThereAndBack(t *testing.T) {
	for _, args := range [][]string{
		{"--kind", "scalable", "-n", "100", "-p", "0.001"}, {"--kind", "cuckoo", "-n", "2000"}, {"--kind", "scalable", "-n", "5000"},
	} {
		filter, out, back := temp(t, "f.bloom"), temp(t, "f.dump"), temp(t, "back.bloom")
		mustRun(t, decimal("key", 0, 3000), append([]string{"build", "--scheme", "redisbloom", "-o", filter}, args...)...)
		mustRun(t, "", "convert", "--to", "redisbloom", filter, out)
		mustRun(t, "", "convert", out, back)
		assert.Equal(t, "3000\n", mustRun(t, decimal("key", 0, 3000), "check", "-c", out), "a dump can be asked")
		want, got := load(t, filter), load(t, back)
		switch want := want.(type) {
		case *bloom.Scalable:
			assert.True(t, want.Equal(got.(*bloom.Scalable)), args)
		case *bloom.Cuckoo:
			assert.True(t, want.Equal(got.(*bloom.Cuckoo)), args)
		}
		assert.Equal(t, want.Info().Len, got.Info().Len)
		// The server's last reply may have been kept too.
		require.NoError(t, os.WriteFile(out, append(read(t, out), make([]byte, frameHead)...), 0o666))
		mustRun(t, "", "convert", out, back)
		assert.Contains(t, mustRun(t, "", "info", out), "redisbloom: a RedisBloom dump, as frames")
	}
}

func TestFilterAsDumpAndBitmap(t *testing.T) {
	filter, out, bits := temp(t, "f.bloom"), temp(t, "f.dump"), temp(t, "f.str")
	mustRun(t, decimal("key", 0, 900), "build", "--scheme", "redisbloom", "-n", "1000", "-o", filter)
	mustRun(t, "", "convert", "--to", "redisbloom", filter, out)
	info := mustRun(t, "", "info", out)
	assert.Contains(t, info, "made for     1,000 keys at 0.01")
	assert.Contains(t, info, "refuses keys when it is full")
	want := load(t, filter).(*bloom.Filter)
	for _, from := range []string{filter, out} {
		r := runBloom(nil, "convert", "--to", "bitmap", from, bits)
		require.Zero(t, r.code, r.stderr)
		assert.Equal(t, want.RedisBitmap(), read(t, bits))
		// What it prints is what reading it takes.
		back := temp(t, "back.bloom")
		mustRun(t, "", append([]string{"convert", bits, back}, strings.Fields(r.stderr)...)...)
		assert.True(t, want.Equal(load(t, back).(*bloom.Filter)))
	}
}

func TestBitmapsThereAndBack(t *testing.T) {
	for _, args := range [][]string{{"-n", "1000"}, {"-n", "999", "--scheme", "xxhash", "--seed", "12345"}} {
		filter, bits, back := temp(t, "f.bloom"), temp(t, "f.str"), temp(t, "back.bloom")
		mustRun(t, decimal("key", 0, 1000), append([]string{"build", "-o", filter}, args...)...)
		r := runBloom(nil, "convert", "--to", "bitmap", filter, bits)
		require.Zero(t, r.code, r.stderr)
		mustRun(t, "", append([]string{"convert", bits, back}, strings.Fields(r.stderr)...)...)
		assert.True(t, load(t, filter).(*bloom.Filter).Equal(load(t, back).(*bloom.Filter)))
		assert.Contains(t, mustRun(t, "", append([]string{"info", bits}, strings.Fields(r.stderr)...)...), "bitmap: a bitmap in a Redis string")
	}
	wide := bloom.Must(bloom.NewWithSize(1001, 3)) // no whole bytes
	wide.AddString("x")
	var b bytes.Buffer
	_, err := bitmap{wide}.WriteTo(&b)
	require.NoError(t, err)
	assert.Equal(t, wide.RedisBitmap(), b.Bytes())
}

func TestConversionsThatLose(t *testing.T) {
	build := func(args ...string) string {
		path := temp(t, "f.bloom")
		mustRun(t, decimal("key", 0, 300), append([]string{"build", "-o", path}, args...)...)
		return path
	}
	empty := temp(t, "empty.bloom")
	mustRun(t, "", "build", "-o", empty, "--kind", "cuckoo", "--scheme", "redisbloom", "-n", "100")
	odd := temp(t, "odd.bloom")
	require.NoError(t, bloom.Save(odd, bloom.Must(bloom.NewWithSize(1000, 3, bloom.WithScheme(bloom.RedisBloom)))))
	for _, c := range []struct{ to, from, want string }{
		{"bloom", filepath.Join(guavaDir, "utf8-64.bin"), "add the keys again (bloom build)"},
		{"bitmap", filepath.Join(bitsDir, "7299-bits.bin"), "add the keys again (bloom build)"},
		{"redisbloom", build("-n", "300"), "the scheme is Murmur3"},
		{"redisbloom", build("-n", "300", "--kind", "counting", "--scheme", "redisbloom"), "a server has no filter like a Counting"},
		{"redisbloom", empty, "a cuckoo filter that holds nothing has no dump"},
		{"redisbloom", odd, "it has 1000 bits and 3 hashes, and the server gives"},
		{"bitmap", build("-n", "300", "--kind", "counting"), "a Counting is no bitmap"},
		{"bitmap", build("-n", "300", "--kind", "blocked"), "a Blocked is no bitmap"},
		{"bitmap", build("-n", "300", "--kind", "scalable"), "a chain of 1 links in the scheme Murmur3"},
		{"bitmap", build("-n", "100", "--kind", "scalable", "--scheme", "redisbloom"), "a chain of 2 links"},
		{"guava", build("-n", "300"), "want bloom, redisbloom or bitmap"},
	} {
		out := temp(t, "out")
		r := runBloom(nil, "convert", "--to", c.to, c.from, out)
		assert.Equal(t, exitFailed, r.code, c)
		assert.Contains(t, r.stderr, c.want)
		assert.NoFileExists(t, out)
	}
}

func TestDumpsThatAreNotWhole(t *testing.T) {
	filter, out := temp(t, "f.bloom"), temp(t, "f.dump")
	mustRun(t, decimal("key", 0, 300), "build", "--kind", "scalable", "--scheme", "redisbloom", "-n", "100", "-o", filter)
	mustRun(t, "", "convert", "--to", "redisbloom", filter, out)
	data := read(t, out)
	try := func(data []byte) string {
		require.NoError(t, os.WriteFile(out, data, 0o666))
		r := runBloom(strings.NewReader("key1\n"), "check", "--format", "redisbloom", out)
		assert.Equal(t, exitFailed, r.code, len(data))
		assert.Empty(t, r.stdout)
		return r.stderr
	}
	for n := range data { // every length but the whole
		assert.Contains(t, try(data[:n]), "incomplete", n)
	}
	claim := bytes.Clone(data)
	binary.LittleEndian.PutUint64(claim[8:], 1<<60)
	assert.Contains(t, try(claim), "incomplete")
	twisted := bytes.Clone(data)
	twisted[0] = 9 // the header with another cursor
	assert.NotEmpty(t, try(twisted))
	assert.NotEmpty(t, try(append(bytes.Clone(data), "trailing bytes of something"...)))
}
