package goredis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/redbloom-go/bloom/guard"
)

// server is a redis-server of a test.
type server struct {
	t    testing.TB
	port int
	args []string
	cmd  *exec.Cmd
}

// startRedis starts a redis-server on a free port, with a directory of its own, and stops it at the end of the test.
func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on this machine")
	}
	s := &server{t: t, args: append([]string{path, "--bind", "127.0.0.1", "--save", "", "--repl-diskless-sync-delay", "0", "--dir", t.TempDir()}, args...)}
	for range 100 {
		// Not among those that systems give to clients, so that it is there for a restart too; nor is
		// that of the cluster's bus, 10,000 above.
		s.port = 10_000 + rand.IntN(12_000)
		ln, err := net.Listen("tcp", s.addr())
		if err != nil {
			continue
		}
		ln.Close()
		if s.start() {
			t.Cleanup(s.kill)
			return s
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

func (s *server) addr() string { return "127.0.0.1:" + strconv.Itoa(s.port) }

// start starts the server again after kill. It reports whether it came up.
func (s *server) start() bool {
	s.cmd = exec.Command(s.args[0], append([]string{"--port", strconv.Itoa(s.port)}, s.args[1:]...)...)
	out, err := s.cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, s.cmd.Start())
	up := make(chan bool, 1)
	go func() {
		ready := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !ready && strings.Contains(lines.Text(), "Ready to accept connections") {
				ready = true
				up <- true
			}
		}
		up <- false
	}()
	if <-up {
		return true
	}
	s.cmd.Wait()
	return false
}

// kill ends the server as a crash does.
func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

func (s *server) client(change ...func(*redis.Options)) *redis.Client {
	return connect(s.t, s.addr(), change...)
}

func connect(t testing.TB, addr string, change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: addr}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// sharedRedis is one server for all tests that do nothing to it but use keys of their own.
var sharedRedis struct {
	once sync.Once
	addr string
	stop func()
}

// silent drops what the client logs of servers that are down on purpose.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	code := m.Run()
	if sharedRedis.stop != nil {
		sharedRedis.stop()
	}
	os.Exit(code)
}

// plain returns a client of a redis-server without modules.
func plain(t testing.TB) *redis.Client {
	t.Helper()
	sharedRedis.once.Do(func() {
		path, err := exec.LookPath("redis-server")
		if err != nil {
			return
		}
		dir, err := os.MkdirTemp("", "goredis")
		require.NoError(t, err)
		socket := filepath.Join(dir, "socket") // no port to be taken
		cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", dir)
		require.NoError(t, cmd.Start())
		sharedRedis.addr = socket
		sharedRedis.stop = func() {
			cmd.Process.Kill()
			cmd.Wait()
			os.RemoveAll(dir)
		}
		for range 200 {
			if c, err := net.Dial("unix", socket); err == nil {
				c.Close()
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	if sharedRedis.addr == "" {
		t.Skip("no redis-server on this machine")
	}
	return connect(t, sharedRedis.addr, func(o *redis.Options) { o.Network = "unix" })
}

// modded returns a client of a server with the BF and CF commands.
func modded(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	return connect(t, bloomdtest.Start(t).Addr(), change...)
}

// hook is one of a client: it is called with each request, a command or several that are sent together, in the place of
// send.
type hook func(cmds []redis.Cmder, send func() error) error

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h(cmds, func() error { return next(ctx, cmds) })
	}
}

// fail gives all commands the error of a broken connection.
func fail(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		cmd.SetErr(errCut)
	}
	return errCut
}

var errCut = errors.New("connection cut")

var keyNumber int
var keyMu sync.Mutex

// freshKey is a key that no other test has.
func freshKey() string {
	keyMu.Lock()
	defer keyMu.Unlock()
	keyNumber++
	return fmt.Sprint("filter", keyNumber)
}

// shorter returns how often to do something.
func shorter(n, inShortRuns int) int {
	if testing.Short() {
		return inShortRuns
	}
	return n
}

func keysUpTo(n int) [][]byte { return keyRange(0, n) }

func keyRange(from, to int) (keys [][]byte) {
	for i := from; i < to; i++ {
		keys = append(keys, fmt.Appendf(nil, "key:%d", i))
	}
	return keys
}

// tested is what the tests of all filters need.
type tested interface {
	Source
	Ready(ctx context.Context) error
	Reserve(ctx context.Context) error
	Confirm(ctx context.Context) error
	Rebuild(ctx context.Context, scan Scan, o RebuildOptions) error
	Drop(ctx context.Context) error
	Abort(ctx context.Context) error
}

// each runs a test for every kind of filter, each with room for some thousand keys, on its server.
func each(t *testing.T, test func(t *testing.T, client *redis.Client, f tested)) {
	bitmapOf := func(t *testing.T, c *redis.Client) tested {
		b, err := NewBitmap(c, freshKey(), BitmapOptions{Capacity: 20_000, ErrorRate: 0.001})
		require.NoError(t, err)
		return b
	}
	t.Run("Bitmap", func(t *testing.T) { c := plain(t); test(t, c, bitmapOf(t, c)) })
	for protocol := 2; protocol <= 3; protocol++ {
		change := func(o *redis.Options) { o.Protocol = protocol }
		t.Run(fmt.Sprint("Filter RESP", protocol), func(t *testing.T) {
			c := modded(t, change)
			f, err := NewFilter(c, freshKey(), FilterOptions{Capacity: 500, ErrorRate: 0.001})
			require.NoError(t, err)
			test(t, c, f)
		})
		t.Run(fmt.Sprint("Cuckoo RESP", protocol), func(t *testing.T) {
			c := modded(t, change)
			f, err := NewCuckoo(c, freshKey(), CuckooOptions{Capacity: 4096, BucketSize: 4})
			require.NoError(t, err)
			test(t, c, f)
		})
	}
}

func requireVerdicts(t testing.TB, f guard.Filter, want guard.Verdict, keys [][]byte) {
	t.Helper()
	answers, err := f.Verdicts(context.Background(), nil, keys)
	require.NoError(t, err)
	require.Len(t, answers, len(keys))
	for i, v := range answers {
		require.Equal(t, want, v, "%s", keys[i])
	}
}

// absentShare is the share of keys that f calls absent.
func absentShare(t testing.TB, f guard.Filter, keys [][]byte) float64 {
	t.Helper()
	answers, err := f.Verdicts(context.Background(), nil, keys)
	require.NoError(t, err)
	n := 0
	for _, v := range answers {
		require.NotEqual(t, guard.Unknown, v)
		if v == guard.Absent {
			n++
		}
	}
	return float64(n) / float64(len(keys))
}
