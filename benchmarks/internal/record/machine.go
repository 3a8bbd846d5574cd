package record

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Machine is what the figures of a run of a command depend on, in the order that results
// have it.
func Machine(now time.Time, pkg, command string) [][2]string {
	return [][2]string{
		{"goos", runtime.GOOS},
		{"goarch", runtime.GOARCH},
		{"pkg", pkg},
		{"cpu", cpu()},
		{"cpus", fmt.Sprint(runtime.NumCPU())},
		{"go", runtime.Version()},
		{"date", now.UTC().Format(time.DateOnly)},
		{"command", command},
	}
}

// Versions are the versions of those of the modules that this program is built with; the values
// of modules are the names that results give them.
func Versions(modules map[string]string) (config [][2]string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if name := modules[m.Path]; name != "" {
				config = append(config, [2]string{name, m.Version})
			}
		}
	}
	return config
}

// cpu is the processor's name, where the system tells it.
func cpu() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
