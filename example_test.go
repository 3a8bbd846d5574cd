package bloom_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/redbloom-go/bloom"
)

func Example() {
	filter := bloom.Must(bloom.New(1_000_000, 0.01))
	filter.AddString("alice@example.com")

	fmt.Println(filter.ContainsString("alice@example.com"))
	fmt.Println(filter.ContainsString("mallory@example.com"))
	// Output:
	// true
	// false
}

func ExampleNew() {
	f, err := bloom.New(1000, 0.001, bloom.WithScheme(bloom.XXHash), bloom.WithSeed(42))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Bits(), f.Hashes(), f.SizeBytes())

	_, err = bloom.New(1000, 1.5)
	fmt.Println(errors.Is(err, bloom.ErrInvalid), err)
	// Output:
	// 14720 10 1840
	// true bloom: invalid argument: error rate is 1.5, want strictly between 0 and 1
}

func ExampleWithKey() {
	var key [16]byte
	rand.Read(key[:]) // once, from crypto/rand; keep it with the filter's other secrets
	f, err := bloom.New(1000, 0.001, bloom.WithScheme(bloom.SipHash), bloom.WithKey(key))
	if err != nil {
		fmt.Println(err)
		return
	}
	f.AddString("from a stranger")
	fmt.Println(f.ContainsString("from a stranger"))

	_, err = bloom.New(1000, 0.001, bloom.WithScheme(bloom.SipHash))
	fmt.Println(err)
	// Output:
	// true
	// bloom: invalid argument: the SipHash scheme needs a key, give one with WithKey
}

func ExampleNewWithSize() {
	f := bloom.Must(bloom.NewWithSize(1000, 7))
	fmt.Println(f.Bits(), f.Hashes(), f.Capacity())
	// Output: 1000 7 99
}

func ExampleEstimate() {
	p := bloom.Must(bloom.Estimate(10_000_000_000, 0.01)) // nothing is allocated
	fmt.Printf("%.1f GB, %d hashes\n", float64(p.Bits)/8e9, p.Hashes)
	fmt.Printf("with twice the keys: %.0f %%\n", 100*p.ErrorRate(20_000_000_000))
	// Output:
	// 12.0 GB, 7 hashes
	// with twice the keys: 16 %
}

// One hash serves every filter of a scheme.
func ExampleDigest() {
	monday, tuesday := bloom.Must(bloom.New(1000, 0.01)), bloom.Must(bloom.New(5000, 0.001))
	d := monday.DigestString("https://example.com/")
	tuesday.AddDigest(d)
	fmt.Println(monday.ContainsDigest(d), tuesday.ContainsDigest(d))
	// Output: false true
}

func ExampleFilter_AddMany() {
	f := bloom.Must(bloom.New(1000, 0.01))
	fmt.Println(f.AddManyString(nil, []string{"a", "b", "a"}))
	// Output: [true true false]
}

func ExampleFilter_Union() {
	berlin, paris := bloom.Must(bloom.New(1000, 0.01)), bloom.Must(bloom.New(1000, 0.01))
	berlin.AddString("anna")
	paris.AddString("amélie")
	if err := berlin.Union(paris); err != nil {
		fmt.Println(err)
	}
	fmt.Println(berlin.ContainsString("amélie"))

	err := berlin.Union(bloom.Must(bloom.New(2000, 0.01)))
	fmt.Println(errors.Is(err, bloom.ErrMismatch), err)
	// Output:
	// true
	// true bloom: filters do not match: 9856 bits here, 19584 there
}

// All bits of a key in one cache line: faster, for a few bits more.
func ExampleNewBlocked() {
	f := bloom.Must(bloom.NewBlocked(1_000_000, 0.01))
	f.AddString("alice")
	fmt.Println(f.ContainsString("alice"), f.ContainsString("bob"))
	fmt.Printf("%.1f bits a key\n", 8*float64(f.SizeBytes())/1_000_000)
	// Output:
	// true false
	// 10.1 bits a key
}

