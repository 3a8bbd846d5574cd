package redisbloom

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

const oom = "-OOM command not allowed when used memory > 'maxmemory'."

// What would pass the limit is refused and changes nothing; all else goes on.
func TestMemoryLimit(t *testing.T) {
	e := New()
	e.SetMaxMemory(20_000)
	require.Equal(t, oom, resp(e, "BF.RESERVE b 0.01 20000"))
	require.Equal(t, oom, resp(e, "BF.RESERVE b 0.00001 1073741824"))
	require.Equal(t, oom, resp(e, "CF.RESERVE c 1073741824 BUCKETSIZE 255"))
	require.Equal(t, oom, resp(e, "BF.INSERT b CAPACITY 100000 ITEMS 1"))
	require.Equal(t, oom, resp(e, "CF.INSERT c CAPACITY 100000 ITEMS 1"))
	require.Equal(t, oom, resp(e, "SET s "+long(20_000)))
	require.Equal(t, 0, e.Len())
	require.Zero(t, e.UsedMemory())

	require.Equal(t, "+OK", resp(e, "BF.RESERVE b 0.01 100"))
	require.Equal(t, "+OK", resp(e, "CF.RESERVE c 256"))
	n := 0
	for ; ; n++ {
		if reply := resp(e, fmt.Sprint("BF.ADD b ", n)); reply != ":1" && reply != ":0" {
			require.Equal(t, oom, reply)
			break
		}
	}
	require.Greater(t, n, 100)
	dump := pieces(t, e.BFScanDump, "b")
	require.Equal(t, oom, resp(e, fmt.Sprint("BF.ADD b ", n)))
	require.Equal(t, "*2 :0 "+oom, resp(e, fmt.Sprintf("BF.MADD b 1 %d 2", n)))
	require.Equal(t, dump, pieces(t, e.BFScanDump, "b"))
	require.Equal(t, "*3 :1 :1 :1", resp(e, "BF.MEXISTS b 0 1 99"))
	require.Equal(t, ":0", resp(e, "BF.ADD b 1"))
	require.Equal(t, oom, resp(e, "BF.RESERVE b2 0.01 20000"))
	require.Equal(t, "-ERR item exists", resp(e, "BF.RESERVE b 0.01 1000"))
	require.LessOrEqual(t, e.UsedMemory(), e.MaxMemory())

	for n = 0; ; n++ {
		if reply := resp(e, fmt.Sprint("CF.ADD c ", n)); reply != ":1" {
			require.Equal(t, oom, reply)
			break
		}
	}
	require.Greater(t, n, 200)
	require.Regexp(t, `^\*5( :1| :-1)+$`, resp(e, "CF.INSERT c ITEMS 1 2 3 4 5"))
	require.Equal(t, "*1 :-1", resp(e, fmt.Sprintf("CF.INSERT c ITEMS %d", n)))
	require.Equal(t, ":1", resp(e, "CF.DEL c 1"))
	checkMemory(t, e)

	require.Equal(t, "+OK", resp(e, "CONFIG SET maxmemory 1mb"))
	require.Equal(t, ":1", resp(e, fmt.Sprint("CF.ADD c ", n)))
	require.Equal(t, ":1", resp(e, fmt.Sprint("BF.ADD b ", 1_000_000)))
	require.Equal(t, "+OK", resp(e, "SET s "+long(20_000)))
	require.Equal(t, "+OK", resp(e, "SET s x"))
	require.Equal(t, "+OK", resp(e, "SET b x"))
	checkMemory(t, e)
	require.Equal(t, "+OK", resp(e, "FLUSHALL"))
	require.Zero(t, e.UsedMemory())
}

// Memory comes back from sub-filters that are dropped.
func TestMemoryOfDroppedSubFilters(t *testing.T) {
	for _, compact := range []bool{false, true} {
		e := New()
		require.NoError(t, e.CFReserveExpansion("c", 64, 2))
		for i := range 1000 {
			_, err := e.CFAdd("c", strconv.Itoa(i))
			require.NoError(t, err)
		}
		full := e.UsedMemory()
		checkMemory(t, e)
		for i := range 990 {
			removed, err := e.CFDel("c", strconv.Itoa(i))
			require.NoError(t, err)
			require.True(t, removed)
			checkMemory(t, e)
			if compact && i%100 == 0 {
				require.NoError(t, e.CFCompact("c"))
				checkMemory(t, e)
			}
		}
		require.Less(t, e.UsedMemory(), full)
	}
}

// A chain of many tiny links is counted with what surrounds its bits.
func TestMemoryOfManyLinks(t *testing.T) {
	e := New()
	e.SetMaxMemory(100_000)
	require.NoError(t, e.BFReserveExpansion("b", 0.01, 1, 1))
	n := 0
	for ; n < 10_000; n++ {
		if _, err := e.BFAdd("b", strconv.Itoa(n)); err != nil {
			require.Equal(t, ErrOutOfMemory, err)
			break
		}
	}
	info, err := e.BFInfo("b")
	require.NoError(t, err)
	require.Less(t, info.Filters, int64(100_000/linkOverhead))
	checkMemory(t, e)
}
