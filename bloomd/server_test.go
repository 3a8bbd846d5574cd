package bloomd_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/internal/golden"
	"github.com/redbloom-go/bloom/redisbloom"
	"github.com/stretchr/testify/require"
)

// Every recorded command gets the recorded reply over TCP, to the byte.
func TestTranscripts(t *testing.T) {
	for _, name := range []string{"bf", "cf"} {
		t.Run(name, func(t *testing.T) {
			_, c := start(t)
			proto := 2
			for _, x := range golden.Transcript(t, "../testdata/golden/transcript-"+name+".jsonl") {
				if x.Proto != proto {
					proto = x.Proto
					c.do("HELLO", strconv.Itoa(proto))
				}
				var args []string
				for _, arg := range x.Args {
					args = append(args, string(arg))
				}
				require.Equal(t, x.Wire, c.do(args...), "RESP%d: %.200q", x.Proto, x.Args)
			}
		})
	}
}

func TestGoldenLives(t *testing.T) {
	for _, kind := range []string{"bf", "cf"} {
		for _, life := range golden.Lives(t, "../testdata/golden", kind) {
			t.Run(life.Name, func(t *testing.T) {
				_, c := start(t)
				life.Replay(t, c.do)
			})
		}
	}
}

// Commands in their order on one connection, with their replies.
func TestSession(t *testing.T) {
	for name, commands := range map[string][][2]string{
		"hello": {
			{"PING", "+PONG"}, {"PING hi", "hi"}, {"PING a b", "-ERR wrong number of arguments for 'ping' command"}, {"ECHO hi", "hi"}, {"ECHO", "-ERR wrong number of arguments for 'echo' command"},
			{"HELLO", "*14 server redis version 7.4.0 proto :2 id :1 mode standalone role master modules *1 *8 name bf ver :20800 path  args *0"},
			{"HELLO 4", "-NOPROTO unsupported protocol version"}, {"HELLO 1", "-NOPROTO unsupported protocol version"},
			{"HELLO x", "-ERR Protocol version is not an integer or out of range"}, {"HELLO 3 x", "-ERR Syntax error in HELLO option 'x'"},
			{"HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"}, {"HELLO 3 AUTH nobody x", "-WRONGPASS invalid username-password pair or user is disabled."},
			{"HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"}, {"HELLO 3 SETNAME \n", "-ERR Client names cannot contain spaces, newlines or special characters."},
			{"GET none", "$-1"}, // RESP2 still
			{"HELLO 3 AUTH default any SETNAME me", "%7 server redis version 7.4.0 proto :3 id :1 mode standalone role master modules *1 %4 name bf ver :20800 path  args *0"},
			{"GET none", "_"}, {"CLIENT GETNAME", "me"}, {"BF.ADD b x", "#t"}, {"HELLO 2", "*14 server redis version 7.4.0 proto :2 id :1 mode standalone role master modules *1 *8 name bf ver :20800 path  args *0"},
			{"BF.ADD b x", ":0"}, {"RESET", "+RESET"}, {"CLIENT GETNAME", "$-1"},
		},
		"auth and databases": {
			{"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
			{"AUTH default x", "+OK"}, {"AUTH x y", "-WRONGPASS invalid username-password pair or user is disabled."}, {"AUTH", "-ERR wrong number of arguments for 'auth' command"},
			{"SELECT 0", "+OK"}, {"SELECT 1", "-ERR DB index is out of range"}, {"SELECT x", "-ERR value is not an integer or out of range"},
		},
		"client": {
			{"CLIENT ID", ":1"}, {"CLIENT SETNAME me", "+OK"}, {"CLIENT GETNAME", "me"}, {"CLIENT SETNAME", "-ERR wrong number of arguments for 'client|setname' command"},
			{"CLIENT SETINFO LIB-NAME go-redis(,go1.26)", "+OK"}, {"CLIENT SETINFO lib-ver 9.0.0", "+OK"}, {"CLIENT SETINFO x y", "-ERR Unrecognized option 'x'"},
			{"CLIENT SETINFO lib-ver \x01", "-ERR lib-ver cannot contain spaces, newlines or special characters."}, {"CLIENT NO-EVICT on", "+OK"}, {"CLIENT NO-TOUCH maybe", "-ERR syntax error"},
			{"CLIENT FOO", "-ERR unknown subcommand 'FOO'. Try CLIENT HELP."}, {"CLIENT", "-ERR wrong number of arguments for 'client' command"}, {"CLIENT SETNAME \x7f", "-ERR Client names cannot contain spaces, newlines or special characters."},
		},
		"transactions": {
			{"EXEC", "-ERR EXEC without MULTI"}, {"DISCARD", "-ERR DISCARD without MULTI"}, {"MULTI", "+OK"}, {"MULTI", "-ERR MULTI calls can not be nested"},
			{"BF.ADD b x", "+QUEUED"}, {"PING", "+QUEUED"}, {"SET b v", "+QUEUED"}, {"BF.ADD b x", "+QUEUED"}, {"WATCH b", "-ERR WATCH inside MULTI is not allowed"},
			{"EXEC", "*4 :1 +PONG +OK -WRONGTYPE Operation against a key holding the wrong kind of value"},
			{"MULTI", "+OK"}, {"FOO a", "-ERR unknown command 'FOO', with args beginning with: 'a' "}, {"SET a b", "+QUEUED"}, {"EXEC", "-EXECABORT Transaction discarded because of previous errors."},
			{"MULTI", "+OK"}, {"GET", "-ERR wrong number of arguments for 'get' command"}, {"DISCARD", "+OK"}, {"EXISTS a", ":0"},
			{"MULTI", "+OK"}, {"SAVE", "-ERR Command not allowed inside a transaction"}, {"EXEC", "-EXECABORT Transaction discarded because of previous errors."},
			{"MULTI", "+OK"}, {"ECHO", "-ERR wrong number of arguments for 'echo' command"}, {"EXEC", "-EXECABORT Transaction discarded because of previous errors."},
			{"MULTI", "+OK"}, {"EXEC", "*0"}, {"MULTI", "+OK"}, {"RESET", "+RESET"}, {"EXEC", "-ERR EXEC without MULTI"},
			{"WATCH a b", "+OK"}, {"SET a x", "+OK"}, {"MULTI", "+OK"}, {"GET a", "+QUEUED"}, {"EXEC", "*-1"}, {"MULTI", "+OK"}, {"GET a", "+QUEUED"}, {"EXEC", "*1 x"},
			{"WATCH a", "+OK"}, {"SET a y", "+OK"}, {"UNWATCH", "+OK"}, {"MULTI", "+OK"}, {"GET a", "+QUEUED"}, {"EXEC", "*1 y"},
			{"WATCH a", "+OK"}, {"SET a z", "+OK"}, {"MULTI", "+OK"}, {"DISCARD", "+OK"}, {"MULTI", "+OK"}, {"CONFIG GET bf-error-rate", "+QUEUED"}, {"EXEC", "*1 *2 bf-error-rate 0.01"},
		},
		"administration": {
			{"CONFIG GET save appendonly", "*4 appendonly no save "}, {"CONFIG GET APPENDONLY", "*2 APPENDONLY no"}, {"CONFIG GET bf-initial-size maxclients", "*4 bf-initial-size 100 maxclients 10000"},
			{"CONFIG SET bf-initial-size 7", "+OK"}, {"CONFIG GET bf-initial-size", "*2 bf-initial-size 7"}, {"CONFIG RESETSTAT", "+OK"}, {"CONFIG FOO", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP."},
			{"CONFIG SET appendonly yes", "-ERR Unknown option or number of arguments for CONFIG SET - 'appendonly'"},
			{"COMMAND COUNT", ":64"}, {"COMMAND INFO get none", "*2 *10 get :2 *1 +readonly :1 :1 :1 *0 *0 *0 *0 $-1"}, {"COMMAND INFO Bf.Add", "*1 *10 bf.add :3 *2 +write +denyoom :1 :1 :1 *0 *0 *0 *0"},
			{"COMMAND INFO ping", "*1 *10 ping :-1 *1 +admin :0 :0 :0 *0 *0 *0 *0"}, {"COMMAND DOCS", "*0"}, {"COMMAND FOO", "-ERR unknown subcommand 'FOO'. Try COMMAND HELP."},
			{"MODULE LIST", "*1 *8 name bf ver :20800 path  args *0"}, {"MODULE LOAD x", "-ERR unknown subcommand 'LOAD'. Try MODULE HELP."},
			{"SAVE", "-ERR this server was started without a file for its keys"}, {"BGSAVE", "-ERR this server was started without a file for its keys"}, {"BGSAVE x", "-ERR syntax error"},
			{"SHUTDOWN NOSAVE", "-ERR syntax error"}, {"DEBUG SLEEP 1", "-ERR unknown subcommand 'SLEEP'. Try DEBUG HELP."}, {"TIME x", "-ERR wrong number of arguments for 'time' command"},
			{"BF.ADD b x", ":1"}, {"CF.ADD c y", ":1"}, {"DEBUG RELOAD", "+OK"}, {"BF.EXISTS b x", ":1"}, {"CF.EXISTS c y", ":1"}, {"DBSIZE", ":2"},
			{"QUIT", "+OK"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := start(t)
			for _, x := range commands {
				require.Equal(t, x[1], c.words(x[0]), "%s", x[0])
			}
		})
	}
}

func TestInfo(t *testing.T) {
	_, c := start(t)
	c.do("BF.ADD", "b", "x")
	text := c.do("INFO")
	for _, line := range []string{"# Server\r\nredis_version:7.4.0\r\n", "connected_clients:1\r\n", "\r\n\r\n# Modules\r\nmodule:name=bf,", "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n", "loading:0\r\n"} {
		require.Contains(t, text, line)
	}
	require.Regexp(t, `^\$\d+\r\n# Keyspace\r\ndb0:keys=1,[^#]*$`, c.do("INFO", "KEYSPACE"))
	require.Regexp(t, `# Clients[^#]*# Keyspace[^#]*$`, c.do("INFO", "keyspace", "clients"))
	require.Equal(t, "$0\r\n\r\n", c.do("INFO", "nothing"))
	c.do("HELLO", "3")
	require.Regexp(t, `^=\d+\r\ntxt:# Memory\r\nused_memory:\d+\r\n`, c.do("INFO", "memory"))
	require.Regexp(t, `^=\d+\r\ntxt:id=1 addr=127[^\r]* resp=3 lib-name= lib-ver=\n\r\n$`, c.do("CLIENT", "INFO"))
	require.Regexp(t, `^\*2\r\n\$\d+\r\n\d{10,}\r\n\$\d\r\n\d+\r\n$`, c.do("TIME"))
	require.Regexp(t, `^:\d{10,}\r\n$`, c.do("LASTSAVE"))
	require.Contains(t, c.do("COMMAND"), "$12\r\nbf.loadchunk\r\n:4\r\n~2\r\n+write\r\n")
	require.Contains(t, c.do("COMMAND", "LIST"), "\r\n$5\r\nwatch\r\n")
}

func TestPassword(t *testing.T) {
	s, c := start(t, func(c *bloomd.Config) { c.Password = "secret" })
	for _, x := range [][2]string{
		{"PING", "-NOAUTH Authentication required."}, {"BF.ADD b x", "-NOAUTH Authentication required."}, {"MULTI", "-NOAUTH Authentication required."},
		{"CONFIG GET *", "-NOAUTH Authentication required."}, {"HELLO 3 AUTH default wrong", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled."}, {"AUTH secret2", "-WRONGPASS invalid username-password pair or user is disabled."},
		{"AUTH admin secret", "-WRONGPASS invalid username-password pair or user is disabled."}, {"PING", "-NOAUTH Authentication required."},
		{"AUTH secret", "+OK"}, {"PING", "+PONG"}, {"RESET", "+RESET"}, {"PING", "-NOAUTH Authentication required."},
		{"AUTH default secret", "+OK"}, {"BF.ADD b x", ":1"},
	} {
		require.Equal(t, x[1], c.words(x[0]), "%s", x[0])
	}
	require.Contains(t, c.words("HELLO 3"), "proto :3")
	c = dial(t, s.Addr())
	require.Contains(t, c.words("HELLO 3"), "-NOAUTH HELLO must be called with the client already authenticated")
	require.Contains(t, c.words("HELLO 3 AUTH default secret SETNAME x"), "proto :3")
	// Before the password a client may send little.
	c = dial(t, s.Addr())
	c.send("*11\r\n")
	require.Equal(t, "-ERR Protocol error: unauthenticated multibulk length\r\n", c.ended())
	c = dial(t, s.Addr())
	c.send("*2\r\n$4\r\nAUTH\r\n$16385\r\n")
	require.Equal(t, "-ERR Protocol error: unauthenticated bulk length\r\n", c.ended())
	c = dial(t, s.Addr())
	require.Equal(t, "+OK\r\n", c.do("QUIT"))
	require.Empty(t, c.ended())
}

// Replies come in the order of the commands, however these are packed, and to the last before QUIT.
func TestPipeline(t *testing.T) {
	_, c := start(t)
	const n = 20_000
	go func() {
		var b bytes.Buffer
		for i := range n {
			b.WriteString(encode("BF.ADD", "b", strconv.Itoa(i)))
			b.WriteString(encode("ECHO", strconv.Itoa(i)))
			fmt.Fprintf(&b, "GET none\r\n")
		}
		b.WriteString(encode("QUIT") + encode("PING"))
		for b.Len() > 0 {
			c.Write(b.Next(777))
		}
	}()
	for i := range n {
		require.Contains(t, []string{":0\r\n", ":1\r\n"}, c.reply())
		require.Equal(t, fmt.Sprintf("$%d\r\n%d\r\n", len(strconv.Itoa(i)), i), c.reply())
		require.Equal(t, "$-1\r\n", c.reply())
	}
	require.Equal(t, "+OK\r\n", c.reply())
	require.Empty(t, c.ended())
}

// A client may send more commands than the system keeps of their replies before it reads the first one: also where
// the connection is none of the system's, as with TLS.
func TestPipelineOfAnyLength(t *testing.T) {
	s, c := start(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(wrappingListener{ln})
	word := strings.Repeat("x", 10_000)
	const n = 2_000
	for _, c := range []*client{c, dial(t, ln.Addr().String())} {
		c.send(strings.Repeat(encode("ECHO", word), n) + encode("PING"))
		for range n {
			require.Equal(t, "$10000\r\n"+word+"\r\n", c.reply())
		}
		require.Equal(t, "+PONG\r\n", c.reply())
		require.Contains(t, c.do("INFO", "memory"), "client_buffers:0\r\n")
	}
}

// wrappingListener has connections that can only be read and written.
type wrappingListener struct{ net.Listener }

func (l wrappingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return struct{ net.Conn }{conn}, err
}

// A socket of the file system is served as one of the network is: by lines, to an error, and to clients that read late.
func TestUnixSocket(t *testing.T) {
	s := startServer(t)
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	require.NoError(t, err)
	go s.Serve(ln)
	connect := func() *client {
		conn, err := net.Dial("unix", ln.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return &client{t, conn, bufio.NewReader(conn)}
	}
	c := connect()
	require.Equal(t, ":1\r\n", c.do("BF.ADD", "b", "x"))
	c.send("*x\r\n")
	require.Equal(t, "-ERR Protocol error: invalid multibulk length\r\n", c.ended())
	c = connect()
	word := strings.Repeat("x", 10_000)
	c.send(strings.Repeat(encode("ECHO", word), 1000) + encode("QUIT"))
	require.True(t, strings.Repeat("$10000\r\n"+word+"\r\n", 1000)+"+OK\r\n" == c.ended())
}

// A key is one filter for all connections and for the process itself.
func TestEngineIsShared(t *testing.T) {
	s, c := start(t)
	require.NoError(t, s.Engine().BFReserve("b", 0.01, 100))
	require.Equal(t, ":1\r\n", c.do("BF.ADD", "b", "x"))
	found, err := s.Engine().BFExists("b", "x")
	require.NoError(t, err)
	require.True(t, found)
	own := redisbloom.New()
	s, c = start(t, func(c *bloomd.Config) { c.Engine = own })
	require.Same(t, own, s.Engine())
	c.do("SET", "s", "v")
	require.Equal(t, 1, own.Len())
}

func TestSaveAndShutdown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	withFile := func(c *bloomd.Config) { c.File = file }
	s, c := start(t, withFile)
	c.do("BF.ADD", "b", "x")
	require.Equal(t, "+OK\r\n", c.do("SAVE"))
	_, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, "+Background saving started\r\n", c.do("BGSAVE", "SCHEDULE"))
	c.do("CF.ADD", "c", "y")
	require.Equal(t, "+OK\r\n", c.do("SHUTDOWN"))
	select {
	case <-s.ShutdownAsked():
	case <-time.After(patience):
		t.Fatal("no shutdown was asked for")
	}
	require.NoError(t, s.Shutdown(context.Background()))
	require.Empty(t, c.ended())
	require.Equal(t, bloomd.ErrServerClosed, s.Serve(nopListener{}))

	s, c = start(t, withFile)
	require.Equal(t, ":1\r\n", c.do("BF.EXISTS", "b", "x"))
	require.Equal(t, ":1\r\n", c.do("CF.EXISTS", "c", "y"))
	c.do("SET", "s", "v")
	require.NoError(t, s.Close()) // does not save
	_, c = start(t, withFile)
	require.Equal(t, ":2\r\n", c.do("DBSIZE"))

	// A save that fails says so, and the file stays.
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o500))
	defer os.Chmod(filepath.Dir(file), 0o700)
	if os.Getuid() != 0 { // who may write everywhere
		require.Contains(t, c.do("SAVE"), "-ERR saving failed")
		require.Contains(t, c.do("INFO", "persistence"), "rdb_last_bgsave_status:err")
	}
}

type nopListener struct{}

func (nopListener) Accept() (net.Conn, error) { return nil, io.EOF }
func (nopListener) Close() error              { return nil }
func (nopListener) Addr() net.Addr            { return nil }

// Keys are written now and then if something changed, and not otherwise.
func TestSaveInterval(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	s, c := start(t, func(c *bloomd.Config) { c.File, c.SaveInterval = file, 5*time.Millisecond })
	c.do("BF.EXISTS", "b", "x")
	time.Sleep(30 * time.Millisecond)
	require.NoFileExists(t, file)
	c.do("BF.ADD", "b", "x")
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, patience, time.Millisecond)
	loaded := redisbloom.New()
	require.NoError(t, loaded.Load(file))
	require.Equal(t, 1, loaded.Len())
	require.NoError(t, s.Close())
}

