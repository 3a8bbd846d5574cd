// Package redisbloom answers the BF.* and CF.* commands of a Redis server in a Go process: a
// keyspace of Bloom and cuckoo filters, with the server's commands, replies and
// error texts, and its bytes in every dump. It opens no connection; the module bloomd puts
// it on a network.
//
//	e := redisbloom.New()
//	e.BFReserve("seen", 0.001, 1_000_000)
//	added, err := e.BFAdd("seen", "alice")
//	reply := e.Do([]byte("BF.EXISTS"), []byte("seen"), []byte("alice"))
//
// [Engine.Do] takes any command, and the methods named after the commands are typed. What
// the replies are was recorded from a server; docs/REDIS.md tells how filters travel between
// servers and this library.
package redisbloom

import (
	"sync"
	"sync/atomic"

	"github.com/redbloom-go/bloom/internal/ascii"
)

// Engine is a keyspace of filters and strings, and the commands on it. Any number of
// goroutines may use it at the same time. Commands on different keys do not
// wait for one another, and reads of one key run side by side; a command
// is atomic on its key. Make one with [New].
type Engine struct {
	keys   keyspace
	mem    memory
	config atomic.Pointer[settings]
	setMu  sync.Mutex // serializes changes of config
	gates  [gateCount]gate
}

// Every command holds one gate, any, shared; Exec holds all of them alone. Several gates
// instead of one so that commands do not all write to one cache line.
const gateCount = 64

type gate struct {
	sync.RWMutex
	_ [64]byte
}

// DefaultMaxMemory is the memory limit of an [Engine] unless it is set: see
// [Engine.SetMaxMemory].
const DefaultMaxMemory = 1 << (30 + 2*(^uint(0)>>63)) // 4 GiB; 1 GiB on 32-bit platforms

// New returns an empty engine with the server's default settings and a memory limit of
// [DefaultMaxMemory].
func New() *Engine {
	e := &Engine{}
	e.keys.init()
	s := defaultSettings()
	e.config.Store(&s)
	e.mem.limit.Store(DefaultMaxMemory)
	return e
}

// SetMaxMemory bounds what all keys may take, in bytes: their filters' bits, names and strings,
// and some 400 bytes a key and 160 a link or sub-filter for what is around those. A command that would pass it
// changes nothing and answers [ErrOutOfMemory]; a batch stops there, as it does
// at a full filter. All else goes on working, and keys can be deleted. 0 means no
// limit: then a command that asks for more memory than the machine has ends the
// process, since Go cannot refuse it.
//
// A Redis server checks its limit only before a command, so that one command
// can pass it by any amount; here none does.
func (e *Engine) SetMaxMemory(bytes uint64) { e.mem.limit.Store(bytes) }

// MaxMemory returns the limit that [Engine.SetMaxMemory] set.
func (e *Engine) MaxMemory() uint64 { return e.mem.limit.Load() }

// UsedMemory returns what all keys take, counted as [Engine.SetMaxMemory] says.
func (e *Engine) UsedMemory() uint64 { return e.mem.used.Load() }

// Len returns the number of keys.
func (e *Engine) Len() int { return e.keys.len() }

// Do answers a command: its name, in any case, and its arguments. It keeps nothing of args
// once it has returned. The commands are those of [Commands]; any other is answered
// with the error that a server gives for a command it does not know.
func (e *Engine) Do(args ...[]byte) Reply {
	c, refused := lookUp(args)
	if c == nil {
		return refused
	}
	g := e.gate(args)
	g.RLock()
	r := c.run(e, args)
	g.RUnlock()
	return r
}

// Check returns the error that [Engine.Do] would answer for a command it does not know or for a wrong number of
// arguments, and nil if it would run it.
func Check(args ...[]byte) error {
	_, refused := lookUp(args)
	return refused.Err()
}

// lookUp returns the command that args ask for, or nil and the reply to what is none.
func lookUp(args [][]byte) (*command, Reply) {
	if len(args) == 0 {
		return nil, errReply("ERR empty command")
	}
	c := ascii.Find(commandMap, args[0])
	if c == nil {
		return nil, unknownCommand(args)
	}
	if !c.fits(len(args)) {
		return nil, wrongArity(c.name)
	}
	return c, Reply{}
}

// stop waits for the commands that run and keeps others out until the function it returns is called.
func (e *Engine) stop() (start func()) {
	for i := range e.gates {
		e.gates[i].Lock()
	}
	return func() {
		for i := range e.gates {
			e.gates[i].Unlock()
		}
	}
}

// gate returns the gate for a command. Which one makes no difference but to speed.
func (e *Engine) gate(args [][]byte) *gate {
	h := uint(0)
	if len(args) > 1 {
		if key := args[1]; len(key) > 0 {
			h = uint(key[len(key)-1]) + uint(len(key))
		}
	}
	return &e.gates[h%gateCount]
}

// Watch is the state of a key at some time, for [Engine.Exec].
type Watch struct {
	key     string
	entry   *entry
	version uint64
}

// Watch returns the state of key as it is now.
func (e *Engine) Watch(key string) Watch {
	w := Watch{key: key}
	if en := e.keys.rlock(asBytes(key)); en != nil {
		w.entry, w.version = en, en.version
		en.RUnlock()
	}
	return w
}

func (e *Engine) unchanged(w Watch) bool {
	now := e.Watch(w.key)
	return now.entry == w.entry && now.version == w.version
}

// Exec calls f, which may send commands to do, as one command: no other is run while it runs, for any key. It is what
// MULTI and EXEC are made of. If a command that may have changed one of the watched keys has been run since they were
// looked at, it does not call f and returns false. In f use do and no method of the engine, which would wait for f.
func (e *Engine) Exec(f func(do func(args ...[]byte) Reply), watched ...Watch) bool {
	defer e.stop()()
	for _, w := range watched {
		if !e.unchanged(w) {
			return false
		}
	}
	f(func(args ...[]byte) Reply {
		c, reply := lookUp(args)
		if c != nil {
			reply = c.run(e, args)
		}
		return reply
	})
	return true
}
