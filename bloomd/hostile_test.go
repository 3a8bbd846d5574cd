package bloomd_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/redisbloom"
	"github.com/stretchr/testify/require"
)

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// What is malformed gets an error and the end of the connection; what came before it is answered.
func TestMalformedCommands(t *testing.T) {
	s, other := start(t)
	for in, want := range map[string]string{
		"*x\r\n":                          "invalid multibulk length",
		"*1048577\r\n":                    "invalid multibulk length",
		"*9223372036854775807\r\n":        "invalid multibulk length",
		"*1\r\n$-5\r\n":                   "invalid bulk length",
		"*1\r\n$67108865\r\n":             "invalid bulk length",
		"*1\r\n$9223372036854775807\r\n":  "invalid bulk length",
		"*1\r\n$4\r\nPINGxx":              "expected CRLF after a bulk string",
		"*2\r\n$4\r\nPING\r\n+OK\r\n":     "expected '$', got '+'",
		"\"unbalanced\r\n":                "unbalanced quotes in request",
		strings.Repeat("x", 70_000):       "too big inline request",
		"*2\r\n$67108864\r\n" + "x\r\n$1": "", // cut off
	} {
		c := dial(t, s.Addr())
		c.send(encode("ECHO", "before") + in)
		require.Equal(t, "$6\r\nbefore\r\n", c.reply())
		if want == "" {
			continue
		}
		require.Equal(t, "-ERR Protocol error: "+want+"\r\n", c.ended(), "%.50q", in)
	}
	require.Equal(t, "+PONG\r\n", other.do("PING"))
}

// A client that ends its side is answered and let go, also where its last bytes and the end come as one, and not when
// the rest of a half command is overdue.
func TestHalfClosed(t *testing.T) {
	s, other := start(t, func(c *bloomd.Config) { c.CommandTimeout = 10 * patience })
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", s.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(patience))
			conn.Write([]byte(encode("PING") + "*1\r\n$4\r\nPI"))
			conn.(*net.TCPConn).CloseWrite()
			if all, err := io.ReadAll(conn); err != nil || string(all) != "+PONG\r\n" {
				t.Errorf("%q %v", all, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, "+PONG\r\n", other.do("PING"))
}

// Garbage of all kinds, over many connections at once: the server goes on, and nothing of them stays.
func TestGarbage(t *testing.T) {
	n := 4000
	if testing.Short() {
		n = 300
	}
	s, other := start(t)
	other.do("PING")
	goroutines := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range n / 8 {
				conn, err := net.Dial("tcp", s.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				conn.SetDeadline(time.Now().Add(patience))
				b := []byte(encode("BF.ADD", "b", "x") + encode("BF.SCANDUMP", "b", "0") + encode("CF.INSERT", "c", "ITEMS", "x", "y"))
				for range r.IntN(5) {
					b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
				}
				conn.Write(b[:r.IntN(len(b)+1)])
				if r.IntN(2) == 0 {
					conn.(*net.TCPConn).CloseWrite()
					io.Copy(io.Discard, conn)
				}
				conn.Close()
			}
		})
	}
	wg.Wait()
	require.Equal(t, "+PONG\r\n", other.do("PING"))
	require.Eventually(t, func() bool { return strings.Contains(other.do("INFO", "clients"), "connected_clients:1\r\n") }, patience, 10*time.Millisecond)
	for end := time.Now().Add(patience); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
}

