package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func take(t *traffic, n int) []lookup {
	batch := make([]lookup, n)
	t.fill(batch)
	return batch
}

func testDatasets(t *testing.T) map[string]*dataset {
	t.Helper()
	keys := func(content string) *dataset {
		d, err := readKeys(strings.NewReader(content), "keys")
		require.NoError(t, err)
		return d
	}
	few := &dataset{index: map[string]int{}, unassigned: []rune{0x378, 0x379}}
	few.add("U+0041", "LATIN CAPITAL LETTER A")
	return map[string]*dataset{
		"unicode":            unicodeRows(),
		"words":              keys("alpha\nbeta\ngamma\ndelta\n"),
		"one key":            keys("x"),
		"few unassigned":     few,
		"one very long key":  keys(strings.Repeat("y", maxLine)),
		"not valid as UTF-8": keys("\xff\xfe\n\xc3"),
	}
}

func TestTrafficIsSeeded(t *testing.T) {
	for name, d := range testDatasets(t) {
		t.Run(name, func(t *testing.T) {
			first := take(newTraffic(d, 0.5, 1), 5000)
			require.True(t, same(first, take(newTraffic(d, 0.5, 1), 5000)), "same seed")
			require.False(t, same(first, take(newTraffic(d, 0.5, 2), 5000)), "other seed")

			// However the stream is cut into batches, it stays the same.
			pieces := newTraffic(d, 0.5, 1)
			cut := append(take(pieces, 1), take(pieces, 999)...)
			require.True(t, same(first, append(cut, take(pieces, 4000)...)), "in pieces")
		})
	}
}

func same(a, b []lookup) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestTrafficTellsTheTruth(t *testing.T) {
	const n = 20000
	for name, d := range testDatasets(t) {
		t.Run(name, func(t *testing.T) {
			distinct := map[string]bool{}
			absent := 0
			for _, l := range take(newTraffic(d, 0.75, 3), n) {
				i, exists := d.index[l.key]
				if l.row == absentRow {
					require.False(t, exists, "absent key %.100q has a row", l.key)
					absent++
					distinct[l.key] = true
					require.Less(t, len(l.key), 1100)
					continue
				}
				require.True(t, exists)
				require.Equal(t, i, l.row)
			}
			require.InDelta(t, 0.75*n, absent, 0.02*n)
			require.Greater(t, float64(len(distinct)), 0.999*float64(absent), "absent keys must hardly repeat")
		})
	}
}

func TestTrafficShares(t *testing.T) {
	d := testDatasets(t)["words"]
	for _, l := range take(newTraffic(d, 0, 1), 1000) {
		require.NotEqual(t, absentRow, l.row)
	}
	for _, l := range take(newTraffic(d, 1, 1), 1000) {
		require.Equal(t, absentRow, l.row)
	}
}

func TestTrafficIsHot(t *testing.T) {
	d := unicodeRows()
	hits := map[int]int{}
	hottest := 0
	for _, l := range take(newTraffic(d, 0, 1), 20000) {
		hits[l.row]++
		hottest = max(hottest, hits[l.row])
	}
	require.Greater(t, hottest, 500, "some row is asked for all the time")
	require.Greater(t, len(hits), 3000, "and many are now and then")
}
