package redisbloom

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom/internal/ascii"
)

// settings are the module's parameters, by the names that CONFIG has for them.
type settings struct {
	bfErrorRate       float64
	bfInitialSize     int64
	bfExpansionFactor int64
	cfBucketSize      int64
	cfInitialSize     int64
	cfMaxIterations   int64
	cfExpansionFactor int64
	cfMaxExpansions   int64
}

func defaultSettings() settings {
	return settings{
		bfErrorRate: 0.01, bfInitialSize: 100, bfExpansionFactor: 2,
		cfBucketSize: 2, cfInitialSize: 1024, cfMaxIterations: 20, cfExpansionFactor: 1, cfMaxExpansions: 32,
	}
}

// The limits of the commands.
const (
	maxCapacity      = 1 << 30
	maxRate          = 0.25 // above it a rate is taken as this one
	maxExpansion     = 1 << 15
	maxBucketSize    = 255
	maxIterations    = math.MaxUint16
	maxCFExpansions  = math.MaxUint16
	minCapacityRatio = 2 // capacity of a cuckoo filter over its bucket size
)

// parameter is one of the settings.
type parameter struct {
	name  string
	value func(*settings) *int64 // nil for bf-error-rate
	limit func(*settings) (low, high int64)
}

func limits(low, high int64) func(*settings) (int64, int64) {
	return func(*settings) (int64, int64) { return low, high }
}

var parameters = []parameter{
	{"bf-error-rate", nil, nil},
	{"bf-initial-size", func(s *settings) *int64 { return &s.bfInitialSize }, limits(1, maxCapacity)},
	{"bf-expansion-factor", func(s *settings) *int64 { return &s.bfExpansionFactor }, limits(0, maxExpansion)},
	{"cf-bucket-size", func(s *settings) *int64 { return &s.cfBucketSize },
		func(s *settings) (int64, int64) { return 1, min(maxBucketSize, s.cfInitialSize/minCapacityRatio) }},
	{"cf-initial-size", func(s *settings) *int64 { return &s.cfInitialSize },
		func(s *settings) (int64, int64) { return minCapacityRatio * s.cfBucketSize, maxCapacity }},
	{"cf-max-iterations", func(s *settings) *int64 { return &s.cfMaxIterations }, limits(1, maxIterations)},
	{"cf-expansion-factor", func(s *settings) *int64 { return &s.cfExpansionFactor }, limits(0, maxExpansion)},
	{"cf-max-expansions", func(s *settings) *int64 { return &s.cfMaxExpansions }, limits(1, maxCFExpansions)},
}

// The parameter that is not of the module.
const maxMemoryName = "maxmemory"

// ConfigGet returns the parameters whose names match one of the patterns, which are as KEYS
// takes them, and their values. The parameters are the module's bf-error-rate (0.01 unless set),
// bf-initial-size (100), bf-expansion-factor (2), cf-bucket-size (2), cf-initial-size
// (1024), cf-max-iterations (20), cf-expansion-factor (1) and cf-max-expansions (32), which filters have
// that are made without saying otherwise, and maxmemory, in bytes.
func (e *Engine) ConfigGet(patterns ...string) map[string]string {
	s := *e.config.Load()
	all := map[string]string{maxMemoryName: strconv.FormatUint(e.MaxMemory(), 10)}
	for _, p := range parameters {
		all[p.name] = p.get(&s)
	}
	return SelectParameters(all, patterns)
}

// SelectParameters returns those of all, whose names are in lower case, that match one of the patterns. Where
// a pattern is a name, the server's CONFIG GET repeats it as it was written.
func SelectParameters(all map[string]string, patterns []string) map[string]string {
	got := map[string]string{}
	for _, pattern := range patterns {
		if value, ok := all[strings.ToLower(pattern)]; ok {
			got[pattern] = value
			continue
		}
		for name, value := range all {
			if Match(strings.ToLower(pattern), name) {
				got[name] = value
			}
		}
	}
	return got
}

func (p *parameter) get(s *settings) string {
	if p.value == nil {
		return strconv.FormatFloat(s.bfErrorRate, 'f', -1, 64)
	}
	return strconv.FormatInt(*p.value(s), 10)
}

