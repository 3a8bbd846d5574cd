package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

// output runs a program twice, which must print the same; in short tests once.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out [2]bytes.Buffer
	for i := range out {
		var errs bytes.Buffer
		require.Equal(t, exitOK, run(args, &out[i], &errs), errs.String())
		require.Empty(t, errs.String())
		if testing.Short() {
			out[1] = out[0]
			break
		}
	}
	require.Equal(t, out[0].String(), out[1].String())
	require.Contains(t, out[0].String(), "false positive", "what an error costs")
	return out[0].String()
}

// numbers returns the numbers of the line that starts with name.
func numbers(t *testing.T, out, name string) (all []float64) {
	t.Helper()
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		for _, s := range regexp.MustCompile(`[0-9]+(\.[0-9]+)?`).FindAllString(rest, -1) {
			f, err := strconv.ParseFloat(s, 64)
			require.NoError(t, err)
			all = append(all, f)
		}
		return all
	}
	require.Failf(t, "no such line", "%q in\n%s", name, out)
	return nil
}

func number(t *testing.T, out, name string) float64 { return numbers(t, out, name)[0] }

func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string // in the output, or the errors
	}{
		{nil, exitUsage, "usage: dedup program"},
		{[]string{"-h"}, exitOK, "usage: dedup program"},
		{[]string{"--help"}, exitOK, "blacklist"},
		{[]string{"nothing"}, exitUsage, `no program "nothing"`},
		{[]string{"llm", "x"}, exitUsage, `llm takes no arguments, got "x"`},
		{[]string{"chunks", filepath.Join(t.TempDir(), "missing")}, exitFailed, "dedup: chunks: open "},
		{[]string{"chunks", t.TempDir()}, exitFailed, "dedup: chunks: read "},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, tt.code, run(tt.args, &out, &errs))
		require.Contains(t, out.String()+errs.String(), tt.want)
		require.Equal(t, tt.code == exitOK, errs.Len() == 0)
	}
}

func TestLLM(t *testing.T) {
	out := output(t, "llm")
	requests, found := number(t, out, "requests"), number(t, out, "answered by the cache")
	require.Zero(t, number(t, out, "answers in the cache, but missed"))
	looks, fresh, expired := numbers(t, out, "looks"), numbers(t, out, "of these in vain, new"), numbers(t, out, "of these in vain, answer")
	require.Equal(t, looks[0], found+fresh[0]+expired[0])
	require.Equal(t, looks[1], found+fresh[1]+expired[1])
	require.Greater(t, found, 0.1*requests)
	require.Less(t, fresh[0], 0.01*fresh[1])
	require.Positive(t, fresh[0])
}

func TestCompletions(t *testing.T) {
	now := time.Unix(0, 0)
	clock := func() time.Time { return now }
	calls := 0
	c := completions{
		seen:  bloom.Must(rolling.NewRotating(100, 1e-9, rolling.RotatingOptions{Span: time.Hour, Keep: 3, Now: clock})),
		cache: answerCache{answers: map[[32]byte]cachedAnswer{}, ttl: 2 * time.Hour, now: clock},
		model: func(request) string { calls++; return strconv.Itoa(calls) },
	}
	ask := func(r request) string { return bloom.Must(c.complete(r)) }
	r := request{Model: "m", Messages: []message{{"user", "hi"}}}
	other := request{Model: "m2", Messages: []message{{"user", "hi"}}}
	require.Equal(t, []string{"1", "1", "2", "1", "2"}, []string{ask(r), ask(r), ask(other), ask(r), ask(other)})
	require.Equal(t, 3, c.cache.gets)
	warm := r
	warm.Temperature = 1
	require.Equal(t, []string{"3", "4"}, []string{ask(warm), ask(warm)})
	now = now.Add(2*time.Hour - 1)
	require.Equal(t, "1", ask(r))
	now = now.Add(1)
	require.Equal(t, []string{"5", "5"}, []string{ask(r), ask(r)}, "expired, and asked anew once")
	require.Equal(t, 1, c.cache.expired)
	_, err := c.complete(request{Temperature: math.Inf(-1)})
	require.Error(t, err, "no JSON, no key")
}

func TestChunks(t *testing.T) {
	out := output(t, "chunks") // from this directory it finds the docs
	require.Greater(t, number(t, out, "files"), 5.0)
	require.GreaterOrEqual(t, number(t, out, "dropped as duplicates"), 5.0)
	require.Zero(t, number(t, out, "an exact set differs on"))
	require.Equal(t, number(t, out, "chunks"), number(t, out, "kept")+number(t, out, "dropped as duplicates"))
	require.Contains(t, out, "README.md, saved again:")

	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run([]string{"chunks"}, &stdout, &stderr))
	require.Equal(t, "dedup: chunks: not inside of this module: name the files\n", stderr.String())
}

