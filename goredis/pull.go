package goredis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
)

// PullOptions are for Pull. The zero value is fit for use.
type PullOptions struct {
	// Unmarked takes a filter that nobody has marked as whole. What it lacks the copy calls absent; and if it is replaced
	// by one of the same size in the middle of the pull, the copy is neither.
	Unmarked bool

	// Progress, if not nil, is called after each chunk with the bytes that have come and the bytes that there are. When
	// the pull has to begin again, so do the bytes.
	Progress func(done, total uint64)

	// Attempts is how often a request is sent that fails for want of a connection, with growing pauses of up to 2 s: 10 by
	// default.
	Attempts int
}

func (o *PullOptions) progress(done, total uint64) {
	if o.Progress != nil {
		o.Progress(done, max(done, total))
	}
}

const (
	pullChunk = 4 << 20 // bytes of a bitmap; those of a dump are the server's
	maxPulls  = 20      // of a filter that keeps changing
)

// accept returns the generation, or an error unless the filter is fit to be pulled.
func (s *sight) accept(o *PullOptions) (generation string, err error) {
	if o.Unmarked {
		_, _, err := s.found()
		return s.gen.Val(), err
	}
	m, err := s.judge()
	return m.generation, err
}

// chunkLoader is a loader of package bloom.
type chunkLoader interface {
	LoadChunk(cursor int64, chunk []byte) error
}

// chunk is a reply of SCANDUMP.
type chunk struct {
	next int64
	data []byte
}

func (m *module) chunk(cmd *redis.Cmd) (c chunk, err error) {
	elems, err := cmd.Slice()
	if err != nil {
		return c, m.explain(err)
	}
	if len(elems) == 2 {
		if next, ok := elems[0].(int64); ok {
			data, ok := elems[1].(string)
			if ok || elems[1] == nil {
				return chunk{next, []byte(data)}, nil
			}
		}
	}
	return c, fmt.Errorf("%w: the reply to %s", bloom.ErrCorrupt, cmd.Name())
}

// errAgain says that a copy was no good since the filter had changed.
var errAgain = errors.New("changed")

// pulls calls pull until it gets a whole copy.
func pulls(pull func(attempt int) error) error {
	for attempt := range maxPulls {
		if err := pull(attempt); err != errAgain {
			return err
		}
	}
	return ErrChanging
}

// dumper walks through the dump of a filter.
type dumper struct {
	m          *module
	o          *PullOptions
	loader     chunkLoader
	generation string
	header     chunk
	done       uint64
	total      uint64
	cursor     int64   // to ask for next
	cursors    []int64 // that were asked for
}

// take looks at a reply, and reports whether it was the last.
func (d *dumper) take(s *sight, cmd *redis.Cmd, cursor int64) (last bool, err error) {
	generation, err := s.accept(d.o)
	if err != nil {
		return false, err
	}
	c, err := d.m.chunk(cmd)
	if err != nil {
		return false, err
	}
	switch {
	case cursor == 0:
		d.generation, d.header = generation, c
	case generation != d.generation:
		return false, errAgain
	}
	d.cursors = append(d.cursors, cursor)
	d.cursor = c.next
	if c.next == 0 {
		return true, nil
	}
	if c.next <= cursor {
		return false, fmt.Errorf("%w: %s answers cursor %d with %d", bloom.ErrCorrupt, cmd.Name(), cursor, c.next)
	}
	if err := d.loader.LoadChunk(c.next, c.data); err != nil {
		if cursor != 0 && errors.Is(err, bloom.ErrCorrupt) {
			return false, errAgain // of a link that was not there when the header was made
		}
		return false, err
	}
	if cursor != 0 {
		d.done += uint64(len(c.data))
	}
	d.o.progress(d.done, d.total)
	return false, nil
}

// one asks for one chunk.
func (d *dumper) one(ctx context.Context, do func(func(p redis.Pipeliner)) error) (last bool, err error) {
	cursor := d.cursor
	var s *sight
	var cmd *redis.Cmd
	err = do(func(p redis.Pipeliner) {
		s, cmd = d.m.see(ctx, p), p.Do(ctx, d.m.command("SCANDUMP"), d.m.key, cursor)
	})
	if err != nil {
		return false, err
	}
	return d.take(s, cmd, cursor)
}

