package bloomd_test

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What any server has is answered as a Redis server on this machine answers it. That is a version of before these
// filters were in its core, and has none of theirs.

func TestAgainstRedis(t *testing.T) {
	theirs := dial(t, startRedis(t))
	_, ours := start(t)
	for _, proto := range []string{"2", "3"} {
		theirs.do("HELLO", proto)
		ours.do("HELLO", proto)
		sameAnswers(t, theirs, ours, agreed)
	}
}

// sameAnswers sends the commands, each a line of words with the escapes of Go, to both.
func sameAnswers(t *testing.T, theirs, ours *client, commands string) {
	for command := range strings.Lines(strings.TrimLeft(commands, "\n")) {
		args := strings.Split(strings.TrimSuffix(command, "\n"), " ")
		for i, arg := range args {
			var err error
			args[i], err = strconv.Unquote(`"` + strings.ReplaceAll(arg, `"`, `\"`) + `"`)
			require.NoError(t, err, command)
		}
		assert.Equal(t, theirs.do(args...), ours.do(args...), "%q", args)
	}
}

func TestPasswordAgainstRedis(t *testing.T) {
	redis := startRedis(t, "--requirepass", "secret")
	s, _ := start(t, func(c *bloomd.Config) { c.Password = "secret" })
	sameAnswers(t, dial(t, redis), dial(t, s.Addr()), `
PING
FOO
FOO bar
GET
GET k
HELLO 9
HELLO x
HELLO 3 FOO
HELLO 3 AUTH default wrong
HELLO 3 AUTH wrong secret
RESET x
AUTH
AUTH wrong
AUTH a b c
AUTH default wrong
AUTH wrong secret
MULTI
EXEC
CONFIG GET save
AUTH default secret
GET none
CLIENT GETNAME
AUTH wrong
GET none
RESET
GET none
AUTH secret
GET none
RESET
`)
}

// Bytes that are not as a client writes them.
func TestBytesAgainstRedis(t *testing.T) {
	redis, protected := startRedis(t), startRedis(t, "--requirepass", "secret")
	ours, _ := start(t)
	oursProtected, _ := start(t, func(c *bloomd.Config) { c.Password = "secret" })
	for _, in := range []string{
		"PING\r\n", "PING\n", "PING\nPING\n", "\r\n\n \nPING\n", "  PING  \r\n", "PING hello\r\n", "ECHO 'a b'\r\n", `ECHO "\x41\n\"\q"` + "\n", "ECHO \"a\n", "ECHO 'a'b\n", "ECHO \"a\"b\n",
		`ECHO a"b c"` + "\n", `ECHO a'b'` + "\n", `ECHO '\'\n'` + "\n", "ECHO ''\n", "\x00\n", "PING\r\r\n", "PING\tx\n", "PING\vx\n", "ECHO \xff\n", "FOO 'bar baz'\n", `""` + "\n", "'PING'\n", "ping\n",
		"*1\r\n$4\r\nPING\r\n", "*0\r\nPING\r\n", "*-1\r\nPING\r\n", "*-7\r\nPING\r\n", "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "*1\r\n$0\r\n\r\nPING\n", "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$0\r\n\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
		"*x\r\n", "*\r\n", "* 1\r\n", "*1 \r\n", "*+1\r\n", "*01\r\n", "*1.0\r\n", "*2147483648\r\n", "*9223372036854775807\r\n", "*99999999999999999999\r\n", "*-0\r\n", "*1e3\r\n",
		"*1\r\n:4\r\n", "*1\r\n\r\n", "*1\r\nPING\r\n", "*1\r\n*1\r\n", "*2\r\n$4\r\nECHO\r\n+a\r\n", "*1\r\n$x\r\n", "*1\r\n$\r\n", "*1\r\n$-1\r\n", "*1\r\n$-5\r\n", "*1\r\n$+4\r\nPING\r\n", "*1\r\n$04\r\nPING\r\n",
		"*1\r\n$9223372036854775807\r\n", "*1\r\n$99999999999999999999\r\n", "*1\r\n$-9223372036854775808\r\n", "*1\r\n$4", "*1\r\n$4\r\nPI", "*1", "PI", "$4\r\nPING\r\n", "+PING\r\n", ":1\r\n", "%1\r\n", "-ERR x\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n", "host: x\r\nPING\r\n", "*1\r\n$4\r\nposT\r\nPING\r\n", "POSTS\r\n",
		"PING\r\nQUIT\r\nPING\r\n", "QUIT x\r\n", "*1\r\n$4\r\nPING\r\n*x\r\nPING\r\n", "PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n", "MULTI\r\nQUIT\r\n", "HELLO 3\r\n*x\r\n"[9:],
		"*11\r\n", "*10\r\n$16385\r\n", "*2\r\n$4\r\nAUTH\r\n$16384\r\n", "*4294967296\r\n",
		strings.Repeat("x", 70_000), strings.Repeat("a ", 30_000) + "\n",
	} {
		assert.Equal(t, answers(t, redis, in), answers(t, ours.Addr(), in), "%.100q", in)
		assert.Equal(t, answers(t, protected, in), answers(t, oursProtected.Addr(), in), "with a password: %.100q", in)
	}
}

