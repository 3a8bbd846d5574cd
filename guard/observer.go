package guard

import (
	"context"
	"log/slog"
	"time"
)

// Observer is told what happens in a guard, for logs and metrics; [Guard.Stats] has the
// counts. Its methods are called from several goroutines at once, with no lock held, by the goroutine
// that the event happened in, which waits for them: they should be quick, must not
// panic, and start a goroutine for what takes long, such as the rebuild after Threshold. Embed
// [NopObserver] to implement some of them and to go on compiling when there are more.
type Observer interface {
	// Loaded is called after each call of the loader.
	Loaded(LoadEvent)

	// Threshold is called once when the filter holds Options.RebuildAt of its capacity, and
	// again only for the next filter. From here on the rate of false positives nears the one
	// asked for, and then passes it; nothing else goes wrong.
	Threshold(ThresholdEvent)

	// Rebuilt is called after each Rebuild and Restore that began, with its error if it
	// failed.
	Rebuilt(Report, error)

	// FalseNegative is called when an audit found a row that the filter rejects: rows are being
	// written that the guard is not told of, or the filter is damaged. The key has been added.
	FalseNegative(key any)

	// Failed is called when the cache or the filter failed, in a lookup or in a write, which
	// returns the error too. Part is "cache" or "filter".
	Failed(part string, err error)
}

// LoadEvent describes a call of the loader.
type LoadEvent struct {
	Keys    int           // that it was called for
	Missing int           // of these, the ones without a row
	Took    time.Duration // in the loader
	Err     error         // what the callers got, other than ErrNotFound
}

// ThresholdEvent describes a filter that fills up.
type ThresholdEvent struct {
	Items    uint64 // distinct keys that the filter holds, as in Stats.Items
	Capacity uint64 // that it was made for
}

// NopObserver does nothing.
type NopObserver struct{}

// Loaded does nothing.
func (NopObserver) Loaded(LoadEvent) {}

// Threshold does nothing.
func (NopObserver) Threshold(ThresholdEvent) {}

// Rebuilt does nothing.
func (NopObserver) Rebuilt(Report, error) {}

// FalseNegative does nothing.
func (NopObserver) FalseNegative(any) {}

// Failed does nothing.
func (NopObserver) Failed(string, error) {}

// NewSlogObserver returns an [Observer] that logs: loads at debug level, those that failed and
// failures of cache and filter as warnings, rebuilds as information, and what needs somebody to
// act as warnings (a filter that fills up) and errors (a rebuild that failed, a row that
// the filter rejects, with its key). A nil logger is slog.Default().
func NewSlogObserver(logger *slog.Logger) Observer {
	if logger == nil {
		logger = slog.Default()
	}
	return slogObserver{logger}
}

type slogObserver struct{ log *slog.Logger }

func (o slogObserver) Loaded(e LoadEvent) {
	level := slog.LevelDebug
	if e.Err != nil {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.Int("keys", e.Keys), slog.Int("missing", e.Missing), slog.Duration("took", e.Took)}
	if e.Err != nil {
		attrs = append(attrs, slog.Any("error", e.Err))
	}
	o.log.LogAttrs(ctx, level, "guard: load", attrs...)
}

func (o slogObserver) Threshold(e ThresholdEvent) {
	o.log.Warn("guard: the filter fills up, rebuild it", "items", e.Items, "capacity", e.Capacity)
}

func (o slogObserver) Rebuilt(r Report, err error) {
	if err != nil {
		o.log.Error("guard: the filter was not replaced", "error", err, "scanned", r.Scanned, "took", r.Took)
		return
	}
	o.log.Info("guard: the filter was replaced", "items", r.Items, "capacity", r.Capacity, "scanned", r.Scanned, "took", r.Took)
}

func (o slogObserver) FalseNegative(key any) {
	o.log.Error("guard: the filter rejected a row that exists", "key", key)
}

func (o slogObserver) Failed(part string, err error) {
	o.log.Warn("guard: failure", "part", part, "error", err)
}
