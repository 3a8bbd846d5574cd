package golden

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Replay sends every command of the life to do, which returns the reply as it goes over the wire in RESP2, and holds
// it against the recorded one; at the end also INFO, DEBUG and every byte of the dump. Then it loads the dump into a
// second key, which must dump and describe itself alike.
func (l Life) Replay(t *testing.T, do func(args ...string) string) {
	const key, loaded = "a key", "another"
	prefix := strings.ToUpper(l.Kind) + "."
	if l.Reserve != nil {
		args := append([]string{l.Reserve[0], key}, l.Reserve[2:]...)
		require.Equal(t, "+OK\r\n", do(args...))
	}
	for _, step := range l.Steps {
		step.replay(t, key, do)
		if step.Card != nil {
			require.Equal(t, fmt.Sprintf(":%d\r\n", *step.Card), do("BF.CARD", key))
		}
	}
	l.check(t, key, do)
	if l.Partial() {
		return
	}
	for _, c := range l.Chunks {
		require.Equal(t, "+OK\r\n", do(prefix+"LOADCHUNK", loaded, strconv.FormatInt(c.Iter, 10), string(c.Data(t))))
	}
	l.check(t, loaded, do)
}

// perCommand is how many items the commands for several were sent.
const perCommand = 500

func (s Step) replay(t *testing.T, key string, do func(args ...string) string) {
	args := []string{s.Op, key}
	n := uint64(1)
	switch s.Op {
	case "CF.COMPACT":
		require.Equal(t, map[string]any{"ok": "OK"}, s.Reply)
		require.Equal(t, "+OK\r\n", do(args...))
		return
	case "CF.INSERT", "CF.INSERTNX":
		args = append(args, "ITEMS")
		n = perCommand
	case "BF.MADD", "BF.MEXISTS", "CF.MEXISTS":
		n = perCommand
	}
	var replies []byte
	for from := uint64(0); from < s.Count; from += n {
		command := args[:len(args):len(args)]
		for i := from; i < min(from+n, s.Count); i++ {
			command = append(command, string(s.Item(t, s.From+i)))
		}
		reply := do(command...)
		if s.Counts != nil {
			require.Equal(t, fmt.Sprintf(":%d\r\n", s.Counts[from]), reply)
			continue
		}
		replies = append(replies, marks(t, reply)...)
	}
	if s.Counts != nil {
		return
	}
	replayed := s
	replayed.Count = uint64(len(replies))
	i := 0
	replayed.EachReply(t, func([]byte) byte { i++; return replies[i-1] })
}

// marks turns integers and errors, alone or in an array, into the characters of EachReply.
func marks(t *testing.T, reply string) (m []byte) {
	for line := range strings.SplitSeq(strings.TrimSuffix(reply, "\r\n"), "\r\n") {
		switch {
		case line == ":1":
			m = append(m, '1')
		case line == ":0":
			m = append(m, '0')
		case line == ":-1":
			m = append(m, '-')
		case line[0] == '-':
			m = append(m, 'E')
		case line[0] != '*':
			require.FailNow(t, "unexpected reply", reply)
		}
	}
	return m
}

// check holds INFO, DEBUG and the dump of a key against the recorded ones.
func (l Life) check(t *testing.T, key string, do func(args ...string) string) {
	prefix := strings.ToUpper(l.Kind) + "."
	require.Equal(t, wireOf(l.Info), do(prefix+"INFO", key))
	require.Equal(t, wireOf(l.Debug), do(prefix+"DEBUG", key))
	cursor := int64(0)
	for _, want := range l.Chunks {
		next, chunk := dumped(t, do(prefix+"SCANDUMP", key, strconv.FormatInt(cursor, 10)))
		want.Same(t, next, []byte(chunk))
		cursor = next
	}
	end := "*2\r\n:0\r\n$0\r\n\r\n"
	if l.Kind == "cf" {
		end = "*2\r\n:0\r\n$-1\r\n"
	}
	require.Equal(t, end, do(prefix+"SCANDUMP", key, strconv.FormatInt(cursor, 10)))
}

// dumped takes a reply of SCANDUMP apart.
func dumped(t *testing.T, reply string) (next int64, chunk string) {
	var size int
	_, err := fmt.Sscanf(reply, "*2\r\n:%d\r\n$%d\r\n", &next, &size)
	require.NoError(t, err)
	require.Greater(t, len(reply), size+2)
	return next, reply[len(reply)-2-size : len(reply)-2]
}

// wireOf writes a reply as it is in the file: lists, numbers, null, strings, and {"ok": …} for a simple string.
func wireOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "$-1\r\n"
	case float64:
		return fmt.Sprintf(":%.0f\r\n", v)
	case string:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(v), v)
	case map[string]any:
		return fmt.Sprintf("+%s\r\n", v["ok"])
	case []any:
		out := fmt.Sprintf("*%d\r\n", len(v))
		for _, elem := range v {
			out += wireOf(elem)
		}
		return out
	}
	panic(fmt.Sprintf("a reply of type %T", v))
}
