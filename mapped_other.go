//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package bloom

import (
	"errors"
	"os"
)

// Where files are not mapped, a Mapped is a copy.

const canMap = false

func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return errors.ErrUnsupported }
