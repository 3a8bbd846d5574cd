package bloomd

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/redbloom-go/bloom/internal/ascii"
	"github.com/redbloom-go/bloom/redisbloom"
)

const (
	readSize  = 16 << 10 // of the buffer that every connection has
	flushSize = 64 << 10 // of replies that are written before the next command is looked at

	// What an argument takes beside its bytes: in the parser, and as one element of a reply.
	argOverhead = 100
)

// Before AUTH.
var strangerLimits = limits{args: 10, bulk: 16 << 10, command: 256 << 10, stranger: true}

// conn is a connection. All of it is of one goroutine at a time, but for nc, place and the backlog.
type conn struct {
	*Server
	place
	nc     stream // nil in a loop; it changes with Server.mu held, and never while the backlog is busy
	id     uint64
	remote net.Addr
	local  net.Addr
	buf    []byte
	r, w   int // the bytes of buf that have been read and not run
	parser parser
	out    []byte // replies that have not been written
	counts int64  // bytes of it in Server.buffers, without the backlog's

	since     time.Time // when the command that is half here began
	deadline  bool      // one is set for reading
	fd        uintptr   // to be read and written without waiting, or 0
	turnsLeft int       // short ones in a row, before it joins a loop

	backlog backlog
	session
}

// stream is what a connection needs of a [net.Conn].
type stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// newConn returns a connection that counts among those running until it is served to its end.
func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{Server: s, nc: nc, id: s.lastID.Add(1), remote: nc.RemoteAddr(), local: nc.LocalAddr(), buf: make([]byte, readSize), turnsLeft: fewTurns}
	s.running.Add(1)
	c.backlog.changed.L = &c.backlog.mu
	c.session = session{proto: 2, authenticated: s.Password == "", created: time.Now()}
	return c
}

func (c *conn) limits() *limits {
	if !c.authenticated {
		return &strangerLimits
	}
	return &c.Server.limits
}

// serve runs commands until the connection ends, or a loop has it.
func (c *conn) serve() {
	if t, ok := c.nc.(*tls.Conn); ok {
		t.SetDeadline(time.Now().Add(c.CommandTimeout))
		if err := t.Handshake(); err != nil {
			c.Logger.Info("TLS handshake", "client", c.remote, "error", err)
			c.end(err)
			return
		}
		t.SetDeadline(time.Time{})
	}
	c.serveAlone()
}

// serveAlone is serve after the handshake.
func (c *conn) serveAlone() {
	for {
		err := c.ownLoop()
		if err != errJoin {
			c.end(err)
			return
		}
		if c.join() {
			return
		}
	}
}

// errJoin ends ownLoop for a connection that should be a loop's.
var errJoin = errors.New("bloomd: to be joined with others")

// end ends the connection because of err.
func (c *conn) end(err error) {
	refused, ok := err.(protocolError)
	switch {
	case ok:
		c.refuse(refused)
	case err == errUnread || err == errBrowser:
		c.Logger.Info("disconnected", "client", c.remote, "error", err)
	default:
		c.backlog.wait()
	}
	c.nc.Close()
	c.backlog.wait()
	c.gone()
}

// gone takes the connection, which is closed, from what the server has.
func (c *conn) gone() {
	c.buffers.Add(-c.counts)
	c.mu.Lock()
	delete(c.conns, c)
	c.mu.Unlock()
	c.running.Done()
}

// plainLoop reads and runs commands until the connection ends.
func (c *conn) plainLoop() error {
	for {
		if err := c.setDeadline(); err != nil {
			return err
		}
		n, err := c.nc.Read(c.buf[c.w:])
		if n == 0 && err != nil {
			return err
		}
		c.w += n
		if err := c.step(); err != nil {
			return err
		}
	}
}

// step runs what has been read, writes the replies, and makes room for more.
func (c *conn) step() error {
	if err := c.runAll(); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	return c.makeRoom()
}

