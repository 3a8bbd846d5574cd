package main

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func output(t *testing.T, name string) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{name}, &out, &errs), errs.String())
	require.Empty(t, errs.String())
	return out.String()
}

func needRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server on this machine")
	}
}

func TestPull(t *testing.T) {
	out := output(t, "pull")
	require.Contains(t, out, "server: bloomd")
	require.Contains(t, out, "all 100000 found")
	require.Contains(t, out, "server gone: refresh failed: true; user 1: Maybe, user -1: Absent")
}

func TestMove(t *testing.T) {
	out := output(t, "move")
	require.Regexp(t, `(?s)server: bloomd.*server: bloomd.*pull: (\d+) bytes.*push: (\d+) bytes of (\d+)\n`, out)
	require.Regexp(t, `server 1: (BF.CARD \d+), user 7 true, user -7 false\nserver 2: (BF.CARD \d+), user 7 true, user -7 false`, out)
}

func TestBitmap(t *testing.T) {
	needRedis(t)
	out := output(t, "bitmap")
	require.Contains(t, out, "server: redis-server ")
	require.Contains(t, out, "user 7: Maybe, user -7: Absent")
	require.Contains(t, out, "user -7 added: Maybe")
	require.Contains(t, out, "FLUSHALL: user 7: Unknown")
}

func TestGuard(t *testing.T) {
	needRedis(t)
	out := output(t, "guard")
	require.Regexp(t, `ids that exist +1000 lookups, +1000 found, +1000 queries\nthe same again +1000 lookups, +1000 found, +0 queries`, out)
	require.Regexp(t, `ids that do not +10000 lookups, +0 found, +\d{0,2} queries`, out)
	require.Regexp(t, `one of them, created +1 lookups, +1 found, +1 queries`, out)
	require.Regexp(t, `filter lost: true.*\nids that exist +1000 lookups, +1000 found, +1000 queries\nids that do not +10000 lookups, +0 found, +\d{0,2} queries`, out)
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"nothing"}, {"pull", "x"}} {
		var out, errs bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), args, &out, &errs))
		require.Contains(t, errs.String(), "usage")
		require.Empty(t, out.String())
	}
	var out, errs bytes.Buffer
	require.Equal(t, exitOK, run(t.Context(), []string{"-h"}, &out, &errs))
	require.Contains(t, out.String(), "bitmap")
	t.Setenv("PATH", "")
	require.Equal(t, exitFailed, run(t.Context(), []string{"bitmap"}, &out, &errs))
	require.Contains(t, errs.String(), "redis-server")
}
