package bloomd

import (
	"crypto/sha256"
	"crypto/subtle"
	"strconv"
	"strings"
	"time"

	"github.com/redbloom-go/bloom/internal/ascii"
	"github.com/redbloom-go/bloom/redisbloom"
)

// This file has what a connection remembers between commands: who it is, the protocol, a transaction.

type session struct {
	proto         int
	authenticated bool
	created       time.Time
	name          string // CLIENT SETNAME
	library       [2]string

	multi   bool
	aborted bool // a command could not be queued
	queue   [][][]byte
	queued  int64 // bytes of the queue
	watched []redisbloom.Watch
}

type (
	reply = redisbloom.Reply
	// do answers the commands on keys: the engine, or the engine in a transaction.
	do func(args ...[]byte) reply
)

func errorReply(text string) reply   { return reply{Kind: redisbloom.Error, Str: text} }
func bulkReply(text string) reply    { return reply{Kind: redisbloom.Bulk, Str: text} }
func intReply(n int64) reply         { return reply{Kind: redisbloom.Int, Int: n} }
func simpleReply(text string) reply  { return reply{Kind: redisbloom.Simple, Str: text} }
func listReply(elems ...reply) reply { return reply{Kind: redisbloom.Array, Elems: elems} }
func pairs(elems ...reply) reply     { return reply{Kind: redisbloom.Map, Elems: elems} }
func wrongArity(name string) reply {
	return errorReply("ERR wrong number of arguments for '" + name + "' command")
}

var (
	okReply   = simpleReply("OK")
	errSyntax = errorReply("ERR syntax error")
)

func unknownSubcommand(command string, sub []byte) reply {
	return errorReply("ERR unknown subcommand '" + ascii.Quotable(sub, 128) + "'. Try " + strings.ToUpper(command) + " HELP.")
}

// serverCommand is a command of the server, not of the engine.
type serverCommand struct {
	name     string
	min, max int // arguments with the name; a max of 0 is no limit
	flags    commandFlags
	run      func(c *conn, args [][]byte, engine do) reply
}

type commandFlags uint8

const (
	stranger  commandFlags = 1 << iota // may come before AUTH
	notQueued                          // is run at once in a transaction
	notInside                          // is refused in a transaction
)

var serverCommands = map[string]*serverCommand{}

func init() { // in a function, since COMMAND reads the table
	for _, s := range []serverCommand{
		{"ping", 1, 0, 0, ping},
		{"echo", 2, 2, 0, func(_ *conn, args [][]byte, _ do) reply { return bulkReply(string(args[1])) }},
		{"hello", 1, 0, stranger | notInside, hello},
		{"auth", 2, 0, stranger, auth},
		{"quit", 1, 0, stranger | notQueued, func(*conn, [][]byte, do) reply { return okReply }},
		{"reset", 1, 1, stranger | notQueued, reset},
		{"select", 2, 2, 0, selectDB},
		{"client", 2, 0, 0, client},
		{"multi", 1, 1, notQueued, multi},
		{"exec", 1, 1, notQueued, exec},
		{"discard", 1, 1, notQueued, discard},
		{"watch", 2, 0, notQueued, watch},
		{"unwatch", 1, 1, 0, unwatch},
		{"command", 1, 0, 0, commandCommand},
		{"config", 2, 0, 0, configCommand},
		{"info", 1, 0, 0, info},
		{"time", 1, 1, 0, clock},
		{"module", 2, 0, 0, module},
		{"save", 1, 1, notInside, save},
		{"bgsave", 1, 0, 0, backgroundSave},
		{"lastsave", 1, 1, 0, func(c *conn, _ [][]byte, _ do) reply { return intReply(c.lastSave.Load()) }},
		{"shutdown", 1, 0, notInside, shutdown},
		{"debug", 2, 0, notInside, debug},
	} {
		serverCommands[s.name] = &s
	}
}

// serverCommandOf returns the server's command of that name, or nil: most commands are the engine's, and those with a
// dot all are.
func serverCommandOf(name []byte) *serverCommand {
	if len(name) > 2 && name[2] == '.' {
		return nil
	}
	return ascii.Find(serverCommands, name)
}

// run answers a command, and says whether the connection ends with the answer.
func (c *conn) run(args [][]byte) (r reply, quit bool) {
	s := serverCommandOf(args[0])
	if s != nil || c.multi || !c.authenticated { // else the engine looks
		if err := s.check(args); err != nil {
			return c.reject(s, err.Error()), false
		}
	}
	if !c.authenticated && (s == nil || s.flags&stranger == 0) {
		return c.reject(s, "NOAUTH Authentication required."), false
	}
	if c.multi && (s == nil || s.flags&notQueued == 0) {
		return c.enqueue(s, args), false
	}
	r = c.answer(s, args, c.do)
	return r, s != nil && s.name == "quit"
}

