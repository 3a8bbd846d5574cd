package migrate_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/migrate"
)

// From a filter of longs that a Java program wrote to one of this library. The keys come from
// where they are kept; here that is a loop.
func Example() {
	data, err := os.ReadFile("testdata/guava/long-64.bin")
	if err != nil {
		fmt.Println(err)
		return
	}
	var old migrate.Guava
	if err := old.UnmarshalBinary(data); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("about %.0f keys, %.1f %% false positives\n", old.EstimateLen(), 100*old.ErrorRate())

	// Room for twice as many.
	capacity := uint64(math.Ceil(2 * old.EstimateLen()))
	filter := bloom.Must(bloom.New(capacity, 0.01))
	for i := range uint64(500) {
		key := i * 0x9e3779b97f4a7c15
		if !old.ContainsUint64(key) {
			fmt.Println("the old filter does not have a key of ours: is this the right method for its funnel?")
			return
		}
		filter.AddUint64(key)
	}
	fmt.Println(filter.Len(), "keys moved")
	// Output:
	// about 511 keys, 3.1 % false positives
	// 500 keys moved
}

// A filter that f.WriteTo of bits-and-blooms wrote, of f := bloom.New(64, 4) with eight keys, the
// empty one among them.
func ExampleBitsAndBlooms() {
	data, err := os.Open("testdata/bitsandblooms/64-bits.bin")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer data.Close()
	var f migrate.BitsAndBlooms
	if _, err := f.ReadFrom(data); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Bits(), f.Hashes(), math.Round(f.EstimateLen())) // the length is an estimate
	fmt.Println(f.ContainsString(""), f.ContainsString("never added"))
	// Output:
	// 64 4 7
	// true false
}

// A filter of one word, in which a Java program put 42, 43 and 44 by Funnels.longFunnel().
func ExampleGuava() {
	data, _ := hex.DecodeString("01050000000101800cc802000320")
	var f migrate.Guava
	if err := f.UnmarshalBinary(data); err != nil {
		fmt.Println(err)
	}
	fmt.Println(f.Strategy(), f.Bits(), f.Hashes())
	fmt.Println(f.ContainsUint64(42), f.ContainsUint64(45))
	fmt.Println(f.ContainsInt32(42)) // an int's 4 bytes are not a long's 8
	// Output:
	// MURMUR128_MITZ_64 64 5
	// true false
	// false
}

// Filters in a row are read one by one, to the end of the stream.
func ExampleGuava_ReadFrom() {
	day, err := os.ReadFile("testdata/guava/utf8-64.bin")
	if err != nil {
		fmt.Println(err)
		return
	}
	week := bytes.NewReader(bytes.Repeat(day, 7))
	for {
		var f migrate.Guava
		_, err := f.ReadFrom(week)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil { // bloom.ErrIncomplete, bloom.ErrCorrupt, …
			fmt.Println(err)
			return
		}
		fmt.Print(f.ContainsString("user:42"), " ")
	}
	// Output: true true true true true true true
}
