package redisbloom

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// do sends a command that is written with spaces between its arguments; "" is an empty one.
func do(e *Engine, command string) Reply {
	args := strings.Split(command, " ")
	for i, arg := range args {
		if arg == `""` {
			args[i] = ""
		}
	}
	return e.call(args...)
}

var bulkSize = regexp.MustCompile(`\$\d+ `)

// resp is the reply in RESP2, with spaces for line breaks and without the sizes of bulk strings.
func resp(e *Engine, command string) string {
	text := strings.ReplaceAll(strings.TrimSuffix(string(do(e, command).Append(nil, 2)), "\r\n"), "\r\n", " ")
	return bulkSize.ReplaceAllString(text, "")
}

// checkMemory holds what the engine counts against what its keys take.
func checkMemory(t *testing.T, e *Engine) {
	t.Helper()
	sum := uint64(0)
	for i := range e.keys.shards {
		for key, en := range e.keys.shards[i].entries {
			bytes := en.size([]byte(key))
			require.Equal(t, bytes, en.bytes, "key %q", key)
			sum += bytes
		}
	}
	require.Equal(t, sum, e.UsedMemory())
}
