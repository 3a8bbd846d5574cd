package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/redbloom-go/bloom"
)

// toolRunner makes each tool call of an agent at most once, also when the agent comes back after a
// crash and plays its steps again. The truth is in the journal, which is durable and far
// away. The filter spares the question whether a call was made before where it certainly
// was not, which is nearly always.
type toolRunner struct {
	made    *bloom.Concurrent
	journal *journal
}

// errInDoubt is for a call that was begun and whose end nobody recorded. Only the tool can tell whether
// it took effect; a filter cannot, and neither can the journal.
var errInDoubt = errors.New("begun before, outcome unknown")

// newToolRunner reads the journal first. A filter that lacks a key of it would let that call be made
// twice. For the same reason the calls of one agent must all go through one runner.
func newToolRunner(j *journal, capacity uint64, rate float64) (*toolRunner, error) {
	made, err := bloom.NewConcurrent(max(capacity, uint64(len(j.entries))), rate)
	if err != nil {
		return nil, err
	}
	for key := range j.entries {
		made.AddString(key)
	}
	return &toolRunner{made, j}, nil
}

// call is identified by where it stands in the run: to send the same message twice can be meant.
type call struct {
	run  string
	step int
	tool string
	args string
}

func (c call) key() string {
	args := sha256.Sum256([]byte(c.args))
	return fmt.Sprintf("%s/%d/%s/%s", c.run, c.step, c.tool, hex.EncodeToString(args[:16]))
}

func (r *toolRunner) do(c call, tool func(call) (string, error)) (string, error) {
	key := c.key()
	if r.made.ContainsString(key) {
		switch e, ok := r.journal.get(key); {
		case ok && e.done:
			return e.result, nil // played again: the result of then
		case ok:
			return "", errInDoubt
		}
		// A false positive: the journal has been asked for nothing.
	}
	r.made.AddString(key)
	r.journal.put(key, entry{}) // before the tool does anything
	result, err := tool(c)
	if err != nil {
		return "", err // the entry stays: begun, outcome unknown
	}
	r.journal.put(key, entry{true, result})
	return result, nil
}

// journal stands for a durable store.
type journal struct {
	entries map[string]entry
	gets    int
	found   int
}

type entry struct {
	done   bool
	result string
}

func (j *journal) get(key string) (entry, bool) {
	j.gets++
	e, ok := j.entries[key]
	if ok {
		j.found++
	}
	return e, ok
}

func (j *journal) put(key string, e entry) { j.entries[key] = e }

var errCrash = errors.New("crash")

// tools lets agents do their steps. The process dies now and then in the middle of a call, and
// everything starts again from the journal.
func tools(w io.Writer, _ []string) error {
	const (
		runs, steps = 500, 40
		rate        = 0.01
		crashes     = 5
	)
	rng := rand.New(rand.NewPCG(1, 2))
	effects := make(map[string]int) // what the world has seen, by key
	untilCrash := 0
	tool := func(c call) (string, error) {
		effects[c.key()]++
		if untilCrash--; untilCrash == 0 {
			return "", errCrash // the effect took place, and nobody heard of it
		}
		return "done " + c.args, nil
	}

	j := &journal{entries: make(map[string]entry)}
	asked, doubts, again, starts := 0, 0, 0, 0
	for finished := false; !finished; starts++ {
		r, err := newToolRunner(j, runs*steps, rate) // all that a process knows when it starts
		if err != nil {
			return err
		}
		if untilCrash = 0; starts < crashes {
			untilCrash = 1 + rng.IntN(runs*steps/crashes)
		}
		finished, doubts = true, 0
	process:
		for run := range runs {
			for step := range steps {
				c := call{fmt.Sprint("run-", run), step, "send_mail", fmt.Sprintf(`{"to":"customer %d"}`, run*steps+step)}
				before := effects[c.key()]
				asked++
				switch result, err := r.do(c, tool); {
				case errors.Is(err, errCrash):
					finished = false
					break process
				case errors.Is(err, errInDoubt):
					doubts++
				case err != nil:
					return err
				case result != "done "+c.args:
					return fmt.Errorf("%v got the result %q", c, result)
				case before > 0:
					again++
				}
			}
		}
	}
	twice := 0
	for _, n := range effects {
		if n > 1 {
			twice++
		}
	}
	fmt.Fprintf(w, "tool calls asked for      %6d, in %d starts of the process\n", asked, starts)
	fmt.Fprintf(w, "made                      %6d\n", len(effects))
	fmt.Fprintf(w, "made twice                %6d\n", twice)
	fmt.Fprintf(w, "answered from the journal %6d, played again after a crash\n", again)
	fmt.Fprintf(w, "in doubt at the end       %6d, one for each crash: to be settled with the tool\n", doubts)
	fmt.Fprintf(w, "journal asked             %6d, without the filter %d\n", j.gets, asked)
	fmt.Fprintf(w, "of these in vain          %6d, without the filter %d\n", j.gets-j.found, len(effects))
	fmt.Fprintf(w, `
A false positive costs one look into the journal that finds nothing, for at most %g %% of the first
calls. No call is left out for it, since the journal decides; and none is made twice, since
the filter never says "not made" of a call that is in the journal.
`, 100*rate)
	if twice > 0 || len(effects) != runs*steps || doubts != crashes {
		return fmt.Errorf("%d calls made twice, %d made, %d in doubt", twice, len(effects), doubts)
	}
	return nil
}
