package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom"
	"github.com/spf13/pflag"
)

// count is the value of a flag for a number of keys or bits: 1000000, 1_000_000 or 1e6.
type count uint64

func (c *count) String() string { return strconv.FormatUint(uint64(*c), 10) }
func (c *count) Type() string   { return "number" }

func (c *count) Set(s string) error {
	if n, err := strconv.ParseUint(s, 0, 64); err == nil {
		*c = count(n)
		return nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || !(f >= 0 && f < 1<<63) {
		return fmt.Errorf("%q is no whole number", s)
	}
	*c = count(f)
	return nil
}

// word is the value of a flag that takes one of a few words.
type word[T ~string] struct {
	to *T
	of []string
}

func (w word[T]) String() string {
	if w.to == nil {
		return "" // the zero value, of which package pflag wants to know whether it is a default
	}
	return string(*w.to)
}

func (w word[T]) Type() string    { return "name" }
func (w word[T]) words() []string { return w.of }

func (w word[T]) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(w.of, s) {
		return fmt.Errorf("want %s", enumerate(w.of))
	}
	*w.to = T(s)
	return nil
}

// schemeValue is the value of --scheme.
type schemeValue struct{ bloom.Scheme }

var schemes = []bloom.Scheme{bloom.Murmur3, bloom.XXHash, bloom.RedisBloom, bloom.SipHash}

func (v *schemeValue) String() string { return strings.ToLower(v.Scheme.String()) }
func (v *schemeValue) Type() string   { return "name" }
func (*schemeValue) words() []string  { return schemeNames() }

func (v *schemeValue) Set(s string) error {
	for _, scheme := range schemes {
		if strings.EqualFold(s, scheme.String()) {
			v.Scheme = scheme
			return nil
		}
	}
	return fmt.Errorf("want %s", enumerate(schemeNames()))
}

func schemeNames() []string {
	var names []string
	for _, s := range schemes {
		names = append(names, strings.ToLower(s.String()))
	}
	return names
}

// enumerate is "a, b or c".
func enumerate(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// hashing are the flags that say how keys are hashed.
type hashing struct {
	scheme  schemeValue
	seed    uint64
	keyFile string
}

func (h *hashing) register(f *pflag.FlagSet) {
	f.Var(&h.scheme, "scheme", "how keys are hashed: "+enumerate(schemeNames()))
	f.Uint64Var(&h.seed, "seed", 0, "seed of murmur3 and xxhash")
	h.registerKey(f)
}

// registerKey is for commands that only read filters, which say themselves how they hash.
func (h *hashing) registerKey(f *pflag.FlagSet) {
	f.StringVar(&h.keyFile, "key-file", "", "`file` with the secret key of siphash: 16 bytes, or 32 hexadecimal digits")
}

// readOptions are for reading a filter that says itself how it hashes.
func (h *hashing) readOptions() ([]bloom.Option, error) {
	if h.keyFile == "" {
		return nil, nil
	}
	key, err := readKey(h.keyFile)
	if err != nil {
		return nil, err
	}
	return []bloom.Option{bloom.WithKey(key)}, nil
}

// options are for making a filter.
func (h *hashing) options() ([]bloom.Option, error) {
	if h.scheme.Scheme == bloom.SipHash && h.keyFile == "" {
		return nil, usagef("--scheme siphash wants --key-file: head -c 16 /dev/urandom > FILE makes one")
	}
	opts, err := h.readOptions()
	opts = append(opts, bloom.WithScheme(h.scheme.Scheme))
	if h.seed != 0 {
		opts = append(opts, bloom.WithSeed(h.seed))
	}
	return opts, err
}

func readKey(path string) (key [16]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return key, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return key, err
	}
	if len(data) == len(key) {
		return [16]byte(data), nil
	}
	text := strings.TrimSpace(string(data))
	if n, err := hex.Decode(key[:], []byte(text[:min(len(text), 32)])); err != nil || n != len(key) || len(text) != 32 {
		return key, fmt.Errorf("%s: want 16 bytes, or 32 hexadecimal digits", path)
	}
	return key, nil
}
