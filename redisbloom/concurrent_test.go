package redisbloom

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Writers and readers of few keys, with keys that come and go: an item that was added is found until its key is
// deleted, and nothing is counted twice.
func TestConcurrentUse(t *testing.T) {
	e := New()
	const goroutines, items = 8, 2000
	var added atomic.Int64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			own := "own" + strconv.Itoa(g)
			for i := range items {
				item := strconv.Itoa(i)
				new, err := e.BFAdd("shared", item)
				if err != nil {
					t.Error(err)
				}
				if new {
					added.Add(1)
				}
				if found, err := e.BFExists("shared", item); err != nil || !found {
					t.Error("an item that was added is absent", err)
				}
				if _, err := e.CFAdd(own, item); err != nil {
					t.Error(err)
				}
				if found, err := e.CFExists(own, item); err != nil || !found {
					t.Error("an item that was added is absent", err)
				}
				switch i % 100 {
				case 17:
					e.Del(own)
				case 18:
					e.BFAdd("passing", item)
				case 19:
					e.Del("passing")
				case 20:
					e.Set("passing", item)
				case 21:
					e.Keys("*")
					e.Do([]byte("SCAN"), []byte("0"), []byte("TYPE"), []byte("string"))
				}
			}
		})
	}
	wg.Wait()
	n, err := e.BFCard("shared")
	require.NoError(t, err)
	require.Equal(t, added.Load(), n)
	checkMemory(t, e)
	e.FlushAll()
	require.Zero(t, e.UsedMemory())
	require.Zero(t, e.Len())
}

// A key that is busy makes no other wait, and its readers do not wait for each other.
func TestKeysDoNotWait(t *testing.T) {
	e := New()
	for i := range 1000 {
		require.NoError(t, e.BFReserve(strconv.Itoa(i), 0.1, 10))
	}
	busy := e.keys.lock([]byte("7"))
	read := e.keys.rlock([]byte("8"))
	done := make(chan struct{})
	go func() {
		for i := range 1000 {
			if i != 7 {
				if i != 8 {
					e.BFAdd(strconv.Itoa(i), "x")
				}
				e.BFExists(strconv.Itoa(i), "x")
			}
			e.BFAdd("new"+strconv.Itoa(i), "x")
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("commands for other keys wait")
	}
	read.RUnlock()
	busy.Unlock()
	<-done
}

// Filters that are swapped while others use them: an item of both is never absent, and nobody waits for ever.
func TestRenameWhileReading(t *testing.T) {
	e := New()
	e.BFAdd("live", "x")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			next := "next" + strconv.Itoa(g)
			for range 500 {
				e.BFAdd(next, "x")
				if err := e.Rename(next, "live"); err != nil {
					t.Error(err)
				}
				if found, err := e.BFExists("live", "x"); err != nil || !found {
					t.Error("an item of all filters is absent", err)
				}
				e.Rename("cycle"+strconv.Itoa(g), "cycle"+strconv.Itoa((g+1)%4))
				e.BFAdd("cycle"+strconv.Itoa(g), "x")
			}
		})
	}
	wg.Wait()
	checkMemory(t, e)
}

// bytesOf are arguments.
func bytesOf(args ...string) (all [][]byte) {
	for _, arg := range args {
		all = append(all, []byte(arg))
	}
	return all
}

// Exec is one command for all others: what it does to two keys never shows half.
func TestExec(t *testing.T) {
	e := New()
	e.Set("a", "0")
	e.Set("b", "0")
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			n := strconv.Itoa(i)
			e.Exec(func(do func(args ...[]byte) Reply) {
				do(bytesOf("SET", "a", n)...)
				do(bytesOf("SET", "b", n)...)
			})
		}
	})
	for range 3000 {
		require.True(t, e.Exec(func(do func(args ...[]byte) Reply) {
			require.Equal(t, do(bytesOf("GET", "a")...), do(bytesOf("get", "b")...))
		}))
	}
	close(stop)
	wg.Wait()
	e.Exec(func(do func(args ...[]byte) Reply) {
		for _, command := range [][][]byte{bytesOf("FOO"), {}, bytesOf("GET"), bytesOf("BF.ADD", "a", "x")} {
			require.Equal(t, Error, do(command...).Kind)
		}
	})
}

