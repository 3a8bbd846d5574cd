package main

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// memory returns how many bytes of memory the machine has, where Linux tells it, and otherwise no limit.
func memory() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxUint64
	}
	for line := range strings.Lines(string(text)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return math.MaxUint64
}
