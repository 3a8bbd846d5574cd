// Command metrics shows what a guard tells of itself: it lets some traffic run against a guard, and
// prints its metrics in the text format of Prometheus, or serves them.
//
//	go run -C examples ./metrics
//	go run -C examples ./metrics -addr localhost:9090
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/redbloom-go/bloom/guard"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("metrics", flag.ContinueOnError)
	addr := flags.String("addr", "", "serve at this `address` and go on with the traffic, instead of printing once")
	lookups := flags.Int("lookups", 100_000, "`number` of lookups")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	m := new(Metrics)
	g, err := newGuard(ctx, m)
	if err != nil {
		return err
	}
	if *addr == "" {
		if err := traffic(ctx, g, *lookups); err != nil {
			return err
		}
		_, err := m.WriteTo(out)
		return err
	}
	go func() {
		for ctx.Err() == nil {
			if err := traffic(ctx, g, *lookups); err != nil {
				fmt.Fprintln(os.Stderr, "metrics:", err)
			}
			time.Sleep(time.Second)
		}
	}()
	mux := http.NewServeMux()
	mux.Handle("/metrics", m)
	fmt.Fprintf(out, "http://%s/metrics\n", *addr)
	return http.ListenAndServe(*addr, mux)
}

const rows = 10_000 // their keys are 0 to rows-1

// newGuard makes a guard that m watches.
func newGuard(ctx context.Context, m *Metrics) (*guard.Guard[int, string], error) {
	g, err := guard.New(guard.Options[int, string]{
		Capacity: 2 * rows,
		MaxLoads: 64,
		Observer: m,
		Loader: guard.LoaderFunc[int, string](func(_ context.Context, k int) (string, error) {
			time.Sleep(100 * time.Microsecond)
			if k < 0 || k >= rows {
				return "", guard.ErrNotFound
			}
			return "row", nil
		}),
	})
	if err != nil {
		return nil, err
	}
	m.Watch(g.Stats)
	_, err = g.Rebuild(ctx, func(context.Context, time.Time) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for k := 0; k < rows && yield(k, nil); k++ {
			}
		}
	}, guard.RebuildOptions[int]{})
	return g, err
}

// traffic looks keys up, nine in ten of which do not exist.
func traffic(ctx context.Context, g *guard.Guard[int, string], lookups int) error {
	for i := range lookups {
		k := rand.IntN(rows)
		if i%10 != 0 {
			k = rows + rand.IntN(1<<40)
		}
		if _, err := g.Get(ctx, k); err != nil && !errors.Is(err, guard.ErrNotFound) {
			return err
		}
	}
	return nil
}
