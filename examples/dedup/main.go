// Command dedup has five small programs around one question: has this been seen before? A filter
// answers it from a few bits a key: "no" is certain, "yes" is wrong at the rate that was
// chosen, and what such an error costs is different each time. Each program prints it.
//
//	go run -C examples ./dedup llm        requests to a language model, before an exact cache
//	go run -C examples ./dedup chunks     chunks of text files for retrieval: [file ...]
//	go run -C examples ./dedup tools      an agent's tool calls, each to be made once
//	go run -C examples ./dedup urls       the URLs of a crawl
//	go run -C examples ./dedup blacklist  blocked domains
//
// Each is a file of this directory, and the part to copy is its first type with its methods. The
// traffic is made up with a fixed seed, so every run prints the same; chunks reads real files,
// whose names, with -C, are seen from examples/.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Exit codes of the program.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

type program struct {
	name, title string
	run         func(w io.Writer, args []string) error
	files       bool // takes arguments
}

var programs = []program{
	{"llm", "requests to a language model, before an exact cache", llm, false},
	{"chunks", "chunks of text files for retrieval: [file ...]", chunks, true},
	{"tools", "an agent's tool calls, each to be made once", tools, false},
	{"urls", "the URLs of a crawl", urls, false},
	{"blacklist", "blocked domains", blacklist, false},
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main without the globals.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitUsage
	}
	if args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		usage(stdout)
		return exitOK
	}
	for _, p := range programs {
		if p.name != args[0] {
			continue
		}
		if len(args) > 1 && !p.files {
			fmt.Fprintf(stderr, "dedup: %s takes no arguments, got %q\n", p.name, args[1])
			return exitUsage
		}
		if err := p.run(stdout, args[1:]); err != nil {
			fmt.Fprintf(stderr, "dedup: %s: %s\n", p.name, strings.ReplaceAll(err.Error(), "\n", "; "))
			return exitFailed
		}
		return exitOK
	}
	fmt.Fprintf(stderr, "dedup: no program %q\n", args[0])
	usage(stderr)
	return exitUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: dedup program")
	for _, p := range programs {
		fmt.Fprintf(w, "  %-10s %s\n", p.name, p.title)
	}
}