// reject answers a command that is not run, which spoils the transaction that it is in.
func (c *conn) reject(s *serverCommand, text string) reply {
	if s != nil && s.name == "exec" {
		c.endTransaction()
		return errorReply("EXECABORT Transaction discarded because of: " + strings.TrimPrefix(text, "ERR "))
	}
	c.aborted = c.multi
	return errorReply(text)
}

// answer runs a command of the server or, where s is nil, of the engine, that has been checked.
func (c *conn) answer(s *serverCommand, args [][]byte, engine do) reply {
	if s != nil {
		return s.run(c, args, engine)
	}
	r := engine(args...)
	// After it: a save that came between would take what it has not changed yet for all that is to be saved.
	if c.SaveInterval > 0 && !c.dirty.Load() {
		if d, ok := redisbloom.FindCommand(args[0]); ok && d.Write {
			c.dirty.Store(true)
		}
	}
	return r
}

// check returns what is wrong with a command before it is run: a command of the engine, where s is nil.
func (s *serverCommand) check(args [][]byte) error {
	if s == nil {
		return redisbloom.Check(args...)
	}
	if n := len(args); n < s.min || s.max > 0 && n > s.max {
		return wrongArity(s.name).Err()
	}
	return nil
}

func ping(_ *conn, args [][]byte, _ do) reply {
	switch len(args) {
	case 1:
		return simpleReply("PONG")
	case 2:
		return bulkReply(string(args[1]))
	}
	return wrongArity("ping")
}

