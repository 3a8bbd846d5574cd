package guard

import (
	"sync/atomic"
	"time"
)

type counter uint8

const (
	rejected counter = iota
	deletedHits
	hits
	nullHits
	found
	missing
	passed
	audited
	falseNegatives
	loads
	loadErrors
	shared
	overloads
	notStored
	cacheErrors
	filterErrors
	numCounters
)

// counters are striped by key, so that goroutines seldom write to the same cache line.
type counters struct {
	stripes [32]struct {
		n [numCounters]atomic.Uint64
		_ [64]byte
	}
}

func (c *counters) add(hash uint64, which counter) {
	c.stripes[hash%uint64(len(c.stripes))].n[which].Add(1)
}

func (c *counters) sum(which counter) uint64 {
	n := uint64(0)
	for i := range c.stripes {
		n += c.stripes[i].n[which].Load()
	}
	return n
}

// State is whether a guard has a filter.
type State uint8

const (
	// StateUnknown is that of a guard without a filter in use: it rejects nothing.
	StateUnknown State = iota
	// StateActive is that of a guard whose filter rejects.
	StateActive
)

// String returns "Unknown" or "Active".
func (s State) String() string {
	if s == StateActive {
		return "Active"
	}
	return "Unknown"
}

// Stats is what a guard holds and what it has done. Counts only grow, from the making of the
// guard on.
type Stats struct {
	State      State
	Rebuilding bool      // a rebuild or a restore is under way
	CompleteAt time.Time // see Guard.CompleteAt

	// Of the filter in the process; zero without one.
	Items         uint64  // distinct keys it holds, less the few that were false positives
	Capacity      uint64  // that it was made for
	Load          float64 // Items / Capacity: this, and not FillRatio, says when to rebuild
	FillRatio     float64 // share of bits set: at Load 0.8 and a rate of 1 % it is 0.44
	EstimatedRate float64 // of false positives, from the bits that are set
	SizeBytes     uint64  // of the filter
	Deletions     int     // deleted keys that are remembered

	// Lookups by their answer: the sum of these, without Deleted, and of those that ended in an
	// error is all lookups.
	Rejected uint64 // by the filter, or because the key was deleted
	Deleted  uint64 // of these, the ones for keys that were deleted
	Hits     uint64 // rows from the cache
	NullHits uint64 // keys that the cache knew to have no row
	Found    uint64 // rows that were loaded, or shared from another caller's load
	Missing  uint64 // keys that were found by a load to have no row

	// ObservedRate is the share of false positives among the lookups of absent keys since
	// the making of the guard: those that the filter let through though there was no row, over these and
	// the rejected. Repeated keys count each time.
	ObservedRate   float64
	FalsePositives uint64 // lookups that the filter let through and that had no row
	Audited        uint64 // rejections that were looked up all the same
	FalseNegatives uint64 // of these, the ones with a row; more than 0 is an alarm

	Loads        uint64 // calls of the loader
	LoadErrors   uint64 // those that failed
	Shared       uint64 // lookups that waited for a load another one had begun
	Overloads    uint64 // loads refused for MaxLoads
	NotStored    uint64 // loaded entries that were not cached, since a write had overtaken them
	CacheErrors  uint64 // times that the cache failed, to read or to write
	FilterErrors uint64 // times that the filter failed, to answer or to take a key
}

// Stats reads all counters, one after the other, and every word of the filter: some 10 milliseconds
// for 100 MB of filter.
func (g *Guard[K, V]) Stats() Stats {
	s := Stats{
		Rebuilding: g.filters.Rebuilding(), Deletions: g.filters.Deletions(),
		Rejected: g.counts.sum(rejected), Deleted: g.counts.sum(deletedHits),
		Hits: g.counts.sum(hits), NullHits: g.counts.sum(nullHits),
		Found: g.counts.sum(found), Missing: g.counts.sum(missing),
		FalsePositives: g.counts.sum(passed), Audited: g.counts.sum(audited), FalseNegatives: g.counts.sum(falseNegatives),
		Loads: g.counts.sum(loads), LoadErrors: g.counts.sum(loadErrors), Shared: g.counts.sum(shared),
		Overloads: g.counts.sum(overloads), NotStored: g.counts.sum(notStored),
		CacheErrors: g.counts.sum(cacheErrors), FilterErrors: g.counts.sum(filterErrors),
	}
	if absent := s.FalsePositives + s.Rejected; absent > 0 {
		s.ObservedRate = float64(s.FalsePositives) / float64(absent)
	}
	if g.opts.Filter != nil {
		if !g.bypass.Load() {
			s.State = StateActive
		}
		return s
	}
	if gen, ok := g.filters.Load(); ok {
		info := gen.info()
		s.State, s.CompleteAt = StateActive, gen.completeAt()
		s.Items, s.Capacity, s.FillRatio = info.Len, gen.capacity, info.FillRatio
		s.Load = float64(info.Len) / float64(gen.capacity)
		s.EstimatedRate, s.SizeBytes = info.ErrorRate, info.SizeBytes
	}
	return s
}
