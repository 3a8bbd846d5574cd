package rolling

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
)

// A filter for 100,000 keys at 1 %, full, is told to delete 100,000 keys that it never got. The figures
// are in docs/DELETING.md; they are the same on every machine.
func TestDeletingWhatWasNeverAdded(t *testing.T) {
	const n = 100_000
	counting, cuckoo := bloom.Must(bloom.NewCounting(n, 0.01)), bloom.Must(bloom.NewCuckoo(n, 0.01))
	filter := bloom.Must(bloom.NewConcurrent(n, 0.01))
	overlay := NewOverlay[uint64, *bloom.Concurrent](n, 0)
	require.NoError(t, overlay.Rebuild(context.Background(), filter, func(context.Context) error {
		for key := range uint64(n) {
			counting.AddUint64(key)
			bloom.Must(cuckoo.AddUint64(key))
			filter.AddUint64(key)
		}
		return nil
	}))
	fromCounting, fromCuckoo := 0, 0
	for key := uint64(1 << 32); key < 1<<32+n; key++ {
		if counting.RemoveUint64(key) {
			fromCounting++
		}
		if cuckoo.RemoveUint64(key) {
			fromCuckoo++
		}
		require.True(t, overlay.Delete(key))
	}
	lostByCounting, lostByCuckoo := 0, 0
	for key := range uint64(n) {
		if !counting.ContainsUint64(key) {
			lostByCounting++
		}
		if !cuckoo.ContainsUint64(key) {
			lostByCuckoo++
		}
		require.True(t, overlay.Contains(key, func(f *bloom.Concurrent) bool { return f.ContainsUint64(key) }))
	}
	require.Equal(t, [2]int{909, 4208}, [2]int{fromCounting, lostByCounting})
	require.Equal(t, [2]int{719, 715}, [2]int{fromCuckoo, lostByCuckoo})
}
