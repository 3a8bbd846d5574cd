package bloom

import (
	"fmt"
	"hash/crc32"
	"os"
)

// Mapped is a [Filter] or a [Blocked] in a file, for reading. On Linux, macOS and the BSDs, where words are
// little-endian, the file is mapped into memory: opening takes no memory of its own, however many processes
// open the same file they have one copy of it, and the system may give the memory to others and read the file
// again. On other systems a Mapped reads the file into memory.
//
// Any number of goroutines may use it at once; nobody may use it once Close has been called. Lookups cost
// what they do in the filter, and those that touch a page for the first time wait for the disk. They never
// allocate. Make one with [OpenMapped]; the zero value panics.
//
// The file must not change while it is mapped. [Save] leaves it alone, since it puts another one in its
// place: what is mapped stays the old filter, until OpenMapped is called again. Writing into the file changes
// answers, to wrong ones; truncating it ends the process when a lookup reaches what is gone (SIGBUS,
// "unexpected fault address"), unless [runtime/debug.SetPanicOnFault] makes that a panic.
type Mapped struct {
	filter  *Filter // or else
	blocked *Blocked
	data    []byte // the mapping, if it is one
}

// WithoutVerify makes [OpenMapped] trust the bits of the file: it checks the header and the length, but does
// not read the rest for its checksum. That makes opening a large file a matter of microseconds. A bit that is
// wrong there makes a filter that answers wrongly, "absent" for present keys included.
func WithoutVerify() Option {
	return func(c *config) { c.given |= optWithoutVerify }
}

