package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/redbloom-go/bloom"
)

// blockedDomains is a blacklist that is too large, or too far away, to be asked for every
// message. The filter answers "not blocked" for nearly all that are not; the list itself is
// asked about the rest, so that nobody is blocked by mistake.
type blockedDomains struct {
	maybe *bloom.Cuckoo // a filter that domains can be removed from
	list  map[string]bool
	asked int // how often the list was
}

func newBlockedDomains(capacity uint64, rate float64) (*blockedDomains, error) {
	maybe, err := bloom.NewCuckoo(capacity, rate, bloom.WithGrowth(2))
	return &blockedDomains{maybe: maybe, list: make(map[string]bool)}, err
}

func (b *blockedDomains) blocked(domain string) bool {
	domain = strings.ToLower(domain)
	if !b.maybe.ContainsString(domain) {
		return false
	}
	b.asked++
	return b.list[domain]
}

func (b *blockedDomains) block(domain string) error {
	domain = strings.ToLower(domain)
	if b.list[domain] {
		return nil // the filter would hold it twice
	}
	if _, err := b.maybe.AddString(domain); err != nil {
		return err
	}
	b.list[domain] = true
	return nil
}

// unblock removes from the filter only what is on the list. To remove a domain that is not, but is a
// false positive, would take away another one, which would then pass.
func (b *blockedDomains) unblock(domain string) {
	domain = strings.ToLower(domain)
	if b.list[domain] {
		delete(b.list, domain)
		b.maybe.RemoveString(domain)
	}
}

// blacklist checks the senders of messages, few of which are blocked.
func blacklist(w io.Writer, _ []string) error {
	const (
		domains, messages = 50_000, 400_000
		rate              = 0.001
	)
	b, err := newBlockedDomains(domains, rate)
	if err != nil {
		return err
	}
	bad := func(i int) string { return fmt.Sprintf("offers-%d.example", i) }
	good := func(i int) string { return fmt.Sprintf("Customer-%d.example", i) }
	for i := range domains {
		if err := b.block(bad(i)); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(1, 3))
	fromBad, stopped, filterAlone, wronglyStopped := 0, 0, 0, 0
	for range messages {
		domain, isBad := good(rng.IntN(1_000_000)), rng.IntN(100) == 0
		if isBad {
			domain = bad(rng.IntN(domains))
			fromBad++
		} else if b.maybe.ContainsString(strings.ToLower(domain)) {
			filterAlone++
		}
		if b.blocked(domain) {
			stopped++
			if !isBad {
				wronglyStopped++
			}
		}
	}
	fmt.Fprintf(w, "domains on the list             %6d, in %d KB of filter\n", domains, b.maybe.SizeBytes()/1000)
	fmt.Fprintf(w, "messages                        %6d, %d of them from those domains\n", messages, fromBad)
	fmt.Fprintf(w, "stopped                         %6d\n", stopped)
	fmt.Fprintf(w, "stopped by mistake              %6d\n", wronglyStopped)
	fmt.Fprintf(w, "list asked                      %6d, without the filter %d\n", b.asked, messages)
	fmt.Fprintf(w, "of these in vain                %6d\n", filterAlone)

	b.unblock("OFFERS-7.example")
	b.unblock("never-blocked.example")
	fmt.Fprintf(w, "offers-7.example after unblock: blocked %v; offers-8.example: blocked %v\n",
		b.blocked(bad(7)), b.blocked(bad(8)))

	fmt.Fprintf(w, `
A false positive costs one question to the list, for %.2g %% of the messages that are not blocked.
Without the list behind it, the filter would have stopped those %d messages, and would stop
the same senders each time: ask the truth before you act against somebody. No domain on
the list ever passes.
`, 100*b.maybe.ErrorRate(), filterAlone)
	if stopped != fromBad || wronglyStopped != 0 {
		return fmt.Errorf("%d of %d stopped, %d by mistake", stopped, fromBad, wronglyStopped)
	}
	return nil
}
