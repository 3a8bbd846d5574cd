package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every filter finds every key that it was given, one by one and through others' loops, and
// has a rate near the one that was asked for or that it is known to have.
func TestImplementations(t *testing.T) {
	const n = 10_000
	// What those that do not keep 1 % have at this size and load.
	high := map[string]float64{"boomfilters-scalable": 0.03, "seiflotfy": 0.025, "bloom-cuckoo@3%": 0.033}
	for _, form := range []string{formBytes, formString} {
		added, absent := addedKeys(form, n), absentKeys(form, 1<<17)
		for _, impl := range implementations() {
			t.Run(impl.name+"/"+form, func(t *testing.T) {
				require.True(t, impl.takes(n))
				f, bits := impl.filled(added, rate)
				require.Equal(t, n, contains(f, added))
				require.Equal(t, 1<<12, contains(f, hitKeys(form, n, 1<<12)))
				wrong := float64(contains(f, absent)) / float64(absent.len())
				t.Logf("rate %.3f %%, %.1f bits a key", 100*wrong, float64(bits)/n)
				limit := 0.012
				if h, ok := high[impl.name]; ok {
					limit = h
				}
				require.LessOrEqual(t, wrong, limit)
				require.NotZero(t, bits)
				if s, ok := f.(*seiflotfyFilter); ok {
					require.Zero(t, s.refused)
				}
			})
		}
	}
}

// A batched form asks the same filter.
func TestMany(t *testing.T) {
	added := addedKeys(formBytes, 1000)
	for _, impl := range pick("bloom", "bloom-blocked") {
		f := impl.make(1000, rate)
		many := f.(batched).many()
		add(many, added.slice(0, 500))
		require.Equal(t, 500, contains(f, added.slice(0, 500)), impl.name)
		add(f, added.slice(500, 1000))
		require.Equal(t, 1000, contains(many, added), impl.name)
	}
}

func TestKeys(t *testing.T) {
	for _, form := range []string{formBytes, formString} {
		seen := map[string]bool{}
		for _, set := range []keySet{addedKeys(form, 1e4), absentKeys(form, 1e4)} {
			require.Equal(t, int(1e4), set.len())
			for _, k := range set.bytes {
				require.Len(t, k, 16)
				seen[string(k)] = true
			}
			for _, k := range set.strings {
				require.Len(t, k, len("user:12345678"))
				seen[k] = true
			}
		}
		require.Len(t, seen, 2e4, "keys that were added and keys that were not are all different")
		for _, k := range hitKeys(form, 1e4, 1000).strings {
			require.True(t, seen[k])
		}
		for _, k := range missKeys(form, 1000).strings {
			require.Len(t, k, len("user:12345678"))
		}
	}
	require.Equal(t, "user:10000007", addedKeys(formString, 8).strings[7])
}

// The keys are those that docs/REFERENCE.md promises to other languages.
func TestKeysOfTheReference(t *testing.T) {
	text, err := os.ReadFile("../testdata/reference/workload.json")
	require.NoError(t, err)
	var reference struct {
		Keys []struct {
			Keys, Set, Key string
			J              int
		}
	}
	require.NoError(t, json.Unmarshal(text, &reference))
	require.NotEmpty(t, reference.Keys)
	for _, want := range reference.Keys {
		var set keySet
		switch want.Set {
		case "added":
			set = addedKeys(want.Keys, want.J+1)
		case "hit":
			set = hitKeys(want.Keys, 10_000, want.J+1)
		case "miss":
			set = missKeys(want.Keys, want.J+1)
		case "absent":
			set = absentKeys(want.Keys, want.J+1)
		}
		var key string
		if want.Keys == formBytes {
			key = string(set.bytes[want.J])
		} else {
			key = set.strings[want.J]
		}
		require.Equal(t, want.Key, hex.EncodeToString([]byte(key)), "%+v", want)
	}
}

func TestRingIsOneCycle(t *testing.T) {
	r := newRing(1000)
	at, steps := uint64(0), 0
	for at = r[at].next; at != 0; at = r[at].next {
		steps++
	}
	require.Equal(t, 999, steps)
	require.Positive(t, r.follow(small.time).Ops)
}

func TestHashes(t *testing.T) {
	added, absent := stringsAsBytes(0, 10_000), stringsAsBytes(10_000, 100_000)
	for _, h := range hashFuncs() {
		r := h.rate(added, absent)
		t.Logf("%s: %.3f %%", h.name, 100*r)
		if h.name == "FNV-1a-128" {
			require.Greater(t, r, 0.011, "its words of similar keys are similar; the page shows what that does")
		} else {
			require.InDelta(t, 0.01, r, 0.0015, h.name)
		}
	}
}
