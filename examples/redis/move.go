package main

import (
	"context"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom/goredis"
)

// move: a BF filter goes from one server to another. Readers of the second see the old filter there or the new one,
// whole.
func move(ctx context.Context, w io.Writer) error {
	from, stop, err := startBloomd(w)
	if err != nil {
		return err
	}
	defer stop()
	defer from.Close()
	to, stop2, err := startBloomd(w)
	if err != nil {
		return err
	}
	defer stop2()
	defer to.Close()

	source, err := goredis.NewFilter(from, "users", goredis.FilterOptions{Capacity: users, ErrorRate: 0.01})
	if err != nil {
		return err
	}
	if err := source.Rebuild(ctx, scanUsers, goredis.RebuildOptions{}); err != nil {
		return err
	}
	filter, err := source.Pull(ctx, goredis.PullOptions{Progress: func(done, total uint64) {
		fmt.Fprintf(w, "pull: %d bytes of about %d\n", done, total)
	}})
	if err != nil {
		return err
	}
	target, err := goredis.NewFilter(to, "users", goredis.FilterOptions{})
	if err != nil {
		return err
	}
	err = target.Push(ctx, filter, goredis.PushOptions{Progress: func(done, total uint64) {
		fmt.Fprintf(w, "push: %d bytes of %d\n", done, total)
	}})
	if err != nil {
		return err
	}

	for i, client := range []*redis.Client{from, to} { // what any client can ask
		card, err := client.Do(ctx, "BF.CARD", "users").Int()
		if err != nil {
			return err
		}
		exists, err := client.Do(ctx, "BF.MEXISTS", "users", user(7), user(-7)).BoolSlice()
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "server %d: BF.CARD %d, user 7 %t, user -7 %t\n", i+1, card, exists[0], exists[1])
	}
	return nil
}
