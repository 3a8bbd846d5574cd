package redisbloom

import (
	"iter"
	"strings"

	"github.com/redbloom-go/bloom/internal/ascii"
)

// command is an entry of the table of commands.
type command struct {
	name string // in lower case
	// Arguments with the name: at least min, and at most max where that is not 0.
	min, max         int
	firstKey, toKeys int // which arguments are keys, as COMMAND tells it; toKeys < 0 counts from the end
	write            bool
	run              func(e *Engine, args [][]byte) Reply
}

func (c *command) fits(n int) bool { return n >= c.min && (c.max == 0 || n <= c.max) }

var commandList = []*command{
	{"bf.reserve", 4, 7, 1, 1, true, bfReserve},
	{"bf.add", 3, 3, 1, 1, true, bfAdd},
	{"bf.madd", 3, 0, 1, 1, true, bfMAdd},
	{"bf.insert", 4, 0, 1, 1, true, bfInsert},
	{"bf.exists", 3, 3, 1, 1, false, bfExists},
	{"bf.mexists", 3, 0, 1, 1, false, bfMExists},
	{"bf.info", 2, 3, 1, 1, false, bfInfo},
	{"bf.card", 2, 2, 1, 1, false, bfCard},
	{"bf.debug", 2, 2, 1, 1, false, bfDebug},
	{"bf.scandump", 3, 3, 1, 1, false, bfScanDump},
	{"bf.loadchunk", 4, 4, 1, 1, true, bfLoadChunk},

	{"cf.reserve", 3, 0, 1, 1, true, cfReserve},
	{"cf.add", 3, 3, 1, 1, true, cfAdd},
	{"cf.addnx", 3, 3, 1, 1, true, cfAddNX},
	{"cf.insert", 4, 0, 1, 1, true, cfInsert},
	{"cf.insertnx", 4, 0, 1, 1, true, cfInsertNX},
	{"cf.exists", 3, 3, 1, 1, false, cfExists},
	{"cf.mexists", 3, 0, 1, 1, false, cfMExists},
	{"cf.count", 3, 3, 1, 1, false, cfCount},
	{"cf.del", 3, 3, 1, 1, true, cfDel},
	{"cf.compact", 2, 2, 1, 1, true, cfCompact},
	{"cf.info", 2, 2, 1, 1, false, cfInfoCommand},
	{"cf.debug", 2, 2, 1, 1, false, cfDebug},
	{"cf.scandump", 3, 3, 1, 1, false, cfScanDump},
	{"cf.loadchunk", 4, 4, 1, 1, true, cfLoadChunk},

	{"set", 3, 0, 1, 1, true, set},
	{"get", 2, 2, 1, 1, false, get},
	{"append", 3, 3, 1, 1, true, appendTo},
	{"getrange", 4, 4, 1, 1, false, getRange},
	{"strlen", 2, 2, 1, 1, false, strLen},
	{"del", 2, 0, 1, -1, true, del},
	{"unlink", 2, 0, 1, -1, true, del},
	{"rename", 3, 3, 1, 2, true, rename},
	{"exists", 2, 0, 1, -1, false, exists},
	{"type", 2, 2, 1, 1, false, typeOf},
	{"keys", 2, 2, 0, 0, false, keys},
	{"scan", 2, 0, 0, 0, false, scan},
	{"dbsize", 1, 1, 0, 0, false, dbSize},
	{"flushall", 1, 0, 0, 0, true, flushAll},
	{"flushdb", 1, 0, 0, 0, true, flushAll},
	{"memory", 2, 0, 2, 2, false, memoryCommand},
	{"config", 2, 0, 0, 0, false, configCommand},
}

var commandMap = func() map[string]*command {
	m := map[string]*command{}
	for _, c := range commandList {
		m[c.name] = c
	}
	return m
}()

// maxQuoted is how many bytes of arguments an error message has.
const maxQuoted = 128

func unknownCommand(args [][]byte) Reply {
	var b strings.Builder
	for _, arg := range args[1:] {
		if b.Len() >= maxQuoted {
			break
		}
		b.WriteString("'" + ascii.Quotable(arg, maxQuoted-b.Len()) + "' ")
	}
	return errReply(ErrorReply("ERR unknown command '" + ascii.Quotable(args[0], maxQuoted) + "', with args beginning with: " + b.String()))
}

// Command describes a command of an [Engine].
type Command struct {
	Name string // in lower case
	// Arity is the number of arguments with the name, or the negative of the fewest
	// where more may follow, as the server's COMMAND tells it.
	Arity int
	// Write says that it may change a key.
	Write bool
	// FirstKey and LastKey are which arguments are keys, 0 for none; a negative LastKey counts
	// from the end.
	FirstKey, LastKey int
}

func (c *command) describe() Command {
	arity := c.min
	if c.min != c.max {
		arity = -c.min
	}
	return Command{c.name, arity, c.write, c.firstKey, c.toKeys}
}

// FindCommand describes the command of that name, in any case, and reports whether there is one. It does not allocate.
func FindCommand(name []byte) (Command, bool) {
	c := ascii.Find(commandMap, name)
	if c == nil {
		return Command{}, false
	}
	return c.describe(), true
}

// Commands iterates over the commands that [Engine.Do] answers.
func Commands() iter.Seq[Command] {
	return func(yield func(Command) bool) {
		for _, c := range commandList {
			if !yield(c.describe()) {
				return
			}
		}
	}
}
