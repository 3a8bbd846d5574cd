package main

import (
	"os"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom/redisbloom"
)

// memoryLimit is what keys may take unless -max-memory says so: three quarters of what this process can have.
func memoryLimit() uint64 {
	return limitFrom("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
}

// limitFrom takes the least of what the files say that are there: Linux's, and those of its two kinds of control
// groups. Without any it is the engine's own limit.
func limitFrom(meminfo string, groups ...string) uint64 {
	limit := memTotal(meminfo)
	for _, file := range groups {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64); err == nil { // it can be "max"
			limit = min(limit, n)
		}
	}
	if limit == noLimit {
		return redisbloom.DefaultMaxMemory
	}
	return limit / 4 * 3
}

const noLimit = 1<<64 - 1

// memTotal reads the machine's memory from /proc/meminfo.
func memTotal(file string) uint64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return noLimit
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if kb, err := strconv.ParseUint(fields[1], 10, 54); err == nil {
				return kb << 10
			}
		}
	}
	return noLimit
}
