package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/migrate"
	"github.com/spf13/pflag"
)

// format is what a file is written in.
type format string

const (
	formatBloom  format = "bloom"
	formatRedis  format = "redisbloom"
	formatBitmap format = "bitmap"
	formatBits   format = "bits-and-blooms"
	formatGuava  format = "guava"
)

var formats = []string{string(formatBloom), string(formatRedis), string(formatBitmap), string(formatBits), string(formatGuava)}

// describe says what a format is to a reader of messages.
func (f format) describe() string {
	return map[format]string{
		formatBloom:  "a record of this library (docs/FORMAT.md)",
		formatRedis:  "a RedisBloom dump, as frames",
		formatBitmap: "a bitmap in a Redis string",
		formatBits:   "a filter of bits-and-blooms/bloom",
		formatGuava:  "a filter of Guava",
	}[f]
}

// loading are the flags that say how a filter in a file is to be read.
type loading struct {
	hashing
	format format // empty to see by the content
	bits   count
	hashes int
}

func (l *loading) register(f *pflag.FlagSet) {
	f.Var(word[format]{&l.format, formats}, "format", "what the file is: "+enumerate(formats)+" (default: by its content)")
	f.Var(&l.bits, "bits", "of a bitmap: the number of bits of the filter")
	f.IntVar(&l.hashes, "hashes", 0, "of a bitmap: the number of positions a key")
	l.hashing.register(f)
	f.Lookup("scheme").Usage = "of a bitmap: " + f.Lookup("scheme").Usage
	f.Lookup("seed").Usage = "of a bitmap: " + f.Lookup("seed").Usage
}

// file is a filter that was read.
type file struct {
	format  format
	filters []any // those of package bloom, or of migrate; one, but for records that follow each other
	frames  int   // of a dump
}

// source is a file whose bytes are all to be had.
type source struct {
	io.Reader // from the start
	head      []byte
	size      int64
}