// A thousand connections that send half a command each hold little, whatever they claim; others are served meanwhile.
func TestHalfCommands(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	s, other := start(t)
	before := heap()
	var conns []net.Conn
	for i := range n {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		defer conn.Close()
		half := []string{
			"*3\r\n$6\r\nBF.ADD\r\n$1\r\nb\r\n$60000000\r\nabc",
			"*1048576\r\n$1\r\na\r\n",
			"*2\r\n$4\r\nPING\r\n$5",
			"BF.ADD b half a li",
			"*3\r\n$12\r\nBF.LOADCHUNK\r\n$1\r\nb\r\n$1\r\n1\r\n$16777216\r\n" + strings.Repeat("x", 1000),
		}[i%5]
		_, err = conn.Write([]byte(half))
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for i := range 200 {
		require.Contains(t, []string{":0\r\n", ":1\r\n"}, other.do("BF.ADD", "b", fmt.Sprint(i)))
	}
	require.Eventually(t, func() bool {
		return strings.Contains(other.do("INFO", "clients"), fmt.Sprintf("connected_clients:%d\r\n", n+1))
	}, patience, 10*time.Millisecond)
	if after := heap(); after > before {
		require.Less(t, (after-before)/uint64(n), uint64(40<<10), "bytes a connection")
	}
	for _, conn := range conns {
		conn.Close()
	}
	require.Eventually(t, func() bool { return strings.Contains(other.do("INFO", "clients"), "connected_clients:1\r\n") }, patience, 10*time.Millisecond)
}

// What all clients together hold is bounded: those that would pass it are told so.
func TestMaxBuffers(t *testing.T) {
	s, other := start(t, func(c *bloomd.Config) { c.MaxBulk, c.MaxCommand, c.MaxBuffers = 1<<20, 1<<20+1<<16, 1 })
	require.Equal(t, int64(4*(1<<20+1<<16)), s.MaxBuffers) // room for four of the largest at least
	big := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n" + strings.Repeat("x", 1<<20-1)
	const clients = 12
	answers := make(chan string, clients)
	var conns []net.Conn
	for range clients {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		defer conn.Close()
		conns = append(conns, conn)
		go func() {
			conn.SetDeadline(time.Now().Add(patience))
			conn.Write([]byte(big)) // may fail, where the connection ends before
			answer, _ := io.ReadAll(conn)
			answers <- string(answer)
		}()
	}
	// No more than four can stay, and those that do are not answered.
	for range clients - 4 {
		require.Equal(t, "-ERR Protocol error: too much memory in use by clients\r\n", <-answers)
	}
	require.Equal(t, "+PONG\r\n", other.do("PING"))
	for _, conn := range conns {
		conn.Close()
	}
	// It is all given back when they are gone.
	require.Eventually(t, func() bool {
		return strings.Contains(other.do("INFO", "memory"), "client_buffers:0\r\n")
	}, patience, 10*time.Millisecond)
}

// Commands and replies of the largest size go through, and leave nothing behind.
func TestLargeCommands(t *testing.T) {
	size := 64 << 20
	if testing.Short() {
		size = 2 << 20
	}
	_, c := start(t, func(c *bloomd.Config) { c.MaxBulk = size })
	value := strings.Repeat("x", size)
	require.Equal(t, "+OK\r\n", c.do("SET", "big", value))
	require.True(t, fmt.Sprintf("$%d\r\n%s\r\n", size, value) == c.do("GET", "big"))
	items := []string{"BF.MADD", "b"}
	for i := range 50_000 {
		items = append(items, fmt.Sprint(i))
	}
	require.Len(t, c.do(items...), len("*50000\r\n")+4*50_000)
	require.Equal(t, "+OK\r\n", c.do("FLUSHALL"))
	require.Equal(t, "+OK\r\n", c.do("MULTI"))
	require.Equal(t, "-ERR the commands of a transaction are too long together\r\n", func() string {
		for {
			if reply := c.do("SET", "big", value); reply != "+QUEUED\r\n" {
				return reply
			}
		}
	}())
	require.Equal(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", c.do("EXEC"))
	c.do("PING")
	require.Contains(t, c.do("INFO", "memory"), "client_buffers:0\r\n")
}

// A command that does not come to its end in time, a connection that is silent too long, and one that does not read its
// replies are closed; others are not.
func TestDeadlines(t *testing.T) {
	t.Run("command", func(t *testing.T) {
		t.Parallel()
		s, idle := start(t, func(c *bloomd.Config) { c.CommandTimeout = 50 * time.Millisecond })
		c := dial(t, s.Addr())
		c.send("*2\r\n$4\r\nPI")
		require.Empty(t, c.ended())
		c = dial(t, s.Addr()) // a byte now and then does not help
		for {
			if _, err := c.Write([]byte("*")[:1]); err != nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
			if len(c.endedNow()) > 0 {
				break
			}
		}
		require.Equal(t, "+PONG\r\n", idle.do("PING"))
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		s, c := start(t, func(c *bloomd.Config) { c.IdleTimeout = 50 * time.Millisecond })
		require.Empty(t, c.ended())
		c = dial(t, s.Addr())
		c.send(encode("PING")) // in time or too late
		require.Contains(t, []string{"+PONG\r\n", ""}, c.ended())
	})
	t.Run("write", func(t *testing.T) {
		t.Parallel()
		s, other := start(t, func(c *bloomd.Config) { c.WriteTimeout = 50 * time.Millisecond })
		other.do("SET", "big", strings.Repeat("x", 10<<20))
		c := dial(t, s.Addr())
		c.send(strings.Repeat(encode("GET", "big"), 10))
		require.Eventually(t, func() bool { return strings.Contains(other.do("INFO", "clients"), "connected_clients:1\r\n") }, patience, 10*time.Millisecond)
		require.Less(t, len(c.ended()), 100<<20)
	})
}

// Where replies are lost, since the client does not take them, nothing comes behind them: it would be taken for one of
// them.
func TestNothingBehindLostReplies(t *testing.T) {
	s, other := start(t, func(c *bloomd.Config) { c.WriteTimeout = 50 * time.Millisecond })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(smallBuffers{ln})
	c := dial(t, ln.Addr().String())
	value := strings.Repeat("x", 70_000)
	require.Equal(t, "+OK\r\n", other.do("SET", "v", value))
	const gets = 300
	c.send(strings.Repeat(encode("GET", "v"), gets))
	require.Eventually(t, func() bool { return !strings.Contains(other.do("INFO", "memory"), "client_buffers:0\r\n") }, patience, time.Millisecond)
	inside, leave := make(chan bool), make(chan bool)
	go s.Engine().Exec(func(func(...[]byte) redisbloom.Reply) {
		close(inside)
		<-leave
	})
	<-inside
	c.Write([]byte(encode("BF.ADD", "b", "x"))) // fails where the connection has ended
	time.Sleep(3 * s.WriteTimeout)
	taken := make(chan string)
	go func() {
		all, _ := io.ReadAll(c.r)
		taken <- string(all)
	}()
	time.Sleep(s.WriteTimeout)
	close(leave)
	require.True(t, strings.HasPrefix(strings.Repeat("$70000\r\n"+value+"\r\n", gets)+":1\r\n", <-taken))
}

// smallBuffers has connections of which the system keeps few replies.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4096)
	}
	return conn, err
}