// stamp is what changes with every add that changes the filter.
func (d *dumper) stamp() string { return d.generation + string(d.header.data) }

func (f *Filter) stamp(ctx context.Context) (string, error) {
	d := &dumper{m: &f.module, o: &PullOptions{}, loader: bloom.NewScalableLoader()}
	_, err := d.one(ctx, func(queue func(p redis.Pipeliner)) error { return f.tx(ctx, queue) })
	return d.stamp(), err
}

// size is what the filter takes, about, for Progress; 0 if the server does not tell.
func (m *module) size(ctx context.Context, o *PullOptions) uint64 {
	if o.Progress == nil {
		return 0
	}
	if m.prefix == "BF" {
		return uint64(m.client.BFInfo(ctx, m.key).Val().Size)
	}
	return uint64(m.client.CFInfo(ctx, m.key).Val().Size)
}

// Pull returns a copy of the whole filter, which has every key that was added before Pull was called, and perhaps
// some that came later. Chunks are as large as the server makes them, 16 MiB at most. On a broken connection the
// pull goes on where it was. If the filter grows by a link meanwhile, or is replaced, it begins again, and after
// 20 times returns [ErrChanging]. The error wraps [ErrUnknown] if the filter is not there or not whole. The copy
// is for one goroutine: see bloom.NewLocked.
func (f *Filter) Pull(ctx context.Context, o PullOptions) (filter *bloom.Scalable, err error) {
	filter, _, err = f.pull(ctx, o)
	return filter, err
}

func (f *Filter) pull(ctx context.Context, o PullOptions) (filter *bloom.Scalable, stamp string, err error) {
	t := &retrier{o.Attempts}
	do := func(queue func(p redis.Pipeliner)) error { return f.tx(ctx, queue) }
	err = pulls(func(int) error {
		loader := bloom.NewScalableLoader()
		d := &dumper{m: &f.module, o: &o, loader: loader, total: f.size(ctx, &o)}
		for last := false; !last; {
			if err := t.do(ctx, func() (err error) { last, err = d.one(ctx, do); return err }); err != nil {
				return err
			}
		}
		// A link that was made meanwhile shows as bytes past the end of the dump. One that came after them has only
		// keys that came after the pull had begun.
		var err error
		stamp = d.stamp()
		if filter, err = loader.Finish(); errors.Is(err, bloom.ErrIncomplete) {
			return errAgain
		}
		return err
	})
	return filter, stamp, err
}

// Pull returns a copy of the whole filter as it was at one moment after Pull was called. Keys move when others are
// added, so a copy in parts is of use only if nothing was written meanwhile. If something was, the whole filter is read
// again in one transaction, which holds up the server for as long as it takes to copy the filter, and takes the memory
// of the filter there and here. On a broken connection the pull begins again. Errors are those of [Filter.Pull].
func (c *Cuckoo) Pull(ctx context.Context, o PullOptions) (filter *bloom.Cuckoo, err error) {
	t := &retrier{o.Attempts}
	var cursors []int64 // of the last copy in parts
	err = pulls(func(attempt int) error {
		return t.do(ctx, func() error {
			loader := bloom.NewCuckooLoader()
			d := &dumper{m: &c.module, o: &o, loader: loader, total: c.size(ctx, &o)}
			if attempt%2 == 0 {
				cursors = nil
				if err := c.inParts(ctx, d); err != nil {
					cursors = d.cursors
					return err
				}
			} else if err := c.atOnce(ctx, d, cursors); err != nil {
				return err
			}
			var err error
			if len(d.cursors) == 1 {
				filter, err = c.empty(ctx)
			} else if filter, err = loader.Finish(); errors.Is(err, bloom.ErrIncomplete) {
				return errAgain
			}
			return err
		})
	})
	return filter, err
}

