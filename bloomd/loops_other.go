//go:build !linux

package bloomd

import "time"

// Elsewhere every connection has a goroutine of its own.

type (
	loops struct{}
	place struct{}
)

const fewTurns = 0

func newLoops(int) loops { return loops{} }

func (c *conn) join() bool          { return false }
func (c *conn) leave()              {}
func (c *conn) shut(bool)           {}
func (c *conn) setExpiry(time.Time) {}
func (c *conn) ownLoop() error      { return c.plainLoop() }
func (c *conn) writeNow() int       { return 0 }