func TestChunksOfFiles(t *testing.T) {
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	const first = "The quick brown fox jumps over the lazy dog, and then it runs back into the forest to sleep until noon."
	const han = "布隆过滤器可以判断一个元素一定不在集合中,或者可能在集合中。"
	for _, tt := range []struct {
		name    string
		texts   []string
		kept    float64
		dropped float64
		short   float64
	}{
		{"empty", []string{"", "\n\n\n", " \r\n"}, 0, 0, 0},
		{"no end of line", []string{first}, 1, 0, 0},
		{"short", []string{"# Title\n\nOne two three.\n"}, 0, 0, 2},
		{"the same twice", []string{first + "\n\n" + first + "\n"}, 1, 1, 0},
		{"in two files, otherwise written", []string{first, "\ufeff*THE* quick brown\r\nfox jumps over the “lazy” dog (and then\r\n> it runs back) into the forest\tto sleep until noon!\r\n"}, 1, 1, 0},
		{"one word more", []string{first, first + " Really."}, 1, 1, 0},
		{"other end", []string{first, first + " After that it hunts for hens in the village on the other side of the hill."}, 2, 0, 0},
		{"a word of three", []string{first, "The red brown cat jumps under the lazy cow, and now it walks back from the forest to rest until noon."}, 2, 0, 0},
		{"without spaces", []string{han, han}, 1, 1, 0},
		{"numbers", []string{"1 2 3 4 5 6 7 8 9 10 11 12\n\n12 11 10 9 8 7 6 5 4 3 2 1\n"}, 2, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"chunks"}
			for _, text := range tt.texts {
				args = append(args, write(text))
			}
			out := output(t, args...)
			require.Equal(t, tt.kept, number(t, out, "kept"))
			require.Equal(t, tt.dropped, number(t, out, "dropped as duplicates"))
			require.Equal(t, tt.short, numbers(t, out, "chunks ")[1])
		})
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run([]string{"chunks", write("caf\xe9")}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "is not a text in UTF-8")
}

func TestSplit(t *testing.T) {
	require.Equal(t, []chunk{
		{2, []string{"a", "b1", "c"}},
		{5, []string{"d"}},
		{8, []string{"naïve", "é", "日", "本", "go"}},
	}, split([]byte("\nA, b1\r\nc\n \t\nd\n\n\nnaïve é 日本go")))
	require.Empty(t, split(nil))
	require.InDelta(t, 8*1e-14*0.99+1e-16, lostChunks(8, 0.01), 1e-20)
	require.InDelta(t, 1, lostChunks(3, 1), 0)
}

func TestTools(t *testing.T) {
	out := output(t, "tools")
	require.Zero(t, number(t, out, "made twice"))
	require.Equal(t, 5.0, number(t, out, "in doubt at the end"))
	asked, vain := numbers(t, out, "journal asked"), numbers(t, out, "of these in vain")
	require.Equal(t, asked[1], number(t, out, "tool calls asked for"))
	require.Less(t, asked[0], asked[1])
	require.Less(t, vain[0], 0.01*vain[1])
}

func TestToolRunner(t *testing.T) {
	j := &journal{entries: map[string]entry{}}
	r := bloom.Must(newToolRunner(j, 100, 0.01))
	made := 0
	tool := func(c call) (string, error) {
		if made++; c.tool == "broken" {
			return "", errCrash
		}
		return "result " + strconv.Itoa(made), nil
	}
	a, b := call{"run", 1, "mail", "{}"}, call{"run", 1, "broken", "{}"}
	require.Equal(t, "result 1", bloom.Must(r.do(a, tool)))
	require.Zero(t, j.gets, "certainly new")
	require.Equal(t, "result 1", bloom.Must(r.do(a, tool)))
	_, err := r.do(b, tool)
	require.ErrorIs(t, err, errCrash)
	for range 2 {
		_, err = r.do(b, tool)
		require.ErrorIs(t, err, errInDoubt)
		require.Equal(t, 2, made)
		r = bloom.Must(newToolRunner(j, 1, 0.01)) // the process starts again
		require.Equal(t, "result 1", bloom.Must(r.do(a, tool)))
	}
	for _, c := range []call{{"run", 2, "mail", "{}"}, {"other", 1, "mail", "{}"}, {"run", 1, "mail", "{x}"}, {"run", 1, "post", "{}"}} {
		before := made
		bloom.Must(r.do(c, tool))
		require.Equal(t, before+1, made, "another call")
	}
}

func TestURLs(t *testing.T) {
	out := output(t, "urls")
	require.Zero(t, number(t, out, "fetched twice"))
	pages := number(t, out, "pages there are")
	require.Equal(t, pages, number(t, out, "fetched  ")+number(t, out, "never fetched"))
	require.LessOrEqual(t, number(t, out, "never fetched"), 10+5*math.Sqrt(10))
	require.Greater(t, number(t, out, "spelled differently"), 3*pages)
}

