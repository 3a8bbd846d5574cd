package golden

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Exchange is a recorded command.
type Exchange struct {
	Proto int // 2 or 3
	Args  [][]byte
	Wire  string // the reply as it went over the wire
}

// Transcript reads the commands in a file, in their order; the first was sent to an empty
// server.
func Transcript(t *testing.T, path string) []Exchange {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	var all []Exchange
	proto := 2
	for lines.Scan() {
		var line struct {
			Proto int
			Argv  []json.RawMessage
			Reply map[string]json.RawMessage
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		if line.Proto != 0 {
			proto = line.Proto
			continue
		}
		all = append(all, Exchange{proto, arguments(t, line.Argv), wire(t, line.Reply)})
	}
	require.NoError(t, lines.Err())
	require.NotEmpty(t, all)
	return all
}

func arguments(t *testing.T, argv []json.RawMessage) (args [][]byte) {
	for _, raw := range argv {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			var binary struct{ B64 []byte }
			require.NoError(t, json.Unmarshal(raw, &binary))
			s = string(binary.B64)
		}
		args = append(args, []byte(s))
	}
	return args
}

// wire writes a recorded reply as it went over the wire.
func wire(t *testing.T, reply map[string]json.RawMessage) string {
	require.Len(t, reply, 1)
	for kind, raw := range reply {
		var s string
		_ = json.Unmarshal(raw, &s)
		switch kind {
		case "simple":
			return "+" + s + "\r\n"
		case "error":
			return "-" + s + "\r\n"
		case "int":
			return ":" + string(raw) + "\r\n"
		case "bool":
			return "#" + string(raw[:1]) + "\r\n"
		case "nullbulk":
			return "$-1\r\n"
		case "nullarray":
			return "*-1\r\n"
		case "null":
			return "_\r\n"
		case "bulk":
			return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)
		case "bulk64":
			data, err := base64.StdEncoding.DecodeString(s)
			require.NoError(t, err)
			return fmt.Sprintf("$%d\r\n%s\r\n", len(data), data)
		case "array":
			var elems []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &elems))
			out := "*" + strconv.Itoa(len(elems)) + "\r\n"
			for _, elem := range elems {
				out += wire(t, elem)
			}
			return out
		case "map":
			var pairs [][2]map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(raw, &pairs))
			out := "%" + strconv.Itoa(len(pairs)) + "\r\n"
			for _, pair := range pairs {
				out += wire(t, pair[0]) + wire(t, pair[1])
			}
			return out
		}
		require.FailNow(t, "unknown kind of reply", kind)
	}
	return ""
}
