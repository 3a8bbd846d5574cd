package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"github.com/redbloom-go/bloom/guard"
	"golang.org/x/perf/benchfmt"
)

// hotRows are read again and again, and are all in the cache when the attack begins.
const hotRows = 5000

// attack is a traffic: the share of lookups whose key does not exist, and whether such a key is asked for
// once, or some of them often.
type attack struct {
	absent float64
	zipf   bool
}

func (a attack) name() string {
	keys := "unique"
	if a.zipf {
		keys = "zipf"
	}
	return fmt.Sprintf("absent=%g/keys=%s", 100*a.absent, keys)
}

// keys are the lookups: even numbers are rows, odd ones are not. They are the same in each run.
func (a attack) keys(n int) []int64 {
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.1, 1, 1e7)
	ks := make([]int64, n)
	for i := range ks {
		switch {
		case random.Float64() >= a.absent:
			ks[i] = 2 * random.Int64N(hotRows)
		case a.zipf:
			ks[i] = int64(zipf.Uint64()*0x9e3779b97f4a7c15>>1 | 1)
		default:
			ks[i] = int64(uint64(i)*0x9e3779b97f4a7c15>>1 | 1)
		}
	}
	return ks
}

// queries counts what reaches the database in an attack.
func (p plan) queries(w *record.Writer) error {
	for _, absent := range []float64{0.5, 0.9, 0.99} {
		for _, zipf := range []bool{false, true} {
			a := attack{absent, zipf}
			w.Say("attack %s", a.name())
			ks := a.keys(p.lookups)
			db := func() *database[int64] {
				return &database[int64]{exists: func(k int64) bool { return k%2 == 0 && k < int64(3*p.rows) }}
			}
			for _, make := range []func(*database[int64]) (defence[int64], error){
				func(db *database[int64]) (defence[int64], error) { return cacheOnly(db, slots), nil },
				func(db *database[int64]) (defence[int64], error) {
					d, _, err := behindGuard("null-cache", db, 10*slots, guard.Options[int64, string]{Capacity: 1}, nil)
					return d, err
				},
				func(db *database[int64]) (defence[int64], error) { return inOtter(db, slots) },
				func(db *database[int64]) (defence[int64], error) { return inHot(db, slots, slots), nil },
				func(db *database[int64]) (defence[int64], error) { return inSturdyc(db, slots, decimal), nil },
			} {
				db := db()
				d, err := make(db)
				if err == nil {
					err = p.attack(w, d, db, a, ks, "none")
				}
				if err != nil {
					return err
				}
			}
			for _, rate := range []float64{0.01, 0.001} {
				for _, load := range p.loads {
					db := db()
					d, _, err := behindGuard(fmt.Sprintf("guard-p%g", rate), db, slots,
						guard.Options[int64, string]{Capacity: uint64(p.rows), ErrorRate: rate, Key: secret}, evens(int(load*float64(p.rows)), integer))
					if err == nil {
						err = p.attack(w, d, db, a, ks, fmt.Sprint(load))
					}
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// attack lets ks loose on d, when the hot rows are in its cache.
func (p plan) attack(w *record.Writer, d defence[int64], db *database[int64], a attack, ks []int64, load string) error {
	ctx := context.Background()
	if d.close != nil {
		defer d.close()
	}
	for range 3 {
		for k := range int64(hotRows) {
			if found, err := d.get(ctx, 2*k); err != nil || !found {
				return fmt.Errorf("%s: row %d: found %v, error %v", d.name, 2*k, found, err)
			}
		}
		time.Sleep(10 * time.Millisecond) // what is stored in the background
	}
	db.rows.Store(0)
	db.nulls.Store(0)
	start := time.Now()
	for _, k := range ks {
		found, err := d.get(ctx, k)
		if err == nil && found != (k%2 == 0) {
			err = errors.New("the answer is wrong")
		}
		if err != nil {
			return fmt.Errorf("%s: key %d: %w", d.name, k, err)
		}
	}
	took := time.Since(start)
	time.Sleep(10 * time.Millisecond)
	values := []benchfmt.Value{
		{Value: float64(len(ks)), Unit: "lookups"},
		{Value: float64(took.Nanoseconds()) / float64(len(ks)), Unit: "ns/op"},
		{Value: float64(db.nulls.Load()), Unit: "absent-queries"},
		{Value: float64(db.rows.Load()), Unit: "row-queries"},
	}
	if d.nulls != nil {
		values = append(values, benchfmt.Value{Value: float64(d.nulls()), Unit: "nulls-kept"})
	}
	w.Record(fmt.Sprintf("Queries/impl=%s/%s/load=%s", d.name, a.name(), load), len(ks), values...)
	return nil
}
