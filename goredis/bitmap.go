package goredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// Bitmap is a Bloom filter in a Redis string, for servers without a module. It has the bits of a bloom.Filter with the
// same parameters: bit x of the filter is what GETBIT x reads, and GET returns what bloom.Filter.RedisBitmap does.
// Lookups and adds are scripts (EVALSHA), one round trip a call whatever the number of keys. A call with more than some
// hundred keys is several scripts in that round trip, so that it does not hold up the server.
//
// Whoever uses a key must use it with the same parameters; where they differ, calls return bloom.ErrMismatch. Writers
// that are no Bitmap must send what a Bitmap does: never SETBIT to a key that may be missing.
type Bitmap struct {
	*remote
	params bloom.Params
	hasher *bloom.Filter // hashes keys; it holds none
	opts   []bloom.Option
}

// BitmapOptions say what a [Bitmap] is. Capacity and ErrorRate give its size, as in bloom.New, or Bits and
// Hashes do, as in bloom.NewWithSize.
type BitmapOptions struct {
	Capacity  uint64
	ErrorRate float64

	Bits   uint64
	Hashes int

	// Hash are options of bloom.New: bloom.WithScheme, bloom.WithSeed, bloom.WithKey. The default is MurmurHash3. Keys
	// that an attacker can choose need the SipHash scheme, with a secret key that all processes have.
	Hash []bloom.Option

	Options
}

const maxRedisBits = 1 << 32 // of a string: 512 MB

// NewBitmap returns the bitmap at key. It sends nothing. The error wraps bloom.ErrInvalid for bad parameters, and
// bloom.ErrTooLarge for more than 2^32 bits, which is what a Redis string holds.
func NewBitmap(client redis.UniversalClient, key string, o BitmapOptions) (*Bitmap, error) {
	b := &Bitmap{opts: o.Hash}
	var err error
	if b.params, b.hasher, err = o.params(); err != nil {
		return nil, err
	}
	h1, h2 := b.hasher.DigestString("goredis").Words() // differs with the scheme, the seed, the key
	shape := fmt.Sprintf("bitmap:%d:%d:%v:%016x", b.params.Bits, b.params.Hashes, b.params.Scheme, h1^h2)
	b.remote, err = newRemote(client, key, shape, o.Options, b)
	return b, err
}

// params returns the parameters, and a filter that hashes by them.
func (o *BitmapOptions) params() (p bloom.Params, hasher *bloom.Filter, err error) {
	given := o.Bits != 0 || o.Hashes != 0
	if given == (o.Capacity != 0 || o.ErrorRate != 0) {
		return p, nil, fmt.Errorf("%w: give either Capacity and ErrorRate, or Bits and Hashes", bloom.ErrInvalid)
	}
	p.Hashes = o.Hashes
	if !given {
		if p, err = bloom.Estimate(o.Capacity, o.ErrorRate, o.Hash...); err != nil {
			return p, nil, err
		}
		o.Bits = p.Bits
	}
	if o.Bits == 0 {
		return p, nil, fmt.Errorf("%w: Bits is 0", bloom.ErrInvalid)
	}
	if o.Bits > maxRedisBits {
		return p, nil, fmt.Errorf("%w: %d bits, and a Redis string holds %d", bloom.ErrTooLarge, o.Bits, uint64(maxRedisBits))
	}
	hasher, err = bloom.NewWithSize(64, p.Hashes, o.Hash...)
	if err != nil {
		return p, nil, err
	}
	p.Bits, p.Scheme = o.Bits, hasher.Scheme()
	return p, hasher, nil
}

// Params returns the number of bits and hashes, and the scheme.
func (b *Bitmap) Params() bloom.Params { return b.params }

func (b *Bitmap) bytes() uint64 { return (b.params.Bits + 7) / 8 }

func (b *Bitmap) probe(ctx context.Context, p redis.Pipeliner, key string) func() (bool, uint64, error) {
	n := p.StrLen(ctx, key)
	return func() (bool, uint64, error) {
		size, err := n.Uint64()
		return size == b.bytes(), size, err
	}
}

// maxPositions is how many bits a script reads or sets: some 2 ms of the server's time.
const maxPositions = 4000

// calls returns the arguments of the scripts for keys, which have at most maxPositions each, or one key.
func (b *Bitmap) calls(keys [][]byte) [][]any {
	perCall := max(1, maxPositions/b.params.Hashes)
	durable := "0"
	if b.durable {
		durable = "1"
	}
	var calls [][]any
	var positions []uint64
	for len(keys) > 0 {
		n := min(perCall, len(keys))
		args := make([]any, 0, 4+n*b.params.Hashes)
		args = append(args, b.shape, b.bytes(), durable, b.params.Hashes)
		for _, key := range keys[:n] {
			positions = b.params.Positions(positions[:0], b.hasher.Digest(key))
			for _, x := range positions {
				args = append(args, strconv.FormatUint(x, 10))
			}
		}
		calls, keys = append(calls, args), keys[n:]
	}
	return calls
}

