package bloomd

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// This file writes replies. Clients send pipelines of any length before they read the first reply: a server that waited
// for them to read, and did not read meanwhile, would wait for ever. So what a client does not take at once is written
// by a goroutine that is there for as long as that takes, while its next commands are run.

// maxBacklog bounds the replies of a connection that its client has not taken; then its commands wait.
const maxBacklog = 32 << 20

// backlog is what a connection has still to write.
type backlog struct {
	busy   atomic.Bool // a goroutine is writing; changes under mu
	failed atomic.Bool // err is not nil

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte // what the goroutine has not begun with
	size    int    // of that and of what it is at
	err     error  // of a write: the connection is over
}

// errUnread ends the connection of a client that makes others want for memory.
var errUnread = errors.New("bloomd: too many replies that were not read")

// flush writes the replies, or leaves them to the backlog.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if len(c.out) > 2*flushSize {
		if err := c.count(cap(c.out)); err != nil {
			c.out = nil
			return err
		}
	}
	n := 0
	if !c.backlog.busy.Load() && !c.backlog.failed.Load() { // nothing is written behind replies that are lost
		n = c.writeNow()
	}
	if n < len(c.out) {
		c.out = c.out[n:]
		if err := c.count(0); err != nil { // the backlog counts them
			return err
		}
		if c.nc == nil {
			c.leave()
		}
		return c.writeLater()
	}
	if cap(c.out) > 2*flushSize {
		c.out = nil
	}
	c.out = c.out[:0]
	return nil
}

// writeLater adds the replies to the backlog.
func (c *conn) writeLater() error {
	l := &c.backlog
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.err == nil && l.size > maxBacklog {
		l.changed.Wait()
	}
	if l.err != nil {
		return l.err
	}
	size := len(c.out)
	if c.buffers.Add(int64(size)) > c.MaxBuffers && l.size+size > flushSize {
		c.buffers.Add(-int64(size))
		return errUnread
	}
	l.size += size
	if len(l.waiting) == 0 {
		l.waiting, c.out = c.out, nil
	} else {
		l.waiting, c.out = append(l.waiting, c.out...), c.out[:0]
	}
	if !l.busy.Load() {
		l.busy.Store(true)
		go c.writeBacklog()
	}
	return nil
}

// writeBacklog writes until nothing is left, or closes the connection.
func (c *conn) writeBacklog() {
	l := &c.backlog
	l.mu.Lock()
	for len(l.waiting) > 0 && l.err == nil {
		b := l.waiting
		l.waiting = nil
		for len(b) > 0 && l.err == nil {
			l.mu.Unlock()
			n, err := c.writePart(b)
			l.mu.Lock()
			b, l.err = b[n:], err
			l.size -= n
			c.buffers.Add(-int64(n))
			l.changed.Broadcast()
		}
	}
	if l.err != nil {
		l.failed.Store(true)
		l.mu.Unlock()
		c.nc.Close() // it waits for who is reading; nc stays what it is while this is busy
		l.mu.Lock()
	}
	c.buffers.Add(-int64(l.size)) // 0 unless it failed
	l.waiting, l.size = nil, 0
	l.busy.Store(false)
	l.changed.Broadcast()
	l.mu.Unlock()
}

func (c *conn) writePart(b []byte) (int, error) {
	if err := c.nc.SetWriteDeadline(time.Now().Add(c.WriteTimeout)); err != nil {
		return 0, err
	}
	return c.nc.Write(b[:min(len(b), flushSize)])
}

// wait waits until all is written, or the connection is over.
func (l *backlog) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.busy.Load() {
		l.changed.Wait()
	}
}
