package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/redbloom-go/bloom"
)

// A dump in a file is the pairs that BF.SCANDUMP or CF.SCANDUMP gave, as frames: the cursor as an int64, the length
// of the chunk as a uint64, both little-endian, and the chunk. The first frame is the header, with cursor 1. The last
// reply of the server, cursor 0 and nothing, may be there too.

// Lengths in bytes of the headers of dumps, as docs/REDIS.md has them.
const (
	cuckooHeader = 38
	chainHeader  = 20 // and chainLink for each link
	chainLink    = 53
	frameHead    = 16
)

// loader is what both loaders of package bloom do.
type loader interface {
	LoadChunk(cursor int64, chunk []byte) error
}

// readDump reads frames, size bytes in all: a *bloom.Scalable or a *bloom.Cuckoo.
func readDump(r io.Reader, size int64) (filter any, frames int, err error) {
	chain, cuckoo := bloom.NewScalableLoader(), bloom.NewCuckooLoader()
	var to loader
	var chunk bytes.Buffer
	for left := size; left > 0; frames++ {
		var head [frameHead]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return nil, frames, incomplete(err, frames)
		}
		left -= frameHead
		cursor, length := int64(binary.LittleEndian.Uint64(head[:])), binary.LittleEndian.Uint64(head[8:])
		if cursor == 0 && length == 0 && left == 0 && frames > 0 {
			break // the end of the iteration
		}
		if length > uint64(max(0, left)) { // a length is a claim
			return nil, frames, incomplete(io.EOF, frames)
		}
		chunk.Reset()
		if _, err := io.CopyN(&chunk, r, int64(length)); err != nil {
			return nil, frames, incomplete(err, frames)
		}
		left -= int64(length)
		if to == nil {
			if to = chain; length == cuckooHeader {
				to = cuckoo
			}
		}
		if err := to.LoadChunk(cursor, chunk.Bytes()); err != nil {
			return nil, frames, fmt.Errorf("frame %d of the dump: %w", frames, err)
		}
	}
	if to == cuckoo {
		filter, err := cuckoo.Finish()
		return filter, frames, err
	}
	filter, err = chain.Finish()
	return filter, frames, err
}

func incomplete(err error, frame int) error {
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the file ends in frame %d of the dump", bloom.ErrIncomplete, frame)
	}
	return err
}

// dump is a filter in the RedisBloom scheme, to be written as frames.
type dump struct {
	frames iter.Seq2[int64, []byte]
}

func (d dump) WriteTo(w io.Writer) (int64, error) {
	written := int64(0)
	for cursor, chunk := range d.frames {
		head := binary.LittleEndian.AppendUint64(nil, uint64(cursor))
		head = binary.LittleEndian.AppendUint64(head, uint64(len(chunk)))
		for _, part := range [][]byte{head, chunk} {
			n, err := w.Write(part)
			written += int64(n)
			if err != nil {
				return written, err
			}
		}
	}
	return written, nil
}