// ask runs a script for keys and returns the digits of its replies.
func (b *Bitmap) ask(ctx context.Context, s *script, names []string, keys [][]byte) (string, error) {
	return b.digits(ctx, s, names, b.calls(keys), len(keys), false)
}

// digits runs a script with each list of arguments, for n keys together.
func (b *Bitmap) digits(ctx context.Context, s *script, names []string, calls [][]any, n int, final bool) (string, error) {
	replies, err := run(ctx, b.client, s, names, calls, final)
	if err != nil {
		return "", b.explain(err)
	}
	var all strings.Builder
	for _, reply := range replies {
		if reply == "" || reply[0] != '+' {
			return "", b.refusal(reply[min(1, len(reply)):])
		}
		all.WriteString(reply[1:])
	}
	digits := all.String()
	if len(digits) != n {
		return "", fmt.Errorf("%w: %d answers for %d keys", bloom.ErrCorrupt, len(digits), n)
	}
	return digits, nil
}

// Verdicts appends one verdict a key to dst, in one round trip: Unknown for all unless the bitmap
// is there and whole. It returns an error where the server cannot be asked, or has something else
// at the key; the verdicts are Unknown then.
func (b *Bitmap) Verdicts(ctx context.Context, dst []guard.Verdict, keys [][]byte) ([]guard.Verdict, error) {
	if len(keys) == 0 {
		return dst, nil
	}
	digits, err := b.ask(ctx, scriptContains, []string{b.key, b.gen}, keys)
	if err != nil {
		return unknowns(dst, len(keys), err)
	}
	for _, d := range []byte(digits) {
		dst = append(dst, verdict(d == '1'))
	}
	return dst, nil
}

// Check is Verdicts for one key.
func (b *Bitmap) Check(ctx context.Context, key []byte) (guard.Verdict, error) {
	answers, err := b.Verdicts(ctx, make([]guard.Verdict, 0, 1), [][]byte{key})
	return answers[0], err
}

// Add adds keys in one round trip and appends to dst, for each, whether that changed the filter. Where a
// Rebuild or Push is under way, it adds to both filters. If there is no filter, it makes none and
// returns an error that wraps [ErrUnknown].
func (b *Bitmap) Add(ctx context.Context, dst []bool, keys ...[]byte) ([]bool, error) {
	if len(keys) == 0 {
		return dst, nil
	}
	digits, err := b.ask(ctx, scriptAdd, []string{b.key, b.gen, b.next, b.build}, keys)
	if err != nil {
		return dst, err
	}
	for _, d := range []byte(digits) {
		dst = append(dst, d == '1')
	}
	return dst, nil
}

// AddKeys is Add for a guard: it returns nil as well if there is no filter to add to.
func (b *Bitmap) AddKeys(ctx context.Context, keys [][]byte) error {
	_, err := b.store(ctx, keys)
	return err
}

func (b *Bitmap) store(ctx context.Context, keys [][]byte) (stored bool, err error) {
	_, err = b.Add(ctx, nil, keys...)
	return ignoreUnknown(err)
}

// Reserve makes an empty bitmap of the full size, marked as whole: there are no rows yet. It returns an error
// that wraps [ErrExists] if the key exists. A large one holds up the server for the moment that the memory takes:
// for 512 MB that may be a second or more.
func (b *Bitmap) Reserve(ctx context.Context) error {
	if err := b.fits(ctx, b.bytes(), b.bytes()); err != nil {
		return err
	}
	history, err := b.history(ctx)
	if err != nil {
		return err
	}
	made, err := scriptReserve.Run(ctx, b.client, []string{b.key, b.gen}, b.bytes()-1, bare+b.shape).Int()
	if err != nil {
		return b.explain(err)
	}
	if made == 0 {
		return fmt.Errorf("%w: %q", ErrExists, b.key)
	}
	return b.confirm(ctx, history)
}

// Confirm is [Filter.Confirm]. A string that is shorter than the bitmap, since nobody has set a bit near its end yet,
// is lengthened by zeros.
func (b *Bitmap) Confirm(ctx context.Context) error {
	if _, err := b.digits(ctx, scriptLengthen, []string{b.key, b.gen}, [][]any{{b.shape, b.bytes()}}, 0, false); err != nil {
		return err
	}
	return b.confirm(ctx, "")
}
