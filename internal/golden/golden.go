// Package golden reads the vectors in testdata/golden, which were recorded from a Redis server: FORMAT.md
// there explains them. It is for tests.
package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Life is a filter's whole life, recorded from a Redis server:
// testdata/golden/FORMAT.md explains it.
type Life struct {
	Name         string
	Kind         string
	Reserve      []string
	ReserveReply any `json:"reserve_reply"`
	Steps        []Step
	Info         []any
	Debug        any // a list of lines for bf, one line for cf
	Chunks       []Chunk
}

// Step is some commands of a kind, one after the other.
type Step struct {
	Op    string
	Items struct {
		Kind   string
		Prefix string
	}
	From, Count uint64
	Replies     string
	Ones        int
	Card        *uint64
	Counts      []int
	Reply       any
}

// Chunk is a piece of the dump at the end.
type Chunk struct {
	Iter   int64
	Len    int
	SHA256 string
	B64    string
}

// Data is the chunk, where it is in the file.
func (c Chunk) Data(t *testing.T) []byte {
	data, err := base64.StdEncoding.DecodeString(c.B64)
	require.NoError(t, err)
	return data
}

// Partial says that a chunk is too large to be in the file; its checksum is.
func (l Life) Partial() bool {
	return slices.ContainsFunc(l.Chunks, func(c Chunk) bool { return c.B64 == "" })
}

// Same holds a chunk of ours against the recorded one.
func (c Chunk) Same(t *testing.T, cursor int64, chunk []byte) {
	require.Equal(t, c.Iter, cursor)
	require.Len(t, chunk, c.Len)
	if c.B64 != "" && !bytes.Equal(c.Data(t), chunk) {
		require.Equal(t, hex.EncodeToString(c.Data(t)), hex.EncodeToString(chunk))
	}
	sum := sha256.Sum256(chunk)
	require.Equal(t, c.SHA256, hex.EncodeToString(sum[:]))
}

// Item is the i-th item.
func (s Step) Item(t *testing.T, i uint64) []byte {
	switch s.Items.Kind {
	case "dec":
		return strconv.AppendUint([]byte(s.Items.Prefix), i, 10)
	case "le8":
		return binary.LittleEndian.AppendUint64(nil, i)
	case "len":
		return PatternKey(int(i))
	}
	require.FailNow(t, "unknown kind of item", s.Items.Kind)
	return nil
}

// EachReply calls ask for every item of the step and holds its answer against the
// recorded one: '1', '0', '-' or 'E'.
func (s Step) EachReply(t *testing.T, ask func(item []byte) byte) {
	var got strings.Builder
	last, run := byte(0), 0
	flush := func() {
		if run > 0 {
			fmt.Fprintf(&got, ",%cx%d", last, run)
		}
	}
	for i := range s.Count {
		reply := ask(s.Item(t, s.From+i))
		if reply != last {
			flush()
			last, run = reply, 0
		}
		run++
	}
	flush()
	require.Equal(t, s.Replies, strings.TrimPrefix(got.String(), ","), "%s", s.Op)
}

// Lives reads the recorded lives of a kind, "bf" or "cf", in a directory.
func Lives(t *testing.T, dir, kind string) []Life {
	files, err := filepath.Glob(filepath.Join(dir, kind+"-*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var lives []Life
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var life Life
		require.NoError(t, json.Unmarshal(text, &life), file)
		require.NotEmpty(t, life.Chunks)
		lives = append(lives, life)
	}
	return lives
}

// InfoNumbers are the numbers of a recorded BF.INFO or CF.INFO, by name.
func (l Life) InfoNumbers() map[string]float64 {
	numbers := map[string]float64{}
	for i := 0; i+1 < len(l.Info); i += 2 {
		name := l.Info[i].(map[string]any)["ok"].(string)
		if v, ok := l.Info[i+1].(float64); ok {
			numbers[name] = v
		}
	}
	return numbers
}

// PatternKey is the key of a length in hash-murmur64a.txt, and of an item of kind len.
func PatternKey(length int) []byte {
	key := make([]byte, length)
	for j := range key {
		key[j] = byte(131*j + 7)
	}
	return key
}

// Bit is how EachReply has a yes or a no.
func Bit(yes bool) byte {
	if yes {
		return '1'
	}
	return '0'
}
