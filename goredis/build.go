package goredis

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// This file replaces a filter by another: it is built beside the one in use, all adds go to both meanwhile, and one
// RENAME puts it in its place.
//
// The key build has the ID of who builds, and the shape, so that nobody adds to it by other parameters. It is watched
// at every step that counts, so that of two builders the later one wins and the other finds out. The server's history
// must be the same from the beginning to the end: otherwise writes to what was being built may be lost. After the
// RENAME the filter has no marker for the time of a round trip or two, in which lookups answer Unknown: only when it is
// certain that it was renamed is it marked.

// swapped is the end of the ID once the filter has been renamed.
const swapped = " swapped"

type build struct {
	r       *remote
	id      string
	history string
}

// begin becomes the builder, and starts from nothing. From then on all adds go into the filter that is built, or into a
// journal.
func (r *remote) begin(ctx context.Context, t *retrier, prepare func(p redis.Pipeliner, id string)) (*build, error) {
	b := &build{r: r, id: newID() + " " + r.shape}
	err := t.do(ctx, func() (err error) {
		var info *redis.Cmd
		err = r.tx(ctx, func(p redis.Pipeliner) {
			info = r.askHistory(ctx, p)
			p.Del(ctx, r.next, r.load, r.log)
			p.Set(ctx, r.build, b.id, 0)
			prepare(p, b.id)
		})
		if err == nil {
			b.history, err = r.toldHistory(info)
		}
		return err
	})
	if err != nil {
		b.abandon(ctx) // it may have begun, and the reply been lost
	}
	return b, err
}

// step runs f on a connection that watches the key build, if b is the builder, with whether the filter has been
// renamed. It fails if b is the builder no more when f's transaction runs.
func (b *build) step(ctx context.Context, f func(tx *redis.Tx, swapped bool) error) error {
	err := b.r.client.Watch(ctx, func(tx *redis.Tx) error {
		id, err := tx.Get(ctx, b.r.build).Result()
		if err != nil && err != redis.Nil {
			return err
		}
		if id != b.id && id != b.id+swapped {
			return ErrSuperseded
		}
		return f(tx, id != b.id)
	}, b.r.build)
	if errors.Is(err, redis.TxFailedErr) {
		return ErrSuperseded
	}
	return err
}

// rename renames the filter at from to the one at to, as one step, with what else queue does.
func (b *build) rename(ctx context.Context, tx *redis.Tx, from, to string, queue func(p redis.Pipeliner)) error {
	var renamed *redis.StatusCmd
	cmds, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		queue(p)
		renamed = p.Rename(ctx, from, to)
		return nil
	})
	if err := b.r.txError(cmds, err); err != nil {
		return err
	}
	if err := renamed.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrSuperseded, err)
	}
	return nil
}

// finish puts the filter in its place, calls last, and marks it if it is whole.
func (b *build) finish(ctx context.Context, t *retrier, whole bool, last func() error) error {
	r := b.r
	err := t.do(ctx, func() error {
		return b.step(ctx, func(tx *redis.Tx, done bool) error {
			if done {
				return nil // by a transaction whose reply was lost
			}
			if err := b.sameHistory(ctx, tx); err != nil {
				return err
			}
			return b.rename(ctx, tx, r.next, r.key, func(p redis.Pipeliner) {
				p.Set(ctx, r.gen, bare+r.shape, 0)
				p.Set(ctx, r.build, b.id+swapped, 0)
			})
		})
	})
	if err == nil {
		err = last()
	}
	if err != nil {
		return err
	}
	if !whole {
		err := t.do(ctx, func() error {
			return b.step(ctx, func(tx *redis.Tx, _ bool) error { return b.sameHistory(ctx, tx) })
		})
		b.abandon(ctx)
		return err
	}
	generation := newID()
	return t.do(ctx, func() error {
		err := b.step(ctx, func(tx *redis.Tx, _ bool) error {
			var s *sight
			cmds, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error { s = r.see(ctx, p); return nil })
			if err := r.txError(cmds, err); err != nil {
				return err
			}
			return r.mark(ctx, tx, s, generation, b.history, func(p redis.Pipeliner) { p.Del(ctx, r.build, r.log) })
		})
		if errors.Is(err, ErrSuperseded) {
			m, lookErr := r.look(ctx)
			if m.generation == generation {
				return nil // by a transaction whose reply was lost
			}
			if transient(lookErr) {
				return lookErr
			}
		}
		return err
	})
}

// sameHistory returns an error if the server's history is another than when b began.
func (b *build) sameHistory(ctx context.Context, tx *redis.Tx) error {
	if b.r.durable {
		return nil
	}
	var info *redis.Cmd
	cmds, err := tx.Pipelined(ctx, func(p redis.Pipeliner) error { info = b.r.askHistory(ctx, p); return nil })
	if err := b.r.txError(cmds, err); err != nil {
		return err
	}
	history, err := b.r.toldHistory(info)
	if err == nil && history != b.history {
		err = errHistory
	}
	return err
}

// abandon cleans up, unless somebody else builds by now. A filter that is in its place stays there, without a marker.
func (b *build) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	// Its own error adds nothing: what is left behind costs memory until the next begin.
	err := b.step(ctx, func(tx *redis.Tx, _ bool) error {
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { b.r.abort(ctx, p); return nil })
		return err
	})
	if isReply(err, "EXECABORT") || isReply(err, "OOM") {
		// A server without memory takes no transaction, not even this one. Somebody who has begun to build since then is
		// told.
		_ = b.r.Abort(ctx)
	}
}

