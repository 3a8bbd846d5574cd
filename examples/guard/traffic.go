package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// absentRow marks a lookup whose key has no row.
const absentRow = -1

// lookup is one request: a key and the row it must find.
type lookup struct {
	key string
	row int // index into dataset.rows, or absentRow
}

// traffic makes an endless stream of lookups. The same seed makes the same
// stream, so two set-ups can be given exactly the same work.
type traffic struct {
	data       *dataset
	share      float64 // of absent keys
	rng        *rand.Rand
	zipf       *rand.Zipf
	byHeat     []int  // rows, the most wanted first
	unassigned []rune // code points not asked for yet
}

func newTraffic(data *dataset, absent float64, seed uint64) *traffic {
	rng := rand.New(rand.NewPCG(seed, 0))
	t := &traffic{
		data:       data,
		share:      absent,
		rng:        rng,
		zipf:       rand.NewZipf(rng, 1.1, 1, uint64(len(data.rows)-1)),
		byHeat:     rng.Perm(len(data.rows)), // hot rows lie anywhere in the table
		unassigned: append([]rune(nil), data.unassigned...),
	}
	rng.Shuffle(len(t.unassigned), func(i, j int) {
		t.unassigned[i], t.unassigned[j] = t.unassigned[j], t.unassigned[i]
	})
	return t
}

// fill overwrites batch with the next lookups.
func (t *traffic) fill(batch []lookup) {
	for i := range batch {
		if t.rng.Float64() < t.share {
			batch[i] = lookup{t.absentKey(), absentRow}
			continue
		}
		n := t.byHeat[t.zipf.Uint64()]
		batch[i] = lookup{t.data.rows[n].key, n}
	}
}

// absentKey returns a key without a row. The dataset decides that, never the
// filter, whose mistakes are what is being counted. Nearly all absent keys are
// asked for once only: an attacker does not repeat himself, and repeated keys
// would make the count of false positives a poor sample of the error rate.
func (t *traffic) absentKey() string {
	for {
		key := t.guess()
		if _, exists := t.data.index[key]; !exists {
			return key
		}
	}
}

func (t *traffic) guess() string {
	if t.data.unassigned == nil {
		return t.mutate(t.data.rows[t.rng.IntN(len(t.data.rows))].key)
	}
	switch t.rng.IntN(4) {
	case 0: // beyond the last code point
		return fmt.Sprintf("U+%08X", t.rng.Uint32()|1<<24)
	case 1: // not even the right shape
		return strconv.FormatUint(t.rng.Uint64(), 36)
	}
	if len(t.unassigned) == 0 { // a long run has asked for them all
		return fmt.Sprintf("U+%016X", t.rng.Uint64()|1<<63)
	}
	r := t.unassigned[0]
	t.unassigned = t.unassigned[1:]
	return codePoint(r)
}

// mutate turns a key into a similar one, as a scraper does who guesses ids. The
// letters it brings in are random enough for small key files not to repeat.
func (t *traffic) mutate(key string) string {
	const longest = 1024 // a batch of mutated 1 MiB keys would fill the memory
	key = key[:min(len(key), longest)]
	salt := strconv.FormatUint(1<<40|t.rng.Uint64N(1<<40), 36)
	cut := t.rng.IntN(len(key) + 1)
	if t.rng.IntN(2) == 0 {
		return key[:cut] + salt
	}
	return key[:cut] + salt + key[cut:]
}
