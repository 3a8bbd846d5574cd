package checks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
)

// The measured figures of "What is said, and what is so" in docs/REDIS.md. A filter in the RedisBloom scheme has
// the bits that a server has, so what is measured here is what is measured there.
func TestFolklore(t *testing.T) {
	if testing.Short() {
		t.Skip("millions of lookups")
	}
	const absent = 1_000_000
	measure := func(capacity, keys uint64, rate float64, opts ...bloom.Option) (observed string, f *bloom.Scalable) {
		f = bloom.Must(bloom.NewScalable(capacity, rate, append(opts, bloom.WithScheme(bloom.RedisBloom))...))
		for i := uint64(0); f.Len() < keys; i++ {
			bloom.Must(f.AddString(fmt.Sprintf("user:%d", i)))
		}
		found := 0
		for i := range absent {
			if f.ContainsString(fmt.Sprintf("nobody:%d", i)) {
				found++
			}
		}
		return fmt.Sprintf("%.2f %%", 100*float64(found)/absent), f
	}
	fill := func(f *bloom.Scalable) string {
		for link := range f.Links() {
			return fmt.Sprintf("%.1f %%", 100*link.FillRatio)
		}
		return ""
	}
	page := read(t, "docs/REDIS.md")
	says := func(text string) {
		require.True(t, strings.Contains(page, text), "docs/REDIS.md does not say: %s", text)
	}

	chain, f := measure(100, 3100, 0.01)
	links := 0
	for range f.Links() {
		links++
	}
	require.Equal(t, 5, links)
	says("With 3,100 keys, five links, all full, it takes " + chain + " of absent keys for present")

	nonScaling, full := measure(10_000, 10_000, 0.01, bloom.WithNonScaling())
	_, err := full.AddString("one too many")
	require.ErrorIs(t, err, bloom.ErrFull)
	first, link := measure(10_000, 10_000, 0.01)
	says("10,000 keys at 1 %, NONSCALING, measure " + nonScaling + "; a first link, made for p/2, " + first)
	says("have " + fill(full) + " and " + fill(link) + " of their bits set")

	// With one key the rate depends on which, so this is the mean over a thousand.
	found := 0
	for key := range uint64(1000) {
		f := bloom.Must(bloom.NewScalable(1, 1e-6, bloom.WithScheme(bloom.RedisBloom), bloom.WithNonScaling()))
		bloom.Must(f.AddUint64(key))
		for i := range uint64(1000) {
			if f.ContainsUint64(1<<32 + 1000*key + i) {
				found++
			}
		}
	}
	says(fmt.Sprintf("a single key at 1e-6 answers true for %.1f %% of", 100*float64(found)/1e6))
}
