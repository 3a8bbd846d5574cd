package redisbloom

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfig(t *testing.T) {
	failed := func(name, why string) string {
		return "-ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why
	}
	e := New()
	for _, c := range [][2]string{
		{"CONFIG GET bf-*", "*6 bf-error-rate 0.01 bf-expansion-factor 2 bf-initial-size 100"},
		{"config get CF-bucket-size cf-max-expansions cf-max-expansions", "*4 CF-bucket-size 2 cf-max-expansions 32"},
		{"CONFIG GET cf-[ei]*", "*4 cf-expansion-factor 1 cf-initial-size 1024"},
		{"CONFIG GET cf-max-iterations", "*2 cf-max-iterations 20"},
		{"CONFIG GET nothing", "*0"},
		{"CONFIG", arity("config")}, {"CONFIG GET", arity("config|get")}, {"CONFIG SET a", arity("config|set")}, {"CONFIG SET bf-error-rate 0.1 b", arity("config|set")},
		{"CONFIG FOO", "-ERR unknown subcommand 'FOO'. Try CONFIG HELP."},
		{"CONFIG SET foo 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'"},
		{"CONFIG SET bf-initial-size 7 foo 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'foo'"},
		{"CONFIG SET bf-initial-size 7 bf-initial-size 8", failed("bf-initial-size", "duplicate parameter")},
		{"CONFIG SET bf-initial-size 7 cf-bucket-size x", failed("cf-bucket-size", "argument couldn't be parsed into an integer")},
		{"CONFIG SET bf-initial-size 0", failed("bf-initial-size", "argument must be between 1 and 1073741824 inclusive")},
		{"CONFIG SET bf-initial-size 1073741825", failed("bf-initial-size", "argument must be between 1 and 1073741824 inclusive")},
		{"CONFIG SET bf-expansion-factor -1", failed("bf-expansion-factor", "argument must be between 0 and 32768 inclusive")},
		{"CONFIG SET cf-bucket-size 256", failed("cf-bucket-size", "argument must be between 1 and 255 inclusive")},
		{"CONFIG SET cf-initial-size 3", failed("cf-initial-size", "argument must be between 4 and 1073741824 inclusive")},
		{"CONFIG SET cf-max-iterations 65536", failed("cf-max-iterations", "argument must be between 1 and 65535 inclusive")},
		{"CONFIG SET cf-expansion-factor 32769", failed("cf-expansion-factor", "argument must be between 0 and 32768 inclusive")},
		{"CONFIG SET cf-max-expansions 0", failed("cf-max-expansions", "argument must be between 1 and 65535 inclusive")},
		{"CONFIG SET bf-error-rate x", failed("bf-error-rate", "argument couldn't be parsed into a number")},
		{"CONFIG SET bf-error-rate 1", failed("bf-error-rate", "argument must be strictly between 0 and 1")},
		{"CONFIG SET maxmemory 1xx", failed("maxmemory", "argument must be a memory value")},
		{"CONFIG SET maxmemory -1", failed("maxmemory", "argument must be a memory value")},
		{"CONFIG SET maxmemory 99999999999gb", failed("maxmemory", "argument must be a memory value")},
		{"CONFIG GET bf-initial-size", "*2 bf-initial-size 100"}, // all of these failed as a whole

		{"CONFIG SET bf-error-rate 0.5 BF-INITIAL-SIZE 7 bf-expansion-factor 0", "+OK"},
		{"BF.ADD b x", ":1"},
		{"BF.DEBUG b", "*2 size:1 bytes:8 bits:64 hashes:3 hashwidth:64 capacity:7 size:1 ratio:0.25"},
		{"BF.INFO b expansion", "*1 $-1"},
		{"BF.RESERVE b2 0.01 10", "+OK"},
		{"BF.INFO b2 expansion", "*1 $-1"},
		{"CONFIG SET cf-initial-size 600 cf-bucket-size 3 cf-max-iterations 9 cf-expansion-factor 5", "+OK"},
		{"CF.ADD c x", ":1"},
		{"CF.DEBUG c", "bktsize:3 buckets:256 items:1 deletes:0 filters:1 max_iterations:9 expansion:8"},
		{"CF.INSERT d CAPACITY 5 ITEMS x", "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"},
		{"CF.RESERVE d 12", "+OK"},
		{"CF.DEBUG d", "bktsize:3 buckets:4 items:0 deletes:0 filters:1 max_iterations:9 expansion:8"},
		{"CONFIG SET cf-initial-size 6", "+OK"},
		{"CONFIG SET cf-bucket-size 4", failed("cf-bucket-size", "argument must be between 1 and 3 inclusive")},
		{"CONFIG SET maxmemory 100MB", "+OK"}, {"CONFIG GET maxmemory", "*2 maxmemory 104857600"},
		{"CONFIG SET maxmemory 1k", "+OK"}, {"CONFIG GET maxmemory", "*2 maxmemory 1000"},
		{"CONFIG SET maxmemory 0", "+OK"}, {"CONFIG GET max*", "*2 maxmemory 0"},
	} {
		require.Equal(t, c[1], resp(e, c[0]), "%s", c[0])
	}
	require.NoError(t, e.ConfigSet("bf-initial-size", "9"))
	require.Equal(t, map[string]string{"bf-initial-size": "9"}, e.ConfigGet("bf-initial-size"))
	require.EqualError(t, e.ConfigSet("nothing", "9"), "ERR Unknown option or number of arguments for CONFIG SET - 'nothing'")
}

