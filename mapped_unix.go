//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package bloom

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

const canMap = true

func mapFile(file *os.File, size int64) ([]byte, error) {
	if size > math.MaxInt {
		return nil, fmt.Errorf("%w: a file of %d bytes cannot be mapped on this machine", ErrTooLarge, size)
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return data, nil
}

func unmapFile(data []byte) error { return os.NewSyscallError("munmap", syscall.Munmap(data)) }
