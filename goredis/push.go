package goredis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
)

// PushOptions are for Push and PushFrom. The zero value is fit for use.
type PushOptions struct {
	// Unconfirmed leaves the filter without its marker, so that lookups answer Unknown, until Confirm is called: for a
	// filter to which keys must be added yet that other processes created.
	Unconfirmed bool

	// Progress, if not nil, is called after each chunk with the bytes that have been sent and the bytes that there are.
	Progress func(done, total uint64)

	// Attempts is how often a request is sent that fails for want of a connection, with growing pauses of up to 2 s: 10 by
	// default.
	Attempts int
}

func (o *PushOptions) progress(done, total uint64) {
	if o.Progress != nil {
		o.Progress(done, total)
	}
}

const pushChunk = 1 << 20

// limits returns the largest argument that the server takes, and its memory limit or 0. Servers that do not tell, as
// hosted ones, have the default.
func (r *remote) limits(ctx context.Context) (bulk, memory uint64, err error) {
	bulk = 512 << 20
	var node interface {
		ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
	} = r.client
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		if node, err = cluster.MasterForKey(ctx, r.key); err != nil {
			return 0, 0, err
		}
	}
	for name, value := range map[string]*uint64{"proto-max-bulk-len": &bulk, "maxmemory": &memory} {
		got, err := node.ConfigGet(ctx, name).Result()
		var reply redis.Error
		if err != nil && !errors.As(err, &reply) {
			return 0, 0, err
		}
		if n, err := strconv.ParseUint(got[name], 10, 64); err == nil {
			*value = n
		}
	}
	return bulk, memory, nil
}

// fits returns an error that wraps bloom.ErrTooLarge unless the server takes a filter of so many
// bytes, with strings as large as largest.
func (r *remote) fits(ctx context.Context, size, largest uint64) error {
	bulk, memory, err := r.limits(ctx)
	switch {
	case err != nil:
		return err
	case largest > bulk:
		return fmt.Errorf("%w: a string of %d bytes, and proto-max-bulk-len of the server is %d", bloom.ErrTooLarge, largest, bulk)
	case memory != 0 && size > memory:
		return fmt.Errorf("%w: a filter of %d bytes, and maxmemory of the server is %d", bloom.ErrTooLarge, size, memory)
	}
	return nil
}

// Push puts f in the place of the filter at the key, and marks it as whole. f must not change meanwhile, and must have
// every key that was added anywhere before Push was called: for a filter that others add to, use PushFrom.
//
// The size is checked before anything is written. The chunks go to a second key in the same slot; keys that are
// added meanwhile, by this package, go into a journal and are added at the end; then one RENAME puts the new filter in
// its place. Lookups answer from the old filter meanwhile, and Unknown for the time of some round trips at the end. On
// a broken connection the push goes on where it was. On error the old filter stays, unless the error came in those last
// round trips: then the new one is there, and Unknown. [ErrSuperseded] says that another push or rebuild began, or that
// the server lost what had been sent, or may have, in a restart or a failover.
//
// The error wraps bloom.ErrMismatch if f is not in the RedisBloom scheme, and bloom.ErrTooLarge if it has no place on
// the server.
func (f *Filter) Push(ctx context.Context, filter *bloom.Scalable, o PushOptions) error {
	return f.PushFrom(ctx, func(context.Context) (*bloom.Scalable, error) { return filter, nil }, o)
}

// PushFrom is [Filter.Push] of the filter that source returns. source is called when the journal is open, so that a
// copy made in it of a filter to which all keys are added, and the journal, have all of them.
func (f *Filter) PushFrom(ctx context.Context, source func(context.Context) (*bloom.Scalable, error), o PushOptions) error {
	return f.push(ctx, o, "BF.INSERT", func(ctx context.Context) (*dump, error) {
		s, err := source(ctx)
		if err != nil {
			return nil, err
		}
		if s == nil || s.Scheme() != bloom.RedisBloom {
			return nil, notForRedis(s == nil)
		}
		return &dump{s.SizeBytes(), s.ScanDumpAt, nil}, nil
	})
}

func notForRedis(isNil bool) error {
	if isNil {
		return fmt.Errorf("%w: the filter is nil", bloom.ErrInvalid)
	}
	return fmt.Errorf("%w: the filter is not in the RedisBloom scheme", bloom.ErrMismatch)
}

// Push is [Filter.Push].
func (c *Cuckoo) Push(ctx context.Context, filter *bloom.Cuckoo, o PushOptions) error {
	return c.PushFrom(ctx, func(context.Context) (*bloom.Cuckoo, error) { return filter, nil }, o)
}

