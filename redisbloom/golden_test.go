package redisbloom

import (
	"testing"

	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/stretchr/testify/require"
)

// Every recorded command gets the recorded reply, to the byte.
func TestTranscripts(t *testing.T) {
	for _, name := range []string{"bf", "cf"} {
		t.Run(name, func(t *testing.T) {
			e := New()
			for _, x := range golden.Transcript(t, "../testdata/golden/transcript-"+name+".jsonl") {
				got := e.Do(x.Args...).Append(nil, x.Proto)
				require.Equal(t, x.Wire, string(got), "RESP%d: %.200q", x.Proto, x.Args)
			}
		})
	}
}

// The recorded lives of filters, through the commands: every reply and every byte of the dumps.
func TestGoldenLives(t *testing.T) {
	for _, kind := range []string{"bf", "cf"} {
		for _, life := range golden.Lives(t, "../testdata/golden", kind) {
			t.Run(life.Name, func(t *testing.T) {
				e := New()
				life.Replay(t, func(args ...string) string { return string(e.call(args...).Append(nil, 2)) })
				checkMemory(t, e)
			})
		}
	}
}