func TestWatch(t *testing.T) {
	e := New()
	e.BFAdd("b", "1")
	for name, c := range map[string]struct {
		between func()
		ok      bool
	}{
		"nothing":             {func() {}, true},
		"a read":              {func() { e.BFExists("b", "1"); e.BFInfo("b"); e.Keys("*") }, true},
		"another key":         {func() { e.BFAdd("other", "1") }, true},
		"an add":              {func() { e.BFAdd("b", "2") }, false},
		"deleted":             {func() { e.Del("b") }, false},
		"deleted and made":    {func() { e.Del("b"); e.BFAdd("b", "1") }, false},
		"made":                {func() { e.BFAdd("none", "1") }, false},
		"made and deleted":    {func() { e.BFAdd("none", "1"); e.Del("none") }, true},
		"refused before it":   {func() { e.Do([]byte("BF.ADD"), []byte("b")) }, true},
		"of the wrong type":   {func() { e.CFAdd("b", "1") }, false}, // it may have, for all that is looked at
		"all keys go":         {func() { e.FlushAll() }, false},
		"a string in a place": {func() { e.Set("b", "x") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e.Del("b", "none", "other", "done")
			e.BFAdd("b", "1")
			watched := []Watch{e.Watch("b"), e.Watch("none")}
			c.between()
			ok := e.Exec(func(do func(args ...[]byte) Reply) { do(bytesOf("SET", "done", "x")...) }, watched...)
			require.Equal(t, c.ok, ok)
			require.Equal(t, map[bool]int64{true: 1}[ok], e.Exists("done"))
		})
	}
}

// The commands that are asked most allocate nothing.
func TestAllocations(t *testing.T) {
	e := New()
	e.BFReserve("b", 0.01, 1_000_000)
	e.CFReserve("c", 1_000_000)
	e.Set("s", "value")
	buf := make([]byte, 0, 100)
	for _, command := range [][]string{
		{"BF.ADD", "b", "item"}, {"BF.EXISTS", "b", "item"}, {"bf.exists", "b", "absent"}, {"BF.EXISTS", "none", "item"}, {"BF.CARD", "b"},
		{"CF.ADDNX", "c", "item"}, {"CF.EXISTS", "c", "item"}, {"CF.COUNT", "c", "item"}, {"CF.DEL", "c", "item"}, {"EXISTS", "s"}, {"TYPE", "b"},
	} {
		var args [][]byte
		for _, arg := range command {
			args = append(args, []byte(arg))
		}
		require.Zero(t, testing.AllocsPerRun(200, func() {
			buf = e.Do(args...).Append(buf[:0], 2)
			buf = e.Do(args...).Append(buf[:0], 3)
		}), "%v", command)
	}
	require.Zero(t, testing.AllocsPerRun(200, func() {
		e.BFAdd("b", "item")
		e.BFExists("b", "item")
		e.CFAdd("c", "item")
		e.CFExists("c", "item")
		e.CFDel("c", "item")
	}))
}

func BenchmarkDo(b *testing.B) {
	e := New()
	require.NoError(b, e.BFReserve("b", 0.01, 1_000_000))
	require.NoError(b, e.CFReserve("c", 1_000_000))
	items := make([][]byte, 1024)
	for i := range items {
		items[i] = fmt.Appendf(nil, "item:%d", i)
		e.BFAdd("b", string(items[i]))
		e.CFAdd("c", string(items[i]))
	}
	for _, command := range []string{"BF.EXISTS b", "BF.ADD b", "CF.EXISTS c", "CF.ADDNX c"} {
		name, key := []byte(command[:len(command)-2]), []byte(command[len(command)-1:])
		b.Run("op="+string(name), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 0, 64)
			for i := 0; b.Loop(); i++ {
				buf = e.Do(name, key, items[i&1023]).Append(buf[:0], 2)
			}
		})
	}
	b.Run("op=BF.EXISTS,parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			args, buf := [][]byte{[]byte("BF.EXISTS"), []byte("b"), nil}, make([]byte, 0, 64)
			for i := 0; pb.Next(); i++ {
				args[2] = items[i&1023]
				buf = e.Do(args...).Append(buf[:0], 2)
			}
		})
	})
}