// answers is all that the server at addr says to a connection that sends in and then ends its side.
func answers(t *testing.T, addr, in string) string {
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	conn.Write([]byte(in)) // may fail, where the connection ends before
	conn.(*net.TCPConn).CloseWrite()
	all, err := io.ReadAll(conn)
	if err != nil && strings.Contains(err.Error(), "timeout") {
		return fmt.Sprintf("%s and then nothing", all)
	}
	return string(all)
}

// Commands to which both have one answer.
const agreed = `
PING
PING hello
PING a b
ECHO hi
ECHO
SET k v
SET k
SET k v NX XX
GET k
GET
GET none
set K v2
GeT K
EXISTS k K none k
EXISTS
TYPE k
TYPE none
TYPE
STRLENGTH k
STRLEN k
STRLEN none
APPEND k xyz
APPEND k
GETRANGE k 0 -1
GETRANGE k 1 2
GETRANGE k -2 -1
GETRANGE k 5 2
GETRANGE k -1 -3
GETRANGE k x 1
GETRANGE k 99 100
GETRANGE none 0 1
DEL k none K
DEL
DBSIZE
DBSIZE x
SET a\r\nb x\x00y
GET a\r\nb
KEYS a*
KEYS
KEYS *[
DEL a\r\nb
SET hello 1
KEYS h?llo
KEYS h*o
KEYS h[ae]llo
KEYS h[^e]llo
KEYS h[a-z]llo
KEYS h[z-a]llo
KEYS h[a-]llo
KEYS h[
KEYS h\\ello
KEYS hell\\
KEYS *l*l*
KEYS
RENAME hello world
RENAME none x
RENAME world world
RENAME world
GET world
SCAN 0
SCAN 0 COUNT 100
SCAN 0 MATCH w*
SCAN 0 MATCH x*
SCAN 0 TYPE string
SCAN 0 TYPE hash
SCAN x
SCAN 0 COUNT 0
SCAN 0 COUNT x
SCAN 0 FOO
SCAN 0 MATCH
SCAN
UNLINK world
FLUSHALL
FLUSHALL SYNC
FLUSHDB ASYNC
FLUSHALL x
FLUSHALL SYNC ASYNC
SELECT 0
SELECT x
SELECT 99
SELECT
AUTH x
AUTH x y
AUTH default x
AUTH
HELLO 4
HELLO x
HELLO 3 FOO
HELLO 2 AUTH a
CLIENT SETNAME me
CLIENT GETNAME
CLIENT SETNAME a\x20b
CLIENT SETNAME
CLIENT FOO
CLIENT
CLIENT NO-EVICT maybe
CLIENT NO-EVICT on
CONFIG
CONFIG FOO
CONFIG GET
CONFIG GET appendonly
CONFIG GET APPENDONLY
CONFIG GET none
CONFIG GET save
CONFIG SET none 1
CONFIG SET none
CONFIG SET maxmemory 1xx
CONFIG SET maxmemory 100mb maxmemory 1
CONFIG SET maxmemory 100mb
CONFIG GET maxmemory
CONFIG SET maxmemory 3k
CONFIG GET maxmemory
CONFIG SET maxmemory 0
CONFIG RESETSTAT
MEMORY
MEMORY USAGE none
MEMORY USAGE
MEMORY USAGE none SAMPLES x
MEMORY USAGE none FOO
MEMORY FOO
SET m x
MEMORY USAGE m
SET m 12345
MEMORY USAGE m
SET m abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz
MEMORY USAGE m
MEMORY USAGE m SAMPLES 5
SET aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa x
MEMORY USAGE aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
FLUSHALL
COMMAND FOO
COMMAND INFO none
MODULE FOO
LASTSAVE x
TIME x
SAVE x
INFO none
FOO
FOO a b
foo \x01
EXEC
DISCARD
MULTI x
MULTI
MULTI
SET t 1
GET t
PING
EXEC
MULTI
SET t
EXEC
MULTI
FOO
DISCARD
WATCH
WATCH t
SET t 2
MULTI
GET t
EXEC
WATCH t
UNWATCH
MULTI
GET t
WATCH t
EXEC
MULTI
EXEC
MULTI
DISCARD
DEL t
BF.FOO x
MULTI
MULTI
WATCH t
SET t 3
EXEC
GET t
MULTI
SELECT x
AUTH x
PING a b
EXEC
MULTI
PING a b c
EXEC
DEL t
EXEC x
DISCARD x
MULTI
EXEC x
EXEC
MULTI
DISCARD x
DISCARD
UNWATCH x
WATCH
MULTI
ECHO a
ECHO
ECHO b
EXEC
AUTH a b c
AUTH default
AUTH default x y
BGSAVE x
BGSAVE SCHEDULE x
CONFIG RESETSTAT x
CONFIG GET none none2
CONFIG SET appendonly
MODULE LIST x
MODULE
COMMAND COUNT x
COMMAND LIST x
COMMAND INFO none none
COMMAND \x00
DBSIZE x y
TYPE k x
KEYS a b
FLUSHDB x
ECHO a\x00b
ECHO \r\n
SET \x00 \xff\x00
GET \x00
STRLEN \x00
DEL \x00
SET e-mpty 
GET e-mpty
STRLEN e-mpty
APPEND e-mpty 
GETRANGE e-mpty 0 -1
DEL e-mpty
SET  empty
GET 
EXISTS  
TYPE 
KEYS ?
DEL 
FOO 
FOO \r\n
FOO a\x00b c
FOO\x00BAR a
\x00
foo\r\nbar
FOO aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb ccc ddd
FOO aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b
FOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOOO a b
CLIENT aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
CLIENT ID x
CLIENT GETNAME x
CLIENT SETNAME 
CLIENT GETNAME
CLIENT INFO x
CLIENT SETNAME a b
CLIENT setname x\x7f
CONFIG foo\x00bar
MEMORY foo\x00bar
SCAN 0 COUNT 10 MATCH a* TYPE string
SCAN 0 COUNT 9223372036854775808
SCAN 0 COUNT -1
SCAN 1x
SCAN 99999999999999999999
SELECT -1
SELECT 1x
SELECT 99999999999999999999
SELECT 0 1
PING \x00
RESET x
HELLO 3 SETNAME a\x20b
HELLO 3 AUTH a
HELLO 3 AUTH a b
HELLO 3 SETNAME
HELLO 99999999999999999999
HELLO -1
HELLO 2.0
HELLO 
RESET
`
