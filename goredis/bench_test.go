package goredis

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// BenchmarkLookup asks for keys one by one and a hundred at a time, half of them present, in filters
// of a million keys: of a copy in this process, of a Redis that is asked for each as this package
// does, and as a client does that trusts it.
func BenchmarkLookup(b *testing.B) {
	ctx := b.Context()
	bitmapServer, moduleServer := startRedis(b).client(), modded(b) // both over TCP
	bits := bloom.Must(bloom.New(1_000_000, 0.01))
	chain := bloom.Must(bloom.NewScalable(1_000_000, 0.01, redisScheme))
	for i := range 1_000_000 {
		key := fmt.Appendf(nil, "key:%d", i)
		bits.Add(key)
		bloom.Must(chain.Add(key))
	}
	bitmap, err := NewBitmap(bitmapServer, "b", BitmapOptions{Capacity: 1_000_000, ErrorRate: 0.01})
	require.NoError(b, err)
	require.NoError(b, bitmap.Push(ctx, bits, PushOptions{}))
	filter, err := NewFilter(moduleServer, "f", FilterOptions{})
	require.NoError(b, err)
	require.NoError(b, filter.Push(ctx, chain, PushOptions{}))
	bitmapCopy, filterCopy := newTestSync(b, bitmap, SyncOptions{}), newTestSync(b, filter, SyncOptions{})
	require.NoError(b, bitmapCopy.Refresh(ctx))
	require.NoError(b, filterCopy.Refresh(ctx))
	for _, batch := range []int{1, 100} {
		var batches [][][]byte
		for i := range 64 {
			keys := keyRange(i*batch*100, i*batch*100+batch)
			for j := range keys {
				if (i+j)%2 == 0 {
					keys[j] = append(keys[j], " not"...)
				}
			}
			batches = append(batches, keys)
		}
		measure := func(name string, ask func(keys [][]byte) error) {
			b.Run(fmt.Sprintf("op=%s/batch=%d", name, batch), func(b *testing.B) {
				i := 0
				for b.Loop() {
					if err := ask(batches[i%64]); err != nil {
						b.Fatal(err)
					}
					i++
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/key")
			})
		}
		var dst []guard.Verdict
		for _, f := range []struct {
			name string
			guard.Filter
		}{{"Sync-of-Bitmap", bitmapCopy}, {"Sync-of-Filter", filterCopy}, {"Bitmap", bitmap}, {"Filter", filter}} {
			measure(f.name, func(keys [][]byte) (err error) {
				dst, err = f.Verdicts(ctx, dst[:0], keys)
				return err
			})
		}
		if batch == 1 {
			measure("BF.EXISTS", func(keys [][]byte) error { return moduleServer.Do(ctx, "BF.EXISTS", "f", keys[0]).Err() })
			measure("GETBIT-of-one-bit", func([][]byte) error { return bitmapServer.GetBit(ctx, bitmap.key, 12345).Err() })
		} else {
			measure("BF.MEXISTS", func(keys [][]byte) error {
				return moduleServer.Do(ctx, arguments(keys, "BF.MEXISTS", "f")...).Err()
			})
		}
		var positions []uint64
		measure("GETBIT", func(keys [][]byte) error {
			_, err := bitmapServer.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys {
					positions = bits.Positions(positions[:0], key)
					for _, x := range positions {
						p.GetBit(ctx, bitmap.key, int64(x))
					}
				}
				return nil
			})
			return err
		})
	}
}

// BenchmarkMove pulls and pushes filters of 128 MiB over the loopback.
func BenchmarkMove(b *testing.B) {
	const size, keys = 128 << 20, 10_000_000 // some bits in each chunk: one of zeros is not sent
	ctx := b.Context()
	bits := bloom.Must(bloom.NewWithSize(size*8, 4))
	for i := range uint64(keys) {
		bits.AddUint64(i)
	}
	bitmap, err := NewBitmap(startRedis(b).client(), "b", BitmapOptions{Bits: size * 8, Hashes: 4})
	require.NoError(b, err)
	move := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	move("op=push/kind=Bitmap", func() error { return bitmap.Push(ctx, bits, PushOptions{}) })
	move("op=pull/kind=Bitmap", func() error { _, err := bitmap.Pull(ctx, PullOptions{}); return err })
	require.NoError(b, bitmap.Drop(ctx))

	chain := bloom.Must(bloom.NewScalable(74_681_640, 0.001, redisScheme, bloom.WithNonScaling()))
	for i := range uint64(keys) {
		bloom.Must(chain.AddUint64(i))
	}
	filter, err := NewFilter(modded(b), "f", FilterOptions{})
	require.NoError(b, err)
	require.EqualValues(b, size, chain.SizeBytes())
	move("op=push/kind=Filter", func() error { return filter.Push(ctx, chain, PushOptions{}) })
	move("op=pull/kind=Filter", func() error { _, err := filter.Pull(ctx, PullOptions{}); return err })
}
