package bloomd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/redisbloom"
	"github.com/stretchr/testify/require"
)

// withLoop serves with a loop until the test ends.
func withLoop(t *testing.T, config Config) (*Server, string) {
	config.Loops = 1
	s, err := New(config)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return s, ln.Addr().String()
}

// asker sends commands.
type asker struct {
	t *testing.T
	net.Conn
}

func connect(t *testing.T, addr string) asker {
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(time.Minute))
	return asker{t, nc}
}

// do sends commands and takes so many bytes of replies.
func (a asker) do(commands string, reply int) string {
	_, err := io.WriteString(a, commands)
	require.NoError(a.t, err)
	b := make([]byte, reply)
	_, err = io.ReadFull(a, b)
	require.NoError(a.t, err)
	return string(b)
}

func (a asker) ping() { require.Equal(a.t, pong, a.do(pingBytes, len(pong))) }

// inLoops counts connections that loops have, and those that have goroutines.
func (s *Server) inLoops() (loops, alone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.nc == nil {
			loops++
		} else {
			alone++
		}
	}
	return loops, alone
}

// isAlone says whether a connection has a goroutine.
func (s *Server) isAlone(a asker) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.remote.String() == a.LocalAddr().String() {
			return c.nc != nil
		}
	}
	return false
}

const pingBytes, pong = "*1\r\n$4\r\nPING\r\n", "+PONG\r\n"

// pingUntil sends PING until the connections are where they should be.
func (s *Server) pingUntil(t *testing.T, wanted func() bool, clients ...asker) {
	for n := 0; !wanted(); n++ {
		require.Less(t, n, 1_000_000)
		for _, c := range clients {
			c.ping()
		}
	}
}

// A connection with a long turn goes on alone, and comes back after short ones.
func TestLongTurns(t *testing.T) {
	s, addr := withLoop(t, Config{})
	c := connect(t, addr)
	inLoop := func() bool { loops, _ := s.inLoops(); return loops == 1 }
	s.pingUntil(t, inLoop, c)
	var madd strings.Builder
	const items = 200_000
	fmt.Fprintf(&madd, "*%d\r\n$7\r\nBF.MADD\r\n$1\r\nb\r\n", items+2)
	for i := range items {
		fmt.Fprintf(&madd, "$6\r\n%06d\r\n", i)
	}
	c.do(madd.String(), len("*200000\r\n")+4*items)
	require.Eventually(t, func() bool { return s.isAlone(c) }, time.Minute, time.Millisecond)
	s.pingUntil(t, inLoop, c)
}

// While a turn does not end the others go on alone, also those that came into its loop meanwhile.
func TestStuckTurn(t *testing.T) {
	s, addr := withLoop(t, Config{})
	other, stuck := connect(t, addr), connect(t, addr)
	s.pingUntil(t, func() bool { loops, _ := s.inLoops(); return loops == 2 }, other, stuck)
	inside, leave := make(chan bool), make(chan bool)
	go s.Engine().Exec(func(func(...[]byte) redisbloom.Reply) {
		close(inside)
		<-leave
	})
	<-inside
	stuck.do(pingBytes+"*3\r\n$6\r\nBF.ADD\r\n$1\r\nb\r\n$1\r\nx\r\n", 0)
	seen := false
	for range 1000 {
		other.ping()
		seen = seen || s.isAlone(other)
	}
	require.True(t, seen)
	for range 500 {
		other.ping()
		newcomer := connect(t, addr)
		newcomer.ping()
		newcomer.Close()
	}
	close(leave)
	require.Equal(t, pong+":1\r\n"+pong, stuck.do(pingBytes, len(pong+":1\r\n"+pong)))
	s.pingUntil(t, func() bool { return !s.isAlone(other) && !s.isAlone(stuck) }, other, stuck)
}

// Clients that do all kinds of things, in and out of loops, until the server is shut down under them: every reply is
// the right one, and nothing stays.
func TestMovingConnections(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	goroutines := runtime.NumGoroutine()
	for seed := range rounds {
		s, addr := withLoop(t, Config{IdleTimeout: time.Minute, CommandTimeout: time.Minute})
		var clients sync.WaitGroup
		for g := range 6 {
			clients.Go(func() { moveAbout(t, addr, rand.New(rand.NewPCG(uint64(seed), uint64(g)))) })
		}
		time.Sleep(time.Duration(seed) * 10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seed%3)*time.Second)
		s.Shutdown(ctx) // a third of the times by force
		cancel()
		clients.Wait()
		require.Empty(t, s.conns)
		require.Zero(t, s.buffers.Load())
		for _, l := range s.loops {
			require.Eventually(t, func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.worker == nil && len(l.conns) == 0 && l.stuck == 0
			}, time.Minute, time.Millisecond)
		}
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

// moveAbout sends pipelines of all sizes, in pieces, and reads replies soon or late, until the connection ends.
func moveAbout(t *testing.T, addr string, r *rand.Rand) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return // shut down
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReader(nc)
	for {
		var send, want strings.Builder
		switch r.IntN(4) {
		case 0: // a long turn
			const n = 5_000
			fmt.Fprintf(&send, "*%d\r\n$7\r\nBF.MADD\r\n$1\r\nb\r\n", n+2)
			for range n {
				send.WriteString("$1\r\nx\r\n")
			}
			fmt.Fprintf(&want, "*%d\r\n", n)
			want.WriteString(strings.Repeat(":0\r\n", n))
		case 1: // replies that the client does not take yet
			word := strings.Repeat("x", 1+r.IntN(50_000))
			for range 1 + r.IntN(100) {
				fmt.Fprintf(&send, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(word), word)
				fmt.Fprintf(&want, "$%d\r\n%s\r\n", len(word), word)
			}
		default: // many short turns
			for range 1 + r.IntN(300) {
				if _, err := io.WriteString(nc, pingBytes); err != nil {
					return
				}
				got := make([]byte, len(pong))
				if _, err := io.ReadFull(in, got); err != nil {
					return
				}
				if string(got) != pong {
					t.Errorf("%q", got)
				}
			}
			continue
		}
		text := send.String()
		for len(text) > 0 {
			n := min(len(text), 1+r.IntN(100_000))
			if _, err := io.WriteString(nc, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		got := make([]byte, want.Len())
		if n, err := io.ReadFull(in, got); err != nil { // shut down
			got = got[:n]
		}
		if !strings.HasPrefix(want.String(), strings.ReplaceAll(string(got), ":1", ":0")) { // the first of MADD may be new
			t.Errorf("%.100q", got)
		}
		if len(got) < want.Len() {
			return
		}
	}
}
