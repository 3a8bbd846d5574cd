// Command quickstart shows the filter in ten lines.
package main

import (
	"fmt"
	"log"

	"github.com/redbloom-go/bloom"
)

func main() {
	filter, err := bloom.New(1_000_000, 0.01) // a million keys, 1 % false positives
	if err != nil {
		log.Fatal(err)
	}
	filter.AddString("alice@example.com")

	fmt.Println(filter.ContainsString("alice@example.com"))   // true: always, for an added key
	fmt.Println(filter.ContainsString("mallory@example.com")) // false: certainly not added

	fmt.Println(filter.Bits(), "bits,", filter.Hashes(), "hashes,", filter.SizeBytes(), "bytes")
}