// ConfigSet sets a parameter: see [Engine.ConfigGet]. Filters that exist keep what
// they were made with, but for cf-max-expansions, which counts for all. The errors are the
// server's.
func (e *Engine) ConfigSet(name, value string) error {
	return configSet(e, [][]byte{nil, nil, asBytes(name), asBytes(value)}).Err()
}

func configCommand(e *Engine, args [][]byte) Reply {
	switch sub := args[1]; {
	case ascii.Is(sub, "get"):
		if len(args) < 3 {
			return wrongArity("config|get")
		}
		return configGet(e, args)
	case ascii.Is(sub, "set"):
		if len(args) < 4 || len(args)%2 != 0 {
			return wrongArity("config|set")
		}
		return configSet(e, args)
	}
	return unknownSubcommand("CONFIG", args[1])
}

func unknownSubcommand(command string, sub []byte) Reply {
	return errReply(ErrorReply("ERR unknown subcommand '" + ascii.Quotable(sub, maxQuoted) + "'. Try " + command + " HELP."))
}

func configGet(e *Engine, args [][]byte) Reply {
	var patterns []string
	for _, arg := range args[2:] {
		patterns = append(patterns, string(arg))
	}
	got := e.ConfigGet(patterns...)
	r := Reply{Kind: Map}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		r.Elems = append(r.Elems, Reply{Kind: Bulk, Str: name}, Reply{Kind: Bulk, Str: got[name]})
	}
	return r
}

// configSet sets all of the pairs of name and value from args[2] on, or none.
func configSet(e *Engine, args [][]byte) Reply {
	e.setMu.Lock()
	defer e.setMu.Unlock()
	s, maxMemory := *e.config.Load(), e.MaxMemory()
	seen := map[string]bool{}
	for i := 2; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		if name != maxMemoryName && !slices.ContainsFunc(parameters, func(p parameter) bool { return p.name == name }) {
			return errReply(ErrorReply("ERR Unknown option or number of arguments for CONFIG SET - '" + string(args[i]) + "'"))
		}
		if seen[name] {
			return configFailed(name, "duplicate parameter")
		}
		seen[name] = true
	}
	for i := 2; i < len(args); i += 2 {
		name, ok := strings.ToLower(string(args[i])), true
		if name == maxMemoryName {
			if maxMemory, ok = parseMemory(string(args[i+1])); !ok {
				return configFailed(name, "argument must be a memory value")
			}
			continue
		}
		for _, p := range parameters {
			if p.name != name {
				continue
			}
			if why := p.set(&s, args[i+1]); why != "" {
				return configFailed(name, why)
			}
		}
	}
	e.config.Store(&s)
	e.SetMaxMemory(maxMemory)
	return replyOK
}

func configFailed(name, why string) Reply {
	return errReply(ErrorReply("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why))
}

// set sets the parameter, or returns why it does not.
func (p *parameter) set(s *settings, arg []byte) (why string) {
	if p.value == nil {
		rate, ok := parseDouble(arg)
		if !ok {
			return "argument couldn't be parsed into a number"
		}
		if !(rate > 0 && rate < 1) {
			return "argument must be strictly between 0 and 1"
		}
		s.bfErrorRate = rate
		return ""
	}
	n, ok := parseInt(arg)
	if !ok {
		return "argument couldn't be parsed into an integer"
	}
	if low, high := p.limit(s); n < low || n > high {
		return "argument must be between " + strconv.FormatInt(low, 10) + " and " + strconv.FormatInt(high, 10) + " inclusive"
	}
	*p.value(s) = n
	return ""
}

// parseMemory reads a number of bytes, in the units that redis.conf has: k, m and g are powers of ten, kb, mb and
// gb of two.
func parseMemory(s string) (uint64, bool) {
	digits := strings.TrimRight(strings.ToLower(s), "bgkm")
	n, err := strconv.ParseUint(digits, 10, 64)
	unit, ok := map[string]uint64{
		"": 1, "b": 1, "k": 1e3, "kb": 1 << 10, "m": 1e6, "mb": 1 << 20, "g": 1e9, "gb": 1 << 30,
	}[strings.ToLower(s)[len(digits):]]
	if err != nil || !ok || n > math.MaxUint64/unit {
		return 0, false
	}
	return n * unit, true
}