// PushFrom is [Filter.PushFrom].
func (c *Cuckoo) PushFrom(ctx context.Context, source func(context.Context) (*bloom.Cuckoo, error), o PushOptions) error {
	return c.push(ctx, o, "CF.INSERT", func(ctx context.Context) (*dump, error) {
		f, err := source(ctx)
		if err != nil {
			return nil, err
		}
		if f == nil || f.Scheme() != bloom.RedisBloom {
			return nil, notForRedis(f == nil)
		}
		return &dump{f.SizeBytes(), f.ScanDumpAt, cuckooArgs(c.load, CuckooOptions{
			Capacity: f.Buckets() * uint64(f.BucketSize()), BucketSize: uint16(f.BucketSize()), MaxIterations: uint16(f.MaxIterations()),
			Expansion: uint16(f.Growth()), Fixed: f.Growth() == 0,
		})}, nil
	})
}

// dump is a filter to be pushed.
type dump struct {
	size  uint64
	at    func(cursor int64, maxChunk int) (next int64, chunk []byte, err error)
	empty []any // the command that makes a filter that has no dump, at the key load
}

func (m *module) push(ctx context.Context, o PushOptions, insert string, source func(context.Context) (*dump, error)) (err error) {
	t := &retrier{o.Attempts}
	if err := t.do(ctx, func() error { return m.fits(ctx, 0, pushChunk) }); err != nil {
		return err
	}
	b, err := m.begin(ctx, t, m.openJournal(ctx))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.abandon(ctx)
		}
	}()
	d, err := source(ctx)
	if err != nil {
		return err
	}
	if err := t.do(ctx, func() error { return m.fits(ctx, d.size, pushChunk) }); err != nil {
		return err
	}
	if err := m.upload(ctx, t, b, d, o); err != nil {
		return err
	}
	if err := t.do(ctx, func() error { return m.open(ctx, b) }); err != nil {
		return err
	}
	j := &journal{m: m, insert: insert, head: b.id, at: int64(len(b.id)), page: 1 << 20}
	if err := j.replay(ctx, t, m.next); err != nil {
		return err
	}
	return b.finish(ctx, t, !o.Unconfirmed, func() error { return j.replay(ctx, t, m.key) })
}

