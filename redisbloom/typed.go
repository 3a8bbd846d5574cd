package redisbloom

import "strconv"

// This file has what the typed methods are made of. They are named, and their options and
// results are, as in go-redis; they run the commands themselves, so that
// what those say holds for them. Items and keys are any bytes, in a string.

// call runs a command on its arguments.
func (e *Engine) call(args ...string) Reply {
	list := make([][]byte, len(args))
	for i, arg := range args {
		list[i] = asBytes(arg)
	}
	return e.Do(list...)
}

// withItems is call with one argument more for each of items.
func (e *Engine) withItems(items []string, args ...string) Reply {
	return e.call(append(args, items...)...)
}

// enter is what Do does around a command, for those that are called without it so that
// their arguments need no allocation.
func (e *Engine) enter(key, item string) (*gate, [3][]byte) {
	args := [3][]byte{nil, asBytes(key), asBytes(item)}
	g := e.gate(args[:])
	g.RLock()
	return g, args
}

func (r Reply) asBool() (bool, error) { return r.Int == 1, r.Err() }

func (r Reply) asInt() (int64, error) { return r.Int, r.Err() }

// bools are the answers in an array, up to the first error in it.
func (r Reply) bools() ([]bool, error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	answers := make([]bool, 0, len(r.Elems))
	for _, elem := range r.Elems {
		if err := elem.Err(); err != nil {
			return answers, err
		}
		answers = append(answers, elem.Int == 1)
	}
	return answers, nil
}

func (r Reply) ints() ([]int64, error) {
	if err := r.Err(); err != nil {
		return nil, err
	}
	numbers := make([]int64, 0, len(r.Elems))
	for _, elem := range r.Elems {
		numbers = append(numbers, elem.Int)
	}
	return numbers, nil
}

// numbers are the values of a map of integers, in its order.
func (r Reply) numbers() (numbers [8]int64) {
	for i := 0; i+1 < len(r.Elems); i += 2 {
		numbers[i/2] = r.Elems[i+1].Int
	}
	return numbers
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// ScanDump is a piece of a filter, as BFScanDump and CFScanDump return it.
type ScanDump struct {
	// Iter is the iterator to load Data with, and to go on with; 0 is the end.
	Iter int64
	Data string
}

func (r Reply) scanDump() (ScanDump, error) {
	if err := r.Err(); err != nil {
		return ScanDump{}, err
	}
	return ScanDump{r.Elems[0].Int, r.Elems[1].Str}, nil
}

// Set gives key a string, whatever it held before.
func (e *Engine) Set(key, value string) error { return e.call("set", key, value).Err() }

// Get returns the string of key; ok is false where there is no such key. The error
// is [ErrWrongType] for a key that holds a filter.
func (e *Engine) Get(key string) (value string, ok bool, err error) {
	r := e.call("get", key)
	return r.Str, r.Kind == Bulk, r.Err()
}

// Del deletes keys and returns how many there were.
func (e *Engine) Del(keys ...string) int64 { return e.withItems(keys, "del").Int }

// Exists returns how many of keys there are; a key that is named twice counts twice.
func (e *Engine) Exists(keys ...string) int64 { return e.withItems(keys, "exists").Int }

// Rename moves what a key holds to another one, in the place of what that holds: a filter that was built
// aside replaces the one in use, and every command sees either. The error is [ErrNoSuchKey] if there is no such key.
func (e *Engine) Rename(key, newKey string) error { return e.call("rename", key, newKey).Err() }

// Type returns what a key holds: "string", "MBbloom--" for a Bloom filter, "MBbloomCF" for a
// cuckoo filter, or "none".
func (e *Engine) Type(key string) string { return e.call("type", key).Str }

// Keys returns the keys that match a pattern, in which * stands for any bytes, ? for any one,
// and [a-e] for one of a set.
func (e *Engine) Keys(pattern string) []string {
	r := e.call("keys", pattern)
	found := make([]string, 0, len(r.Elems))
	for _, elem := range r.Elems {
		found = append(found, elem.Str)
	}
	return found
}

// FlushAll deletes all keys.
func (e *Engine) FlushAll() { e.call("flushall") }