// inParts dumps chunk by chunk, and returns errAgain if the filter was written to.
func (c *Cuckoo) inParts(ctx context.Context, d *dumper) error {
	err := c.client.Watch(ctx, func(tx *redis.Tx) error {
		do := func(queue func(p redis.Pipeliner)) error {
			cmds, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error { queue(p); return nil })
			return c.txError(cmds, err)
		}
		for last := false; !last; {
			var err error
			if last, err = d.one(ctx, do); err != nil {
				return err
			}
		}
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Exists(ctx, c.key); return nil })
		return err
	}, c.key)
	if errors.Is(err, redis.TxFailedErr) {
		return errAgain
	}
	return err
}

// atOnce dumps in one transaction, by the cursors of a dump before.
func (c *Cuckoo) atOnce(ctx context.Context, d *dumper, cursors []int64) error {
	var s *sight
	cmds := make([]*redis.Cmd, len(cursors))
	err := c.tx(ctx, func(p redis.Pipeliner) {
		s = c.see(ctx, p)
		for i, cursor := range cursors {
			cmds[i] = p.Do(ctx, "CF.SCANDUMP", c.key, cursor)
		}
	})
	if err != nil {
		return err
	}
	for i, cursor := range cursors {
		if last, err := d.take(s, cmds[i], cursor); err != nil || last && i+1 == len(cursors) {
			return err
		}
	}
	return errAgain // there is more of it by now
}

// empty is a filter that holds nothing, which has no dump.
func (c *Cuckoo) empty(ctx context.Context) (*bloom.Cuckoo, error) {
	info, err := c.client.CFInfo(ctx, c.key).Result()
	if err != nil {
		return nil, c.explain(err)
	}
	return bloom.NewCuckoo(uint64(info.NumBuckets*info.BucketSize), 0, bloom.WithScheme(bloom.RedisBloom),
		bloom.WithBucketSize(int(info.BucketSize)), bloom.WithMaxIterations(int(info.MaxIteration)), bloom.WithGrowth(int(info.ExpansionRate)))
}

// Pull returns a copy of the whole bitmap, which has every key that was added before Pull was called, and perhaps
// some that came later. It reads 4 MiB at a time. On a broken connection the pull goes on where it was; if the
// bitmap is replaced meanwhile, it begins again, and after 20 times returns [ErrChanging]. The error wraps
// [ErrUnknown] if the bitmap is not there or not whole. It takes twice the memory of the bitmap. The copy is for one
// goroutine; its method Concurrent makes one for many.
func (b *Bitmap) Pull(ctx context.Context, o PullOptions) (*bloom.Filter, error) {
	t := &retrier{o.Attempts}
	var data []byte
	err := pulls(func(int) error {
		var generation string
		data = data[:0]
		for uint64(len(data)) < b.bytes() {
			err := t.do(ctx, func() error {
				return b.piece(ctx, &o, &generation, &data)
			})
			if err == errDone {
				return nil
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bloom.FromRedisBitmap(data, b.params.Bits, b.params.Hashes, b.opts...)
}

var errDone = errors.New("the string is shorter")

// piece appends the next piece to data.
func (b *Bitmap) piece(ctx context.Context, o *PullOptions, generation *string, data *[]byte) error {
	var s *sight
	var part *redis.StringCmd
	at := int64(len(*data))
	err := b.tx(ctx, func(p redis.Pipeliner) {
		s, part = b.see(ctx, p), p.GetRange(ctx, b.key, at, at+pullChunk-1)
	})
	if err != nil {
		return err
	}
	size := b.bytes()
	id, err := s.accept(o)
	if o.Unmarked && isUnknown(err) { // a string that SETBIT made ends where it was last written
		if _, n, probed := s.probe(); probed == nil && n > 0 && n < size {
			size, id, err = n, s.gen.Val(), nil
		}
	}
	if err != nil {
		return err
	}
	if err := part.Err(); err != nil {
		return b.explain(err)
	}
	if at > 0 && id != *generation {
		return errAgain
	}
	*generation = id
	if cap(*data) == 0 {
		*data = slices.Grow(*data, int(size))
	}
	*data = append(*data, part.Val()...)
	o.progress(uint64(len(*data)), size)
	if n := uint64(len(*data)); n >= size && size < b.bytes() {
		return errDone
	} else if len(part.Val()) == 0 {
		return errAgain
	}
	return nil
}
