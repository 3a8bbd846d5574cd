package goredis

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// module is what [Filter] and [Cuckoo] have in common, which are commands of a module.
type module struct {
	*remote
	prefix string
}

func (m *module) command(name string) string { return m.prefix + "." + name }

// maxKeys is how many keys one command has; a server takes a million arguments.
const maxKeys = 100_000

// Verdicts appends one verdict a key to dst, in one transaction and one round trip for each 100,000 keys: Unknown for
// all unless the filter is there and whole. It returns an error where the server cannot be asked, or has something else
// at the key; the verdicts from there on are Unknown then.
func (m *module) Verdicts(ctx context.Context, dst []guard.Verdict, keys [][]byte) ([]guard.Verdict, error) {
	for len(keys) > 0 {
		n := min(len(keys), maxKeys)
		answers, err := m.exist(ctx, keys[:n])
		if err != nil {
			return unknowns(dst, len(keys), err)
		}
		for _, a := range answers {
			dst = append(dst, verdict(a == 1))
		}
		keys = keys[n:]
	}
	return dst, nil
}

// exist asks for all keys at once.
func (m *module) exist(ctx context.Context, keys [][]byte) ([]int64, error) {
	var s *sight
	var exists *redis.Cmd
	err := m.tx(ctx, func(p redis.Pipeliner) {
		s = m.see(ctx, p)
		exists = p.Do(ctx, arguments(keys, m.command("MEXISTS"), m.key)...)
	})
	if err == nil {
		_, err = s.judge()
	}
	if err != nil {
		return nil, err
	}
	return m.integers(exists, len(keys))
}

func arguments(keys [][]byte, first ...any) []any {
	args := append(make([]any, 0, len(first)+len(keys)), first...)
	for _, key := range keys {
		args = append(args, key)
	}
	return args
}

// integers returns a reply of n numbers; true is 1 and false 0.
func (m *module) integers(cmd *redis.Cmd, n int) ([]int64, error) {
	elems, err := cmd.Slice()
	if err != nil {
		return nil, m.explain(err)
	}
	numbers := make([]int64, 0, n)
	for _, e := range elems {
		switch v := e.(type) {
		case int64:
			numbers = append(numbers, v)
		case bool:
			numbers = append(numbers, boolInt(v))
		case error:
			return numbers, m.explain(v)
		default:
			return numbers, fmt.Errorf("%w: %v in the reply to %s", bloom.ErrCorrupt, e, cmd.Name())
		}
	}
	if len(numbers) != n {
		return numbers, fmt.Errorf("%w: %d answers to %s, want %d", bloom.ErrCorrupt, len(numbers), cmd.Name(), n)
	}
	return numbers, nil
}

