package bloomd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
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

func start(t *testing.T, configure ...func(*bloomd.Config)) (*bloomdtest.Server, *client) {
	s := bloomdtest.Start(t, configure...)
	return s, dial(t, s.Addr())
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
