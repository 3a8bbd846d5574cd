package main

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/bits-and-blooms/bitset"
	bitsandblooms "github.com/bits-and-blooms/bloom/v3"
	"github.com/redbloom-go/bloom/migrate"
	"github.com/stretchr/testify/require"
)

// This module knows the original of the BitsAndBlooms filters of package migrate; that of the
// package does not.

// original is a filter of the fixtures and what it answers.
type original struct {
	Name     string `json:"name"`
	Bits     uint   `json:"bits"`
	Hashes   uint   `json:"hashes"`
	Present  int    `json:"present"`  // keys 0, 1, … were added
	Absent   int    `json:"absent"`   // and as many of the next asked,
	Positive []int  `json:"positive"` // of which these were found
	Count    uint32 `json:"count"`    // by ApproximatedSize; 0 where all bits are set
}

// originalKey is key i of the fixtures; migrate/testdata/README.md has the rule.
func originalKey(i int) []byte {
	if i == 0 {
		return nil
	}
	key := make([]byte, 4+i%37)
	for j := range key {
		if j < 4 {
			key[j] = byte(i >> (8 * j))
		} else {
			key[j] = byte(131*j + 7)
		}
	}
	return key
}

// The fixtures of package migrate are what the original writes and answers.
func TestFixturesOfMigrate(t *testing.T) {
	files := map[string][]byte{}
	var answers [][]byte
	add := func(name string, f *bitsandblooms.BloomFilter, present, absent int) {
		o := original{Name: name, Bits: f.Cap(), Hashes: f.K(), Present: present, Absent: absent, Positive: []int{}}
		for i := range present {
			f.Add(originalKey(i))
		}
		for i := present; i < present+absent; i++ {
			if f.Test(originalKey(i)) {
				o.Positive = append(o.Positive, i)
			}
		}
		if f.BitSet().Count() < f.Cap() { // else it converts an infinity
			o.Count = f.ApproximatedSize()
		}
		line, err := json.Marshal(o)
		require.NoError(t, err)
		answers = append(answers, line)
		files[name+".bin"], err = f.MarshalBinary()
		require.NoError(t, err)
		files[name+".json"], err = json.Marshal(f)
		require.NoError(t, err)
		bitset.LittleEndian()
		defer bitset.BigEndian()
		files[name+".little-endian"], err = f.MarshalBinary()
		require.NoError(t, err)
	}
	add("new-0-0", bitsandblooms.New(0, 0), 0, 1000)
	add("new-0-0-one-key", bitsandblooms.New(0, 0), 1, 1000)
	add("empty", bitsandblooms.New(1000, 7), 0, 1000)
	add("one-key", bitsandblooms.New(63, 3), 1, 1000)
	add("64-bits", bitsandblooms.New(64, 4), 8, 1000)
	add("65-bits", bitsandblooms.New(65, 5), 8, 1000)
	add("7299-bits", bitsandblooms.New(7299, 6), 1000, 2000)
	add("past-capacity", bitsandblooms.New(1918, 7), 500, 1000)
	add("199-hashes", bitsandblooms.New(2876, 199), 12, 1000)
	add("from-with-m", bitsandblooms.FromWithM(make([]uint64, 16), 1000, 7), 120, 1000)
	files["answers.json"] = []byte("[\n" + string(bytes.Join(answers, []byte(",\n"))) + "\n]\n")

	dir := filepath.Join("..", "migrate", "testdata", "bitsandblooms")
	for name, data := range files {
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o644))
		}
		committed, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, string(data), string(committed), "go test -run TestFixturesOfMigrate -update . writes %s", name)
	}
	there, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, there, len(files))
}

// A filter reads in by every form that the original writes, and then answers as it does.
func TestMigrateAnswersAsTheOriginal(t *testing.T) {
	r := rand.New(rand.NewPCG(90, 0))
	for _, c := range []struct {
		m, k uint
		n    int
	}{
		{1, 1, 0}, {1, 1, 1}, {64, 1, 10}, {1000, 2, 300}, {4096, 3, 800}, {10_007, 7, 1000}, {99_991, 13, 6000}, {1 << 17, 30, 4000},
		{958_506, 7, 100_000},
	} {
		original := bitsandblooms.New(c.m, c.k)
		keys := make([][]byte, 100_000)
		for i := range keys {
			keys[i] = make([]byte, r.IntN(300))
			for j := range keys[i] {
				keys[i][j] = byte(r.Uint32())
			}
		}
		for _, key := range keys[:c.n] {
			original.Add(key)
		}

		var stream, gobs bytes.Buffer
		_, err := original.WriteTo(&stream)
		require.NoError(t, err)
		require.NoError(t, gob.NewEncoder(&gobs).Encode(struct{ F *bitsandblooms.BloomFilter }{original}))
		text, err := json.Marshal(struct{ F *bitsandblooms.BloomFilter }{original})
		require.NoError(t, err)

		var one migrate.BitsAndBlooms
		n, err := one.ReadFrom(&stream)
		require.NoError(t, err)
		require.EqualValues(t, 24+(c.m+63)/64*8, n)
		var fromGob, fromJSON struct{ F migrate.BitsAndBlooms }
		require.NoError(t, gob.NewDecoder(&gobs).Decode(&fromGob))
		require.Equal(t, one, fromGob.F)
		require.NoError(t, json.Unmarshal(text, &fromJSON))
		require.Equal(t, one, fromJSON.F)

		require.EqualValues(t, original.Cap(), one.Bits())
		require.EqualValues(t, original.K(), one.Hashes())
		for i, key := range keys {
			want := original.Test(key)
			require.True(t, want || i >= c.n)
			if got := one.Contains(key); got != want || one.ContainsString(string(key)) != want {
				require.Equal(t, want, got, "m %d, k %d, key %x", c.m, c.k, key)
			}
		}
	}
}

func BenchmarkMigrate(b *testing.B) {
	const n = 10_000
	original := bitsandblooms.NewWithEstimates(n, rate)
	added := addedKeys(formBytes, n)
	for _, key := range added.bytes {
		original.Add(key)
	}
	data, err := original.MarshalBinary()
	require.NoError(b, err)
	var ours migrate.BitsAndBlooms
	require.NoError(b, ours.UnmarshalBinary(data))
	for _, keys := range []struct {
		name string
		keySet
	}{{"hit", added}, {"miss", absentKeys(formBytes, n)}} {
		for _, impl := range []struct {
			name string
			ask  func([]byte) bool
		}{{"original", original.Test}, {"migrate", ours.Contains}} {
			b.Run("op="+keys.name+"/impl="+impl.name, func(b *testing.B) {
				i := 0
				for b.Loop() {
					impl.ask(keys.bytes[i])
					if i++; i == n {
						i = 0
					}
				}
			})
		}
	}
}
