package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/migrate"
	"github.com/spf13/cobra"
)

// written are the formats that a filter can be written in.
var written = []string{string(formatBloom), string(formatRedis), string(formatBitmap)}

func newConvert() *cobra.Command {
	var l loading
	to := formatBloom
	c := &cobra.Command{
		Use:   "convert FROM TO",
		Short: "Write a filter in another format, where nothing is lost",
		Long: `convert reads a filter and writes it in the format of --to, whole or not at all:

  bloom       the library's own format: from a dump of RedisBloom, or a bitmap
  redisbloom  frames of what BF.LOADCHUNK or CF.LOADCHUNK take, each with its cursor: from a Scalable or a Cuckoo in the
              scheme RedisBloom, or a Filter in it of a size that BF.RESERVE … NONSCALING makes
  bitmap      the value of a Redis string, to be asked with GETBIT: from a Filter, or a dump of one link. What it does
              not tell, bits, hashes, scheme and seed, is printed on standard error

Filters of bits-and-blooms and Guava place keys by other formulas, so that their bits are of no use here: add the keys
again with "bloom build", and ask the old filter with "bloom check" until then (docs/MIGRATE.md).`,
		Example: `  bloom build --kind scalable --scheme redisbloom -o users.bloom users.txt
  bloom convert --to redisbloom users.bloom users.dump
  bloom convert users.dump back.bloom
  bloom convert --to bitmap words.bloom words.str && redis-cli -x SET words < words.str`,
		Args: exactly(2, "a file to read and a file to write"),
		RunE: func(c *cobra.Command, args []string) error {
			f, filter, err := l.one(args[0], c.InOrStdin())
			if err != nil {
				return err
			}
			made, note, err := convert(filter, to)
			if err != nil {
				return fmt.Errorf("%s: %s as %s: %w", args[0], f.format.describe(), to, err)
			}
			if err := save(c, args[1], made); err != nil {
				return err
			}
			if note != "" {
				fmt.Fprintln(c.ErrOrStderr(), note)
			}
			return nil
		},
	}
	c.Flags().Var(word[format]{&to, written}, "to", "the format to write: "+enumerate(written))
	l.register(c.Flags())
	return c
}

// convert returns the filter in a form to be written, and what is to be remembered of it.
func convert(filter any, to format) (made io.WriterTo, note string, err error) {
	switch filter.(type) {
	case *migrate.BitsAndBlooms, *migrate.Guava:
		return nil, "", errors.New("its bits are placed by another formula, and the keys cannot be told from them: add the keys again (bloom build), and ask this one until then (bloom check)")
	}
	switch to {
	case formatBloom:
		return filter.(keyed), "", nil
	case formatRedis:
		made, err := toDump(filter)
		return made, "", err
	default:
		f, err := toBitmap(filter)
		if err != nil {
			return nil, "", err
		}
		i := f.Info()
		note := fmt.Sprintf("--bits %d --hashes %d --scheme %v --seed %d", i.Bits, i.Hashes, &schemeValue{i.Scheme}, i.Seed)
		if i.Scheme == bloom.SipHash || i.Scheme == bloom.RedisBloom {
			note = fmt.Sprintf("--bits %d --hashes %d --scheme %v", i.Bits, i.Hashes, &schemeValue{i.Scheme})
		}
		return bitmap{f}, note, nil
	}
}

// toDump is for filters that a Redis server can hold.
func toDump(filter any) (io.WriterTo, error) {
	f := filter.(keyed)
	if i := f.Info(); i.Scheme != bloom.RedisBloom {
		return nil, fmt.Errorf("the scheme is %v: a server finds keys only where it would have put them, in a filter built with --scheme redisbloom", i.Scheme)
	}
	switch f := filter.(type) {
	case *bloom.Scalable:
		return dump{f.ScanDump(0)}, nil
	case *bloom.Cuckoo:
		if f.Len() == 0 {
			return nil, errors.New("a cuckoo filter that holds nothing has no dump, on the server neither")
		}
		return dump{f.ScanDump(0)}, nil
	case *bloom.Filter:
		chain, err := chainOf(f)
		if err != nil {
			return nil, err
		}
		return dump{chain.ScanDump(0)}, nil
	}
	return nil, fmt.Errorf("a server has no filter like a %s", f.Info().Kind)
}