// OpenMapped opens a file that holds one [Filter] or [Blocked], as [Save] wrote it, and nothing else. It
// reads the whole file once, to verify it, unless [WithoutVerify] is given. [WithMaxBytes] refuses larger
// filters. Errors are those of [Read] and of the file system; a filter of another kind is [ErrMismatch].
func OpenMapped(path string, opts ...Option) (*Mapped, error) {
	c, err := configure(opts, readOptions|optWithoutVerify)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	m := &Mapped{}
	if err := m.open(file, &c); err != nil {
		m.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *Mapped) open(file *os.File, c *config) error {
	s := newSource(file)
	if s.left < 0 {
		return fmt.Errorf("%w: not a regular file, which alone can be mapped", ErrInvalid)
	}
	h, err := s.head()
	if err != nil {
		return err
	}
	var f encoded
	switch h.kind {
	case kindFilter:
		m.filter = new(Filter)
		f = m.filter
	case kindBlocked:
		m.blocked = new(Blocked)
		f = m.blocked
	default:
		return fmt.Errorf("%w: a %v, want a %v or a %v", ErrMismatch, h.kind, kindFilter, kindBlocked)
	}
	if !littleEndian || !canMap {
		if err := s.decodeBody(f, &h, c); err != nil {
			return err
		}
		return expectEnd(file)
	}
	parts, err := h.describe(f, c)
	if err != nil {
		return err
	}
	if err := s.expect(h.body + 4); err != nil {
		return err
	}
	if extra := uint64(s.left) - h.body - 4; extra != 0 {
		return fmt.Errorf("%w: %d bytes follow the record", ErrCorrupt, extra)
	}
	data, err := mapFile(file, s.n+s.left)
	if err != nil {
		return err
	}
	m.data = data
	body, sum := data[s.n:len(data)-4], data[len(data)-4:]
	for p := range parts { // there is one
		bits := bitset{wordsIn(body), p.bits}
		f.take(0, bits)
		if c.given&optWithoutVerify != 0 {
			return nil
		}
		if err := p.check(bits); err != nil {
			return err
		}
	}
	return checkSum(crc32.Checksum(body, castagnoli), sum)
}

// Close gives the mapping back. Lookups afterwards panic; those in other goroutines must have ended. A
// second Close does nothing.
func (m *Mapped) Close() error {
	data := m.data
	m.filter, m.blocked, m.data = nil, nil, nil
	if data == nil {
		return nil
	}
	return unmapFile(data)
}

// classic returns the Filter, or panics where there is nothing to ask any more: any answer would be wrong.
func (m *Mapped) classic() *Filter {
	if m.filter == nil {
		panic("bloom: a Mapped that is closed, or was not opened, was asked")
	}
	return m.filter
}

// Contains reports whether key may be in the filter: false means that it definitely is not.
func (m *Mapped) Contains(key []byte) bool {
	if m.blocked != nil {
		return m.blocked.Contains(key)
	}
	return m.classic().Contains(key)
}

// ContainsString is [Mapped.Contains] of the bytes of key, without a copy.
func (m *Mapped) ContainsString(key string) bool { return m.Contains(stringBytes(key)) }

// ContainsUint64 is [Mapped.Contains] of the 8 bytes of key, least significant first.
func (m *Mapped) ContainsUint64(key uint64) bool {
	b := uint64Bytes(key)
	return m.Contains(b[:])
}

// Digest hashes key for [Mapped.ContainsDigest] and for every filter with the same scheme and
// seed.
func (m *Mapped) Digest(key []byte) Digest { return m.hasher().Digest(key) }

// DigestString is [Mapped.Digest] of the bytes of key, without a copy.
func (m *Mapped) DigestString(key string) Digest { return m.hasher().DigestString(key) }

// DigestUint64 is [Mapped.Digest] of the 8 bytes of key, least significant first.
func (m *Mapped) DigestUint64(key uint64) Digest { return m.hasher().DigestUint64(key) }

func (m *Mapped) hasher() *hasher {
	if m.blocked != nil {
		return &m.blocked.hasher
	}
	return &m.classic().hasher
}

// ContainsDigest is [Mapped.Contains] of the key that d was made from. It panics if d was made with
// another hash or seed.
func (m *Mapped) ContainsDigest(d Digest) bool {
	if m.blocked != nil {
		return m.blocked.ContainsDigest(d)
	}
	return m.classic().ContainsDigest(d)
}

// ContainsMany appends the answer of [Mapped.Contains] for each of keys to dst, as [Filter.ContainsMany] and
// [Blocked.ContainsMany] do.
func (m *Mapped) ContainsMany(dst []bool, keys [][]byte) []bool {
	if m.blocked != nil {
		return m.blocked.ContainsMany(dst, keys)
	}
	return m.classic().ContainsMany(dst, keys)
}

// ContainsManyString is [Mapped.ContainsMany] for strings.
func (m *Mapped) ContainsManyString(dst []bool, keys []string) []bool {
	if m.blocked != nil {
		return m.blocked.ContainsManyString(dst, keys)
	}
	return m.classic().ContainsManyString(dst, keys)
}

// Scheme returns how the filter hashes and places keys.
func (m *Mapped) Scheme() Scheme { return m.hasher().scheme }

// Capacity returns the number of keys that the filter was made for.
func (m *Mapped) Capacity() uint64 { return m.sizing().capacity }

// TargetRate returns the rate of false positives that the filter was made for, a ratio between 0 and 1.
func (m *Mapped) TargetRate() float64 { return m.sizing().rate }

func (m *Mapped) sizing() *sizing {
	if m.blocked != nil {
		return &m.blocked.sizing
	}
	return &m.classic().sizing
}

// Bits returns the number of bit positions.
func (m *Mapped) Bits() uint64 {
	if m.blocked != nil {
		return m.blocked.Bits()
	}
	return m.classic().Bits()
}

// Hashes returns the number of positions that a key has.
func (m *Mapped) Hashes() int {
	if m.blocked != nil {
		return m.blocked.Hashes()
	}
	return m.classic().Hashes()
}

// SizeBytes returns the number of bytes that the bits take, in the file and, mapped or read, in memory.
func (m *Mapped) SizeBytes() uint64 {
	if m.blocked != nil {
		return m.blocked.SizeBytes()
	}
	return m.classic().SizeBytes()
}

// FillRatio returns the fraction of bits that are set. It reads every word.
func (m *Mapped) FillRatio() float64 { return m.Info().FillRatio }

// ErrorRate returns the rate of false positives to expect, from the bits that are set. It reads every word.
func (m *Mapped) ErrorRate() float64 { return m.Info().ErrorRate }

// Len returns the Len of the filter that was saved.
func (m *Mapped) Len() uint64 {
	if m.blocked != nil {
		return m.blocked.Len()
	}
	return m.classic().Len()
}

// Info describes the filter; Kind is "Filter" or "Blocked". It reads every word.
func (m *Mapped) Info() Info {
	if m.blocked != nil {
		return m.blocked.Info()
	}
	return m.classic().Info()
}
