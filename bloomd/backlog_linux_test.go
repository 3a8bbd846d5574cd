package bloomd

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadStream cannot be written to.
type deadStream struct {
	stream
	closed func()
}

func (d deadStream) SetWriteDeadline(time.Time) error { return nil }
func (d deadStream) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }

func (d deadStream) Close() error {
	d.closed()
	return nil
}

// A connection whose replies were lost writes no more of them, also where its descriptor could still take them. Its
// backlog is busy until it is closed, so that no loop takes it before.
func TestLostReplies(t *testing.T) {
	s, err := New(Config{})
	require.NoError(t, err)
	c := newConn(s, &input{})
	closed := false
	c.nc = deadStream{closed: func() {
		closed = true
		require.True(t, c.backlog.busy.Load())
	}}
	c.out = append(c.out, "+LOST\r\n"...)
	require.NoError(t, c.flush())
	c.backlog.wait()
	require.True(t, closed)
	require.Zero(t, s.buffers.Load())

	out, in, err := os.Pipe()
	require.NoError(t, err)
	c.fd = in.Fd()
	c.out = append(c.out, ":1\r\n"...)
	require.ErrorIs(t, c.flush(), io.ErrClosedPipe)
	require.NoError(t, in.Close())
	all, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Empty(t, all)
}
