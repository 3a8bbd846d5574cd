// Command redis has four small programs with filters that live in Redis:
//
//	go run -C examples ./redis pull    pull a filter once, answer from memory, go on when Redis is gone
//	go run -C examples ./redis move    a filter from one server to another
//	go run -C examples ./redis bitmap  a filter in a plain Redis string, no module
//	go run -C examples ./redis guard   a cache in Redis, and a synced filter that keeps absent ids from the database
//
// Each starts the server that it talks to, says which, and ends it: pull and move bloomd, in this process, which has
// the commands of RedisBloom; the other two the redis-server that is in the PATH.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"
)

// Exit codes of the program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

type program struct {
	name, title string
	run         func(ctx context.Context, w io.Writer) error
}

var programs = []program{
	{"pull", "pull a filter once, answer from memory, go on when Redis is gone", pull},
	{"move", "a filter from one server to another", move},
	{"bitmap", "a filter in a plain Redis string, no module", bitmap},
	{"guard", "a cache in Redis, and a synced filter that keeps absent ids from the database", guarded},
}

// quiet keeps the client from logging that a server is gone which a program has ended.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the globals.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 {
		switch args[0] {
		case "-h", "-help", "--help":
			usage(stdout)
			return exitOK
		}
		for _, p := range programs {
			if p.name != args[0] {
				continue
			}
			if err := p.run(ctx, stdout); err != nil {
				fmt.Fprintln(stderr, "redis:", err)
				return exitFailed
			}
			return exitOK
		}
	}
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: redis PROGRAM")
	for _, p := range programs {
		fmt.Fprintf(w, "  %-7s %s\n", p.name, p.title)
	}
}
