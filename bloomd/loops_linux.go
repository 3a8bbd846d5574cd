package bloomd

import (
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A goroutine for each connection means that a thread sleeps and is woken for each batch of commands, which takes
// longer than to run a small one. So the connections are shared out among loops. The goroutine of a loop asks the
// kernel which of them have sent something, runs what one read of each brings, and then writes the replies of all: the
// clients find more at a time that way, as it does. Before it sleeps it asks for a while longer, as long as its sleeps
// are short.
//
// A loop is for short turns. A connection joins one after a few of them in a goroutine of its own. If it has a long one
// there it goes on alone, where it holds up nobody, and comes back after many short ones; so does one whose client does
// not take its replies. Where a turn does not end, since its key is busy or it saves them all, another goroutine takes
// the loop, and has each of the others go on alone when it sends something, lest they wait for the same in turn.

const (
	maxEvents  = 256
	askFor     = 70 * time.Microsecond  // before sleeping
	shortSleep = 100 * time.Microsecond // asking a little longer would have spared it
	longSleeps = 4                      // in a row, and it does not ask any more
	longTurn   = 500 * time.Microsecond // many times what waking a goroutine takes
	stuckTurn  = 10 * time.Millisecond  // or up to twice that, and the loop is taken

	fewTurns  = 3   // short ones, before a connection joins a loop first
	manyTurns = 100 // in a row, before it does again
)

// loops are a server's.
type loops []*loop

func newLoops(n int) loops {
	l := make(loops, max(0, n))
	for i := range l {
		l[i] = &loop{conns: map[int32]*conn{}}
	}
	return l
}

// leastLoaded is the loop with the fewest connections of those without a stuck turn, or of all, or nil.
func (ls loops) leastLoaded() (least *loop) {
	fewest := 0
	for _, l := range ls {
		l.mu.Lock()
		n := len(l.conns)
		if l.stuck > 0 {
			n += 1 << 30
		}
		l.mu.Unlock()
		if least == nil || n < fewest {
			least, fewest = l, n
		}
	}
	return least
}

// loop has connections. While it has any, it has a worker and a poller too.
type loop struct {
	// mu is for all of it, and for what its connections have of it. It may be locked with Server.mu held, not the other
	// way round.
	mu     sync.Mutex
	poller *poller         // does not change while there is a worker, which asks it without mu
	conns  map[int32]*conn // by the descriptor that the poller watches
	worker *worker
	ready  []syscall.EpollEvent // of connections that have not had their turn
	held   []*conn              // that have had it, and have replies to be written
	late   bool                 // those are written before what is ready is run: they have waited for a stuck turn
	at     *conn                // whose turn it is
	turns  uint64
	stuck  int // turns that have not ended, of workers that had the loop

	watch    *time.Timer // for stuck turns
	watching bool
	seen     uint64 // turns, when it looked last
}

// place is what a connection has of its loop.
type place struct {
	loop    *loop
	sock    int       // the descriptor, which the loop's connections own; also fd
	expires time.Time // when what is to come is overdue, if that is set
	expiry  *time.Timer
	rings   time.Time // when expiry does
}

// join has a loop serve the connection from here on, and reports whether one does. All replies must be written.
func (c *conn) join() bool {
	l := c.loops.leastLoaded()
	if l == nil {
		return false
	}
	rc, err := c.raw()
	if rc == nil || err != nil {
		return false
	}
	// The runtime watches the descriptor that it made, and would wake a thread for all that comes.
	fd := -1
	rc.Control(func(old uintptr) {
		if n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, old, syscall.F_DUPFD_CLOEXEC, 0); errno == 0 {
			fd = int(n)
		}
	})
	if fd < 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old, deadline := c.nc, c.deadline
	c.nc, c.fd, c.place = nil, uintptr(fd), place{loop: l, sock: fd}
	if c.setDeadline() != nil || !l.add(c) {
		syscall.Close(fd)
		c.nc, c.fd, c.place, c.deadline = old, 0, place{}, deadline
		return false
	}
	old.Close()
	return true
}

func (l *loop) add(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) == 0 && l.worker == nil {
		p, err := newPoller()
		if err != nil {
			return false
		}
		l.poller = p
		l.start()
	}
	if l.poller.watch(c.sock) != nil {
		return false
	}
	l.conns[int32(c.sock)] = c
	l.expireLater(c)
	return true
}

// forget ends the loop's part in a connection. It needs l.mu.
func (l *loop) forget(c *conn) {
	if l.conns[int32(c.sock)] != c {
		return
	}
	delete(l.conns, int32(c.sock))
	l.poller.unwatch(c.sock)
	if c.expiry != nil {
		c.expiry.Stop()
		c.expiry = nil
	}
}

// leave takes the connection from its loop, for as long as it needs a goroutine of its own.
func (c *conn) leave() {
	file := socket{os.NewFile(uintptr(c.sock), "client")}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.loop
	l.mu.Lock()
	l.forget(c)
	c.nc, c.fd, c.turnsLeft, c.place = file, 0, manyTurns, place{}
	l.mu.Unlock()
	if c.killed {
		file.Close()
	}
}

// socket is a connection whose descriptor was a loop's.
type socket struct{ *os.File }

func (s socket) CloseWrite() error {
	rc, err := s.SyscallConn()
	if err != nil {
		return err
	}
	if controlled := rc.Control(func(fd uintptr) { err = syscall.Shutdown(int(fd), syscall.SHUT_WR) }); controlled != nil {
		return controlled
	}
	return err
}