// Goroutines add and ask at once, without a lock.
func ExampleNewConcurrent() {
	seen := bloom.Must(bloom.NewConcurrent(1000, 1e-6))
	var wg sync.WaitGroup
	for worker := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(100) {
				seen.AddUint64(100*worker + i)
			}
		})
	}
	wg.Wait()
	fmt.Println(seen.ContainsUint64(0), seen.ContainsUint64(399), seen.ContainsUint64(400))
	// Output: true true false
}

// Any other filter behind a lock, with whole transactions under it.
func ExampleNewLocked() {
	sessions := bloom.NewLocked(bloom.Must(bloom.NewCuckoo(1000, 0.001)))
	sessions.Write(func(c *bloom.Cuckoo) {
		if _, err := c.AddString("s1"); err != nil {
			fmt.Println(err)
		}
	})
	sessions.Read(func(c *bloom.Cuckoo) { fmt.Println(c.ContainsString("s1")) })
	// Output: true
}

// How many keys are in both of two filters.
func ExampleFilter_EstimateLen() {
	a, b := bloom.Must(bloom.New(10_000, 0.01)), bloom.Must(bloom.New(10_000, 0.01))
	for i := range uint64(5000) {
		a.AddUint64(i)
		b.AddUint64(i + 2000) // 3000 are in both
	}
	both := a.EstimateLen() + b.EstimateLen()
	if err := a.Union(b); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("about %.0f\n", both-a.EstimateLen())
	// Output: about 3015
}

func ExampleNewCounting() {
	sessions := bloom.Must(bloom.NewCounting(1000, 0.01))
	sessions.AddString("s1")
	sessions.AddString("s1")
	fmt.Println(sessions.CountString("s1"))
	fmt.Println(sessions.RemoveString("s1"), sessions.RemoveString("s1"), sessions.RemoveString("s1"))
	fmt.Println(sessions.ContainsString("s1"))
	// Output:
	// 2
	// true true false
	// false
}

func ExampleNewCuckoo() {
	sessions := bloom.Must(bloom.NewCuckoo(1000, 0.001))
	if _, err := sessions.AddString("s1"); err != nil { // ErrFull, past the capacity
		fmt.Println(err)
	}
	fmt.Println(sessions.ContainsString("s1"))
	fmt.Println(sessions.RemoveString("s1"), sessions.RemoveString("s1"))
	fmt.Println(sessions.ContainsString("s1"))
	// Output:
	// true
	// true false
	// false
}

// AddUnique has three outcomes.
func ExampleCuckoo_AddUnique() {
	seen := bloom.Must(bloom.NewCuckoo(4, 0.001))
	for _, key := range []string{"a", "a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		switch added, err := seen.AddUniqueString(key); {
		case added:
			fmt.Println(key, "added")
		case err == nil:
			fmt.Println(key, "was there")
		case errors.Is(err, bloom.ErrFull):
			fmt.Println(key, "refused: full")
		}
	}
	// Output:
	// a added
	// a was there
	// b added
	// c added
	// d added
	// e added
	// f added
	// g added
	// h added
	// i refused: full
}

// A cuckoo filter out of Redis: CF.RESERVE k 64, CF.ADD k item1, and then what
// CF.SCANDUMP k returns, or what CF.LOADCHUNK k takes.
func ExampleCuckooLoader() {
	there := bloom.Must(bloom.NewCuckoo(64, 0, bloom.WithScheme(bloom.RedisBloom)))
	if _, err := there.AddString("item1"); err != nil {
		fmt.Println(err)
	}
	loader := bloom.NewCuckooLoader()
	for cursor, chunk := range there.ScanDump(0) {
		fmt.Println(cursor, len(chunk))
		if err := loader.LoadChunk(cursor, chunk); err != nil {
			fmt.Println(err)
		}
	}
	here, err := loader.Finish()
	fmt.Println(here.ContainsString("item1"), err)
	// Output:
	// 1 38
	// 65 64
	// true <nil>
}

