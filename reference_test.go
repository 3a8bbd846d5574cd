package bloom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vectors in testdata/reference are for implementations in other languages, and
// docs/REFERENCE.md says how to read them. Run these tests with -update to write them
// again, which is right only for more of them: what is there must not change.

type referenceVectors struct {
	Scheme  string            `json:"scheme"`
	Seed    string            `json:"seed"`
	SipKey  string            `json:"siphash_key,omitempty"`
	Keys    []referenceKey    `json:"keys"`
	Filters []referenceFilter `json:"filters"`
}

type referenceKey struct {
	What string `json:"what"`
	Key  string `json:"key"` // hexadecimal, as are the words
	H1   string `json:"h1"`
	H2   string `json:"h2"`
}

type referenceFilter struct {
	Bits      uint64     `json:"bits"`
	Hashes    int        `json:"hashes"`
	Positions [][]uint64 `json:"positions"`        // of each key
	Set       uint64     `json:"set,omitempty"`    // bits that are set when all keys are in
	SHA256    string     `json:"sha256,omitempty"` // of the filter's bytes then
	Bytes     string     `json:"bytes,omitempty"`  // themselves, where they are few
}

// referenceSizes are m and k: less than a word, whole words, odd, powers of two.
var referenceSizes = []struct {
	m uint64
	k int
}{
	{1, 2}, {61, 3}, {64, 3}, {192, 20}, {960, 7}, {1021, 7}, {1024, 10}, {1 << 20, 1},
	{9_585_059, 7}, {9_600_448, 7}, {1<<40 - 64, 4}, {1 << 40, 4},
}

// Beyond this size vectors have positions only, and up to the other one the bytes.
const maxReferenceFilter, maxReferenceBytes = 1 << 24, 1024

var referenceSchemes = []struct {
	file   string
	scheme Scheme
	seed   uint64
}{
	{"murmur3", Murmur3, 0}, {"murmur3-seed", Murmur3, 0x9747b28c}, {"murmur3-seed64", Murmur3, 0xfedcba9876543210},
	{"xxhash", XXHash, 0}, {"xxhash-seed", XXHash, 0xfedcba9876543210},
	{"redisbloom", RedisBloom, 0}, {"siphash", SipHash, 0},
}

// referenceKeys are keys of every length up to two and a half blocks of any hash, keys
// that are not ASCII, or not UTF-8, and numbers.
func referenceKeys() (what []string, keys [][]byte) {
	for n := range 41 {
		key := make([]byte, n)
		for i := range key {
			key[i] = byte(i*7 + n)
		}
		what, keys = append(what, fmt.Sprintf("length %d", n)), append(keys, key)
	}
	for _, s := range []string{"user:12345678", "naïve", "Ελλάδα", "布隆过滤器", "🌸 bloom", "\xff\xfe\x00\x80"} {
		what, keys = append(what, fmt.Sprintf("string %+q", s)), append(keys, []byte(s))
	}
	for _, x := range []uint64{0, 1, 42, 1 << 32, 1<<63 - 1, 1<<64 - 1} {
		what, keys = append(what, fmt.Sprintf("uint64 %d", x)), append(keys, binary.LittleEndian.AppendUint64(nil, x))
	}
	return what, keys
}

func makeReference(t *testing.T, s Scheme, seed uint64) referenceVectors {
	v := referenceVectors{Scheme: s.String(), Seed: hexWord(seed)}
	opts := []Option{withSeed(s, seed)}
	if s == SipHash {
		key := testConfig(s, seed).key
		v.SipKey = hex.EncodeToString(key[:])
	}
	what, keys := referenceKeys()
	hasher := Must(NewWithSize(64, 1, opts...))
	for i, key := range keys {
		h1, h2 := hasher.Digest(key).Words()
		v.Keys = append(v.Keys, referenceKey{what[i], hex.EncodeToString(key), hexWord(h1), hexWord(h2)})
	}
	for _, size := range referenceSizes {
		r := referenceFilter{Bits: size.m, Hashes: size.k}
		l := testLayout(Params{size.m, size.k, s}, seed)
		for _, key := range keys {
			r.Positions = append(r.Positions, l.Positions(nil, key))
		}
		if size.m <= maxReferenceFilter {
			f := Must(NewWithSize(size.m, size.k, opts...))
			for _, key := range keys {
				f.Add(key)
			}
			require.Equal(t, l, f.layout)
			data := f.bits.appendBytes(nil)
			r.Set, r.SHA256 = f.bits.count(), hexSum(data)
			if size.m <= maxReferenceBytes {
				r.Bytes = hex.EncodeToString(data)
			}
		}
		v.Filters = append(v.Filters, r)
	}
	return v
}

func hexWord(x uint64) string { return fmt.Sprintf("%016x", x) }

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func TestReferenceVectors(t *testing.T) {
	for _, s := range referenceSchemes {
		t.Run(s.file, func(t *testing.T) {
			got := makeReference(t, s.scheme, s.seed)
			var want referenceVectors
			compareReference(t, s.file, got, &want)
			require.Equal(t, want, got)
			followReference(t, want)
		})
	}
}