// open opens a file, or reads standard input where the name is "-", and calls use.
func (l *loading) open(name string, stdin io.Reader, use func(*source) error) error {
	in := inputs([]string{name}, stdin)[0]
	return in.read(func(r io.Reader) error {
		s := &source{head: make([]byte, 64)}
		if f, ok := r.(*os.File); ok {
			info, err := f.Stat()
			start, seekErr := f.Seek(0, io.SeekCurrent) // standard input need not be at its start
			if err == nil && seekErr == nil && info.Mode().IsRegular() && info.Size() > start {
				n, err := f.ReadAt(s.head, start)
				if err != nil && err != io.EOF {
					return err
				}
				s.Reader, s.head, s.size = f, s.head[:n], info.Size()-start
				return use(s)
			}
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		s.Reader, s.head, s.size = bytes.NewReader(data), data[:min(len(data), len(s.head))], int64(len(data))
		return use(s)
	})
}

// guess tells a format by the content, which all formats but bitmaps show: by first bytes that nothing else has, or by
// a size that fits the numbers before it. Empty means that it is none of those, so that it can be a bitmap.
func (s *source) guess() format {
	word := func(at int, order binary.ByteOrder) uint64 {
		if len(s.head) < at+8 {
			return 0
		}
		return order.Uint64(s.head[at:])
	}
	big, little := binary.BigEndian, binary.LittleEndian
	switch header := word(8, little); {
	case bytes.HasPrefix(s.head, []byte("\x89BF\n")):
		return formatBloom
	case word(0, little) == 1 && (header == cuckooHeader || header >= chainHeader && (header-chainHeader)%chainLink == 0):
		return formatRedis
	case s.json():
		return formatBits
	}
	if m, k := word(0, big), word(8, big); m > 0 && m <= 1<<48 && k > 0 && k <= 2000 {
		for _, length := range []uint64{word(16, big), word(16, little)} {
			if length == m || length == (m+63)/64*64 || length == 0 && m == 1 {
				if uint64(s.size) == 24+(length+63)/64*8 {
					return formatBits
				}
			}
		}
	}
	if len(s.head) >= 6 && s.head[0] <= 1 && s.head[1] > 0 && uint64(s.size) == 6+8*uint64(big.Uint32(s.head[2:])) {
		return formatGuava
	}
	return ""
}

// json reports whether the file looks like the JSON of bits-and-blooms.
func (s *source) json() bool {
	return bytes.HasPrefix(bytes.TrimLeft(s.head, " \t\r\n"), []byte(`{"m":`))
}

// foreign names what is no filter but looks like something that holds some.
func (s *source) foreign() string {
	for prefix, what := range map[string]string{
		"REDIS0":       "an RDB file of Redis: get the filter with BF.SCANDUMP or GET",
		"\x89BK\n":     "a file of bloomd, which holds many keys: start bloomd with it and get the filter with BF.SCANDUMP",
		"\xac\xed\x00": "an object that Java serialized: write the filter with BloomFilter.writeTo",
	} {
		if bytes.HasPrefix(s.head, []byte(prefix)) {
			return what
		}
	}
	return ""
}

// decide returns the format that the flags and the content say, or an error where they say different things.
func (l *loading) decide(s *source) (format, error) {
	seen := s.guess()
	bitmap := l.bits > 0 || l.hashes > 0
	switch {
	case l.format != "" && l.format != formatBitmap && bitmap:
		return "", usagef("--bits and --hashes are for bitmaps, and --format is %s", l.format)
	case l.format != "":
		return l.format, nil
	case seen != "" && bitmap:
		return "", usagef("ambiguous: --bits and --hashes are for bitmaps, and this looks like %s; --format says which", seen.describe())
	case seen != "":
		return seen, nil
	case bitmap:
		return formatBitmap, nil
	case s.size == 0:
		return "", errors.New("the file is empty")
	}
	if what := s.foreign(); what != "" {
		return "", errors.New("this is " + what)
	}
	return "", errors.New("no filter that this program knows by its content; a Redis string that is a bitmap wants --bits and --hashes")
}

// read reads the filters of a file.
func (l *loading) read(name string, stdin io.Reader) (*file, error) {
	f := &file{}
	err := l.open(name, stdin, func(s *source) (err error) {
		if f.format, err = l.decide(s); err != nil {
			return err
		}
		return l.decode(s, f)
	})
	return f, err
}

// one is read of a file that must have one filter.
func (l *loading) one(name string, stdin io.Reader) (*file, any, error) {
	f, err := l.read(name, stdin)
	if err != nil {
		return nil, nil, err
	}
	if len(f.filters) != 1 {
		return nil, nil, fmt.Errorf("%s: %d filters follow each other in this file, want one", name, len(f.filters))
	}
	return f, f.filters[0], nil
}

func (l *loading) decode(s *source, f *file) error {
	var filter any
	var err error
	switch f.format {
	case formatBloom:
		return l.decodeRecords(s, f)
	case formatRedis:
		filter, f.frames, err = readDump(s, s.size)
	case formatBitmap:
		filter, err = l.decodeBitmap(s)
	case formatBits:
		b := &migrate.BitsAndBlooms{}
		decode := b.UnmarshalBinary
		if s.json() {
			decode = b.UnmarshalJSON
		}
		filter, err = b, decodeAll(s, decode)
	case formatGuava:
		g := &migrate.Guava{}
		filter, err = g, decodeAll(s, g.UnmarshalBinary)
	}
	f.filters = []any{filter}
	return err
}

// decodeRecords reads one record after the other, to the end.
func (l *loading) decodeRecords(s *source, f *file) error {
	opts, err := l.readOptions()
	if err != nil {
		return err
	}
	for {
		filter, err := bloom.ReadAny(s.Reader, opts...)
		switch {
		case errors.Is(err, io.EOF) && len(f.filters) > 0:
			return nil
		case err != nil:
			return err
		}
		f.filters = append(f.filters, filter)
	}
}

// decodeBitmap wants both numbers: with another size or number of hashes a filter calls keys absent that are in it.
func (l *loading) decodeBitmap(s *source) (any, error) {
	if l.bits == 0 || l.hashes == 0 {
		return nil, usagef("a bitmap does not tell its size (it may end before the last bit that is 0) nor how keys are hashed: give --bits and --hashes, and --scheme and --seed where they are not murmur3 and 0")
	}
	if l.bits > maxString {
		return nil, usagef("--bits is %d, and a Redis string holds %d", l.bits, uint64(maxString))
	}
	opts, err := l.options()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(s)
	if err != nil {
		return nil, err
	}
	return bloom.FromRedisBitmap(data, uint64(l.bits), l.hashes, opts...)
}

func decodeAll(r io.Reader, decode func([]byte) error) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return decode(data)
}