// hello agrees on a protocol, with a password and a name at once.
func hello(c *conn, args [][]byte, _ do) reply {
	proto := c.proto
	if len(args) > 1 {
		n, ok := atoi(args[1])
		switch {
		case !ok:
			return errorReply("ERR Protocol version is not an integer or out of range")
		case n != 2 && n != 3:
			return errorReply("NOPROTO unsupported protocol version")
		}
		proto = n
	}
	var name []byte
	named := false
	for rest := args[min(2, len(args)):]; len(rest) > 0; {
		switch {
		case ascii.Is(rest[0], "auth") && len(rest) >= 3:
			if refused := c.authenticate(string(rest[1]), rest[2]); refused != nil {
				return *refused
			}
			rest = rest[3:]
		case ascii.Is(rest[0], "setname") && len(rest) >= 2:
			if !validName(rest[1]) {
				return errName
			}
			name, named = rest[1], true
			rest = rest[2:]
		default:
			return errorReply("ERR Syntax error in HELLO option '" + string(rest[0][:min(len(rest[0]), 128)]) + "'")
		}
	}
	if !c.authenticated {
		return errorReply("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option " +
			"can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if named {
		c.name = string(name)
	}
	c.proto = proto
	return pairs(
		bulkReply("server"), bulkReply("redis"), bulkReply("version"), bulkReply(redisVersion), bulkReply("proto"), intReply(int64(proto)),
		bulkReply("id"), intReply(int64(c.id)), bulkReply("mode"), bulkReply("standalone"), bulkReply("role"), bulkReply("master"),
		bulkReply("modules"), moduleList(),
	)
}

func auth(c *conn, args [][]byte, _ do) reply {
	user := "default"
	switch {
	case len(args) > 3:
		return errSyntax
	case len(args) == 3:
		user = string(args[1])
	case c.Password == "":
		return errorReply("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?")
	}
	if refused := c.authenticate(user, args[len(args)-1]); refused != nil {
		return *refused
	}
	return okReply
}

// authenticate returns nil, or the reply that refuses.
func (c *conn) authenticate(user string, password []byte) *reply {
	given := sha256.Sum256(password)
	// Without a password any is right for the default user, as on the server.
	right := c.Password == "" || subtle.ConstantTimeCompare(given[:], c.password[:]) == 1
	if user != "default" || !right {
		c.Logger.Warn("wrong password", "client", c.remote)
		r := errorReply("WRONGPASS invalid username-password pair or user is disabled.")
		return &r
	}
	c.authenticated = true
	return nil
}

func reset(c *conn, _ [][]byte, _ do) reply {
	c.session = session{proto: 2, authenticated: c.Password == "", created: c.created}
	return simpleReply("RESET")
}

func selectDB(_ *conn, args [][]byte, _ do) reply {
	switch n, ok := atoi(args[1]); {
	case !ok:
		return errorReply("ERR value is not an integer or out of range")
	case n != 0:
		return errorReply("ERR DB index is out of range")
	}
	return okReply
}

var errName = errorReply("ERR Client names cannot contain spaces, newlines or special characters.")

func validName(name []byte) bool {
	for _, c := range name {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

func client(c *conn, args [][]byte, _ do) reply {
	sub := strings.ToLower(string(args[1][:min(len(args[1]), 16)]))
	want, known := map[string]int{"setname": 3, "getname": 2, "id": 2, "setinfo": 4, "info": 2, "no-evict": 3, "no-touch": 3}[sub]
	switch {
	case !known:
		return unknownSubcommand("client", args[1])
	case len(args) != want:
		return wrongArity("client|" + sub)
	}
	switch sub {
	case "setname":
		if !validName(args[2]) {
			return errName
		}
		c.name = string(args[2])
	case "getname":
		if c.name == "" {
			return reply{}
		}
		return bulkReply(c.name)
	case "id":
		return intReply(int64(c.id))
	case "setinfo":
		return c.setInfo(args[2], args[3])
	case "info":
		return reply{Kind: redisbloom.Text, Str: c.describe() + "\n"}
	default:
		if !ascii.Is(args[2], "on") && !ascii.Is(args[2], "off") {
			return errSyntax
		}
	}
	return okReply
}

func (c *conn) setInfo(name, value []byte) reply {
	i := -1
	switch {
	case ascii.Is(name, "lib-name"):
		i = 0
	case ascii.Is(name, "lib-ver"):
		i = 1
	default:
		return errorReply("ERR Unrecognized option '" + string(name[:min(len(name), 128)]) + "'")
	}
	if !validName(value) {
		return errorReply("ERR " + string(name) + " cannot contain spaces, newlines or special characters.")
	}
	c.library[i] = string(value)
	return okReply
}

func (c *conn) describe() string {
	transaction := -1
	if c.multi {
		transaction = len(c.queue)
	}
	return "id=" + strconv.FormatUint(c.id, 10) + " addr=" + c.remote.String() + " laddr=" + c.local.String() +
		" name=" + c.name + " age=" + strconv.Itoa(int(time.Since(c.created).Seconds())) + " db=0 multi=" + strconv.Itoa(transaction) +
		" user=default resp=" + strconv.Itoa(c.proto) + " lib-name=" + c.library[0] + " lib-ver=" + c.library[1]
}

func multi(c *conn, _ [][]byte, _ do) reply {
	if c.multi {
		return errorReply("ERR MULTI calls can not be nested")
	}
	c.multi = true
	return okReply
}

// enqueue keeps a command of a transaction. Arguments are copied, since the buffer they are in is used again.
func (c *conn) enqueue(s *serverCommand, args [][]byte) reply {
	if s != nil && s.flags&notInside != 0 {
		return c.reject(s, "ERR Command not allowed inside a transaction")
	}
	size := int64(argOverhead)
	for _, arg := range args {
		size += int64(len(arg)) + argOverhead
	}
	if c.queued+size > int64(c.MaxCommand) {
		return c.reject(s, "ERR the commands of a transaction are too long together")
	}
	c.queued += size
	copied := make([][]byte, len(args))
	for i, arg := range args {
		copied[i] = append(make([]byte, 0, len(arg)), arg...)
	}
	c.queue = append(c.queue, copied)
	return simpleReply("QUEUED")
}

func exec(c *conn, _ [][]byte, _ do) reply {
	if !c.multi {
		return errorReply("ERR EXEC without MULTI")
	}
	queue, watched, aborted := c.queue, c.watched, c.aborted
	c.endTransaction()
	if aborted {
		return errorReply("EXECABORT Transaction discarded because of previous errors.")
	}
	replies := make([]reply, 0, len(queue))
	ok := c.engine.Exec(func(engine func(args ...[]byte) reply) {
		for _, args := range queue {
			replies = append(replies, c.answer(serverCommandOf(args[0]), args, engine))
		}
	}, watched...)
	if !ok {
		return reply{Kind: redisbloom.NullArray}
	}
	return listReply(replies...)
}

func (c *conn) endTransaction() {
	c.multi, c.aborted, c.queue, c.queued, c.watched = false, false, nil, 0, nil
}

func discard(c *conn, _ [][]byte, _ do) reply {
	if !c.multi {
		return errorReply("ERR DISCARD without MULTI")
	}
	c.endTransaction()
	return okReply
}

const maxWatched = 1 << 16

func watch(c *conn, args [][]byte, _ do) reply {
	if c.multi {
		return errorReply("ERR WATCH inside MULTI is not allowed")
	}
	if len(c.watched)+len(args)-1 > maxWatched {
		return errorReply("ERR too many watched keys")
	}
	for _, key := range args[1:] {
		c.watched = append(c.watched, c.engine.Watch(string(key)))
	}
	return okReply
}

func unwatch(c *conn, _ [][]byte, _ do) reply {
	c.watched = nil
	return okReply
}
