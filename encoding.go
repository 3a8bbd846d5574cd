package bloom

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
)

// This file is the frame of the binary format, docs/FORMAT.md: how a header (encoding_head.go), the bits and
// their checksum are written and read. encoding_kinds.go has what each kind of filter puts in it.

const (
	// chunkBytes is how much is copied, or summed, at a time: little enough to stay in the second
	// level of cache between the two.
	chunkBytes = 1 << 18

	// firstPiece is how many bytes may be claimed without any proof.
	firstPiece = 1 << 12
)

// record is a filter on its way out.
type record struct {
	header []byte
	parts  []*bitset
	shared bool // others may set bits meanwhile
}

func newRecord(h head, parts ...*bitset) (*record, error) {
	for _, p := range parts {
		h.body += p.sizeBytes()
	}
	r := &record{header: h.bytes(), parts: parts}
	if len(r.header) > maxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes, the limit is %d", ErrTooLarge, len(r.header), maxHeader)
	}
	return r, nil
}

func (r *record) size() uint64 {
	n := uint64(len(r.header)) + 4
	for _, p := range r.parts {
		n += p.sizeBytes()
	}
	return n
}

// each hands out the record piece by piece, for use until the next one.
func (r *record) each(use func([]byte) error) error {
	if err := use(r.header); err != nil {
		return err
	}
	var words []uint64
	if r.shared {
		words = make([]uint64, min(chunkBytes, r.size())/8)
	}
	buf := copyRoom(r.size())
	sum := uint32(0)
	for _, p := range r.parts {
		for at := uint64(0); at < p.sizeBytes(); at += chunkBytes {
			end := min(at+chunkBytes, p.sizeBytes())
			source, from := p, at
			if r.shared {
				source, from = &bitset{words: (*sharedBits)(p).load(words, at/8, end/8)}, 0
			}
			chunk := source.bytesOr(buf, from, from+end-at)
			sum = crc32.Update(sum, castagnoli, chunk)
			if err := use(chunk); err != nil {
				return err
			}
		}
	}
	return use(binary.LittleEndian.AppendUint32(nil, sum))
}

// copyRoom is where bits become bytes, on machines where they are not bytes already.
func copyRoom(size uint64) []byte {
	if littleEndian {
		return nil
	}
	return make([]byte, min(chunkBytes, size)+8) // a piece may begin and end within words
}

func (r *record) appendTo(dst []byte) []byte {
	dst = slices.Grow(dst, int(r.size()))
	r.each(func(b []byte) error { // never fails
		dst = append(dst, b...)
		return nil
	})
	return dst
}

func (r *record) writeTo(w io.Writer) (n int64, err error) {
	err = r.each(func(b []byte) error {
		m, err := w.Write(b)
		n += int64(m)
		if err == nil && m < len(b) {
			err = io.ErrShortWrite
		}
		return err
	})
	return n, err
}

// source is bytes on their way in.
type source struct {
	r    io.Reader
	n    int64 // read so far
	left int64 // that r still has, where known, or else −1
}

func newSource(r io.Reader) *source {
	s := &source{r: r, left: -1}
	switch r := r.(type) {
	case *bytes.Reader:
		s.left = int64(r.Len())
	case *bytes.Buffer:
		s.left = int64(r.Len())
	case *strings.Reader:
		s.left = int64(r.Len())
	case *os.File:
		if info, err := r.Stat(); err == nil && info.Mode().IsRegular() {
			if at, err := r.Seek(0, io.SeekCurrent); err == nil {
				s.left = max(0, info.Size()-at)
			}
		}
	}
	return s
}

// read fills b.
func (s *source) read(b []byte) error {
	n, err := io.ReadFull(s.r, b)
	s.n += int64(n)
	if s.left >= 0 {
		s.left -= int64(n)
	}
	switch {
	case errors.Is(err, io.EOF) && s.n == 0:
		return fmt.Errorf("%w: no record: %w", ErrIncomplete, io.EOF)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the record ends after %d bytes: %w", ErrIncomplete, s.n, io.ErrUnexpectedEOF)
	}
	return err
}