// endedNow is what has come, and not empty if the connection has ended.
func (c *client) endedNow() string {
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	defer c.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, 100)
	n, err := c.Read(b)
	if n > 0 || err == io.EOF || err != nil && strings.Contains(err.Error(), "reset") {
		return "ended " + string(b[:n])
	}
	return ""
}

// Whoever runs the server is told of the connections that it ended, and why.
func TestEndsAreLogged(t *testing.T) {
	var log lockedBuffer
	s := startServer(t, func(c *bloomd.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	for in, why := range map[string]string{"POST / HTTP/1.1\r\n": "a request of HTTP", "*x\r\n": "invalid multibulk length"} {
		c := dial(t, s.Addr())
		c.send(in)
		c.ended()
		require.Eventually(t, func() bool { return strings.Contains(log.String(), why) }, patience, time.Millisecond, "%s", log.String())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// One connection too many is told so.
func TestMaxClients(t *testing.T) {
	s, first := start(t, func(c *bloomd.Config) { c.MaxClients = 2 })
	require.Equal(t, "+PONG\r\n", first.do("PING"))
	second := dial(t, s.Addr())
	require.Equal(t, "+PONG\r\n", second.do("PING"))
	require.Equal(t, "-ERR max number of clients reached\r\n", dial(t, s.Addr()).ended())
	second.do("QUIT")
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		conn.Write([]byte(encode("PING")))
		answer := make([]byte, 7)
		io.ReadFull(conn, answer)
		return string(answer) == "+PONG\r\n"
	}, patience, 10*time.Millisecond)
}

// Clients whose key is busy, here since it is being written, wait alone.
func TestBusyKeysOfOthers(t *testing.T) {
	s, other := start(t)
	require.NoError(t, s.Engine().BFReserve("b", 0.01, 1_000_000))
	file, writer := io.Pipe()
	go func() {
		_, err := s.Engine().WriteTo(writer)
		writer.CloseWithError(err)
	}()
	_, err := io.CopyN(io.Discard, file, 100_000) // of the filter's million
	require.NoError(t, err)
	var waiting []*client
	for i := range 20 {
		c := dial(t, s.Addr())
		c.send(encode("ECHO", "before") + encode("BF.ADD", "b", fmt.Sprint(i)) + encode("ECHO", "after"))
		waiting = append(waiting, c)
	}
	for i := range 100 {
		require.Equal(t, ":1\r\n", other.do("CF.ADD", "c", fmt.Sprint(i)))
	}
	_, err = io.Copy(io.Discard, file)
	require.NoError(t, err)
	for _, c := range waiting {
		require.Equal(t, "$6\r\nbefore\r\n", c.reply())
		require.Equal(t, ":1\r\n", c.reply())
		require.Equal(t, "$5\r\nafter\r\n", c.reply())
	}
}
