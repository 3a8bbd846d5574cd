package bloomd

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Half a command is overdue after CommandTimeout, also where the connection may be silent for longer between commands.
func TestHalfCommandOfIdleConnection(t *testing.T) {
	s, addr := withLoop(t, Config{IdleTimeout: time.Hour, CommandTimeout: 100 * time.Millisecond})
	c := connect(t, addr)
	s.pingUntil(t, func() bool { loops, _ := s.inLoops(); return loops == 1 }, c)
	c.do(pingBytes[:8], 0)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// A turn can get stuck after it has left its loop, since the client takes no replies. The loop looks at it then too.
// This is for the race detector. There are many attempts, since the turn may get stuck before.
func TestStuckAfterLeaving(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	s, addr := withLoop(t, Config{})
	other := connect(t, addr)
	small := net.Dialer{Control: func(_, _ string, rc syscall.RawConn) error {
		return rc.Control(func(fd uintptr) { syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	}}
	other.do("BF.RESERVE b 0.01 800000\r\n", len("+OK\r\n"))
	for i := range 20 {
		nc, err := small.Dial("tcp", addr)
		require.NoError(t, err)
		c := asker{t, nc}
		s.pingUntil(t, func() bool { loops, _ := s.inLoops(); return loops == 2 }, other, c)
		time.Sleep(time.Duration(30+i) * time.Millisecond) // until the loop does not look
		io.WriteString(nc, strings.Repeat("BF.SCANDUMP b 1\r\n", 800))
		time.Sleep(30 * time.Millisecond)
		nc.Close()
	}
	s.pingUntil(t, func() bool { loops, alone := s.inLoops(); return loops == 1 && alone == 0 }, other)
}

// A command that comes when the connection is about to be closed, since it was silent, is run and answered or neither.
func TestExpiryLosesNoReply(t *testing.T) {
	const idle = 20 * time.Millisecond
	s, addr := withLoop(t, Config{IdleTimeout: idle})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for n := range 30 {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				nc.SetDeadline(time.Now().Add(time.Minute))
				for range fewTurns {
					io.WriteString(nc, pingBytes)
					io.ReadFull(nc, make([]byte, len(pong)))
				}
				for i := 0; ; i++ {
					key := fmt.Sprint(g, "-", n, "-", i)
					fmt.Fprintf(nc, "BF.RESERVE %s 0.01 %d\r\n", key, 1+r.IntN(10_000_000))
					got, _ := io.ReadAtLeast(nc, make([]byte, 10), len("+OK\r\n"))
					if exists := s.Engine().Do([]byte("EXISTS"), []byte(key)).Int == 1; exists != (got == len("+OK\r\n")) {
						t.Errorf("%s: exists %v, %d bytes of reply", key, exists, got)
					}
					if got == 0 {
						break
					}
					s.Engine().Do([]byte("DEL"), []byte(key))
					time.Sleep(idle - time.Millisecond + time.Duration(r.IntN(1000))*time.Microsecond)
				}
				nc.Close()
			}
		})
	}
	wg.Wait()
}

// wrapped is a connection of a caller's own type, with all methods of the one in it.
type wrapped struct {
	*net.TCPConn
	read *atomic.Int64
}

func (w wrapped) Read(b []byte) (int, error) {
	n, err := w.TCPConn.Read(b)
	w.read.Add(int64(n))
	return n, err
}

type wrappingListener struct {
	net.Listener
	read atomic.Int64
}

func (w *wrappingListener) Accept() (net.Conn, error) {
	nc, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return wrapped{nc.(*net.TCPConn), &w.read}, nil
}

// What a listener wraps around its connections is not passed by.
func TestWrappedConnections(t *testing.T) {
	s, _ := withLoop(t, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wrappingListener{Listener: ln}
	go s.Serve(w)
	c := connect(t, ln.Addr().String())
	for range 2 * manyTurns {
		c.ping()
	}
	require.True(t, s.isAlone(c))
	require.EqualValues(t, 2*manyTurns*len(pingBytes), w.read.Load())
}