// expect returns an error if it is known already that n bytes will not come.
func (s *source) expect(n uint64) error {
	if s.left >= 0 && uint64(s.left) < n {
		return fmt.Errorf("%w: %d bytes where %d should follow: %w", ErrIncomplete, s.left, n, io.ErrUnexpectedEOF)
	}
	return nil
}

// pieces reads the first half of n bytes, in pieces that each take no more memory than has
// arrived before it, or a little: what is left may then be trusted to come. Where the length is known
// nothing needs to be read.
func (s *source) pieces(n uint64) (ps [][]byte, err error) {
	if err := s.expect(n); err != nil || s.left >= 0 {
		return nil, err
	}
	for got := uint64(0); n > firstPiece && got < n/2; {
		p := make([]byte, min(n/2-got, max(got/2, firstPiece)))
		if err := s.read(p); err != nil {
			return nil, err
		}
		ps = append(ps, p)
		got += uint64(len(p))
	}
	return ps, nil
}

// head reads a header.
func (s *source) head() (h head, err error) {
	b := make([]byte, headerUnit, 2*headerUnit) // most are no longer
	if err := s.read(b); err != nil {
		return h, err
	}
	if string(b[:4]) != formatMagic {
		return h, fmt.Errorf("%w: it begins with % x, want % x", ErrCorrupt, b[:4], formatMagic)
	}
	if b[4] != formatVersion {
		return h, fmt.Errorf("%w: version %d, this package reads %d", ErrVersion, b[4], formatVersion)
	}
	size := binary.LittleEndian.Uint64(b[8:])
	if size < headerUnit || size > maxHeader || size%headerUnit != 0 {
		return h, fmt.Errorf("%w: a header of %d bytes", ErrCorrupt, size)
	}
	ps, err := s.pieces(size - headerUnit)
	if err != nil {
		return h, err
	}
	b = slices.Grow(b, int(size)-headerUnit)
	for _, p := range ps {
		b = append(b, p...)
	}
	got := len(b)
	b = b[:size]
	if err := s.read(b[got:]); err != nil {
		return h, err
	}
	return parseHead(b)
}

// part is bits that are still to be read.
type part struct {
	bits  uint64
	used  uint64 // all from here on must be clear
	lines bool   // they start at a cache line
}

func (p *part) alloc() bitset {
	if p.lines {
		return newLines(p.bits / 512).bits()
	}
	return newBitset(p.bits)
}

// body reads all parts and checks their sum.
func (s *source) body(f encoded, h *head, parts iter.Seq[part]) error {
	if err := s.expect(h.body + 4); err != nil {
		return err
	}
	sum, i := uint32(0), 0
	for p := range parts {
		b, err := s.bits(p, &sum)
		if err != nil {
			return err
		}
		if err := p.check(b); err != nil {
			return err
		}
		f.take(i, b)
		i++
	}
	var want [4]byte
	if err := s.read(want[:]); err != nil {
		return err
	}
	return checkSum(sum, want[:])
}

func (p *part) check(b bitset) error {
	if !b.zeroFrom(p.used) {
		return fmt.Errorf("%w: a bit past the %d bits is set", ErrCorrupt, p.used)
	}
	return nil
}

func checkSum(sum uint32, want []byte) error {
	if sum != binary.LittleEndian.Uint32(want) {
		return fmt.Errorf("%w: the checksum of the bits does not match", ErrCorrupt)
	}
	return nil
}

