package bloomd

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redbloom-go/bloom/internal/ascii"
	"github.com/redbloom-go/bloom/redisbloom"
)

// This file has the commands for operators, and for clients that ask who they talk to.

const (
	// What clients are told, since some turn features on by it: the last version before Redis had these
	// commands in its core.
	redisVersion  = "7.4.0"
	moduleVersion = 20800 // of the RedisBloom module
)

func moduleList() reply {
	return listReply(pairs(bulkReply("name"), bulkReply("bf"), bulkReply("ver"), intReply(moduleVersion), bulkReply("path"), bulkReply(""), bulkReply("args"), listReply()))
}

func module(_ *conn, args [][]byte, _ do) reply {
	if !ascii.Is(args[1], "list") {
		return unknownSubcommand("module", args[1])
	}
	if len(args) > 2 {
		return wrongArity("module|list")
	}
	return moduleList()
}

// parameters are those that CONFIG GET has beside the engine's: what clients and benchmarks ask for. They cannot be
// set.
func (s *Server) parameters() map[string]string {
	return map[string]string{
		"save": "", "appendonly": "no", "databases": "1", "maxmemory-policy": "noeviction",
		"maxclients": strconv.Itoa(s.MaxClients), "timeout": strconv.Itoa(int(s.IdleTimeout.Seconds())), "proto-max-bulk-len": strconv.Itoa(s.MaxBulk),
	}
}

func configCommand(c *conn, args [][]byte, engine do) reply {
	if ascii.Is(args[1], "resetstat") {
		if len(args) > 2 {
			return wrongArity("config|resetstat")
		}
		c.commands.Store(0)
		c.accepted.Store(0)
		return okReply
	}
	r := engine(args...)
	if !ascii.Is(args[1], "get") || r.Kind != redisbloom.Map {
		return r
	}
	var patterns []string
	for _, arg := range args[2:] {
		patterns = append(patterns, string(arg))
	}
	own := redisbloom.SelectParameters(c.parameters(), patterns)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		r.Elems = append(r.Elems, bulkReply(name), bulkReply(own[name]))
	}
	return r
}

func clock(*conn, [][]byte, do) reply {
	now := time.Now()
	return listReply(bulkReply(strconv.FormatInt(now.Unix(), 10)), bulkReply(strconv.Itoa(now.Nanosecond()/1000)))
}

func info(c *conn, args [][]byte, _ do) reply {
	var text strings.Builder
	wanted := args[1:]
	all := len(wanted) == 0 || slices.ContainsFunc(wanted, func(arg []byte) bool {
		return ascii.Is(arg, "all") || ascii.Is(arg, "default") || ascii.Is(arg, "everything")
	})
	for _, section := range c.sections() {
		if !all && !slices.ContainsFunc(wanted, func(arg []byte) bool { return ascii.Is(arg, strings.ToLower(section.name)) }) {
			continue
		}
		if text.Len() > 0 {
			text.WriteString("\r\n")
		}
		fmt.Fprintf(&text, "# %s\r\n", section.name)
		lines := section.lines()
		for i := 0; i < len(lines); i += 2 {
			fmt.Fprintf(&text, "%v:%v\r\n", lines[i], lines[i+1])
		}
	}
	return reply{Kind: redisbloom.Text, Str: text.String()}
}

type infoSection struct {
	name  string
	lines func() []any // names and values in turn; only called where the section is asked for
}

