package goredis_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom/goredis"
	"github.com/redbloom-go/bloom/guard"
)

// allIDs reads the ids of all rows; here there are two.
func allIDs(context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		_ = yield([]byte("user:1"), nil) && yield([]byte("user:2"), nil)
	}
}

// A filter that all services share, on a Redis without modules. One of them fills it from the database.
func ExampleBitmap() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	users, err := goredis.NewBitmap(client, "users", goredis.BitmapOptions{Capacity: 1_000_000, ErrorRate: 0.01})
	if err != nil {
		log.Fatal(err)
	}
	if err := users.Rebuild(ctx, allIDs, goredis.RebuildOptions{}); err != nil {
		log.Fatal(err)
	}
	answers, err := users.Verdicts(ctx, nil, [][]byte{[]byte("user:1"), []byte("user:3")})
	if err != nil {
		log.Print(err) // and the answers are guard.Unknown
	}
	fmt.Println(answers) // [Maybe Absent]
}

// A guard that rejects absent ids by a local copy of the shared filter, and keeps rows in Redis.
func ExampleSync() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	users, err := goredis.NewFilter(client, "users", goredis.FilterOptions{Capacity: 1_000_000, ErrorRate: 0.01})
	if err != nil {
		log.Fatal(err)
	}
	synced, err := goredis.NewSync(users, goredis.SyncOptions{Every: time.Minute, Refreshed: func(s goredis.Status) {
		if s.Err != nil {
			log.Printf("the filter is %v old: %v", s.Stale, s.Err)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	go synced.Run(ctx)
	cache, err := goredis.NewCache(client, goredis.CacheOptions[string, string]{Prefix: "user:"})
	if err != nil {
		log.Fatal(err)
	}
	g, err := guard.New(guard.Options[string, string]{
		Filter: synced, Cache: cache,
		Loader: guard.LoaderFunc[string, string](func(context.Context, string) (string, error) { return "", guard.ErrNotFound }),
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = g.Get(ctx, "user:3")
	fmt.Println(err)
}

// What was seen in the last hour, in buckets of a quarter of it.
func ExampleRolling() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	seen, err := goredis.NewRolling(client, "seen", goredis.RollingOptions{Span: 15 * time.Minute, Keep: 5, Capacity: 100_000, ErrorRate: 0.001})
	if err != nil {
		log.Fatal(err)
	}
	if err := seen.Start(ctx); err != nil { // once: before that, nothing was seen
		log.Fatal(err)
	}
	before, err := seen.Add(ctx, nil, []byte("event:1"))
	if err == nil && before[0] == guard.Absent {
		fmt.Println("new") // for one process alone
	}
}