// upload sends the dump to the key load.
func (m *module) upload(ctx context.Context, t *retrier, b *build, d *dump, o PushOptions) error {
	done := uint64(0)
	for cursor, first := int64(0), true; ; first = false {
		next, data, err := d.at(cursor, pushChunk)
		if err != nil {
			return err
		}
		load := []any{m.command("LOADCHUNK"), m.load, next, data}
		if next == 0 && first {
			load = d.empty
		} else if next == 0 {
			return nil
		}
		err = t.do(ctx, func() error {
			var id *redis.StringCmd
			var loaded *redis.Cmd
			err := m.tx(ctx, func(p redis.Pipeliner) {
				id = p.Get(ctx, m.build)
				if first {
					p.Del(ctx, m.load) // if it is there, from an attempt whose reply was lost
				}
				loaded = p.Do(ctx, load...)
			})
			if err != nil {
				return err
			}
			if id.Val() != b.id || isReply(loaded.Err(), notFound) {
				return ErrSuperseded
			}
			return m.explain(loaded.Err())
		})
		if err != nil {
			return err
		}
		if !first {
			done += uint64(len(data))
		}
		o.progress(done, d.size)
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// open makes the uploaded filter the one that adds go to.
func (m *module) open(ctx context.Context, b *build) error {
	return b.step(ctx, func(tx *redis.Tx, _ bool) error {
		if n, err := tx.Exists(ctx, m.next).Result(); err != nil || n == 1 {
			return err // by a transaction whose reply was lost
		}
		return b.rename(ctx, tx, m.load, m.next, func(redis.Pipeliner) {})
	})
}

// openJournal begins the journal with the builder's ID: a server that evicts keys may lose the journal, and the next
// writer would begin another.
func (m *module) openJournal(ctx context.Context) func(p redis.Pipeliner, id string) {
	return func(p redis.Pipeliner, id string) { p.Set(ctx, m.log, id, 0) }
}

// journal reads the keys that were added while there was no filter for them.
type journal struct {
	m      *module
	insert string
	head   string
	at     int64
	page   int64
}

// read returns the next page, or what there is of it.
func (j *journal) read(ctx context.Context) ([]byte, error) {
	var head, page *redis.StringCmd
	err := j.m.tx(ctx, func(p redis.Pipeliner) {
		head = p.GetRange(ctx, j.m.log, 0, int64(len(j.head))-1)
		page = p.GetRange(ctx, j.m.log, j.at, j.at+j.page-1)
	})
	switch {
	case err != nil:
		return nil, err
	case head.Err() != nil:
		return nil, j.m.explain(head.Err())
	case head.Val() != j.head:
		return nil, fmt.Errorf("%w: the journal at key %q is lost", ErrSuperseded, j.m.log)
	}
	return page.Bytes()
}

// replay adds the keys to the filter at key, from where it was to the end.
func (j *journal) replay(ctx context.Context, t *retrier, key string) error {
	for {
		var data []byte
		err := t.do(ctx, func() (err error) {
			data, err = j.read(ctx)
			return err
		})
		if err != nil {
			return err
		}
		keys, read := readJournal(data)
		if read == 0 {
			if int64(len(data)) < j.page {
				return nil
			}
			j.page *= 2 // a key that is larger
			continue
		}
		for len(keys) > 0 {
			n := min(rebuildBatch, len(keys))
			err := t.do(ctx, func() error {
				_, err := j.m.inserted(j.m.client.Do(ctx, arguments(keys[:n], j.insert, key, "NOCREATE", "ITEMS")...), n)
				if isUnknown(err) {
					return ErrSuperseded
				}
				return err
			})
			if err != nil {
				return err
			}
			keys = keys[n:]
		}
		j.at += int64(read)
	}
}

// Push puts f in the place of the bitmap at the key, and marks it as whole. It is otherwise as [Filter.Push]; keys that
// are added meanwhile go into the new bitmap at once. The error wraps bloom.ErrMismatch unless f has the parameters of
// b.
func (b *Bitmap) Push(ctx context.Context, f *bloom.Filter, o PushOptions) error {
	return b.PushFrom(ctx, func(context.Context) (*bloom.Filter, error) { return f, nil }, o)
}

// PushFrom is [Bitmap.Push] of the filter that source returns. source is called when adds go into the new bitmap too,
// so that a copy made in it of a filter to which all keys are added, and what was added meanwhile, have all of them.
func (b *Bitmap) PushFrom(ctx context.Context, source func(context.Context) (*bloom.Filter, error), o PushOptions) (err error) {
	t := &retrier{o.Attempts}
	if err := t.do(ctx, func() error { return b.fits(ctx, b.bytes(), b.bytes()) }); err != nil {
		return err
	}
	var made *redis.IntCmd
	by, err := b.begin(ctx, t, func(p redis.Pipeliner, _ string) { made = p.SetRange(ctx, b.next, int64(b.bytes()-1), "\x00") })
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			by.abandon(ctx)
		}
	}()
	if err := made.Err(); err != nil {
		return b.explain(err)
	}
	f, err := source(ctx)
	if err != nil {
		return err
	}
	if err := b.same(f); err != nil {
		return err
	}
	var chunk []byte
	total := b.bytes()
	keys := []string{b.next, b.build, b.next + ".a", b.next + ".b"}
	for at := uint64(0); at < total; at += pushChunk {
		chunk = f.AppendRedisBitmap(chunk[:0], at, at+pushChunk)
		if len(bytes.TrimLeft(chunk, "\x00")) > 0 { // the new bitmap is zeros
			err := t.do(ctx, func() error {
				reply, err := scriptMerge.Run(ctx, b.client, keys, by.id, b.bytes(), at, chunk).Text()
				if err == nil && reply != "+" {
					err = b.refusal(reply[1:])
				}
				return b.explain(err)
			})
			if err != nil {
				return err
			}
		}
		o.progress(at+uint64(len(chunk)), total)
	}
	return by.finish(ctx, t, !o.Unconfirmed, func() error { return nil })
}

// same returns an error unless f has the parameters of b.
func (b *Bitmap) same(f *bloom.Filter) error {
	if f == nil {
		return fmt.Errorf("%w: the filter is nil", bloom.ErrInvalid)
	}
	there := bloom.Params{Bits: f.Bits(), Hashes: f.Hashes(), Scheme: f.Scheme()}
	if there != b.params {
		return fmt.Errorf("%w: a filter of %d bits, %d hashes and scheme %v for a bitmap of %d, %d and %v", bloom.ErrMismatch,
			there.Bits, there.Hashes, there.Scheme, b.params.Bits, b.params.Hashes, b.params.Scheme)
	}
	if f.DigestString("") != b.hasher.DigestString("") {
		return fmt.Errorf("%w: a filter with another seed or key than the bitmap's", bloom.ErrMismatch)
	}
	return nil
}
