package guard

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"unsafe"

	"github.com/redbloom-go/bloom"
)

// keys turns keys into what filters take. For the types that it knows it works on the memory
// of the key itself, since a function value that gets a buffer makes the compiler put the
// buffer on the heap, at each lookup.
type keys[K comparable] struct {
	form     keyForm
	size     uintptr
	encoding string // names the form, in snapshots
	custom   func(dst []byte, k K) []byte
	buffers  *sync.Pool // of *[]byte, for custom

	hasher *bloom.Filter // hashes like the guard's filters; nil if these are elsewhere
	seed   maphash.Seed
}

type keyForm uint8

const (
	formString keyForm = iota
	formSigned
	formUnsigned
	formBytes
	formCustom
)

// newKeys returns keys whose hasher is not set.
func newKeys[K comparable](custom func([]byte, K) []byte, encoding string) (*keys[K], error) {
	t := reflect.TypeFor[K]()
	e := &keys[K]{size: t.Size(), custom: custom, encoding: encoding, seed: maphash.MakeSeed()}
	switch kind := t.Kind(); {
	case custom != nil:
		e.form = formCustom
		if encoding == "" {
			e.encoding = "custom"
		}
		e.buffers = &sync.Pool{New: func() any { return new([]byte) }}
	case kind == reflect.String:
		e.form, e.encoding = formString, "string"
	case kind >= reflect.Int && kind <= reflect.Int64:
		e.form, e.encoding = formSigned, "integer"
	case kind >= reflect.Uint && kind <= reflect.Uintptr:
		e.form, e.encoding = formUnsigned, "integer"
	case kind == reflect.Array && t.Elem().Kind() == reflect.Uint8 && t.Len() > 0:
		e.form, e.encoding = formBytes, fmt.Sprintf("bytes[%d]", t.Len())
	default:
		return nil, fmt.Errorf("%w: keys of type %v need AppendKey", bloom.ErrInvalid, t)
	}
	return e, nil
}

// digest hashes k. It does not allocate, but for what a custom function does.
func (e *keys[K]) digest(k K) bloom.Digest {
	switch e.form {
	case formString:
		return e.hasher.DigestString(*(*string)(unsafe.Pointer(&k)))
	case formBytes:
		return e.hasher.Digest(unsafe.Slice((*byte)(unsafe.Pointer(&k)), e.size))
	case formCustom:
		buffer := e.buffers.Get().(*[]byte)
		b := e.custom((*buffer)[:0], k)
		d := e.hasher.Digest(b)
		const largest = 1 << 16 // a key that is larger must not stay in memory
		if cap(b) <= largest {
			*buffer = b
			e.buffers.Put(buffer)
		}
		return d
	}
	return e.hasher.DigestUint64(e.integer(k))
}

// integer is the value of an integer key.
func (e *keys[K]) integer(k K) uint64 {
	p := unsafe.Pointer(&k)
	if e.form == formSigned {
		switch e.size {
		case 1:
			return uint64(*(*int8)(p))
		case 2:
			return uint64(*(*int16)(p))
		case 4:
			return uint64(*(*int32)(p))
		}
		return *(*uint64)(p)
	}
	switch e.size {
	case 1:
		return uint64(*(*uint8)(p))
	case 2:
		return uint64(*(*uint16)(p))
	case 4:
		return uint64(*(*uint32)(p))
	}
	return *(*uint64)(p)
}

// bytes returns the bytes that stand for each of ks in a filter.
func (e *keys[K]) bytes(ks []K) [][]byte {
	all := make([][]byte, len(ks))
	for i, k := range ks {
		all[i] = e.append(nil, k)
	}
	return all
}

func (e *keys[K]) append(dst []byte, k K) []byte {
	switch e.form {
	case formString:
		return append(dst, *(*string)(unsafe.Pointer(&k))...)
	case formBytes:
		return append(dst, unsafe.Slice((*byte)(unsafe.Pointer(&k)), e.size)...)
	case formCustom:
		return e.custom(dst, k)
	}
	return binary.LittleEndian.AppendUint64(dst, e.integer(k))
}

// hash spreads keys over stripes and shards; it has nothing to do with the filters.
func (e *keys[K]) hash(k K) uint64 { return maphash.Comparable(e.seed, k) }
