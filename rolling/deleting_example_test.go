package rolling_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

// The rows stay in a database, and the filter is made anew from them now and then. A key whose row is
// gone is called present until then, which costs a query.
func Example_deleteByRebuild() {
	rows := map[string]bool{"anna": true, "bert": true}
	scan := func(f *bloom.Concurrent) func(context.Context) error {
		return func(context.Context) error {
			for name := range rows {
				f.AddString(name)
			}
			return nil
		}
	}
	users := rolling.NewSwap(bloom.Must(bloom.NewConcurrent(1000, 0.01)))
	rebuild := func() {
		standby := bloom.Must(bloom.NewConcurrent(1000, 0.01))
		// Meanwhile users answers, and what is written goes to both.
		if err := users.Rebuild(context.Background(), standby, scan(standby)); err != nil {
			fmt.Println(err) // users is as it was
		}
	}
	exists := func(name string) bool {
		f, ok := users.Load()
		return !ok || f.ContainsString(name)
	}

	rebuild()
	delete(rows, "anna")
	fmt.Println(exists("anna"), exists("bert"))
	rebuild()
	fmt.Println(exists("anna"), exists("bert"))
	// Output:
	// true true
	// false true
}

// Beside the filter there is the exact set of the keys deleted since the last rebuild, which
// empties it.
func Example_deleteByOverlay() {
	rows := map[string]bool{"anna": true, "bert": true}
	users := rolling.NewOverlay[string, *bloom.Concurrent](10_000, 0) // deletions at most, kept until a rebuild
	rebuild := func() {
		standby := bloom.Must(bloom.NewConcurrent(1000, 0.01))
		if err := users.Rebuild(context.Background(), standby, func(context.Context) error {
			for name := range rows {
				standby.AddString(name)
			}
			return nil
		}); err != nil {
			fmt.Println(err)
		}
	}
	exists := func(name string) bool {
		return users.Contains(name, func(f *bloom.Concurrent) bool { return f.ContainsString(name) })
	}

	rebuild()
	delete(rows, "anna")
	if !users.Delete("anna") {
		fmt.Println("no room: it is called present until the next rebuild")
	}
	fmt.Println(exists("anna"), exists("bert"), users.Deletions())
	rebuild()
	fmt.Println(exists("anna"), exists("bert"), users.Deletions())
	// Output:
	// false true 1
	// false true 0
}

// A counter in the place of each bit. A key that was added twice is there until it was removed
// twice, up to 15 times.
func Example_deleteByCounting() {
	open := bloom.Must(bloom.NewCounting(1000, 0.01)) // in a bloom.Locked where goroutines share it
	open.AddString("anna")
	open.AddString("anna") // a second connection
	open.AddString("bert")
	fmt.Println(open.RemoveString("anna"), open.ContainsString("anna"))
	fmt.Println(open.RemoveString("anna"), open.ContainsString("anna"))
	fmt.Println(open.ContainsString("bert"))
	// Output:
	// true true
	// true false
	// true
}

// A fingerprint of each key. It can be full, and says so.
func Example_deleteByCuckoo() {
	open := bloom.Must(bloom.NewCuckoo(1000, 0.01)) // in a bloom.Locked where goroutines share it
	for _, name := range []string{"anna", "bert"} {
		if _, err := open.AddUniqueString(name); err != nil {
			fmt.Println(err) // bloom.ErrFull
		}
	}
	fmt.Println(open.RemoveString("anna"), open.ContainsString("anna"), open.ContainsString("bert"))
	fmt.Println(open.RemoveString("anna"), "nothing to remove")
	// Output:
	// true false true
	// false nothing to remove
}

// Keys go by themselves when their time is over.
func Example_deleteByAge() {
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	seen := bloom.Must(rolling.NewRotating(1000, 0.01, rolling.RotatingOptions{
		Span: 10 * time.Minute, Keep: 4, Now: func() time.Time { return now },
	}))
	seen.AddString("anna")
	now = now.Add(30 * time.Minute)
	seen.AddString("bert")
	fmt.Println(seen.ContainsString("anna"), seen.ContainsString("bert"))
	now = now.Add(10 * time.Minute)
	fmt.Println(seen.ContainsString("anna"), seen.ContainsString("bert"))
	// Output:
	// true true
	// false true
}
