package bloomd

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// poller says which descriptors can be read. It is an epoll instance that a goroutine asks itself, with raw system
// calls, which do not wait. To sleep in the kernel would keep a processor from the scheduler, which would have to look
// after it for milliseconds; so the goroutine sleeps in the runtime's poller. That one does not watch the instance
// itself, or all that comes would wake a thread, but a gate: an instance that watches the first while it is open.
type poller struct {
	epfd int
	gate *os.File
	raw  syscall.RawConn // of the gate
	open bool

	// Of sleep:
	check  func(gate uintptr) bool
	events []syscall.EpollEvent
	n      int
}

func newPoller() (*poller, error) {
	epfd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	gate, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		syscall.Close(epfd)
		return nil, err
	}
	syscall.SetNonblock(gate, true) // or the runtime's poller would not have it
	p := &poller{epfd: epfd, gate: os.NewFile(uintptr(gate), "gate")}
	p.check = p.openAndCheck
	if p.raw, err = p.gate.SyscallConn(); err == nil {
		err = p.gate.SetReadDeadline(time.Time{}) // fails if the runtime's poller does not have it
	}
	if err == nil {
		err = control(gate, syscall.EPOLL_CTL_ADD, epfd, 0)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) close() {
	p.gate.Close()
	syscall.Close(p.epfd)
}

func (p *poller) watch(fd int) error {
	return control(p.epfd, syscall.EPOLL_CTL_ADD, fd, syscall.EPOLLIN)
}
func (p *poller) unwatch(fd int) { control(p.epfd, syscall.EPOLL_CTL_DEL, fd, 0) }

func control(epfd, op, fd int, events uint32) error {
	event := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_CTL, uintptr(epfd), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&event)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ready returns how many descriptors can be read; the first of them are in events.
func (p *poller) ready(events []syscall.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(p.epfd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 { // a signal
		return 0
	}
	return int(n)
}

// sleep is ready once one can be read.
func (p *poller) sleep(events []syscall.EpollEvent) int {
	p.events = events
	if err := p.raw.Read(p.check); err != nil {
		panic("bloomd: " + err.Error()) // the gate was closed under a loop that has connections
	}
	return p.n
}

// openAndCheck opens the gate before it looks, so that what comes after it looked is seen by the runtime. It shuts it
// again when something has come.
func (p *poller) openAndCheck(gate uintptr) bool {
	if !p.open {
		control(int(gate), syscall.EPOLL_CTL_MOD, p.epfd, syscall.EPOLLIN)
		p.open = true
	}
	if p.n = p.ready(p.events); p.n == 0 {
		return false
	}
	control(int(gate), syscall.EPOLL_CTL_MOD, p.epfd, 0)
	p.open = false
	return true
}
