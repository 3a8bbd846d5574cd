package rolling_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

// Alerts that were sent in the last hour, with a clock moved by hand.
func ExampleRotating() {
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	sent := bloom.Must(rolling.NewRotating(100_000, 0.001, rolling.RotatingOptions{
		Span: 15 * time.Minute, // a bucket takes keys for so long
		Keep: 5,                // so that a key is remembered for 60 to 75 minutes
		Now:  func() time.Time { return now },
	}))
	for _, minutes := range []time.Duration{0, 10, 49, 16} {
		now = now.Add(minutes * time.Minute)
		fmt.Println(now.Format("15:04"), "sent already:", !sent.AddUniqueString("disk full on db1"))
	}
	// Output:
	// 12:00 sent already: false
	// 12:10 sent already: true
	// 12:59 sent already: true
	// 13:15 sent already: false
}

// Add counts the time from the last add, AddUnique from the first.
func ExampleRotating_AddUnique() {
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	o := rolling.RotatingOptions{Span: time.Minute, Keep: 2, Now: func() time.Time { return now }}
	last, first := bloom.Must(rolling.NewRotating(1000, 0.01, o)), bloom.Must(rolling.NewRotating(1000, 0.01, o))
	for range 4 {
		fmt.Println(last.AddString("key"), first.AddUniqueString("key"))
		now = now.Add(time.Minute)
	}
	// Output:
	// true true
	// false false
	// false true
	// false false
}

func ExampleNewRotating() {
	o := rolling.RotatingOptions{Span: time.Hour, Keep: 24}
	r := bloom.Must(rolling.NewRotating(1_000_000, 0.01, o))
	fmt.Printf("%d MiB, %d hashes, %.2g in a bucket\n", r.SizeBytes()>>20, r.Hashes(), r.TargetRate()/24)

	_, err := rolling.NewRotating(1_000_000, 0.01, o, bloom.WithMaxBytes(1<<20)) // of a bucket
	fmt.Println(errors.Is(err, bloom.ErrTooLarge))
	// Output:
	// 48 MiB, 11 hashes, 0.00042 in a bucket
	// true
}

// How full each span was, to find the capacity that it takes.
func ExampleRotating_Buckets() {
	now := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	r := bloom.Must(rolling.NewRotating(1000, 0.01, rolling.RotatingOptions{
		Span: time.Minute, Keep: 3, Now: func() time.Time { return now },
	}))
	for _, keys := range []uint64{800, 1200, 10} {
		for i := range keys {
			r.AddUint64(i)
		}
		now = now.Add(time.Minute)
	}
	now = now.Add(-time.Second) // the last minute is not over yet
	for b := range r.Buckets() {
		fmt.Printf("%s to %s: %d of %d\n", b.Start.Format("15:04"), b.Expires.Format("15:04"), b.Len, b.Capacity)
	}
	// Output:
	// 12:00 to 12:03: 800 of 1000
	// 12:01 to 12:04: 1200 of 1000
	// 12:02 to 12:05: 10 of 1000
}