// chainOf is a chain of one link, of fixed size, with the bits of a filter.
func chainOf(f *bloom.Filter) (*bloom.Scalable, error) {
	i := f.Info()
	empty, err := bloom.NewScalable(i.Capacity, i.TargetRate, bloom.WithScheme(bloom.RedisBloom), bloom.WithNonScaling())
	if err != nil {
		return nil, err
	}
	if empty.Bits() != i.Bits || empty.Hashes() != i.Hashes {
		return nil, fmt.Errorf("it has %d bits and %d hashes, and the server gives a filter for %d keys at %v %d and %d",
			i.Bits, i.Hashes, i.Capacity, i.TargetRate, empty.Bits(), empty.Hashes())
	}
	_, header, err := empty.ScanDumpAt(0, 0)
	if err != nil {
		return nil, err
	}
	header = bytes.Clone(header)
	binary.LittleEndian.PutUint64(header, i.Len)                  // of the chain
	binary.LittleEndian.PutUint64(header[chainHeader+16:], i.Len) // and of its link
	l := bloom.NewScalableLoader()
	if err := l.LoadChunk(1, header); err != nil {
		return nil, err
	}
	data := f.RedisBitmap()
	reverseBits(data)
	if err := l.LoadChunk(int64(len(data))+1, data); err != nil {
		return nil, err
	}
	return l.Finish()
}

// reverseBits turns bytes as SETBIT counts bits into bytes of a dump, and back.
func reverseBits(data []byte) {
	for i, b := range data {
		data[i] = bits.Reverse8(b)
	}
}

// maxString is how many bits a Redis string holds.
const maxString = 1 << 32

// toBitmap returns the Filter whose bits are those of the filter given.
func toBitmap(filter any) (*bloom.Filter, error) {
	f, ok := filter.(*bloom.Filter)
	if s, chain := filter.(*bloom.Scalable); chain {
		var err error
		if f, err = filterOf(s); err != nil {
			return nil, err
		}
	} else if !ok {
		return nil, fmt.Errorf("a %s is no bitmap: only a Filter is", filter.(keyed).Info().Kind)
	}
	if f.Bits() > maxString {
		return nil, fmt.Errorf("it has %d bits, and a Redis string holds %d", f.Bits(), uint64(maxString))
	}
	return f, nil
}

// filterOf is the Filter with the bits of a chain of one link in the RedisBloom scheme.
func filterOf(s *bloom.Scalable) (*bloom.Filter, error) {
	var links []bloom.Link
	for l := range s.Links() {
		links = append(links, l)
	}
	if len(links) != 1 || s.Scheme() != bloom.RedisBloom {
		return nil, fmt.Errorf("a chain of %d links in the scheme %v: one link in the scheme RedisBloom is a bitmap", len(links), s.Scheme())
	}
	_, header, err := s.ScanDumpAt(0, 0)
	if err != nil {
		return nil, err
	}
	if n := header[len(header)-1]; n != 0 {
		return nil, fmt.Errorf("a link of an old server, in which sizes were rounded to 2^%d", n)
	}
	var data []byte
	for cursor, chunk := range s.ScanDump(0) {
		if cursor > 1 {
			data = append(data, chunk...)
		}
	}
	reverseBits(data)
	whole := data[:(links[0].Bits+7)/8]
	return bloom.FromRedisBitmap(whole, links[0].Bits, links[0].Hashes, bloom.WithScheme(bloom.RedisBloom))
}

// bitmap writes a Filter as a Redis string.
type bitmap struct{ f *bloom.Filter }

func (b bitmap) WriteTo(w io.Writer) (int64, error) {
	const piece = 1 << 20
	var buf []byte
	written := int64(0)
	for from := uint64(0); ; from += piece {
		if buf = b.f.AppendRedisBitmap(buf[:0], from, from+piece); len(buf) == 0 {
			return written, nil
		}
		n, err := w.Write(buf)
		if written += int64(n); err != nil {
			return written, err
		}
	}
}
