package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/goredis"
	"github.com/redbloom-go/bloom/guard"
)

const users = 100_000

func user(i int) []byte { return fmt.Appendf(nil, "user:%d", i) }

// scanUsers is what SELECT id FROM users would be.
func scanUsers(context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for i := range users {
			if !yield(user(i), nil) {
				return
			}
		}
	}
}

// pull: one service keeps a BF filter, another pulls it.
func pull(ctx context.Context, w io.Writer) error {
	client, stop, err := startBloomd(w)
	if err != nil {
		return err
	}
	defer stop()
	defer client.Close()
	shared, err := goredis.NewFilter(client, "users", goredis.FilterOptions{Capacity: users, ErrorRate: 0.01})
	if err != nil {
		return err
	}
	if err := shared.Rebuild(ctx, scanUsers, goredis.RebuildOptions{}); err != nil {
		return err
	}

	synced, err := goredis.NewSync(shared, goredis.SyncOptions{Pull: goredis.PullOptions{Attempts: 1}})
	if err != nil {
		return err
	}
	if err := synced.Refresh(ctx); err != nil { // Run does so in an interval
		return err
	}
	fmt.Fprintf(w, "pulled: %d bytes\n", synced.Status().SizeBytes)

	start := time.Now()
	for i := range 1000 {
		if _, err := shared.Check(ctx, user(i)); err != nil {
			return err
		}
	}
	remote := time.Since(start) / 1000
	start = time.Now()
	rejected := 0
	for i := range users {
		if synced.Check(user(i)) != guard.Maybe {
			return fmt.Errorf("user %d exists and was not found", i)
		}
		if synced.Check(user(users+i)) == guard.Absent {
			rejected++
		}
	}
	local := time.Since(start) / (2 * users)
	fmt.Fprintf(w, "a lookup: %v in Redis, %v in this process\n", remote, local)
	fmt.Fprintf(w, "users that exist: all %d found; that do not: %.2f %% called absent\n", users, 100*float64(rejected)/users)

	stop()
	err = synced.Refresh(ctx)
	st := synced.Status()
	fmt.Fprintf(w, "server gone: refresh failed: %t; user 1: %v, user -1: %v, as of %v ago\n",
		err != nil && st.Err != nil, synced.Check(user(1)), synced.Check(user(-1)), st.Stale.Round(time.Millisecond))
	return nil
}

// bitmap: the bits of a filter of this process, in a Redis string.
func bitmap(ctx context.Context, w io.Writer) error {
	client, stop, err := startRedis(ctx, w)
	if err != nil {
		return err
	}
	defer stop()
	b, err := goredis.NewBitmap(client, "users", goredis.BitmapOptions{Capacity: users, ErrorRate: 0.01})
	if err != nil {
		return err
	}
	// Build it here and push it whole: one script for each MiB in the place of one SETBIT for each bit.
	local, err := bloom.New(users, 0.01)
	if err != nil {
		return err
	}
	for i := range users {
		local.Add(user(i))
	}
	if err := b.Push(ctx, local, goredis.PushOptions{}); err != nil {
		return err
	}
	fmt.Fprintf(w, "pushed: %d bytes, STRLEN %d\n", local.SizeBytes(), client.StrLen(ctx, "users").Val())

	answers, err := b.Verdicts(ctx, nil, [][]byte{user(7), user(-7)}) // one round trip
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "user 7: %v, user -7: %v\n", answers[0], answers[1])
	for _, x := range local.Positions(nil, user(7)) { // what any client can do
		if client.GetBit(ctx, "users", int64(x)).Val() != 1 {
			return fmt.Errorf("bit %d is not set", x)
		}
	}
	if _, err := b.Add(ctx, nil, user(-7)); err != nil {
		return err
	}
	v, err := b.Check(ctx, user(-7))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "user -7 added: %v\n", v)
	if err := client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	v, err = b.Check(ctx, user(7))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "FLUSHALL: user 7: %v, since %v\n", v, b.Ready(ctx))
	return nil
}

// guarded: rows in a database, a cache in Redis, and a filter that two processes would share.
func guarded(ctx context.Context, w io.Writer) error {
	client, stop, err := startRedis(ctx, w)
	if err != nil {
		return err
	}
	defer stop()
	db := map[string]string{} // the database
	queries := 0
	for i := range 10_000 {
		db[string(user(i))] = fmt.Sprintf("name %d", i)
	}
	scan := func(context.Context) iter.Seq2[[]byte, error] {
		ids := slices.Collect(maps.Keys(db)) // a snapshot, as a query is
		return func(yield func([]byte, error) bool) {
			for _, id := range ids {
				if !yield([]byte(id), nil) {
					return
				}
			}
		}
	}

	shared, err := goredis.NewBitmap(client, "users", goredis.BitmapOptions{Capacity: 20_000, ErrorRate: 0.01})
	if err != nil {
		return err
	}
	if err := shared.Rebuild(ctx, scan, goredis.RebuildOptions{MinKeys: 5_000}); err != nil {
		return err
	}
	synced, err := goredis.NewSync(shared, goredis.SyncOptions{})
	if err != nil {
		return err
	}
	if err := synced.Refresh(ctx); err != nil {
		return err
	}
	cache, err := goredis.NewCache(client, goredis.CacheOptions[string, string]{Prefix: "row:"})
	if err != nil {
		return err
	}
	g, err := guard.New(guard.Options[string, string]{
		Filter: synced,
		Cache:  cache,
		Loader: guard.LoaderFunc[string, string](func(_ context.Context, id string) (string, error) {
			queries++ // calls come one after the other here
			if name, ok := db[id]; ok {
				return name, nil
			}
			return "", guard.ErrNotFound
		}),
	})
	if err != nil {
		return err
	}

	lookUp := func(what string, from, to int) error {
		before, found := queries, 0
		for i := from; i < to; i++ {
			switch _, err := g.Get(ctx, string(user(i))); {
			case err == nil:
				found++
			case !errors.Is(err, guard.ErrNotFound):
				return err
			}
		}
		fmt.Fprintf(w, "%-28s %5d lookups, %5d found, %4d queries\n", what, to-from, found, queries-before)
		return nil
	}
	for _, step := range []struct {
		what     string
		from, to int
	}{{"ids that exist", 0, 1000}, {"the same again", 0, 1000}, {"ids that do not", 50_000, 60_000}} {
		if err := lookUp(step.what, step.from, step.to); err != nil {
			return err
		}
	}
	id := string(user(50_000))
	err = g.Create(ctx, []string{id}, func(context.Context) error { db[id] = "new"; return nil })
	if err != nil {
		return err
	}
	if err := lookUp("one of them, created", 50_000, 50_001); err != nil {
		return err
	}
	if err := client.FlushAll(ctx).Err(); err != nil {
		return err
	}
	err = synced.Refresh(ctx)
	fmt.Fprintf(w, "FLUSHALL: filter lost: %t; the copy answers on\n", errors.Is(err, goredis.ErrUnknown))
	if err := lookUp("ids that exist", 0, 1000); err != nil {
		return err
	}
	if err := lookUp("ids that do not", 60_000, 70_000); err != nil {
		return err
	}
	if err := shared.Rebuild(ctx, scan, goredis.RebuildOptions{MinKeys: 5_000}); err != nil {
		return err
	}
	if err := synced.Refresh(ctx); err != nil {
		return err
	}
	fmt.Fprintln(w, "rebuilt and pulled again")
	return nil
}
