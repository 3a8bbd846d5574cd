package main

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSignals(t *testing.T) {
	if testing.Short() || runtime.GOOS == "windows" {
		t.Skip("starts programs and sends signals")
	}
	path, state := program(t), temp(t, "state")
	c := exec.Command(path, "uniq", "--state", state)
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = io.WriteString(in, "a\n")
	require.NoError(t, err)
	line := make([]byte, 2)
	_, err = io.ReadFull(out, line) // from here on the signal is caught
	require.NoError(t, err)
	assert.Equal(t, "a\n", string(line))
	require.NoError(t, c.Process.Signal(os.Interrupt))
	_ = c.Wait()
	assert.Equal(t, 130, c.ProcessState.ExitCode())
	assert.FileExists(t, state)

	// Who reads no more ends the program at its next line, by SIGPIPE or, where that is ignored, by its exit code.
	c = exec.Command(path, "uniq")
	in, err = c.StdinPipe()
	require.NoError(t, err)
	out, err = c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	require.NoError(t, out.Close())
	_, err = io.WriteString(in, "a\n")
	require.NoError(t, err)
	_ = c.Wait()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		assert.Equal(t, syscall.SIGPIPE, status.Signal())
	} else {
		assert.Equal(t, exitPipe, c.ProcessState.ExitCode())
	}
}