// The setting cf-max-expansions counts for filters that exist.
func TestMaxExpansions(t *testing.T) {
	e := New()
	require.NoError(t, e.CFReserveWithArgs("c", &CFReserveOptions{Capacity: 4, BucketSize: 1, MaxIterations: 1}))
	fillTo := func(filters int64) {
		require.NoError(t, e.ConfigSet("cf-max-expansions", strconv.FormatInt(filters, 10)))
		for i := 0; ; i++ {
			if _, err := e.CFAdd("c", strconv.Itoa(i)); err != nil {
				require.Equal(t, ErrCFExpansions, err)
				break
			}
		}
		info, err := e.CFInfo("c")
		require.NoError(t, err)
		require.Equal(t, filters, info.NumFilters)
	}
	fillTo(5)
	fillTo(50)
	require.NoError(t, e.ConfigSet("cf-max-expansions", "32"))
	for _, command := range []string{"CF.ADD c x", "CF.ADDNX c 1", "CF.INSERT c ITEMS 1", "CF.INSERTNX c NOCREATE ITEMS 1"} {
		require.Equal(t, "-Maximum expansions reached", resp(e, command))
	}
	checkMemory(t, e)
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"**", "a", true}, {"a", "a", true}, {"a", "A", false},
		{"a*", "abc", true}, {"*c", "abc", true}, {"*b", "abc", false}, {"a*c*e", "abcde", true}, {"a*c*f", "abcde", false}, {"*a*", "bab", true},
		{"?", "", false}, {"?", "a", true}, {"??", "a", false}, {"a?c", "abc", true}, {"a?*", "a", false}, {"*?", "", false}, {"?*?", "ab", true},
		{"[ab]", "b", true}, {"[ab]", "c", false}, {"[^ab]", "c", true}, {"[^ab]", "a", false}, {"[a-c]", "b", true}, {"[c-a]", "b", true},
		{"[a-c]x", "dx", false}, {"[", "a", false}, {"[a", "a", true}, {"[]", "a", false}, {"[^]", "a", true}, {`[\]]`, "]", true}, {"[a-]", "-", false}, {"[a-]", "^", true},
		{`\*`, "*", true}, {`\*`, "a", false}, {`a\`, `a\`, true}, {`\\`, `\`, true}, {"h[ae]llo", "hello", true}, {"h[^e]llo", "hello", false},
		{"*[0-9]*", "abc7def", true}, {strings.Repeat("*a", 50) + "b", strings.Repeat("a", 10_000), false}, // in little time
		{"\xff*\x00", "\xffx\x00", true},
	} {
		require.Equal(t, c.want, Match(c.pattern, c.s), "%q %q", c.pattern, c.s)
	}
}

// Match agrees with path.Match where the two take the same patterns.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?[a-c]", "axxbyc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		got := Match(pattern, s)
		if strings.ContainsAny(pattern+s, `/\]`) || strings.ContainsFunc(pattern+s, func(r rune) bool { return r > 127 }) {
			return
		}
		if want, err := path.Match(pattern, s); err == nil {
			require.Equal(t, want, got, "%q %q", pattern, s)
		}
	})
}

// SCAN returns every key once, whatever its options let through.
func TestScan(t *testing.T) {
	e := New()
	for i := range 1000 {
		require.NoError(t, e.Set("s"+strconv.Itoa(i), ""))
		if i%10 == 0 {
			require.NoError(t, e.BFReserve("b"+strconv.Itoa(i), 0.1, 10))
		}
	}
	all := func(options string) (found []string) {
		cursor, calls := "0", 0
		for {
			r := do(e, "SCAN "+cursor+options)
			for _, key := range r.Elems[1].Elems {
				found = append(found, key.Str)
			}
			calls++
			if cursor = r.Elems[0].Str; cursor == "0" {
				break
			}
		}
		slices.Sort(found)
		require.Less(t, calls, 300)
		return found
	}
	require.Len(t, all(""), 1100)
	require.Equal(t, slices.Compact(all("")), all(" COUNT 1"))
	require.Len(t, all(" MATCH b*"), 100)
	require.Len(t, all(" match s* count 500"), 1000)
	require.Len(t, all(" TYPE string"), 1000)
	require.Len(t, all(" TYPE MBbloom-- MATCH *0"), 100)
	require.Empty(t, all(" TYPE hash"))
	for command, want := range map[string]string{
		"SCAN x": "-ERR invalid cursor", "SCAN -1": "-ERR invalid cursor", "SCAN 99999": "*2 0 *0", "SCAN 0 COUNT 0": "-ERR syntax error",
		"SCAN 0 COUNT x": "-ERR value is not an integer or out of range", "SCAN 0 FOO": "-ERR syntax error", "SCAN 0 MATCH": "-ERR syntax error", "SCAN 0 FOO x": "-ERR syntax error",
	} {
		require.Equal(t, want, resp(e, command), "%s", command)
	}
}