func ExampleNewScalable() {
	seen := bloom.Must(bloom.NewScalable(100, 0.01)) // and more, if more come
	for i := range uint64(1000) {
		if _, err := seen.AddUint64(i); err != nil {
			fmt.Println(err)
			return
		}
	}
	for link := range seen.Links() {
		fmt.Println(link.Capacity)
	}
	// Output:
	// 100
	// 200
	// 400
	// 800
}

func ExampleWithNonScaling() {
	f := bloom.Must(bloom.NewScalable(2, 0.01, bloom.WithScheme(bloom.RedisBloom), bloom.WithNonScaling()))
	fmt.Println(f.AddString("a"))
	fmt.Println(f.AddString("b"))
	_, err := f.AddString("c")
	fmt.Println(errors.Is(err, bloom.ErrFull))
	// Output:
	// true <nil>
	// true <nil>
	// true
}

// To push a filter to Redis, send each pair to BF.LOADCHUNK. Here the bytes are held
// against those that a server dumped after
//
//	BF.RESERVE k 0.1 10
//	BF.MADD k item1
func ExampleScalable_ScanDump() {
	f := bloom.Must(bloom.NewScalable(10, 0.1, bloom.WithScheme(bloom.RedisBloom)))
	f.AddString("item1")
	for cursor, chunk := range f.ScanDump(0) {
		// client.BFLoadChunk(ctx, "k", cursor, chunk)
		sum := sha256.Sum256(chunk)
		fmt.Println(cursor, len(chunk), hex.EncodeToString(sum[:8]))
	}
	// Output:
	// 1 73 d198ce3d5af1de8b
	// 9 8 26e9ad28f029049f
}

// To pull a filter out of Redis, give the loader what BF.SCANDUMP returns, each chunk
// with the cursor that came with it.
func ExampleScalableLoader() {
	replies := []struct {
		cursor int64
		chunk  string
	}{
		{1, "0100000000000000010000000500000002000000" +
			"0800000000000000400000000000000001000000000000009a9999999999a93f4af7d49edef01840050000000a0000000000000000"},
		{9, "0108008000042000"},
	}
	loader := bloom.NewScalableLoader()
	for _, reply := range replies {
		chunk, _ := hex.DecodeString(reply.chunk)
		if err := loader.LoadChunk(reply.cursor, chunk); err != nil {
			fmt.Println(err)
			return
		}
	}
	f, err := loader.Finish() // ErrIncomplete if a byte were missing
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Len(), f.ContainsString("item1"), f.ContainsString("item2"))
	// Output: 1 true false
}

// The bits of a Filter as a Redis string: SET it, and GETBIT answers at the positions
// of a key, without any module in the server.
func ExampleFilter_RedisBitmap() {
	f := bloom.Must(bloom.NewWithSize(64, 2))
	f.AddString("a")
	bitmap := f.RedisBitmap()
	for _, p := range f.Positions(nil, []byte("a")) {
		fmt.Println("GETBIT", p, "=", bitmap[p/8]>>(7-p%8)&1)
	}
	back := bloom.Must(bloom.FromRedisBitmap(bitmap, 64, 2))
	fmt.Println(back.ContainsString("a"))
	// Output:
	// GETBIT 9 = 1
	// GETBIT 36 = 1
	// true
}

// A filter in front of a store: the store is asked only for what may be there.
func Example_guard() {
	store := map[string]string{"1": "one", "2": "two"}
	filter := bloom.Must(bloom.New(1000, 0.01))
	for id := range store {
		filter.AddString(id)
	}
	get := func(id string) (string, error) {
		if !filter.ContainsString(id) {
			return "", os.ErrNotExist // no query
		}
		return store[id], nil
	}
	fmt.Println(get("1"))
	fmt.Println(get("no such id"))
	// Output:
	// one <nil>
	//  file does not exist
}