// A save while a command waits for its turn does not count for what the command changes.
func TestSaveBeforeCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	s, c := start(t, func(c *bloomd.Config) { c.File, c.SaveInterval = file, time.Millisecond })
	inside, leave := make(chan bool), make(chan bool)
	go s.Engine().Exec(func(func(...[]byte) redisbloom.Reply) {
		close(inside)
		<-leave
	})
	<-inside
	c.send(encode("BF.ADD", "b", "x"))
	time.Sleep(30 * time.Millisecond) // for saves, of which there should be none
	close(leave)
	require.Equal(t, ":1\r\n", c.reply())
	require.Eventually(t, func() bool {
		loaded := redisbloom.New()
		return loaded.Load(file) == nil && loaded.Len() == 1
	}, patience, time.Millisecond)
}

// A damaged file is refused with a message, stays as it is, and nothing of it is loaded.
func TestDamagedFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	e := redisbloom.New()
	for i := range 10 {
		e.BFAdd(strconv.Itoa(i), "x")
	}
	require.NoError(t, e.Save(file))
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"cut":     {whole[:len(whole)/2], bloom.ErrIncomplete},
		"flipped": {append(append(bytes.Clone(whole[:1000]), whole[1000]^1), whole[1001:]...), bloom.ErrCorrupt},
		"an RDB":  {[]byte("REDIS0011\xfa\x09redis-ver\x057.4.0"), bloom.ErrCorrupt},
		"empty":   {nil, bloom.ErrIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.WriteFile(file, c.data, 0o600))
			empty := redisbloom.New()
			_, err := bloomd.New(bloomd.Config{File: file, Engine: empty})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, file)
			require.Zero(t, empty.Len())
			now, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, bytes.Equal(c.data, now))
		})
	}
}

// Shutdown lets a client have the replies to what it had sent.
func TestShutdownFinishesCommands(t *testing.T) {
	for range 20 {
		s, c := start(t)
		const n = 500
		c.send(strings.Repeat(encode("BF.ADD", "b", "x"), n))
		c.reply() // the server has begun with them
		require.NoError(t, s.Shutdown(context.Background()))
		rest := c.ended()
		require.Equal(t, strings.Repeat(":0\r\n", strings.Count(rest, ":")), rest)
		_, err := net.Dial("tcp", s.Addr())
		require.Error(t, err)
	}
}

// A client that does not end is closed when the time is up.
func TestShutdownTimeout(t *testing.T) {
	s, c := start(t)
	const size = 24 << 20 // more than the system keeps of it
	c.do("SET", "big", strings.Repeat("x", size))
	c.send(encode("GET", "big"))
	_, err := io.CopyN(io.Discard, c.r, 1000) // and no more
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
	require.Less(t, len(c.ended()), size-1000)
}
