package bloom

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// newCuckooReserve is CF.RESERVE, with the server's defaults.
func newCuckooReserve(t *testing.T, argv []string) *Cuckoo {
	capacity, opts := 1024, []Option{WithScheme(RedisBloom)}
	number := func(s string) int { return Must(strconv.Atoi(s)) }
	if argv != nil {
		capacity = number(argv[2])
		for i := 3; i < len(argv); i += 2 {
			option := map[string]func(int) Option{
				"BUCKETSIZE": WithBucketSize, "MAXITERATIONS": WithMaxIterations, "EXPANSION": WithGrowth,
			}[argv[i]]
			opts = append(opts, option(number(argv[i+1])))
		}
	}
	c, err := NewCuckoo(uint64(capacity), 0, opts...)
	require.NoError(t, err)
	return c
}

// cuckooReplies applies a command to keys as the server does, up to 500 keys a
// command where it takes several, and writes one character a key.
func cuckooReplies(c *Cuckoo, op string, keys []string) string {
	var b strings.Builder
	reply := func(ok bool, err error) {
		switch {
		case err != nil && strings.HasPrefix(op, "CF.INSERT"):
			b.WriteByte('-')
		case err != nil:
			b.WriteByte('E')
		case ok:
			b.WriteByte('1')
		default:
			b.WriteByte('0')
		}
	}
	// The server goes on behind a refused key.
	insert := func(addMany func([]bool, []string) ([]bool, error)) {
		for len(keys) > 0 {
			command := keys[:min(len(keys), 500)]
			done, err := addMany(nil, command)
			for _, ok := range done {
				reply(ok, nil)
			}
			n := len(done)
			if err != nil {
				reply(false, err)
				n++
			}
			keys = keys[n:]
		}
	}
	switch op {
	case "CF.INSERT":
		insert(c.AddManyString)
	case "CF.INSERTNX":
		insert(c.AddUniqueManyString)
	default:
		for _, key := range keys {
			switch op {
			case "CF.ADD":
				reply(c.AddString(key))
			case "CF.ADDNX":
				reply(c.AddUniqueString(key))
			case "CF.DEL":
				reply(c.RemoveString(key), nil)
			case "CF.MEXISTS":
				reply(c.ContainsString(key), nil)
			default:
				panic(op)
			}
		}
	}
	return b.String()
}

// infoSize is the Size of CF.INFO.
func (c *Cuckoo) infoSize() uint64 { return 40 + 16*uint64(len(c.filters)) + c.slots() }

func (c *Cuckoo) slotBytes() (b []byte) {
	for i := range c.filters {
		b = c.filters[i].slots.appendBytes(b)
	}
	return b
}

func TestCuckooGolden(t *testing.T) {
	for _, life := range golden.Lives(t, "testdata/golden", "cf") {
		t.Run(life.Name, func(t *testing.T) {
			c := newCuckooReserve(t, life.Reserve)
			for _, step := range life.Steps {
				if step.Op == "CF.COMPACT" {
					c.Compact()
					continue
				}
				var keys []string
				for i := range step.Count {
					keys = append(keys, string(step.Item(t, step.From+i)))
				}
				if step.Op == "CF.COUNT" {
					for i, key := range keys {
						require.Equal(t, step.Counts[i], c.CountString(key), "%s", key)
					}
					continue
				}
				replies := cuckooReplies(c, step.Op, keys)
				step.EachReply(t, func([]byte) byte {
					next := replies[0]
					replies = replies[1:]
					return next
				})
			}
			require.Equal(t, map[string]float64{
				"Size": float64(c.infoSize()), "Number of buckets": float64(slices.Collect(c.SubFilters())[0].Buckets),
				"Number of filters": float64(len(slices.Collect(c.SubFilters()))), "Number of items inserted": float64(c.Len()),
				"Number of items deleted": float64(c.Deletes()), "Bucket size": float64(c.BucketSize()),
				"Expansion rate": float64(c.Growth()), "Max iterations": float64(c.MaxIterations()),
			}, life.InfoNumbers())
			require.Equal(t, fmt.Sprintf("bktsize:%d buckets:%d items:%d deletes:%d filters:%d max_iterations:%d expansion:%d",
				c.bucketSize, c.filters[0].buckets(), c.Len(), c.deletes, len(c.filters), c.maxIterations, c.growth), life.Debug)
			var slots []byte
			l := NewCuckooLoader()
			for i, chunk := range life.Chunks {
				require.NoError(t, l.LoadChunk(chunk.Iter, chunk.Data(t)))
				if i > 0 {
					slots = append(slots, chunk.Data(t)...)
				}
			}
			require.Equal(t, slots, c.slotBytes())
			loaded := Must(l.Finish())
			require.True(t, loaded.Equal(c))
			require.Equal(t, c.Len(), loaded.Len())
			more := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
			require.Equal(t, cuckooReplies(c, "CF.INSERT", more), cuckooReplies(loaded, "CF.INSERT", more))
			require.Equal(t, cuckooReplies(c, "CF.DEL", more[:4]), cuckooReplies(loaded, "CF.DEL", more[:4]))
			require.True(t, loaded.Equal(c), "a loaded filter goes on as the one dumped")
		})
	}
}

// transcriptLine is a command of testdata/golden/transcript-cf.jsonl.
type transcriptLine struct {
	Argv  []any
	Reply map[string]any
}

// The commands of the transcript that make and change filters, up to the first
// under RESP3, give the server's replies, down to those of a chain at its limit.
func TestCuckooTranscript(t *testing.T) {
	data, err := os.ReadFile("testdata/golden/transcript-cf.jsonl")
	require.NoError(t, err)
	filters := map[string]*Cuckoo{}
	replies := 0
	for _, text := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		var l transcriptLine
		require.NoError(t, json.Unmarshal([]byte(text), &l))
		if l.Argv == nil {
			break
		}
		var argv []string
		for _, a := range l.Argv {
			s, _ := a.(string)
			argv = append(argv, s)
		}
		if len(argv) < 3 || (argv[1] != "f" && argv[1] != "m") {
			continue
		}
		if argv[0] == "CF.RESERVE" {
			filters[argv[1]] = newCuckooReserve(t, argv)
		}
		want := ""
		one := func(reply map[string]any) {
			switch {
			case reply["error"] != nil:
				want += "E"
			case reply["int"] == -1.0:
				want += "-"
			default:
				want += fmt.Sprint(reply["int"])
			}
		}
		if array, ok := l.Reply["array"].([]any); ok {
			for _, reply := range array {
				one(reply.(map[string]any))
			}
		} else {
			one(l.Reply)
		}
		c := filters[argv[1]]
		switch argv[0] {
		case "CF.ADD", "CF.ADDNX":
			require.Equal(t, want, cuckooReplies(c, argv[0], argv[2:]), text)
		case "CF.INSERT", "CF.INSERTNX":
			got := cuckooReplies(c, argv[0], argv[3:])
			if want == "E" {
				want = strings.Repeat("-", len(argv)-3) // an error for the command as a whole
			}
			require.Equal(t, want, got, text)
		default:
			continue
		}
		replies++
	}
	require.Equal(t, 12, replies)
	m := filters["m"]
	require.Len(t, m.filters, 101, "one command can go past the limit")
	require.Equal(t, uint64(2060), m.infoSize())
	require.Equal(t, uint64(400), m.Len())
}