// Scan iterates over the keys of all rows, as bytes. It must read what was committed before it was called.
// It ends at the first error that it yields.
type Scan func(ctx context.Context) iter.Seq2[[]byte, error]

// RebuildOptions are for Rebuild. The zero value is fit for use.
type RebuildOptions struct {
	// MinKeys is how many keys the scan must give at least, repeated ones too: otherwise the rebuild
	// fails with guard.ErrShortScan. 1 by default.
	MinKeys uint64

	// Progress, if not nil, is called now and then with the number of keys so far.
	Progress func(keys uint64)

	// Attempts is how often a request is sent that fails for want of a connection, with growing pauses of up to 2 s: 10 by
	// default.
	Attempts int
}

const rebuildBatch = 1000 // keys, in one command

// each calls add for batches of the keys of scan, which opens when the new filter takes adds, and checks their number.
func (o *RebuildOptions) each(ctx context.Context, scan Scan, add func(keys [][]byte) error) error {
	var keys [][]byte
	n := uint64(0)
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		err := add(keys)
		n += uint64(len(keys))
		keys = keys[:0]
		if o.Progress != nil {
			o.Progress(n)
		}
		return err
	}
	for key, err := range scan(ctx) {
		if err == nil {
			keys = append(keys, append(make([]byte, 0, len(key)), key...)) // the scan may use its memory again
			if len(keys) == rebuildBatch {
				err = flush()
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	if n < max(1, o.MinKeys) {
		return fmt.Errorf("%w: %d, want %d", guard.ErrShortScan, n, max(1, o.MinKeys))
	}
	return nil
}

// rebuild makes a filter by command, fills it with the keys of scan by insert, and puts it in its place.
func (m *module) rebuild(ctx context.Context, create []any, insert string, scan Scan, o RebuildOptions) (err error) {
	if scan == nil {
		return fmt.Errorf("%w: the scan is nil", bloom.ErrInvalid)
	}
	t := &retrier{attempts: o.Attempts}
	var created *redis.Cmd
	b, err := m.begin(ctx, t, func(p redis.Pipeliner, _ string) { created = p.Do(ctx, create...) })
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			b.abandon(ctx)
		}
	}()
	if err := created.Err(); err != nil {
		return m.explain(err)
	}
	err = o.each(ctx, scan, func(keys [][]byte) error {
		return t.do(ctx, func() error {
			var id *redis.StringCmd
			var added *redis.Cmd
			err := m.tx(ctx, func(p redis.Pipeliner) {
				id, added = p.Get(ctx, m.build), p.Do(ctx, arguments(keys, m.command(insert), m.next, "NOCREATE", "ITEMS")...)
			})
			if err != nil {
				return err
			}
			if id.Val() != b.id {
				return ErrSuperseded
			}
			if _, err = m.inserted(added, len(keys)); isUnknown(err) {
				return ErrSuperseded
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	return b.finish(ctx, t, true, func() error { return nil })
}

// Rebuild makes a new filter of the keys of scan, with the sizes in the options of f, in place of the one in use, if
// there is one. It makes a second key, to which all adds go as well from then on, then calls scan, and at the end puts
// the new filter in its place by RENAME and marks it. Lookups answer from the old filter meanwhile, and Unknown for the
// time of two round trips at the end. On error the old filter stays, unless the error came in those two: then the new
// one is there, and Unknown. A later Rebuild or Push ends an earlier one, which returns [ErrSuperseded].
//
// Keys whose rows are committed after scan was called must be added after their commit (guard.Guard.Create does so).
func (f *Filter) Rebuild(ctx context.Context, scan Scan, o RebuildOptions) error {
	create, err := f.reserveArgs(f.next)
	if err != nil {
		return err
	}
	return f.rebuild(ctx, create, "INSERT", scan, o)
}

// Rebuild is [Filter.Rebuild]. It adds every key of the scan once, and those that come from others meanwhile besides.
// Keys that are removed meanwhile stay false positives.
func (c *Cuckoo) Rebuild(ctx context.Context, scan Scan, o RebuildOptions) error {
	create, err := c.reserveArgs(c.next)
	if err != nil {
		return err
	}
	return c.rebuild(ctx, create, "INSERT", scan, o)
}

// Rebuild is [Filter.Rebuild]. It collects the keys of the scan in a filter in this process and then uploads that,
// which takes the memory of the bitmap here, and is many times as fast as adding them one by one.
func (b *Bitmap) Rebuild(ctx context.Context, scan Scan, o RebuildOptions) error {
	if scan == nil {
		return fmt.Errorf("%w: the scan is nil", bloom.ErrInvalid)
	}
	return b.PushFrom(ctx, func(ctx context.Context) (*bloom.Filter, error) {
		f, err := bloom.NewWithSize(b.params.Bits, b.params.Hashes, b.opts...)
		if err != nil {
			return nil, err
		}
		var added []bool
		return f, o.each(ctx, scan, func(keys [][]byte) error {
			added = f.AddMany(added[:0], keys)
			return nil
		})
	}, PushOptions{Attempts: o.Attempts})
}
