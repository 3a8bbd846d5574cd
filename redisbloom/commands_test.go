package redisbloom

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const wrongType = "-WRONGTYPE Operation against a key holding the wrong kind of value"

func arity(name string) string { return "-ERR wrong number of arguments for '" + name + "' command" }

// Commands in their order, on one engine, with their replies: what the transcripts do not have, by the rules
// that the server follows in them.
func TestReplies(t *testing.T) {
	for name, commands := range map[string][][2]string{
		"numbers are strict": {
			{"BF.RESERVE k +0.01 100", "-ERR bad error rate"},
			{"BF.RESERVE k 0x1p-3 100", "-ERR bad error rate"},
			{`BF.RESERVE k "" 100`, "-ERR bad error rate"},
			{"BF.RESERVE k 0.0_1 100", "-ERR bad error rate"},
			{"BF.RESERVE k 1e-400 100", "-ERR bad error rate"},
			{"BF.RESERVE k 1e400 100", "-ERR bad error rate"},
			{"BF.RESERVE k -NaN 100", "-ERR bad error rate"},
			{"BF.RESERVE k inf 100", "-ERR error rate must be in the range (0.000000, 1.000000)"},
			{"BF.RESERVE k -inf 100", "-ERR error rate must be in the range (0.000000, 1.000000)"},
			{"BF.RESERVE k 0e5 100", "-ERR error rate must be in the range (0.000000, 1.000000)"},
			{"BF.RESERVE k 0.01 0100", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 +100", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 0x64", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 1_0", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 -0", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 -", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 --1", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 1e3", "-ERR bad capacity"},
			{`BF.RESERVE k 0.01 ""`, "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 99999999999999999999", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 9223372036854775808", "-ERR bad capacity"},
			{"BF.RESERVE k 0.01 9223372036854775807", "-ERR capacity must be in the range [1, 1073741824]"},
			{"BF.RESERVE k 0.01 -9223372036854775808", "-ERR capacity must be in the range [1, 1073741824]"},
			{"BF.RESERVE k 1e-2 100", "+OK"},
			{"BF.DEBUG k", "*2 size:0 bytes:144 bits:1152 hashes:8 hashwidth:64 capacity:100 size:0 ratio:0.005"},
			{"EXISTS k", ":1"},
		},
		"keywords of BF.RESERVE, anywhere and in any case": {
			{"bf.Reserve a .01 100 NonScaling", "+OK"},
			{"BF.INFO a expansion", "*1 $-1"},
			{"BF.RESERVE b 0.01 100 x EXPANSION 3", "+OK"},
			{"BF.INFO b expansion", "*1 :3"},
			{"BF.RESERVE c 0.01 100 EXPANSIO 3", "+OK"},
			{"BF.INFO c expansion", "*1 :2"},
			{"BF.RESERVE d 0.01 100 EXPANSION nonscaling", "-ERR bad expansion"},
			{"BF.RESERVE d 0.01 100 x y EXPANSION", "-ERR no expansion"},
			{"BF.RESERVE nonscaling 0.01 100", "+OK"},
			{"BF.INFO nonscaling expansion", "*1 $-1"},
			{"BF.RESERVE e 0.01 100 EXPANSION 32768", "+OK"},
		},
		"strings": {
			{"APPEND s abc", ":3"}, {"APPEND s defg", ":7"}, {"GET s", "abcdefg"}, {"STRLEN s", ":7"}, {"STRLEN none", ":0"},
			{"GETRANGE s 0 -1", "abcdefg"}, {"GETRANGE s 2 3", "cd"}, {"GETRANGE s -3 -2", "ef"}, {"GETRANGE s 5 100", "fg"},
			{"GETRANGE s -100 1", "ab"}, {"GETRANGE s 3 2", ""}, {"GETRANGE s 7 9", ""}, {"GETRANGE none 0 -1", ""},
			{"GETRANGE s -1 -2", ""}, {"GETRANGE s -100 -99", "a"}, {"GETRANGE s x 1", "-ERR value is not an integer or out of range"},
			{"SET s x", "+OK"}, {"APPEND s y", ":2"}, {"BF.ADD b x", ":1"}, {"APPEND b x", wrongType}, {"GETRANGE b 0 1", wrongType}, {"STRLEN b", wrongType},
			{"SET b x", "+OK"}, {"GET b", "x"}, {`APPEND e ""`, ":0"}, {"EXISTS e", ":1"},
		},
		"letters of BF.INSERT": {
			{"BF.INSERT a cap 500 eR 0.001 expan 4 I x", "*1 :1"},
			{"BF.DEBUG a", "*2 size:1 bytes:992 bits:7936 hashes:11 hashwidth:64 capacity:500 size:1 ratio:0.0005"},
			{"BF.INFO a expansion", "*1 :4"},
			{"BF.INSERT b nOc i x", "-ERR not found"},
			{"BF.INSERT b n items x", "*1 :1"},
			{"BF.INFO b expansion", "*1 $-1"},
			{"BF.INSERT c e 3 items x", "*1 :1"},
			{"BF.INFO c expansion", "*1 :3"},
			{`BF.INSERT d "" items x`, "-Unknown argument received"},
			{"BF.INSERT d items", arity("bf.insert")},
			{"BF.INSERT d nocreate items", arity("bf.insert")},
			{"BF.INSERT d nonscaling capacity", arity("bf.insert")},
			{"BF.INSERT d nonscaling nocreate", arity("bf.insert")},
			{"BF.INSERT d capacity 1073741825 items x", "-Bad capacity"},
			{"BF.INSERT d capacity -1 items x", "-Bad capacity"},
			{"BF.INSERT d capacity items x", "-Bad capacity"},
			{"BF.INSERT d error 1 items x", "-Bad error rate"},
			{"BF.INSERT d error 0 items x", "-Bad error rate"},
			{"BF.INSERT d error nan items x", "-Bad error rate"},
			{"BF.INSERT d expansion 32769 items x", "-Bad expansion"},
			{"BF.INSERT d expansion 0 items x", "*1 :1"},
			{"BF.INFO d expansion", "*1 $-1"},
			{"BF.INSERT e items items capacity", "*2 :1 :1"},
			{"BF.MEXISTS e items capacity x", "*3 :1 :1 :0"},
			{"BF.INSERT f error 0.9 items x", "*1 :1"},
			{"BF.DEBUG f", "*2 size:1 bytes:56 bits:448 hashes:4 hashwidth:64 capacity:100 size:1 ratio:0.125"},
			{"BF.INSERT e capacity 7 items x", "*1 :1"}, // exists: made with the defaults
			{"BF.INFO e capacity", "*1 :100"},
		},
		"keywords of CF.RESERVE": {
			{"CF.RESERVE a 64 bucketsize 4 maxiterations 7 expansion 3", "+OK"},
			{"CF.DEBUG a", "bktsize:4 buckets:16 items:0 deletes:0 filters:1 max_iterations:7 expansion:4"},
			{"CF.RESERVE b 64 x y EXPANSION 0", "+OK"},
			{"CF.DEBUG b", "bktsize:2 buckets:32 items:0 deletes:0 filters:1 max_iterations:20 expansion:0"},
			{"CF.RESERVE c 64 x", arity("cf.reserve")},
			{"CF.RESERVE c 64 x BUCKETSIZE", "-Couldn't parse BUCKETSIZE"},
			{"CF.RESERVE c 64 BUCKETSIZE -1", "-BUCKETSIZE: value must be in the range [1, 255]"},
			{"CF.RESERVE c 510 BUCKETSIZE 255", "+OK"},
			{"CF.RESERVE d 509 BUCKETSIZE 255", "-Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"},
			{"CF.RESERVE d 64 BUCKETSIZE 1 BUCKETSIZE 4", "+OK"}, // the first counts
			{"CF.INFO d", "*16 +Size :120 +Number of buckets :64 +Number of filters :1 +Number of items inserted :0 +Number of items deleted :0 " +
				"+Bucket size :1 +Expansion rate :1 +Max iterations :20"},
		},
		"CF.INSERT": {
			{"CF.INSERT a cap 64 i x x", "*2 :1 :1"},
			{"CF.INSERTNX a i x y", "*2 :0 :1"},
			{"CF.INSERT b no items x", "-ERR not found"},
			{"CF.INSERT b items", arity("cf.insert")},
			{"CF.INSERTNX b items", arity("cf.insertnx")},
			{"CF.INSERTNX b capacity 9", arity("cf.insertnx")},
			{"CF.INSERTNX b nocreate capacity", arity("cf.insertnx")},
			{"CF.INSERT b nocreate nocreate", arity("cf.insert")},
			{"CF.INSERT b error 0.1 items x", "-Unknown argument received"},
			{`CF.INSERT b "" items x`, "-Unknown argument received"},
			{"CF.INSERT b capacity 1073741825 items x", "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"},
			{"CF.INSERT a capacity 1 items x", "-Capacity must be in the range [cf-bucket-size * 2, 1073741824]"},
			{"EXISTS b", ":0"},
		},
		"types": {
			{"SET s v", "+OK"}, {"BF.ADD b x", ":1"}, {"CF.ADD c x", ":1"},
			{"TYPE s", "+string"}, {"TYPE b", "+MBbloom--"}, {"TYPE c", "+MBbloomCF"}, {"TYPE none", "+none"},
			{"GET s", "v"}, {"GET none", "$-1"}, {"GET b", wrongType}, {"GET c", wrongType},
			{"BF.ADD c x", wrongType}, {"CF.ADD b x", wrongType}, {"CF.ADDNX b x", wrongType},
			{"BF.EXISTS c x", ":0"}, {"CF.EXISTS b x", ":0"}, {"CF.COUNT b x", ":0"}, {"CF.MEXISTS b x", "*1 :0"}, {"BF.MEXISTS c x", "*1 :0"},
			{"BF.CARD c", wrongType}, {"BF.DEBUG c", wrongType}, {"CF.DEBUG b", wrongType}, {"CF.INFO b", wrongType},
			{"BF.RESERVE c 0.1 10", wrongType}, {"CF.RESERVE b 10", wrongType},
			{"BF.INSERT c nocreate items x", wrongType}, {"CF.INSERTNX b nocreate items x", wrongType},
			{"BF.SCANDUMP c 0", wrongType}, {"CF.SCANDUMP b 0", wrongType}, {"BF.LOADCHUNK c 1 x", wrongType}, {"BF.LOADCHUNK c 9 x", wrongType},
			{"CF.LOADCHUNK b 1 x", wrongType}, {"CF.LOADCHUNK b 9 x", wrongType}, {"CF.DEL b x", "-Not found"}, {"CF.COMPACT b", "-Cuckoo filter was not found"},
			{"BF.INFO s capacity", wrongType}, {"BF.INFO none capacity", "-ERR not found"}, {"BF.INFO b nothing", "-Invalid information value"},
			{"SET b v", "+OK"}, {"TYPE b", "+string"}, {"BF.ADD b x", wrongType}, // SET takes the place of anything
			{"SET s v EX 10", "-ERR syntax error"}, {"SET s", arity("set")},
			{"DEL s b c none s", ":3"}, {"DBSIZE", ":0"}, {"UNLINK s", ":0"},
		},
		"RENAME": {
			{"BF.ADD b x", ":1"}, {"CF.ADD c y", ":1"}, {"RENAME none c", "-ERR no such key"}, {"RENAME none none", "-ERR no such key"}, {"RENAME b b", "+OK"},
			{"RENAME b a_longer_name", "+OK"}, {"EXISTS b", ":0"}, {"BF.EXISTS a_longer_name x", ":1"}, {"RENAME a_longer_name c", "+OK"}, {"DBSIZE", ":1"},
			{"TYPE c", "+MBbloom--"}, {"BF.ADD c x", ":0"}, {"BF.ADD b x", ":1"}, {"SET s v", "+OK"}, {"RENAME s b", "+OK"}, {"GET b", "v"}, {"DBSIZE", ":2"},
		},
		"commands": {
			{"FOO a b", "-ERR unknown command 'FOO', with args beginning with: 'a' 'b' "},
			{"foo", "-ERR unknown command 'foo', with args beginning with: "},
			{"bf.verylongnameofacommand", "-ERR unknown command 'bf.verylongnameofacommand', with args beginning with: "},
			{`""`, "-ERR unknown command '', with args beginning with: "},
			{"FOO " + strings.Repeat("a", 126) + " b", "-ERR unknown command 'FOO', with args beginning with: '" + strings.Repeat("a", 126) + "' "},
			{"FOO " + strings.Repeat("a", 200), "-ERR unknown command 'FOO', with args beginning with: '" + strings.Repeat("a", 128) + "' "},
			{"FOO " + strings.Repeat("a", 120) + " bcdefgh", "-ERR unknown command 'FOO', with args beginning with: '" + strings.Repeat("a", 120) + "' 'bcdef' "},
			{"GeT a", "$-1"}, {"DBSIZE x", arity("dbsize")}, {"KEYS", arity("keys")},
			{"MEMORY", arity("memory")}, {"MEMORY FOO", "-ERR unknown subcommand 'FOO'. Try MEMORY HELP."},
			{"MEMORY USAGE", arity("memory|usage")}, {"MEMORY USAGE none", "$-1"}, {"MEMORY USAGE none SAMPLES 0", "$-1"},
			{"MEMORY USAGE none SAMPLES x", "-ERR value is not an integer or out of range"}, {"MEMORY USAGE none FOO", "-ERR syntax error"},
			{"FLUSHALL x", "-ERR syntax error"}, {"FLUSHALL sync x", "-ERR syntax error"}, {"FLUSHDB ASYNC", "+OK"},
		},
		"MEMORY USAGE": { // of a server 7.0; filters by the size that INFO gives
			{"SET k x", "+OK"}, {"MEMORY USAGE k", ":64"}, {"SET k 123", "+OK"}, {"MEMORY USAGE k", ":48"},
			{"SET k " + strings.Repeat("a", 44), "+OK"}, {"MEMORY USAGE k", ":96"},
			{"SET k " + strings.Repeat("a", 45), "+OK"}, {"MEMORY USAGE k", ":112"},
			{"SET k " + strings.Repeat("a", 200), "+OK"}, {"MEMORY USAGE k", ":272"},
			{"SET k " + strings.Repeat("a", 5000), "+OK"}, {"MEMORY USAGE k", ":5168"},
			{"SET kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk x", "+OK"}, {"MEMORY USAGE kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk", ":104"},
			{"BF.RESERVE b 0.05 1000", "+OK"}, {"BF.INFO b SIZE", "*1 :1056"}, {"MEMORY USAGE b", ":1088"},
			{"CF.RESERVE c 1000", "+OK"}, {"MEMORY USAGE c", ":1112"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := New()
			for _, c := range commands {
				require.Equal(t, c[1], resp(e, c[0]), "%s", c[0])
			}
			checkMemory(t, e)
		})
	}
}

// Every command answers too few arguments, and too many, with its own name, also in upper case.
func TestArity(t *testing.T) {
	e := New()
	for c := range Commands() {
		name := []byte(strings.ToUpper(c.Name))
		args := [][]byte{name}
		for n := 1; n < 30; n++ {
			bad := c.Arity > 0 && n != c.Arity || n < -c.Arity
			if got := string(e.Do(args...).Append(nil, 2)); bad {
				require.Equal(t, arity(c.Name)+"\r\n", got, "%d arguments", n)
			}
			args = append(args, []byte("x"))
		}
	}
	require.Equal(t, "-ERR empty command\r\n", string(e.Do().Append(nil, 3)))
}

// Keys and items are any bytes; the empty ones are keys and items as well.
func TestBinaryKeysAndItems(t *testing.T) {
	e := New()
	all := []string{"", " ", "\x00", "\x00\x00", "\xff\xfe", "a\r\nb", "$3\r\nabc\r\n", strings.Repeat("x", 1000), "é", "e\u0301"}
	for _, key := range all {
		for _, prefix := range []string{"b", "c"} {
			added, err := map[string]func(string, string) (bool, error){"b": e.BFAdd, "c": e.CFAdd}[prefix](prefix+key, key)
			require.NoError(t, err)
			require.True(t, added)
		}
	}
	require.NoError(t, e.BFReserve("", 0.01, 100))
	require.Equal(t, 2*len(all)+1, e.Len())
	for _, key := range all {
		for _, item := range all {
			found, err := e.BFExists("b"+key, item)
			require.NoError(t, err)
			require.Equal(t, key == item, found, "%q in %q", item, key)
			found, err = e.CFExists("c"+key, item)
			require.NoError(t, err)
			require.Equal(t, key == item, found, "%q in %q", item, key)
		}
	}
	require.ElementsMatch(t, append(e.Keys("b*"), append(e.Keys("c*"), "")...), e.Keys("*"))
}

func TestReplyAppend(t *testing.T) {
	pair := []Reply{{Kind: Simple, Str: "a"}, {Kind: Int, Int: -12}}
	for _, c := range []struct {
		reply        Reply
		resp2, resp3 string
	}{
		{Reply{}, "$-1\r\n", "_\r\n"},
		{Reply{Kind: NullArray}, "*-1\r\n", "_\r\n"},
		{Reply{Kind: Simple, Str: "OK"}, "+OK\r\n", "+OK\r\n"},
		{Reply{Kind: Error, Str: "ERR a\r\n+b"}, "-ERR a  +b\r\n", "-ERR a  +b\r\n"},
		{Reply{Kind: Int, Int: math.MinInt64}, ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"},
		{Reply{Kind: Int, Int: 10}, ":10\r\n", ":10\r\n"},
		{Reply{Kind: Bool, Int: 1}, ":1\r\n", "#t\r\n"},
		{Reply{Kind: Bool, Int: -1}, ":-1\r\n", "#f\r\n"},
		{Reply{Kind: Double, Float: 0.25}, "$4\r\n0.25\r\n", ",0.25\r\n"},
		{Reply{Kind: Double, Float: math.Inf(-1)}, "$4\r\n-inf\r\n", ",-inf\r\n"},
		{Reply{Kind: Double, Float: math.NaN()}, "$3\r\nnan\r\n", ",nan\r\n"},
		{Reply{Kind: Bulk}, "$0\r\n\r\n", "$0\r\n\r\n"},
		{Reply{Kind: Bulk, Str: "a\r\nb\x00"}, "$5\r\na\r\nb\x00\r\n", "$5\r\na\r\nb\x00\r\n"},
		{Reply{Kind: Text, Str: "abc"}, "$3\r\nabc\r\n", "=7\r\ntxt:abc\r\n"},
		{Reply{Kind: Array}, "*0\r\n", "*0\r\n"},
		{Reply{Kind: Array, Elems: pair}, "*2\r\n+a\r\n:-12\r\n", "*2\r\n+a\r\n:-12\r\n"},
		{Reply{Kind: Set, Elems: pair}, "*2\r\n+a\r\n:-12\r\n", "~2\r\n+a\r\n:-12\r\n"},
		{Reply{Kind: Map, Elems: pair}, "*2\r\n+a\r\n:-12\r\n", "%1\r\n+a\r\n:-12\r\n"},
		{Reply{Kind: Fields, Elems: pair}, "*1\r\n:-12\r\n", "%1\r\n+a\r\n:-12\r\n"},
	} {
		require.Equal(t, c.resp2, string(c.reply.Append(nil, 2)))
		require.Equal(t, "x"+c.resp3, string(c.reply.Append([]byte("x"), 3)))
	}
}
