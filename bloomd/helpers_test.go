package bloomd_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/stretchr/testify/require"
)

// patience is how long tests wait for what must come: no test is decided by it.
const patience = time.Minute

// client is a connection that sees every byte.
type client struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *client {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	return &client{t, conn, bufio.NewReader(conn)}
}

// loops is Config.Loops of the servers that tests start.
var loops int

// TestMain runs all tests twice: with a goroutine for each connection, and with loops.
func TestMain(m *testing.M) {
	code := m.Run()
	once := runtime.GOOS != "linux"
	for _, name := range []string{"test.bench", "test.fuzz", "test.list"} {
		once = once || flag.Lookup(name).Value.String() != ""
	}
	if !once {
		loops = 2
		code = max(code, m.Run())
	}
	os.Exit(code)
}

func start(t *testing.T, configure ...func(*bloomd.Config)) (*bloomdtest.Server, *client) {
	s := startServer(t, configure...)
	return s, dial(t, s.Addr())
}

func startServer(t *testing.T, configure ...func(*bloomd.Config)) *bloomdtest.Server {
	withLoops := func(c *bloomd.Config) { c.Loops = loops }
	return bloomdtest.Start(t, append([]func(*bloomd.Config){withLoops}, configure...)...)
}

func encode(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return b.String()
}

func (c *client) send(text string) {
	c.SetDeadline(time.Now().Add(patience))
	_, err := c.Write([]byte(text))
	require.NoError(c.t, err)
}

// reply reads one reply, as it came.
func (c *client) reply() string {
	var all strings.Builder
	for missing := 1; missing > 0; missing-- {
		line, err := c.r.ReadString('\n')
		require.NoError(c.t, err)
		all.WriteString(line)
		n, _ := strconv.Atoi(line[1 : len(line)-2])
		switch line[0] {
		case '$', '=':
			if n >= 0 {
				_, err := io.CopyN(&all, c.r, int64(n+2))
				require.NoError(c.t, err)
			}
		case '*', '~':
			missing += max(n, 0)
		case '%':
			missing += 2 * n
		}
	}
	return all.String()
}

func (c *client) do(args ...string) string {
	c.send(encode(args...))
	return c.reply()
}

// words is do with a command that is written with spaces, and a reply without line breaks and the sizes of bulk
// strings.
func (c *client) words(command string) string {
	var out []string
	reply := strings.Split(strings.TrimSuffix(c.do(strings.Split(command, " ")...), "\r\n"), "\r\n")
	for _, line := range reply {
		if line == "" || line[0] != '$' || line == "$-1" {
			out = append(out, line)
		}
	}
	return strings.Join(out, " ")
}

// ended reads to the end of the connection, which the server must have closed.
func (c *client) ended() string {
	rest, err := io.ReadAll(c.r)
	if err != nil && !strings.Contains(err.Error(), "connection reset") {
		require.NoError(c.t, err)
	}
	return string(rest)
}

// program is the path of a program, or a reason to skip.
func program(t testing.TB, name string) string {
	if testing.Short() {
		t.Skip("starts a program")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name+" is not installed")
	}
	return path
}

// missing skips a test for which something is not installed, or fails it where everything should be.
func missing(t testing.TB, what string) {
	if os.Getenv("BLOOMD_CLIENTS") == "required" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// output runs a program, which must end well, and returns what it prints.
func output(t testing.TB, stdin string, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// startRedis starts the redis-server of this machine, if there is one.
func startRedis(t testing.TB, flags ...string) (addr string) {
	server := program(t, "redis-server")
	return startProcess(t, func(port string) *exec.Cmd {
		return exec.Command(server, append([]string{"--port", port, "--save", "", "--dir", t.TempDir()}, flags...)...)
	})
}

// startProcess starts a server on a free port and waits until it listens. It ends with the test.
func startProcess(t testing.TB, command func(port string) *exec.Cmd) (addr string) {
	for range 10 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr = ln.Addr().String()
		ln.Close()
		cmd := command(fmt.Sprint(ln.Addr().(*net.TCPAddr).Port))
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			cmd.Process.Kill()
			<-ended
		})
		if listens(t, addr, ended) {
			return addr
		}
	}
	t.Fatal("the server does not start")
	return ""
}

// listens waits until a server listens, or reports false if it has ended: another program may have taken its port.
func listens(t testing.TB, addr string, ended <-chan struct{}) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		select {
		case <-ended:
			return false
		case <-time.After(10 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return true
		}
	}
	t.Fatal("the server does not listen")
	return false
}
