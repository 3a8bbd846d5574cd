package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/redbloom-go/bloom/rolling"
)

// completions answers requests to a language model from a shared cache where it can. Most requests
// are new, and for them the cache is a round trip for nothing: the filter spares it.
type completions struct {
	seen  *rolling.Rotating // remembers a request for longer than its answer is kept
	cache answerCache
	model func(request) string
}

type request struct {
	Model       string    `json:"model"`
	Temperature float64   `json:"temperature"`
	Messages    []message `json:"messages"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// key is the same for the same request only. JSON of a struct has one form; parameters
// that are maps would have to be sorted first.
func (r request) key() (key [32]byte, err error) {
	b, err := json.Marshal(r)
	return sha256.Sum256(b), err
}

func (c *completions) complete(r request) (string, error) {
	if r.Temperature > 0 {
		return c.model(r), nil // the caller wants another answer each time
	}
	key, err := r.key()
	if err != nil {
		return "", err
	}
	if c.seen.Contains(key[:]) {
		if answer, ok := c.cache.get(key); ok {
			return answer, nil
		}
		// A false positive, or an answer that has expired: nothing is lost but the look.
	}
	answer := c.model(r)
	c.cache.put(key, answer)
	c.seen.Add(key[:]) // after the put: who finds the key finds the answer
	return answer, nil
}

// answerCache stands for a cache in another process. It is exact: it compares whole hashes.
type answerCache struct {
	answers map[[32]byte]cachedAnswer
	ttl     time.Duration
	now     func() time.Time
	gets    int
	found   int
	expired int
}

type cachedAnswer struct {
	text    string
	expires time.Time
}

func (c *answerCache) get(key [32]byte) (string, bool) {
	c.gets++
	a, ok := c.answers[key]
	switch {
	case !ok:
		return "", false
	case !c.now().Before(a.expires):
		c.expired++
		return "", false
	}
	c.found++
	return a.text, true
}

func (c *answerCache) put(key [32]byte, text string) {
	c.answers[key] = cachedAnswer{text, c.now().Add(c.ttl)}
}

// llm sends three days of requests: some questions come again and again, the others are new.
func llm(w io.Writer, _ []string) error {
	const (
		requests = 60_000
		rate     = 0.01
		ttl      = 24 * time.Hour
		every    = 72 * time.Hour / requests
	)
	now := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	// Five buckets of six hours remember for more than four times six hours: every answer that
	// is still in the cache. A bucket is made for a quarter of the requests of a day.
	seen, err := rolling.NewRotating(requests/3/4, rate, rolling.RotatingOptions{Span: ttl / 4, Keep: 5, Now: clock})
	if err != nil {
		return err
	}
	calls := 0
	c := completions{
		seen:  seen,
		cache: answerCache{answers: make(map[[32]byte]cachedAnswer), ttl: ttl, now: clock},
		model: func(r request) string { calls++; return "answer to " + r.Messages[0].Content },
	}
	// The same traffic with the cache alone, for the comparison.
	exact := answerCache{answers: make(map[[32]byte]cachedAnswer), ttl: ttl, now: clock}

	rng := rand.New(rand.NewPCG(1, 1))
	popular := rand.NewZipf(rng, 1.2, 10, 5000)
	sampled := 0
	for i := range requests {
		now = now.Add(every)
		r := request{Model: "small-1", Messages: []message{{"user", fmt.Sprint("summarize ticket ", i)}}}
		switch x := rng.Float64(); {
		case x < 0.3:
			r.Messages[0].Content = fmt.Sprint("frequent question ", popular.Uint64())
		case x < 0.35:
			r.Temperature = 0.7
			sampled++
		}
		answer, err := c.complete(r)
		if err != nil {
			return err
		}
		if want := "answer to " + r.Messages[0].Content; answer != want {
			return fmt.Errorf("request %d was answered %q, want %q", i, answer, want)
		}
		if r.Temperature > 0 {
			continue
		}
		key, err := r.key()
		if err != nil {
			return err
		}
		if _, ok := exact.get(key); !ok {
			exact.put(key, answer)
		}
	}
	lost := exact.found - c.cache.found
	fmt.Fprintf(w, "requests                          %6d, %d of them to be sampled anew\n", requests, sampled)
	fmt.Fprintf(w, "answered by the cache             %6d, the others by the model\n", c.cache.found)
	fmt.Fprintf(w, "answers in the cache, but missed  %6d\n", lost)
	fmt.Fprintf(w, "looks into the cache              %6d, without the filter %d\n", c.cache.gets, exact.gets)
	fmt.Fprintf(w, "of these in vain, new request     %6d, without the filter %d\n", c.cache.gets-c.cache.found-c.cache.expired, exact.gets-exact.found-exact.expired)
	fmt.Fprintf(w, "of these in vain, answer expired  %6d, without the filter %d\n", c.cache.expired, exact.expired)
	fmt.Fprintf(w, "memory of the filter              %6d KB\n", seen.SizeBytes()/1000)
	fmt.Fprintf(w, `
A false positive costs one look into the cache that finds nothing, for at most %g %% of the new
requests. No request ever gets the answer of another one, since the cache decides; and no
answer that the cache still has is missed, since the filter remembers for longer.
`, 100*rate)
	if lost != 0 || calls != requests-c.cache.found {
		return fmt.Errorf("%d cached answers were missed, %d calls of the model", lost, calls)
	}
	return nil
}