func (s *source) bits(p part, sum *uint32) (b bitset, err error) {
	size := wordsFor(p.bits) * 8
	ps, err := s.pieces(size)
	if err != nil {
		return b, err
	}
	b = p.alloc()
	at := uint64(0)
	for i, piece := range ps {
		*sum = crc32.Update(*sum, castagnoli, piece)
		b.putBytes(at, piece)
		at += uint64(len(piece))
		ps[i] = nil // it may go
	}
	buf := copyRoom(size)
	for at < size {
		end := min(at+chunkBytes, size)
		chunk := b.bytesOr(buf, at, end)
		if err := s.read(chunk); err != nil {
			return b, err
		}
		*sum = crc32.Update(*sum, castagnoli, chunk)
		if !littleEndian {
			b.putBytes(at, chunk)
		}
		at = end
	}
	return b, nil
}

// encoded is a filter that can be written and read.
type encoded interface {
	record() (*record, error)
	// parse makes the receiver, which is new, the filter that h describes, without its bits, which
	// are the parts. Those are told one by one, so that many of them cost nothing before
	// they arrive.
	parse(h *head, c *config) (iter.Seq[part], error)
	// take gives the receiver the bits of part i, which come in order.
	take(i int, bits bitset)
	kind() kind
	hashing() hashing
	limit() uint64 // in bytes; math.MaxUint64 where there is none
}

// Options of what reads filters.
const readOptions = optMaxBytes | optKey

// decode reads a record into f, which is new.
func (s *source) decode(f encoded, c *config) error {
	h, err := s.head()
	if err != nil {
		return err
	}
	return s.decodeBody(f, &h, c)
}

func (s *source) decodeBody(f encoded, h *head, c *config) error {
	parts, err := h.describe(f, c)
	if err != nil {
		return err
	}
	return s.body(f, h, parts)
}

// describe is f.parse with all checks that can be made without the bits.
func (h *head) describe(f encoded, c *config) (iter.Seq[part], error) {
	if h.kind != f.kind() {
		return nil, fmt.Errorf("%w: a %v, want a %v", ErrMismatch, h.kind, f.kind())
	}
	h.config = config{scheme: h.scheme, seed: h.seed, key: c.key, maxBytes: math.MaxUint64}
	if h.scheme != SipHash && c.given&optKey != 0 {
		return nil, fmt.Errorf("%w: the scheme is %v, but a key is given, which is for SipHash", ErrMismatch, h.scheme)
	}
	if h.scheme == SipHash {
		h.config.seed = 0
		if c.given&optKey == 0 {
			return nil, fmt.Errorf("%w: it was written under the key of fingerprint %#x, and none is here: give it with WithKey, or read into a filter that has it",
				ErrMismatch, h.seed)
		}
		if here := h.config.hashing().seed; here != h.seed {
			return nil, fmt.Errorf("%w: it was written under the key of fingerprint %#x, the key here has %#x", ErrMismatch, h.seed, here)
		}
	}
	parts, err := f.parse(h, c)
	if err != nil {
		return nil, err
	}
	size := uint64(0)
	for p := range parts {
		if err := checkSize(p.bits, math.MaxUint64); err != nil {
			return nil, err
		}
		size += wordsFor(p.bits) * 8
	}
	if size > c.maxBytes {
		return nil, fmt.Errorf("%w: a filter of %d bytes, WithMaxBytes allows %d", ErrTooLarge, size, c.maxBytes)
	}
	if size != h.body {
		return nil, fmt.Errorf("%w: %d bytes of bits, want %d for the size of the filter", ErrCorrupt, h.body, size)
	}
	return parts, nil
}

// readLike reads a filter of the type of old, under its key and within its limit.
func readLike[F any, P Decodable[F]](old P, r io.Reader) (f *F, n int64, err error) {
	c := config{maxBytes: math.MaxUint64}
	if h := old.hashing(); h.fn == hashSipHash {
		c.key, c.given = h.key.Value().key().bytes(), optKey
	}
	if limit := old.limit(); limit != math.MaxUint64 {
		c.maxBytes, c.given = limit, c.given|optMaxBytes
	}
	f, s := new(F), newSource(r)
	err = s.decode(P(f), &c)
	return f, s.n, err
}