// errQuit ends a connection that asked for it.
var errQuit = errors.New("bloomd: quit")

// errBrowser ends a connection whose client seems to be a web browser: a page that its user looks at can make one send
// requests to any address, with commands in their bodies.
var errBrowser = errors.New("bloomd: a request of HTTP")

func fromBrowser(word []byte) bool { return ascii.Is(word, "post") || ascii.Is(word, "host:") }

// runAll runs the commands that are whole.
func (c *conn) runAll() error {
	n := uint64(0)
	defer func() { c.commands.Add(n) }()
	limits := c.limits()
	for c.r < c.w {
		args, size, err := c.parser.parse(c.buf[c.r:c.w], limits)
		if err == errShort {
			return c.count(0)
		}
		if err != nil {
			return err
		}
		if len(args) > 0 {
			if len(args) > 1024 {
				if err := c.count(argOverhead * len(args)); err != nil {
					return err
				}
			}
			if fromBrowser(args[0]) {
				return errBrowser
			}
			reply, quit := c.run(args)
			c.out = reply.Append(c.out, c.proto)
			n++
			c.since = time.Time{}
			if quit {
				c.flush()
				return errQuit
			}
			limits = c.limits()
		}
		c.r += size
		if len(c.out) >= flushSize {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
	c.r, c.w = 0, 0
	if len(c.buf) > readSize || cap(c.parser.args) > 1024 {
		c.buf, c.parser = make([]byte, readSize), parser{}
	}
	return c.count(0)
}

const errBuffers protocolError = "too much memory in use by clients"

// count sets what the connection counts with against MaxBuffers: what it holds, and more.
func (c *conn) count(more int) error {
	bytes := int64(len(c.buf)-readSize+8*cap(c.parser.ends)+24*cap(c.parser.args)+more) + c.queued
	if bytes < 64<<10 { // not worth writing to what all connections share
		bytes = 0
	}
	if bytes == c.counts {
		return nil
	}
	total := c.buffers.Add(bytes - c.counts)
	grew := bytes > c.counts
	c.counts = bytes
	if grew && total > c.MaxBuffers {
		return errBuffers
	}
	return nil
}

// makeRoom makes room for the rest of a half command, whose time begins, or for the next.
func (c *conn) makeRoom() error {
	if c.r < c.w && c.since.IsZero() {
		c.since = time.Now()
	}
	switch {
	case c.w < len(c.buf):
		return nil
	case c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
		return nil
	}
	grown := make([]byte, min(2*len(c.buf), c.MaxCommand+readSize))
	copy(grown, c.buf)
	c.buf = grown
	return c.count(0)
}

// setDeadline sets how long the next read may take.
func (c *conn) setDeadline() error {
	var at time.Time
	switch {
	case c.r < c.w:
		at = c.since.Add(c.CommandTimeout + time.Duration((c.w-c.r)/4096)*time.Second)
	case c.IdleTimeout > 0:
		at = time.Now().Add(c.IdleTimeout)
	}
	if c.deadline || !at.IsZero() {
		if c.nc == nil {
			c.setExpiry(at)
		} else if err := c.nc.SetReadDeadline(at); err != nil {
			return err
		}
		c.deadline = !at.IsZero()
	}
	if c.closing.Load() { // else it might not see that Shutdown set one
		return errQuit
	}
	return nil
}

// refuse tells the client why it is disconnected. What it is still sending is read for a moment: closing a
// connection with unread bytes can take the message with it.
func (c *conn) refuse(why protocolError) {
	c.Logger.Info("disconnected", "client", c.remote, "error", string(why))
	c.out = redisbloom.Reply{Kind: redisbloom.Error, Str: why.Error()}.Append(c.out, c.proto)
	if c.flush() != nil {
		return
	}
	c.backlog.wait()
	if half, ok := c.nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	c.nc.SetReadDeadline(time.Now().Add(time.Second))
	io.CopyN(io.Discard, c.nc, 1<<20)
}