func TestNormalize(t *testing.T) {
	for _, same := range [][]string{
		{"http://example.com/", "HTTP://EXAMPLE.com", "http://example.com:80/", "http://example.com:/#top", "http://example.com?", "http://example.com/./", "http://example.com/a/.."},
		{"https://example.com/~user/a%2Fb", "https://example.com:443/%7Euser/a%2fb", "https://example.com/x/../%7euser/a%2fb#c"},
		{"https://example.com/?a=1&b=2", "https://example.com?b=2&a=1&utm_source=x"},
		{"https://example.com/?a=1&a=2", "https://example.com?a=1&a=2"},
		{"http://[::1]:8080/%E2%82%AC", "http://[::1]:8080/€"},
		{"http://example.com/?a;b", "http://example.com?a;b"},
		{"http://example.com/100%25", "http://example.com/100%25#x"},
		{"http://u@example.com/", "http://u@example.com"},
	} {
		for _, text := range same {
			u, err := new(url.URL).Parse(text)
			require.NoError(t, err)
			require.Equal(t, same[0], normalize(bloom.Must(u.Parse(text))))
		}
		u := bloom.Must(url.Parse(same[0]))
		require.Equal(t, same[0], normalize(u), "once more changes nothing")
	}
	for _, differ := range [][2]string{
		{"http://example.com/a", "http://example.com/A"},
		{"http://example.com/a", "http://example.com/a/"},
		{"http://example.com/a//b", "http://example.com/a/b"},
		{"http://example.com/a%2Fb", "http://example.com/a/b"},
		{"http://example.com/", "https://example.com/"},
		{"http://example.com:443/", "https://example.com:443/"},
		{"http://example.com/?a=1&a=2", "http://example.com/?a=2&a=1"},
	} {
		require.NotEqual(t, normalize(bloom.Must(url.Parse(differ[0]))), normalize(bloom.Must(url.Parse(differ[1]))))
	}
}

func TestFrontier(t *testing.T) {
	f := bloom.Must(newFrontier(10, 0.0001))
	base := bloom.Must(url.Parse("https://example.com/dir/page"))
	for _, link := range []string{"x", "./x#y", "/dir/x", "", "mailto:a@example.com", "javascript:void(0)", "http://%zz", ":", "ftp://example.com/"} {
		require.NoError(t, f.add(base, link))
	}
	require.Equal(t, []string{"https://example.com/dir/x", "https://example.com/dir/page"}, f.queue)
}

func TestBlacklist(t *testing.T) {
	out := output(t, "blacklist")
	messages := numbers(t, out, "messages")
	require.Equal(t, messages[1], number(t, out, "stopped  "))
	require.Zero(t, number(t, out, "stopped by mistake"))
	vain := number(t, out, "of these in vain")
	require.Equal(t, number(t, out, "list asked"), messages[1]+vain)
	// Senders come again, and with them their errors: more than five sigma of single lookups.
	require.InDelta(t, 0.00093*messages[0], vain, 8*math.Sqrt(0.00093*messages[0]))
	require.Contains(t, out, "offers-7.example after unblock: blocked false; offers-8.example: blocked true")
}

func TestBlockedDomains(t *testing.T) {
	b := bloom.Must(newBlockedDomains(10, 0.01))
	names := []string{}
	for i := range 100 { // more than it was made for
		names = append(names, "d"+strconv.Itoa(i)+".example")
		require.NoError(t, b.block(names[i]))
		require.NoError(t, b.block(strings.ToUpper(names[i])))
	}
	require.False(t, slices.ContainsFunc(names, func(n string) bool { return !b.blocked(n) }))
	for i := range 10_000 {
		b.unblock("never-" + strconv.Itoa(i))
	}
	require.False(t, slices.ContainsFunc(names, func(n string) bool { return !b.blocked(n) }))
	for _, n := range names[:50] {
		b.unblock(strings.ToUpper(n))
		b.unblock(n)
	}
	require.False(t, slices.ContainsFunc(names[:50], b.blocked))
	require.False(t, slices.ContainsFunc(names[50:], func(n string) bool { return !b.blocked(n) }))
	require.Equal(t, uint64(50), b.maybe.Len())
}

// An error is one line.
func TestFailedProgram(t *testing.T) {
	saved := programs
	defer func() { programs = saved }()
	programs = []program{{name: "p", run: func(io.Writer, []string) error { return errors.New("one\ntwo") }}}
	var out, errs bytes.Buffer
	require.Equal(t, exitFailed, run([]string{"p"}, &out, &errs))
	require.Equal(t, "dedup: p: one; two\n", errs.String())
}