// followReference does what the page tells a reader to do: it makes positions and
// bytes from the words alone.
func followReference(t *testing.T, v referenceVectors) {
	square := uint64(1)
	if v.Scheme == "RedisBloom" {
		square = 0
	}
	for _, f := range v.Filters {
		data := make([]byte, min(f.Bits, maxReferenceFilter)/8+1)
		for n, key := range v.Keys {
			h1, err := strconv.ParseUint(key.H1, 16, 64)
			require.NoError(t, err)
			h2, err := strconv.ParseUint(key.H2, 16, 64)
			require.NoError(t, err)
			for i := range uint64(f.Hashes) {
				position := (h1 + i*h2 + i*i*square) % f.Bits
				require.Equal(t, position, f.Positions[n][i])
				if f.SHA256 != "" {
					data[position/8] |= 1 << (position % 8)
				}
			}
		}
		if f.SHA256 != "" {
			data = data[:(f.Bits+7)/8]
			require.Equal(t, f.SHA256, hexSum(data))
		}
		if f.Bytes != "" {
			require.Equal(t, f.Bytes, hex.EncodeToString(data))
		}
	}
}

// compareReference reads a file of vectors into want, or writes it first.
func compareReference(t *testing.T, name string, got, want any) {
	path := filepath.Join("testdata", "reference", name+".json")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(formatReference(t, got)), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err, "go test -run TestReference -update . writes it")
	require.NoError(t, json.Unmarshal(text, want))
}

// formatReference is JSON with a line for each innermost list or object, so that a
// difference shows, and pages of single numbers do not.
func formatReference(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return strings.NewReplacer("],[", "],\n[", "},{", "},\n{", "[[", "[\n[", "[{", "[\n{").Replace(string(data)) + "\n"
}

// referenceWorkload is a filter of the workload in docs/REFERENCE.md, and how many of the
// absent keys it takes for present, which every implementation finds alike.
type referenceWorkload struct {
	Scheme         string `json:"scheme"`
	Keys           string `json:"keys"`
	N              uint64 `json:"n"`
	Bits           uint64 `json:"bits"`
	Hashes         int    `json:"hashes"`
	Added          uint64 `json:"added"` // adds that set a bit
	Set            uint64 `json:"set"`
	SHA256         string `json:"sha256"`
	Absent         uint64 `json:"absent"`
	FalsePositives uint64 `json:"false_positives"`
}

type referenceSize struct {
	Scheme string  `json:"scheme"`
	N      uint64  `json:"n"`
	Rate   float64 `json:"rate"`
	Bits   uint64  `json:"bits"`
	Hashes int     `json:"hashes"`
}

type referenceWorkloads struct {
	Sizes   []referenceSize        `json:"sizes"`
	Keys    []referenceWorkloadKey `json:"keys"`
	Filters []referenceWorkload    `json:"filters"`
}

type referenceWorkloadKey struct {
	Keys string `json:"keys"`
	Set  string `json:"set"`
	J    uint64 `json:"j"`
	Key  string `json:"key"`
}

func workloadKey(form string, id uint64) []byte {
	if form == "string" {
		return strconv.AppendUint([]byte("user:"), 10_000_000+id, 10)
	}
	b := binary.LittleEndian.AppendUint64(nil, id)
	return binary.LittleEndian.AppendUint64(b, splitMix64(id))
}

func makeWorkloads() (w referenceWorkloads) {
	const n, absent, rate = 10_000, 100_000, 0.01
	schemes := []Scheme{Murmur3, XXHash, RedisBloom}
	for _, s := range schemes {
		for _, n := range []uint64{1e4, 1e5, 1e6, 1e8} {
			p := Must(Estimate(n, rate, withScheme(s)))
			w.Sizes = append(w.Sizes, referenceSize{s.String(), n, rate, p.Bits, p.Hashes})
		}
	}
	for _, form := range []string{"bytes16", "string"} {
		from, within := uint64(1<<40), uint64(1<<40)
		if form == "string" {
			from, within = 1<<26, 1<<24
		}
		for _, j := range []uint64{0, 1, 2, 9999} {
			key := func(set string, id uint64) {
				w.Keys = append(w.Keys, referenceWorkloadKey{form, set, j, hex.EncodeToString(workloadKey(form, id))})
			}
			key("added", j)
			key("hit", splitMix64(j)%n)
			key("miss", from+splitMix64(j)%within)
			key("absent", from+j)
		}
		for _, s := range schemes {
			f := Must(New(n, rate, withScheme(s)))
			r := referenceWorkload{Scheme: s.String(), Keys: form, N: n, Bits: f.Bits(), Hashes: f.Hashes(), Absent: absent}
			for id := range uint64(n) {
				if f.Add(workloadKey(form, id)) {
					r.Added++
				}
			}
			for j := range uint64(absent) {
				if f.Contains(workloadKey(form, from+j)) {
					r.FalsePositives++
				}
			}
			r.Set, r.SHA256 = f.bits.count(), hexSum(f.bits.appendBytes(nil))
			w.Filters = append(w.Filters, r)
		}
	}
	return w
}

func TestReferenceWorkload(t *testing.T) {
	got := makeWorkloads()
	var want referenceWorkloads
	compareReference(t, "workload", got, &want)
	require.Equal(t, want, got)
}

func TestReferenceSize(t *testing.T) {
	files, err := filepath.Glob("testdata/reference/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(referenceSchemes)+1)
	total := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		total += info.Size()
	}
	require.Less(t, total, int64(300_000))
}
