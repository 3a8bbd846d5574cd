package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// report is everything the table shows.
type report struct {
	cfg           config
	data          *dataset
	stats         guard.Stats // after the pass with the filter
	cacheSize     int
	without, with tally
	denied        []string      // rows the filter calls absent
	rejectTime    time.Duration // per rejected lookup; 0 if none was rejected
	rebuilds      rebuildReport
}

// wrong is the number of answers that contradict the truth.
func (r report) wrong() int {
	return r.without.wrong + r.with.wrong + len(r.denied) + r.rebuilds.wrong + r.rebuilds.lost
}

func (r report) firstWrong() string {
	switch {
	case r.without.wrong > 0:
		return r.without.firstWrong
	case r.with.wrong > 0:
		return r.with.firstWrong
	case len(r.denied) > 0:
		return fmt.Sprintf("the filter denies the row %.100q", r.denied[0])
	case r.rebuilds.firstBad != "":
		return r.rebuilds.firstBad
	}
	return ""
}

func (r report) print(w io.Writer) error {
	p := message.NewPrinter(language.English) // groups digits: 1,000,000
	var out strings.Builder
	num := func(n int) string { return p.Sprintf("%d", n) }
	line := func(name, without, with string) {
		fmt.Fprintf(&out, "%-28s%16s%16s\n", name, without, with)
	}
	counts := func(name string, without, with int) { line(name, num(without), num(with)) }

	p.Fprintf(&out, "%s: %d rows in SQLite, %d in the cache at most\n", r.data.source, len(r.data.rows), r.cacheSize)
	fmt.Fprintf(&out, "traffic: %.4g %% of the lookups ask for absent keys, seed %d\n\n", 100*r.cfg.absent, r.cfg.seed)

	line("", "without filter", "with filter")
	counts("lookups", r.without.lookups, r.with.lookups)
	line("  answered by the filter", "-", num(r.with.answers[fromFilter]))
	counts("  answered by the cache", r.without.answers[fromCache], r.with.answers[fromCache])
	counts("  answered by the database", r.without.answers[fromDatabase], r.with.answers[fromDatabase])
	counts("database queries", r.without.queries, r.with.queries)
	counts("  of these for absent keys", r.without.absentQueries, r.with.absentQueries)
	line("time for all lookups", round(r.without.elapsed), round(r.with.elapsed))
	counts("wrong answers", r.without.wrong, r.with.wrong+len(r.denied))
	out.WriteByte('\n')

	// Each absent key is a coin that falls on "maybe" at the error rate: the
	// count scatters around the expected one with this standard deviation.
	rate, n := r.stats.EstimatedRate, float64(r.with.absent)
	sigma := math.Sqrt(n * rate * (1 - rate))
	fmt.Fprintf(&out, "%-28s%s expected (± %s), %s seen\n", "false positives",
		p.Sprintf("%.0f", n*rate), p.Sprintf("%.0f", sigma), num(r.with.absentQueries))
	fmt.Fprintf(&out, "%-28s%s bytes for %s keys, %.2f bits a key, error rate %.3g\n", "filter",
		p.Sprintf("%d", r.stats.SizeBytes), num(len(r.data.rows)), 8*float64(r.stats.SizeBytes)/float64(len(r.data.rows)), rate)
	rejected := "none to measure"
	if r.rejectTime > 0 {
		rejected = p.Sprintf("%d ns", r.rejectTime.Nanoseconds())
	}
	fmt.Fprintf(&out, "%-28s%s\n", "rejected lookup", rejected)
	fmt.Fprintf(&out, "%-28s%d in %s, %s keys scanned\n", "rebuilds under load", r.rebuilds.times, round(r.rebuilds.took),
		p.Sprintf("%d", r.rebuilds.scanned))
	fmt.Fprintf(&out, "%-28s%s lookups, %s rows created, %s of them lost, %s called absent\n", "  meanwhile",
		num(r.rebuilds.lookups), num(r.rebuilds.created), num(r.rebuilds.lost), num(r.rebuilds.wrong))

	_, err := io.WriteString(w, out.String())
	return err
}

func round(d time.Duration) string {
	if d < time.Second {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// progress draws bars on a terminal and nothing anywhere else.
type progress struct {
	w       io.Writer
	visible bool
}

func newProgress(w io.Writer) progress {
	f, ok := w.(*os.File)
	return progress{w: w, visible: ok && term.IsTerminal(int(f.Fd()))}
}

// start shows a new bar for a step of total parts.
func (p progress) start(step string, total int) bar {
	return bar{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetVisibility(p.visible),
		progressbar.OptionSetDescription(step),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(50*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

// bar forgets the errors of drawing: a run does not fail for its decoration.
type bar struct{ *progressbar.ProgressBar }

func (b bar) add(n int) { _ = b.Add(n) }

// stop takes the bar off the screen, however far it got.
func (b bar) stop() { _ = b.Clear() }
