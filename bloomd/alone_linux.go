package bloomd

import (
	"io"
	"net"
	"syscall"
	"time"
	"unsafe"
)

// A read from a net.Conn is a system call that finds nothing and a wait before the one that finds a batch of commands.
// Here the goroutine stays in one wait of the runtime's poller, which wakes it when something has come, and reads
// until nothing is left: under load that is mostly the next batch. The calls are raw ones, since the socket does not
// block and the scheduler need not be told.

// ownLoop reads and runs commands in a goroutine of the connection's own until it ends or should join a loop.
func (c *conn) ownLoop() error {
	rc, err := c.raw()
	switch {
	case err != nil:
		return err
	case rc == nil:
		return c.plainLoop()
	}
	if err := c.setDeadline(); err != nil {
		return err
	}
	var ended error
	err = rc.Read(func(fd uintptr) bool {
		c.fd = fd
		ended = c.serveReady()
		c.fd = 0
		return ended != nil
	})
	if ended != nil {
		return ended
	}
	return err
}

// raw gives access to the descriptor. It returns nil where reading and writing are more than its system calls: with
// TLS, or in a type of the caller's, which may have SyscallConn from what it embeds.
func (c *conn) raw() (syscall.RawConn, error) {
	switch c.nc.(type) {
	case *net.TCPConn, *net.UnixConn, socket:
		return c.nc.(syscall.Conn).SyscallConn()
	}
	return nil, nil
}

// serveReady serves what has come. Its error is the end of ownLoop.
func (c *conn) serveReady() error {
	for {
		more, err := c.readNow()
		if err != nil {
			return err
		}
		if !more {
			return c.setDeadline()
		}
		began := time.Now()
		if err := c.step(); err != nil {
			return err
		}
		if c.closing.Load() { // a client that always has more would never wait
			return errQuit
		}
		if time.Since(began) >= longTurn {
			c.turnsLeft = manyTurns
		} else if c.turnsLeft--; c.turnsLeft <= 0 && len(c.loops) > 0 && !c.backlog.busy.Load() {
			c.turnsLeft = manyTurns // for where no loop takes it
			return errJoin
		}
	}
}

// readNow reads what has come, if anything has.
func (c *conn) readNow() (bool, error) {
	for {
		n, errno := rawCall(syscall.SYS_READ, c.fd, c.buf[c.w:])
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return false, nil
		case errno != 0:
			return false, errno
		case n == 0:
			return false, io.EOF
		}
		c.w += n
		return true, nil
	}
}

// writeNow writes as much of the replies as can be written without waiting, and returns how much that is. It leaves
// errors to who writes the rest.
func (c *conn) writeNow() int {
	if c.fd == 0 || len(c.out) == 0 {
		return 0
	}
	n, errno := rawCall(syscall.SYS_WRITE, c.fd, c.out)
	if errno != 0 {
		return 0
	}
	return n
}

// rawCall is a read into b or a write of it, which is not empty.
func rawCall(call, fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), errno
}