// readRecord reads into dst, which stays as it is on error.
func readRecord[F any, P Decodable[F]](dst P, r io.Reader) (int64, error) {
	f, n, err := readLike[F](dst, r)
	if err == nil {
		*dst = *f
	}
	return n, err
}

// unmarshalRecord is readRecord of a whole slice.
func unmarshalRecord[F any, P Decodable[F]](dst P, data []byte) error {
	r := bytes.NewReader(data)
	f, _, err := readLike[F](dst, r)
	if err == nil && r.Len() > 0 {
		err = fmt.Errorf("%w: %d bytes follow the record", ErrCorrupt, r.Len())
	}
	if err == nil {
		*dst = *f
	}
	return err
}

func unmarshalRecordText[F any, P Decodable[F]](dst P, text []byte) error {
	data, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("%w: not base64: %w", ErrCorrupt, err)
	}
	return unmarshalRecord[F](dst, data)
}

func appendRecord(dst []byte, f encoded) ([]byte, error) {
	r, err := f.record()
	if err != nil {
		return dst, err
	}
	if r.size() > uint64(math.MaxInt-len(dst)) {
		return dst, fmt.Errorf("%w: a record of %d bytes does not fit a slice on this machine", ErrTooLarge, r.size())
	}
	return r.appendTo(dst), nil
}

func writeRecord(w io.Writer, f encoded) (int64, error) {
	r, err := f.record()
	if err != nil {
		return 0, err
	}
	return r.writeTo(w)
}

func recordText(f encoded) ([]byte, error) {
	data, err := appendRecord(nil, f)
	if err != nil {
		return nil, err
	}
	if len(data) > math.MaxInt/4*3-3 {
		return nil, fmt.Errorf("%w: %d bytes in base64 do not fit a slice on this machine", ErrTooLarge, len(data))
	}
	return base64.StdEncoding.AppendEncode(nil, data), nil
}

// Decodable is the constraint of [Read] and [Load]: *F is a pointer to a kind of filter, F being [Filter],
// [Concurrent], [Scalable], [Counting], [Cuckoo] or [Blocked]. Callers name F only, as in
// Read[Filter](r). No type of another package satisfies it.
type Decodable[F any] interface {
	*F
	encoded
}

// Read reads one filter of type F, as WriteTo wrote it, from r and not a byte more: what follows can be
// read next. Like ReadFrom it checks before it allocates.
//
//	f, err := bloom.Read[bloom.Filter](r)
//
// The options are [WithMaxBytes], which refuses larger filters and from then on bounds the growth of those
// that grow, and [WithKey] for filters in the [SipHash] scheme. With a key no other scheme is read: whoever
// can replace a file cannot replace the hash as well.
//
// The error wraps [ErrIncomplete] where r ends too soon, and [io.EOF] besides if it had no byte at all;
// [ErrCorrupt] for anything that cannot be, a checksum above all; [ErrVersion] for what a later version of
// this package may have written; [ErrMismatch] for a filter of another kind or under another key; or
// [ErrTooLarge]; or it is the error of r.
func Read[F any, P Decodable[F]](r io.Reader, opts ...Option) (*F, error) {
	c, err := configure(opts, readOptions)
	if err != nil {
		return nil, err
	}
	f := new(F)
	if err := newSource(r).decode(P(f), &c); err != nil {
		return nil, err
	}
	return f, nil
}

// ReadAny is [Read] of a filter of any kind. It returns a [*Filter] (which a [Concurrent] too is written
// as), [*Scalable], [*Counting], [*Cuckoo] or [*Blocked].
func ReadAny(r io.Reader, opts ...Option) (any, error) {
	c, err := configure(opts, readOptions)
	if err != nil {
		return nil, err
	}
	s := newSource(r)
	h, err := s.head()
	if err != nil {
		return nil, err
	}
	f := h.kind.newFilter()
	if err := s.decodeBody(f, &h, &c); err != nil {
		return nil, err
	}
	return f, nil
}
