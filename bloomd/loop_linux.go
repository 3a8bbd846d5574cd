package bloomd

import (
	"io"
	"syscall"
	"unsafe"
)

// A read from a net.Conn is a system call that finds nothing and a wait before the one that finds a batch of commands.
// Here the goroutine stays in one wait of the runtime's poller, which wakes it when something has come, and reads
// until nothing is left: under load that is mostly the next batch. The calls are raw ones, since the socket does not
// block and the scheduler need not be told.

func (c *conn) loop() error {
	sc, ok := c.nc.(syscall.Conn)
	if !ok { // TLS
		return c.plainLoop()
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return err
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

// serveReady serves what has come. Its error is the end of the connection.
func (c *conn) serveReady() error {
	for {
		n, errno := rawCall(syscall.SYS_READ, c.fd, c.buf[c.w:])
		switch {
		case errno == syscall.EAGAIN:
			return c.setDeadline()
		case errno == syscall.EINTR:
			continue
		case errno != 0:
			return errno
		case n == 0:
			return io.EOF
		}
		c.w += n
		if err := c.step(); err != nil {
			return err
		}
		if c.closing.Load() { // a client that always has more would never wait
			return errQuit
		}
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
