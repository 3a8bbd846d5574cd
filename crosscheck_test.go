package bloom

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFormatPage asks a reader in Python, written from docs/FORMAT.md and nothing else, for keys in
// filters of every kind and scheme.
func TestFormatPage(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a program")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on this machine")
	}
	r := newRand(31)
	key := func() []byte {
		k := make([]byte, r.IntN(80))
		for i := range k {
			k[i] = byte(r.Uint32())
		}
		return k
	}
	dir := t.TempDir()
	command := []string{"testdata/crosscheck/bloomread.py", "--key", hex.EncodeToString(testKey[:])}
	var questions bytes.Buffer
	var want []byte
	for i, f := range crossFilters(t) {
		for _, k := range f.keys(r, key) {
			fmt.Fprintf(&questions, "%d %x\n", i, k)
			answer := byte('0')
			if f.contains(k) {
				answer = '1'
			}
			want = append(want, answer, '\n')
		}
		path := filepath.Join(dir, fmt.Sprintf("%d-%s", i, f.name))
		require.NoError(t, Save(path, f.filter))
		command = append(command, path)
	}
	cmd := exec.Command(python, command...)
	cmd.Stdin = &questions
	var stderr strings.Builder
	cmd.Stderr = &stderr
	got, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Equal(t, len(want), len(got))
	// Half of the bytes are newlines; half of the keys at least are present, and not so many that absent ones
	// go untested.
	ones := bytes.Count(got, []byte{'1'})
	require.Greater(t, ones, len(got)/4)
	require.Less(t, ones, len(got)*2/5)
	for i := range want {
		require.Equal(t, want[i], got[i], "question %d", i/2)
	}
}

// crossFilter is a filter to be asked for 1,000 keys, half of which are in it.
type crossFilter struct {
	name     string
	filter   encodedFilter
	add      func([]byte) error
	contains func([]byte) bool
}

func (f *crossFilter) keys(r *rand.Rand, key func() []byte) (keys [][]byte) {
	for range 500 {
		keys = append(keys, key())
		if err := f.add(keys[len(keys)-1]); err != nil {
			panic(err)
		}
	}
	for range 500 {
		keys = append(keys, key())
	}
	return keys
}

func crossFilters(t *testing.T) (all []crossFilter) {
	plain := func(add func([]byte) bool) func([]byte) error {
		return func(key []byte) error { add(key); return nil }
	}
	growing := func(add func([]byte) (bool, error)) func([]byte) error {
		return func(key []byte) error { _, err := add(key); return err }
	}
	for _, s := range []Scheme{Murmur3, XXHash, RedisBloom, SipHash} {
		for _, seed := range []uint64{0, 1 << 40} {
			if seed != 0 && (s == RedisBloom || s == SipHash) {
				continue
			}
			opts := []Option{withSeed(s, seed)}
			f := Must(New(500, 0.1, opts...))
			odd := Must(NewWithSize(2011, 3, opts...))
			c := Must(NewConcurrent(500, 0.01, opts...))
			counting := Must(NewCounting(500, 0.1, opts...))
			chain := Must(NewScalable(60, 0.1, opts...))
			all = append(all,
				crossFilter{"filter", f, plain(f.Add), f.Contains},
				crossFilter{"odd", odd, plain(odd.Add), odd.Contains},
				crossFilter{"concurrent", c, plain(c.Add), c.Contains},
				crossFilter{"counting", counting, plain(counting.Add), counting.Contains},
				crossFilter{"scalable", chain, growing(chain.Add), chain.Contains})
			rate := 0.1
			if s == RedisBloom {
				rate = 0
			} else {
				for _, rate := range []float64{0.1, 0.001, 1e-6} { // 1, 2 and 3 rows
					b := Must(NewBlocked(500, rate, opts...))
					all = append(all, crossFilter{"blocked", b, plain(b.Add), b.Contains})
				}
			}
			for _, more := range [][]Option{{WithBucketSize(2), WithGrowth(1)}, {WithBucketSize(4), WithGrowth(4)}, {WithBucketSize(3), WithGrowth(0)}} {
				grown := Must(NewCuckoo(100, rate, append(more, opts...)...))
				if grown.Growth() == 0 {
					grown = Must(NewCuckoo(1000, rate/10, append(more, opts...)...))
				}
				all = append(all, crossFilter{"cuckoo", grown, growing(grown.Add), grown.Contains})
			}
		}
	}
	return all
}
