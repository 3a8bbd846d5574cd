package ascii

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASCII(t *testing.T) {
	require.True(t, Is([]byte("ItEms"), "items"))
	require.True(t, Is(nil, ""))
	for _, no := range []string{"item", "itemss", "", "ıtems", "item\u017f", "items\x00", "it@ms"} {
		require.False(t, Is([]byte(no), "items"), no)
	}
	require.Equal(t, byte('e'), Letter([]byte("ER"), 0))
	require.Equal(t, byte(0), Letter([]byte("ER"), 2))
	table := map[string]int{"get": 1, "": 2, strings.Repeat("x", 32): 3}
	require.Equal(t, 1, Find(table, []byte("Get")))
	require.Equal(t, 2, Find(table, nil))
	require.Equal(t, 3, Find(table, []byte(strings.Repeat("X", 32))))
	require.Zero(t, Find(table, []byte(strings.Repeat("x", 33))))
	require.Zero(t, Find(table, []byte("gets")))
	require.Equal(t, "ab", Quotable([]byte("abc"), 2))
	require.Equal(t, "a", Quotable([]byte("a\x00c"), 9))
	require.Empty(t, Quotable(nil, 9))
	require.Zero(t, testing.AllocsPerRun(10, func() { Find(table, []byte("GET")) }))
}