func boolInt(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// Check is Verdicts for one key.
func (m *module) Check(ctx context.Context, key []byte) (guard.Verdict, error) {
	answers, err := m.Verdicts(ctx, make([]guard.Verdict, 0, 1), [][]byte{key})
	return answers[0], err
}

// inserted returns the answers of a command that adds, and nil only if the filter now has all keys.
func (m *module) inserted(cmd *redis.Cmd, n int) ([]int64, error) {
	numbers, err := m.integers(cmd, n)
	if isReply(err, notFound) {
		return nil, fmt.Errorf("%w: there is no filter at key %q", ErrUnknown, m.key)
	}
	if err != nil || m.prefix != "CF" {
		return numbers, err
	}
	for _, x := range numbers {
		// Refused is -1, and false from CF.INSERT in RESP3. CF.INSERTNX says 0 of what is there already.
		if x < 0 || x == 0 && !strings.HasSuffix(cmd.Name(), "nx") {
			return numbers, fmt.Errorf("%w: key %q refused a key", bloom.ErrFull, m.key)
		}
	}
	return numbers, nil
}

const notFound = "ERR not found" // of NOCREATE

// maxJournal is how long the journal of a Push may get before the Push is ended instead.
const maxJournal = 64 << 20

// insert adds keys with command, which takes NOCREATE and ITEMS, to the filter and to the one that is being built, in
// one round trip for each maxKeys keys. While a Push uploads a filter there is none to add to yet: then a second round
// trip puts the keys into its journal, which the Push adds at its end.
func (m *module) insert(ctx context.Context, command string, keys [][]byte) (answers []int64, err error) {
	for err == nil && len(keys) > 0 {
		n := min(len(keys), maxKeys)
		var more []int64
		more, err = m.insertAtOnce(ctx, command, keys[:n])
		answers, keys = append(answers, more...), keys[n:]
	}
	return answers, err
}

func (m *module) insertAtOnce(ctx context.Context, command string, keys [][]byte) ([]int64, error) {
	for {
		var here, there *redis.Cmd
		var build, gen *redis.StringCmd
		err := m.tx(ctx, func(p redis.Pipeliner) {
			here = p.Do(ctx, arguments(keys, command, m.key, "NOCREATE", "ITEMS")...)
			there = p.Do(ctx, arguments(keys, command, m.next, "NOCREATE", "ITEMS")...)
			build, gen = p.Get(ctx, m.build), p.Get(ctx, m.gen)
		})
		if err != nil {
			return nil, err
		}
		_, nextErr := m.inserted(there, len(keys))
		switch id := build.Val(); {
		case nextErr == nil:
		case !isUnknown(nextErr): // full, or no filter: its builder must not finish
			if err := m.Abort(ctx); err != nil {
				return nil, err
			}
		case id != "" && !strings.HasSuffix(id, swapped):
			done, err := m.journal(ctx, id, keys)
			if err != nil {
				return nil, err
			}
			if !done {
				continue // the Push has come to an end, so there may be another filter at the key
			}
		}
		answers, err := m.inserted(here, len(keys))
		if isUnknown(err) && gen.Val() != "" {
			gone, err := m.unmark(ctx)
			if err != nil {
				return nil, err
			}
			if !gone {
				continue // it has come back
			}
		}
		return answers, err
	}
}

// unmark takes the marker away if there is no filter, and reports whether that is so: one that comes back later, from a
// backup or under its old name, lacks what is added now.
func (m *module) unmark(ctx context.Context) (gone bool, err error) {
	err = m.client.Watch(ctx, func(tx *redis.Tx) error {
		n, err := tx.Exists(ctx, m.key).Result()
		if err != nil || n == 1 {
			return err
		}
		gone = true
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Del(ctx, m.gen); return nil })
		return err
	}, m.key, m.gen)
	if errors.Is(err, redis.TxFailedErr) {
		return false, nil
	}
	return gone, err
}

// journal appends keys to the journal of the Push id, and reports whether that was still under way.
func (m *module) journal(ctx context.Context, id string, keys [][]byte) (bool, error) {
	var record []byte
	for _, key := range keys {
		record = append(binary.AppendUvarint(record, uint64(len(key))), key...)
	}
	var build *redis.StringCmd
	var length *redis.IntCmd
	err := m.tx(ctx, func(p redis.Pipeliner) {
		build, length = p.Get(ctx, m.build), p.Append(ctx, m.log, string(record))
	})
	if err != nil {
		return false, err
	}
	if err := length.Err(); err != nil {
		return false, m.explain(err)
	}
	if length.Val() > maxJournal {
		return true, m.Abort(ctx)
	}
	return build.Val() == id, nil
}

// readJournal takes the keys off the front of data, and returns how many bytes that were.
func readJournal(data []byte) (keys [][]byte, read int) {
	for {
		n, w := binary.Uvarint(data[read:])
		if w <= 0 || n > uint64(len(data)-read-w) {
			return keys, read
		}
		keys = append(keys, data[read+w:read+w+int(n)])
		read += w + int(n)
	}
}

func (m *module) add(ctx context.Context, dst []bool, command string, keys [][]byte) ([]bool, error) {
	numbers, err := m.insert(ctx, m.command(command), keys)
	for _, x := range numbers {
		dst = append(dst, x == 1)
	}
	return dst, err
}

// reserve makes an empty filter by a command, and marks it.
func (m *module) reserve(ctx context.Context, command []any) error {
	history, err := m.history(ctx)
	if err != nil {
		return err
	}
	err = m.client.Do(ctx, command...).Err()
	if isReply(err, "ERR item exists") {
		return fmt.Errorf("%w: %q", ErrExists, m.key)
	}
	if err != nil {
		return m.explain(err)
	}
	return m.confirm(ctx, history)
}