func (s *Server) sections() []infoSection {
	return []infoSection{
		{"Server", func() []any {
			return []any{
				"redis_version", redisVersion, "server_name", "bloomd", "redis_mode", "standalone",
				"os", runtime.GOOS + " " + runtime.GOARCH, "arch_bits", strconv.IntSize, "go_version", runtime.Version(),
				"process_id", os.Getpid(), "run_id", s.runID, "uptime_in_seconds", int(time.Since(s.started).Seconds()),
			}
		}},
		{"Clients", func() []any {
			s.mu.Lock()
			defer s.mu.Unlock()
			return []any{"connected_clients", len(s.conns), "maxclients", s.MaxClients}
		}},
		{"Memory", func() []any {
			var m runtime.MemStats
			runtime.ReadMemStats(&m) // stops all goroutines for a moment
			return []any{
				"used_memory", s.engine.UsedMemory(), "maxmemory", s.engine.MaxMemory(), "maxmemory_policy", "noeviction",
				"client_buffers", s.buffers.Load(), "heap_in_use", m.HeapInuse, "from_os", m.Sys,
			}
		}},
		{"Persistence", func() []any {
			status := "ok"
			if s.saveErr.Load() != nil {
				status = "err"
			}
			return []any{
				"loading", 0, "rdb_bgsave_in_progress", boolInt(s.saving.Load()), "rdb_last_save_time", s.lastSave.Load(),
				"rdb_last_bgsave_status", status, "file", s.File,
			}
		}},
		{"Stats", func() []any {
			return []any{"total_connections_received", s.accepted.Load(), "total_commands_processed", s.commands.Load()}
		}},
		{"Replication", func() []any {
			// The history of the data begins anew at each start, since what was not saved is lost.
			return []any{"role", "master", "connected_slaves", 0, "master_replid", s.runID}
		}},
		{"Cluster", func() []any { return []any{"cluster_enabled", 0} }},
		{"Modules", func() []any {
			return []any{"module", fmt.Sprintf("name=bf,ver=%d,api=1,filters=0,usedby=[],using=[],options=[]", moduleVersion)}
		}},
		{"Keyspace", func() []any {
			keys := s.engine.Len()
			if keys == 0 {
				return nil
			}
			return []any{"db0", fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", keys)}
		}},
	}
}

func boolInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

const errNoFile = "ERR this server was started without a file for its keys"

func save(c *conn, _ [][]byte, _ do) reply {
	if c.File == "" {
		return errorReply(errNoFile)
	}
	switch err := c.save(); err {
	case nil:
		return okReply
	case errSaving:
		return errorReply("ERR Background save already in progress")
	default:
		return errorReply("ERR saving failed: " + err.Error())
	}
}

func backgroundSave(c *conn, args [][]byte, _ do) reply {
	switch {
	case len(args) > 2 || len(args) == 2 && !ascii.Is(args[1], "schedule"):
		return errSyntax
	case c.File == "":
		return errorReply(errNoFile)
	case c.saving.Load():
		return errorReply("ERR Background save already in progress")
	}
	c.running.Go(func() { c.save() })
	return simpleReply("Background saving started")
}

// shutdown asks whoever runs the server to end it. NOSAVE is refused: to end without saving, kill the process.
func shutdown(c *conn, args [][]byte, _ do) reply {
	if len(args) > 2 || len(args) == 2 && !ascii.Is(args[1], "save") {
		return errSyntax
	}
	c.askOnce.Do(func() { close(c.shutdown) })
	return okReply
}

// debug has RELOAD, which tests of servers send: all keys are written and read back.
func debug(c *conn, args [][]byte, _ do) reply {
	if !ascii.Is(args[1], "reload") {
		return unknownSubcommand("debug", args[1])
	}
	if err := c.engine.Reload(); err != nil {
		return errorReply("ERR " + err.Error())
	}
	return okReply
}

func commandNames() []string {
	var names []string
	for c := range redisbloom.Commands() {
		names = append(names, c.Name)
	}
	for name := range serverCommands {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// describeCommand is an element of COMMAND's reply, null for a name that is none.
func describeCommand(name string) reply {
	d, ok := redisbloom.FindCommand([]byte(name))
	if !ok {
		s := serverCommands[name]
		if s == nil {
			return reply{}
		}
		d = redisbloom.Command{Name: name, Arity: s.min}
		if s.min != s.max {
			d.Arity = -s.min
		}
	}
	flags := []reply{}
	switch {
	case d.Write:
		flags = append(flags, simpleReply("write"), simpleReply("denyoom"))
	case ok:
		flags = append(flags, simpleReply("readonly"))
	default:
		flags = append(flags, simpleReply("admin"))
	}
	step := int64(0)
	if d.FirstKey > 0 {
		step = 1
	}
	set := func(elems ...reply) reply { return reply{Kind: redisbloom.Set, Elems: elems} }
	return listReply(bulkReply(name), intReply(int64(d.Arity)), set(flags...), intReply(int64(d.FirstKey)), intReply(int64(d.LastKey)), intReply(step),
		set(), listReply(), listReply(), listReply())
}

func commandCommand(_ *conn, args [][]byte, _ do) reply {
	if len(args) == 1 {
		return describeAll(commandNames())
	}
	sub := args[1]
	switch {
	case ascii.Is(sub, "count") && len(args) > 2:
		return wrongArity("command|count")
	case ascii.Is(sub, "count"):
		return intReply(int64(len(commandNames())))
	case ascii.Is(sub, "list") && len(args) > 2: // FILTERBY
		return errSyntax
	case ascii.Is(sub, "list"):
		var names []reply
		for _, name := range commandNames() {
			names = append(names, bulkReply(name))
		}
		return listReply(names...)
	case ascii.Is(sub, "info"):
		names := commandNames()
		if len(args) > 2 {
			names = names[:0]
			for _, arg := range args[2:] {
				names = append(names, strings.ToLower(string(arg)))
			}
		}
		return describeAll(names)
	case ascii.Is(sub, "docs"):
		return pairs() // there are none; redis-cli then has no hints
	}
	return unknownSubcommand("command", sub)
}

func describeAll(names []string) reply {
	var all []reply
	for _, name := range names {
		all = append(all, describeCommand(name))
	}
	return listReply(all...)
}
