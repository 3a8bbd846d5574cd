package redisbloom

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTypedBF(t *testing.T) {
	e := New()
	require.NoError(t, e.BFReserve("a", 0.01, 1000))
	require.Equal(t, ErrExists, e.BFReserve("a", 0.01, 1000))
	require.EqualError(t, e.BFReserve("b", 2, 1000), "ERR error rate must be in the range (0.000000, 1.000000)")
	require.EqualError(t, e.BFReserve("b", 0.01, 0), "ERR capacity must be in the range [1, 1073741824]")
	require.NoError(t, e.BFReserveExpansion("x4", 0.1, 10, 4))
	require.NoError(t, e.BFReserveExpansion("x0", 0.1, 10, 0))
	require.NoError(t, e.BFReserveNonScaling("fixed", 0.1, 3))
	require.EqualError(t, e.BFReserveWithArgs("z", &BFReserveOptions{Capacity: 1, Error: 0.1, Expansion: 2, NonScaling: true}), "Nonscaling filters cannot expand")
	for key, want := range map[string]int64{"a": 2, "x4": 4, "x0": 0, "fixed": 0} {
		n, err := e.BFInfoExpansion(key)
		require.NoError(t, err)
		require.Equal(t, want, n, key)
	}
	added, err := e.BFAdd("a", "x")
	require.NoError(t, err)
	require.True(t, added)
	added, err = e.BFAdd("a", "x")
	require.NoError(t, err)
	require.False(t, added)
	all, err := e.BFMAdd("a", "x", "y", "z")
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, true}, all)
	all, err = e.BFMAdd("fixed", "1", "2", "1", "3", "4", "5")
	require.ErrorIs(t, err, ErrBFFull)
	require.Equal(t, []bool{true, true, false, true}, all)
	all, err = e.BFMExists("a", "x", "y", "other")
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, false}, all)
	all, err = e.BFInsert("i", &BFInsertOptions{Capacity: 500, Error: 0.001, Expansion: 3}, "x", "x")
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, all)
	_, err = e.BFInsert("none", &BFInsertOptions{NoCreate: true}, "x")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = e.BFInsert("n", &BFInsertOptions{NonScaling: true}, "x")
	require.NoError(t, err)
	_, err = e.BFInsert("a", nil, "x")
	require.NoError(t, err)
	_, err = e.BFInsert("a", nil)
	require.EqualError(t, err, "ERR wrong number of arguments for 'bf.insert' command")

	info, err := e.BFInfo("a")
	require.NoError(t, err)
	require.Equal(t, BFInfo{Capacity: 1000, Size: 1480, Filters: 1, ItemsInserted: 3, ExpansionRate: 2}, info)
	for _, c := range []struct {
		ask  func(string) (int64, error)
		want int64
	}{{e.BFInfoCapacity, 1000}, {e.BFInfoSize, 1480}, {e.BFInfoFilters, 1}, {e.BFInfoItems, 3}, {e.BFInfoExpansion, 2}, {e.BFCard, 3}} {
		n, err := c.ask("a")
		require.NoError(t, err)
		require.Equal(t, c.want, n)
	}
	_, err = e.BFInfo("none")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = e.BFInfoArg("a", "none")
	require.EqualError(t, err, "Invalid information value")
	lines, err := e.BFDebug("x4")
	require.NoError(t, err)
	require.Equal(t, []string{"size:0", "bytes:8 bits:64 hashes:5 hashwidth:64 capacity:10 size:0 ratio:0.05"}, lines)
	n, err := e.BFCard("none")
	require.NoError(t, err)
	require.Zero(t, n)

	require.NoError(t, e.Set("s", "v"))
	_, err = e.BFAdd("s", "x")
	require.ErrorIs(t, err, ErrWrongType)
	found, err := e.BFExists("s", "x")
	require.NoError(t, err)
	require.False(t, found)
	_, err = e.BFScanDump("none", 0)
	require.ErrorIs(t, err, ErrNotFound)
	require.Equal(t, ErrBadData, e.BFLoadChunk("a", 0, "x"))
}

