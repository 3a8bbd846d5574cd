package bloom_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/redbloom-go/bloom"
)

// A filter on disk: written whole or not at all, read back, and mapped into memory that processes share.
func ExampleSave() {
	dir, err := os.MkdirTemp("", "bloom")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users.bloom")

	f := bloom.Must(bloom.New(1000, 0.01))
	f.AddString("alice")
	if err := bloom.Save(path, f); err != nil {
		fmt.Println(err)
		return
	}
	loaded, err := bloom.Load[bloom.Filter](path)
	if err != nil {
		fmt.Println(err) // a damaged file is an error that wraps ErrCorrupt, never a filter
		return
	}
	fmt.Println(loaded.ContainsString("alice"), loaded.Equal(f))

	_, err = bloom.Load[bloom.Cuckoo](path)
	fmt.Println(errors.Is(err, bloom.ErrMismatch))
	// Output:
	// true true
	// true
}

// One copy in memory, however many processes ask it.
func ExampleOpenMapped() {
	dir, err := os.MkdirTemp("", "bloom")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "users.bloom")
	f := bloom.Must(bloom.New(1000, 0.01))
	f.AddString("alice")
	if err := bloom.Save(path, f); err != nil {
		fmt.Println(err)
		return
	}

	shared, err := bloom.OpenMapped(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shared.Close()
	fmt.Println(shared.ContainsString("alice"), shared.ContainsString("mallory"))
	// Output: true false
}

// Records follow each other in one stream, and each reader leaves what comes after its own.
func ExampleRead() {
	var stream bytes.Buffer
	for _, name := range []string{"monday", "tuesday"} {
		f := bloom.Must(bloom.New(1000, 0.01))
		f.AddString(name)
		if _, err := f.WriteTo(&stream); err != nil {
			fmt.Println(err)
			return
		}
	}
	for range 2 {
		f, err := bloom.Read[bloom.Filter](&stream)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(f.ContainsString("monday"), f.ContainsString("tuesday"))
	}
	// Output:
	// true false
	// false true
}

func ExampleReadAny() {
	var file bytes.Buffer
	if _, err := bloom.Must(bloom.NewCounting(1000, 0.01)).WriteTo(&file); err != nil {
		fmt.Println(err)
		return
	}
	switch f, err := bloom.ReadAny(&file); f := f.(type) {
	case *bloom.Counting:
		fmt.Println("a Counting for", f.Capacity(), "keys", err)
	default:
		fmt.Printf("%T %v\n", f, err)
	}
	// Output: a Counting for 1000 keys <nil>
}
