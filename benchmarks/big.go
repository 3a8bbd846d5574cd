package main

import (
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"golang.org/x/perf/benchfmt"
)

// batched is a filter that can be asked for many keys a call, too.
type batched interface{ many() filter }

// contestant is a filter that is larger than the caches, and its batched form if it has
// one, nil otherwise.
type contestant struct {
	name    string
	f, many filter
	built   time.Duration // what adds took, of a filter that is built at the end
}

// bigImplementations are those that the targets name for filters that are larger than
// caches; the others would cost minutes each.
var bigImplementations = []string{"bloom", "bloom-blocked", "bits-and-blooms", "fuse8"}

// compareBig measures filters that are larger than the caches. They are built once, at
// the same time, a hundredth of the keys after the other: of every ten parts the first is
// added key by key and the second in batches, and timed, so that adds are measured at all
// loads.
func (p plan) compareBig(r *record.Writer) {
	const form = formBytes
	n := p.big
	var all []*contestant
	for _, impl := range pick(bigImplementations...) {
		c := &contestant{name: impl.name, f: impl.make(n, rate)}
		if b, ok := c.f.(batched); ok {
			c.many = b.many()
		}
		all = append(all, c)
	}
	r.Say("n=%s: building %d filters, which takes a few minutes", short(n), len(all))
	p.build(r, all)

	hits, misses := hitKeys(form, n, p.queries*bigQueries), missKeys(form, p.queries*bigQueries)
	var runners []entrant
	for _, c := range all {
		facts := traits(c.f, c.f.(sized).memoryBits(), n, misses)
		runners = append(runners, entrant{implementation{name: c.name}, c.f, facts})
		if c.many != nil {
			runners = append(runners, entrant{implementation{name: c.name + "-many"}, c.many, facts})
		}
	}
	probe := newRing(p.ring)
	for _, op := range []struct {
		name string
		keys keySet
	}{{"hit", hits}, {"miss", misses}} {
		r.Say("n=%s: %s, %d implementations and the memory probe", short(n), op.name, len(runners))
		p.rounds(len(runners)+1, func(i int) {
			if i == len(runners) {
				s := probe.follow(2 * p.time)
				r.Record(row{op.name, "dram", short(n), "none", 1}.name(), s.Ops, s.Values()...)
				return
			}
			e := runners[i]
			s := cycle(lookUp, e.f, op.keys, 1, 2*p.time)
			r.Record(row{op.name, e.name, short(n), form, 1}.name(), s.Ops, s.Values(e.traits...)...)
		})
	}
}

// bigQueries is how many times more keys lookups of large filters take in turn: no cache
// holds the lines that four million keys touch.
const bigQueries = 16

func (p plan) build(r *record.Writer, all []*contestant) {
	n, parts := p.big, 100
	keys := addedKeys(formBytes, n/parts)
	runtime.GC()
	timed := func(c *contestant, f filter, name string) {
		s := record.Counted(func() (int, time.Duration) {
			begin := time.Now()
			add(f, keys)
			return keys.len(), time.Since(begin)
		})
		if _, ok := f.(builder); ok {
			c.built += s.Elapsed
			return
		}
		r.Record(row{"add", name, short(n), formBytes, 1}.name(), s.Ops, s.Values()...)
	}
	for i := range parts {
		from := uint64(i * (n / parts))
		keys.fill(func(j uint64) uint64 { return from + j })
		for _, c := range all {
			switch _, whole := c.f.(builder); {
			case whole || i%10 == 0:
				timed(c, c.f, c.name)
			case c.many != nil && i%10 == 1:
				timed(c, c.many, c.name+"-many")
			case c.many != nil:
				add(c.many, keys)
			default:
				add(c.f, keys)
			}
		}
	}
	for _, c := range all {
		if b, ok := c.f.(builder); ok {
			begin := time.Now()
			b.build()
			s := record.Sample{Ops: n, Elapsed: c.built + time.Since(begin)}
			r.Record(row{"add", c.name, short(n), formBytes, 1}.name(), n,
				benchfmt.Value{Value: float64(s.Elapsed.Nanoseconds()) / float64(n), Unit: "ns/op"})
		}
	}
}

// ring is a way through memory, one cache line after the other, each of which says
// which one is next: the time of a step is that of one access that nothing hides.
type ring []line

type line struct {
	next uint64
	_    [56]byte
}

// newRing makes one cycle through all lines, in no order (Sattolo's algorithm).
func newRing(lines int) ring {
	r := make(ring, lines)
	for i := range r {
		r[i].next = uint64(i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := lines - 1; i > 0; i-- {
		j := random.IntN(i)
		r[i].next, r[j].next = r[j].next, r[i].next
	}
	return r
}

func (r ring) follow(d time.Duration) record.Sample {
	at, ops, start := uint64(0), 0, time.Now()
	for time.Since(start) < d {
		for range chunk {
			at = r[at].next
		}
		ops += chunk
	}
	s := record.Sample{Ops: ops, Elapsed: time.Since(start)}
	runtime.KeepAlive(at)
	return s
}