// shut ends what comes from the client, or both ways, if a loop watches the connection, and that is for the loop as if
// the client had gone. A connection on its way to a goroutine of its own sees there that the server is closing, and
// leave sees where it is closed by force. It needs s.mu.
func (c *conn) shut(both bool) {
	how := syscall.SHUT_RD
	if both {
		how = syscall.SHUT_RDWR
	}
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	if c.loop.conns[int32(c.sock)] == c {
		syscall.Shutdown(c.sock, how)
	}
}

// setExpiry is SetReadDeadline for a connection of a loop.
func (c *conn) setExpiry(at time.Time) {
	c.loop.mu.Lock()
	defer c.loop.mu.Unlock()
	c.expires = at
	if c.loop.conns[int32(c.sock)] == c {
		c.loop.expireLater(c)
	}
}

// expireLater sets a timer for the connection, unless one rings before. What is overdue is mostly put off before, which
// leaves the timer as it is. It needs l.mu.
func (l *loop) expireLater(c *conn) {
	if c.expires.IsZero() || c.expiry != nil && !c.expires.Before(c.rings) {
		return
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	fd := c.sock
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(c.expires), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.conns[int32(fd)] != c || c.expiry != timer { // stopped too late
			return
		}
		c.expiry = nil
		if c.expires.IsZero() || time.Now().Before(c.expires) {
			l.expireLater(c)
			return
		}
		syscall.Shutdown(fd, syscall.SHUT_RD) // what has come is answered
	})
	c.expiry, c.rings = timer, c.expires
}

// worker is a goroutine that has a loop, until another takes it.
type worker struct {
	*loop
	events [maxEvents]syscall.EpollEvent
	eager  int       // how many sleeps more it will ask before
	clock  time.Time // when the turn began

	// The turn:
	conn  *conn
	write bool // the replies, or else run a read
	err   error
}

// start has a new worker take the loop. It needs l.mu.
func (l *loop) start() {
	l.worker = &worker{loop: l, clock: time.Now()}
	go l.worker.run()
}

func (w *worker) run() {
	for w.next() {
		if w.write {
			w.err = w.conn.flush()
		} else {
			w.err = w.conn.readOnce()
		}
	}
}

// next ends the turn and begins another, or reports false if there is none.
func (w *worker) next() bool {
	now := time.Now()
	w.mu.Lock()
	if c := w.conn; c != nil {
		if w.loop.worker != w {
			w.stuck--
			w.mu.Unlock()
			c.alone(w.err)
			return false
		}
		w.at, w.conn = nil, nil
		switch {
		case w.err != nil || c.nc != nil || now.Sub(w.clock) >= longTurn:
			w.forget(c)
			go c.alone(w.err)
		case len(c.out) > 0:
			w.held = append(w.held, c)
		}
	}
	w.clock = now
	for w.conn == nil {
		switch last := len(w.held) - 1; {
		case last >= 0 && (w.late || len(w.ready) == 0):
			w.conn, w.write = w.held[last], true
			w.held[last] = nil
			w.held = w.held[:last]
		case len(w.ready) > 0:
			w.late = false
			c := w.conns[w.ready[0].Fd]
			w.ready = w.ready[1:]
			if w.stuck > 0 {
				w.forget(c)
				go c.alone(nil)
			} else {
				w.conn, w.write = c, false
			}
		case len(w.conns) == 0:
			w.poller.close()
			w.loop.worker = nil
			w.mu.Unlock()
			return false
		default:
			w.mu.Unlock()
			n := w.wait()
			w.mu.Lock()
			w.ready = w.events[:n]
			w.startWatch()
		}
	}
	w.at = w.conn
	w.turns++
	w.mu.Unlock()
	return true
}

// wait waits until connections have sent something, and returns how many.
func (w *worker) wait() (n int) {
	for began := w.clock; w.eager > 0; {
		n = w.poller.ready(w.events[:])
		if w.clock = time.Now(); n > 0 {
			return n
		}
		if w.clock.Sub(began) >= askFor {
			break
		}
	}
	n = w.poller.sleep(w.events[:])
	now := time.Now()
	switch {
	case now.Sub(w.clock) < shortSleep && runtime.GOMAXPROCS(0) > 1:
		w.eager = longSleeps
	case w.eager > 0:
		w.eager--
	}
	w.clock = now
	return n
}

// startWatch begins to look for stuck turns. It needs l.mu.
func (l *loop) startWatch() {
	if l.watching {
		return
	}
	l.watching, l.seen = true, l.turns
	if l.watch == nil {
		l.watch = time.AfterFunc(stuckTurn, l.look)
	} else {
		l.watch.Reset(stuckTurn)
	}
}

// look has another worker take the loop if the turn is still that of the last look. It goes on while there is one.
func (l *loop) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.at == nil:
		l.watching = false
		return
	case l.turns != l.seen:
		l.seen = l.turns
	default: // its worker will see to it
		l.forget(l.at)
		l.at, l.late = nil, true
		l.stuck++
		l.start()
	}
	l.watch.Reset(stuckTurn)
}

// readOnce runs what one read brings. It leaves the replies to be written after those of others, unlike step.
func (c *conn) readOnce() error {
	if more, err := c.readNow(); !more || err != nil {
		return err
	}
	if err := c.runAll(); err != nil {
		return err
	}
	if err := c.makeRoom(); err != nil {
		return err
	}
	if err := c.setDeadline(); err != nil {
		c.flush()
		return err
	}
	return nil
}

// alone serves a connection that its loop has forgotten after a turn that ended with err.
func (c *conn) alone(err error) {
	if c.nc == nil {
		if _, errno := err.(syscall.Errno); errno || err == io.EOF || err == errQuit { // nothing is left to be said
			syscall.Close(c.sock)
			c.gone()
			return
		}
		c.leave()
	}
	if err == nil {
		err = c.flush()
	}
	if err == nil {
		c.serveAlone()
		return
	}
	c.end(err)
}
