package bloom

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

// goldenLife is a filter's whole life, recorded from a Redis server:
// testdata/golden/FORMAT.md explains it.
type goldenLife struct {
	Name         string
	Kind         string
	Reserve      []string
	ReserveReply any `json:"reserve_reply"`
	Steps        []goldenStep
	Info         []any
	Debug        any // a list of lines for bf, one line for cf
	Chunks       []goldenChunk
}

type goldenStep struct {
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

type goldenChunk struct {
	Iter   int64
	Len    int
	SHA256 string
	B64    string
}

func (c goldenChunk) data(t *testing.T) []byte {
	data, err := base64.StdEncoding.DecodeString(c.B64)
	require.NoError(t, err)
	return data
}

// partial says that a chunk is too large to be in the file; its checksum is.
func (l goldenLife) partial() bool {
	return slices.ContainsFunc(l.Chunks, func(c goldenChunk) bool { return c.B64 == "" })
}

// same holds a chunk of ours against the recorded one.
func (c goldenChunk) same(t *testing.T, cursor int64, chunk []byte) {
	require.Equal(t, c.Iter, cursor)
	require.Len(t, chunk, c.Len)
	if c.B64 != "" && !bytes.Equal(c.data(t), chunk) {
		require.Equal(t, hex.EncodeToString(c.data(t)), hex.EncodeToString(chunk))
	}
	sum := sha256.Sum256(chunk)
	require.Equal(t, c.SHA256, hex.EncodeToString(sum[:]))
}

func (s goldenStep) item(t *testing.T, i uint64) []byte {
	switch s.Items.Kind {
	case "dec":
		return strconv.AppendUint([]byte(s.Items.Prefix), i, 10)
	case "le8":
		return binary.LittleEndian.AppendUint64(nil, i)
	case "len":
		return patternKey(int(i))
	}
	require.FailNow(t, "unknown kind of item", s.Items.Kind)
	return nil
}

// eachReply calls ask for every item of the step and holds its answer against the
// recorded one: '1', '0', '-' or 'E'.
func (s goldenStep) eachReply(t *testing.T, ask func(item []byte) byte) {
	var got strings.Builder
	last, run := byte(0), 0
	flush := func() {
		if run > 0 {
			fmt.Fprintf(&got, ",%cx%d", last, run)
		}
	}
	for i := range s.Count {
		reply := ask(s.item(t, s.From+i))
		if reply != last {
			flush()
			last, run = reply, 0
		}
		run++
	}
	flush()
	require.Equal(t, s.Replies, strings.TrimPrefix(got.String(), ","), "%s", s.Op)
}

// loadGolden reads the recorded lives of a kind, "bf" or "cf".
func loadGolden(t *testing.T, kind string) []goldenLife {
	files, err := filepath.Glob("testdata/golden/" + kind + "-*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var lives []goldenLife
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var life goldenLife
		require.NoError(t, json.Unmarshal(text, &life), file)
		require.NotEmpty(t, life.Chunks)
		lives = append(lives, life)
	}
	return lives
}

// infoNumbers are the numbers of a recorded BF.INFO or CF.INFO, by name.
func (l goldenLife) infoNumbers() map[string]float64 {
	numbers := map[string]float64{}
	for i := 0; i+1 < len(l.Info); i += 2 {
		name := l.Info[i].(map[string]any)["ok"].(string)
		if v, ok := l.Info[i+1].(float64); ok {
			numbers[name] = v
		}
	}
	return numbers
}

func bit(yes bool) byte {
	if yes {
		return '1'
	}
	return '0'
}
