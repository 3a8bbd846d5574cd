package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// isTerminal reports whether a person sees what is written to w.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// bar shows how many bytes were read, on a terminal and nowhere else. It forgets the errors of drawing: no command
// fails for its decoration.
type bar struct{ *progressbar.ProgressBar }

// newBar shows a bar for total bytes, or what is known without a total if that is −1.
func newBar(w io.Writer, step string, total int64) bar {
	return bar{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(isTerminal(w)),
		progressbar.OptionSetDescription(step),
		progressbar.OptionSetWidth(30),
		progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (b bar) add(n int) { _ = b.Add(n) }

// stop takes the bar off the screen, however far it got.
func (b bar) stop() { _ = b.Clear() }