func TestTypedCF(t *testing.T) {
	e := New()
	require.NoError(t, e.CFReserve("a", 1000))
	require.Equal(t, ErrExists, e.CFReserve("a", 1000))
	require.NoError(t, e.CFReserveExpansion("x0", 4, 0))
	require.NoError(t, e.CFReserveBucketSize("b4", 1000, 4))
	require.NoError(t, e.CFReserveMaxIterations("m7", 1000, 7))
	require.EqualError(t, e.CFReserveWithArgs("z", &CFReserveOptions{Capacity: 10, Expansion: 40000}), "EXPANSION: value must be in the range [0, 32768]")
	info, err := e.CFInfo("b4")
	require.NoError(t, err)
	require.Equal(t, CFInfo{Size: 1080, NumBuckets: 256, NumFilters: 1, BucketSize: 4, ExpansionRate: 1, MaxIteration: 20}, info)
	for _, add := range []func(string, string) (bool, error){e.CFAdd, e.CFAdd} {
		added, err := add("a", "x")
		require.NoError(t, err)
		require.True(t, added)
	}
	added, err := e.CFAddNX("a", "x")
	require.NoError(t, err)
	require.False(t, added)
	n, err := e.CFCount("a", "x")
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
	all, err := e.CFInsert("x0", nil, "1", "1", "1", "1", "1", "1", "1")
	require.NoError(t, err)
	require.Contains(t, all, true)
	require.False(t, all[6])
	numbers, err := e.CFInsertNX("x0", nil, "1", "1")
	require.NoError(t, err)
	require.Equal(t, []int64{0, 0}, numbers)
	_, err = e.CFAdd("x0", "1")
	require.ErrorIs(t, err, ErrCFFull)
	_, err = e.CFInsert("none", &CFInsertOptions{NoCreate: true}, "x")
	require.ErrorIs(t, err, ErrNotFound)
	_, err = e.CFInsertNX("none", &CFInsertOptions{Capacity: 1}, "x")
	require.EqualError(t, err, "Capacity must be in the range [cf-bucket-size * 2, 1073741824]")
	all, err = e.CFMExists("a", "x", "other")
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, all)
	for _, want := range []bool{true, true, false} {
		removed, err := e.CFDel("a", "x")
		require.NoError(t, err)
		require.Equal(t, want, removed)
	}
	_, err = e.CFDel("none", "x")
	require.ErrorIs(t, err, ErrCFDelNotFound)
	require.NoError(t, e.CFCompact("a"))
	require.EqualError(t, e.CFCompact("none"), "Cuckoo filter was not found")
	line, err := e.CFDebug("a")
	require.NoError(t, err)
	require.Equal(t, "bktsize:2 buckets:512 items:0 deletes:0 filters:1 max_iterations:20 expansion:1", line)
	d, err := e.CFScanDump("a", 0)
	require.NoError(t, err)
	require.Zero(t, d)
	require.EqualError(t, e.CFLoadChunk("a", 0, "x"), "Invalid position")
}

func TestTypedKeys(t *testing.T) {
	e := New()
	require.NoError(t, e.Set("s", "v"))
	e.BFAdd("b", "x")
	value, ok, err := e.Get("s")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "v", value)
	_, ok, err = e.Get("none")
	require.NoError(t, err)
	require.False(t, ok)
	_, _, err = e.Get("b")
	require.ErrorIs(t, err, ErrWrongType)
	require.Equal(t, "MBbloom--", e.Type("b"))
	require.Equal(t, int64(3), e.Exists("s", "b", "none", "s"))
	require.ElementsMatch(t, []string{"s", "b"}, e.Keys("*"))
	require.NoError(t, e.Rename("b", "c"))
	require.Equal(t, ErrNoSuchKey, e.Rename("b", "c"))
	require.Equal(t, int64(1), e.Del("s", "none"))
	e.FlushAll()
	require.Zero(t, e.Len())
}

func ExampleEngine() {
	e := New()
	e.BFReserve("seen", 0.001, 1_000_000)
	fmt.Println(e.BFAdd("seen", "alice"))
	fmt.Println(e.BFExists("seen", "alice"))
	fmt.Println(e.BFExists("seen", "bob"))
	fmt.Printf("%q\n", e.Do([]byte("bf.exists"), []byte("seen"), []byte("alice")).Append(nil, 3))
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// "#t\r\n"
}
