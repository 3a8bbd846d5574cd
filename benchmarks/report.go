package main

import (
	"fmt"
	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writePage writes the generated parts of BENCHMARKS.md, which stand between two comments
// each, and the plots beside it.
func (r *results) writePage(docs string) error {
	path := filepath.Join(docs, "BENCHMARKS.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := r.page(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return err
	}
	return r.writePlots(docs)
}

// page is the page with its generated parts made anew.
func (r *results) page(page string) (string, error) {
	return record.Splice(page, []record.Section{
		{Name: "run", Text: r.runList()},
		{Name: "targets", Text: r.targetTable()},
		{Name: "tables", Text: r.lookupTables(1)},
		{Name: "equal rate", Text: r.equalRateTable()},
		{Name: "big", Text: r.bigTable()},
		{Name: "goroutines", Text: r.lookupTables(2)},
		{Name: "faster", Text: r.fasterList()},
		{Name: "hashes", Text: r.hashTable()},
	})
}

func (r *results) runList() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- CPU: %s, %s of them, %s/%s\n", r.Config["cpu"], r.Config["cpus"], r.Config["goos"], r.Config["goarch"])
	fmt.Fprintf(&b, "- Go: %s\n- Date: %s\n- Command: `%s`\n", r.Config["go"], r.Config["date"], r.Config["command"])
	var versions []string
	for _, name := range peerModules {
		if v := r.Config[name]; v != "" {
			versions = append(versions, name+" "+v)
		}
	}
	slices.Sort(versions)
	if len(versions) > 0 {
		fmt.Fprintf(&b, "- Versions: %s\n", strings.Join(versions, ", "))
	}
	return b.String()
}

// base is the implementation that ratios in tables are relative to.
const base = "bloom"

// bigSizes are those measured beside the memory probe.
func (r *results) bigSizes() []string {
	return slices.DeleteFunc(r.Values("Set/", "n"), func(n string) bool {
		_, ok := r.ns(row{"hit", "dram", n, "none", 1})
		return !ok
	})
}

// lookupTables has a table for each size and form of keys with all implementations in
// g goroutines.
func (r *results) lookupTables(g int) string {
	var b strings.Builder
	big := r.bigSizes()
	for _, n := range r.Values("Set/", "n") {
		if slices.Contains(big, n) {
			continue
		}
		for _, key := range []string{formBytes, formString} {
			b.WriteString(r.lookupTable(n, key, g, names(implementations())))
		}
	}
	return orNotRun(b.String())
}

func orNotRun(table string) string {
	if table == "" {
		return "Not in this run.\n"
	}
	return table
}

// names are the names of those that are made for the rate asked for.
func names(all []implementation) (names []string) {
	for _, i := range all {
		if !i.variant {
			names = append(names, i.name)
		}
	}
	return names
}

func (r *results) lookupTable(n, key string, g int, impls []string) string {
	ops := []string{"add", "hit", "miss"}
	if g > 1 {
		ops = append(ops, "readd")
	}
	var b strings.Builder
	for _, impl := range impls {
		cells, found := []string{}, false
		for _, op := range ops {
			cell, ok := r.cell(row{op, impl, n, key, g})
			cells, found = append(cells, cell), found || ok
		}
		if found {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", impl, strings.Join(cells, " | "), r.facts(row{"hit", impl, n, key, 1}))
		}
	}
	if b.Len() == 0 {
		return ""
	}
	title := fmt.Sprintf("n = %s, %s keys", n, key)
	if g > 1 {
		title += fmt.Sprintf(", %d goroutines", g)
	}
	return fmt.Sprintf("%s:\n\n| | %s | rate | bits/key |\n|---|%s---|---|\n%s\n",
		title, strings.Join(ops, " | "), strings.Repeat("---|", len(ops)), b.String())
}

// cell is a row's time and, where it is known, its ratio to that of the base.
func (r *results) cell(o row) (text string, ok bool) {
	ns, ok := r.ns(o)
	if !ok {
		return "–", false
	}
	o.impl = base
	if of, ok := r.ns(o); ok {
		return fmt.Sprintf("%.1f (%.2f)", ns, ns/of), true
	}
	return fmt.Sprintf("%.1f", ns), true
}

// facts are the measured rate and the size of a row's implementation.
func (r *results) facts(o row) string {
	fp, ok := r.Median(o.name(), "fp-rate")
	if !ok {
		return "– | –"
	}
	size, _ := r.Median(o.name(), "bits/key")
	return fmt.Sprintf("%s | %.1f", percent(fp), size)
}

func percent(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }

func (r *results) bigTable() string {
	var b strings.Builder
	for _, n := range r.bigSizes() {
		b.WriteString(r.lookupTable(n, formBytes, 1, r.Values("Set/", "impl")))
		hit, _ := r.ns(row{"hit", "dram", n, "none", 1})
		miss, _ := r.ns(row{"miss", "dram", n, "none", 1})
		fmt.Fprintf(&b, "One memory access that depends on the one before took %.0f ns among the hits and %.0f ns among the misses.\n", hit, miss)
	}
	return orNotRun(b.String())
}

// equals are pairs of implementations that were made to have about the same rate.
var equals = [][2]string{
	{"bloom@ristretto", "ristretto"},
	{"bloom-scalable", "boomfilters-scalable@1%"},
	{"bloom-cuckoo", "seiflotfy@1%"},
	{"bloom-cuckoo@3%", "seiflotfy"},
	{"bloom-blocked@fuse8", "fuse8"},
}

func (r *results) equalRateTable() string {
	var b strings.Builder
	for _, n := range r.Values("Set/", "n") {
		for _, pair := range equals {
			cells, complete := []string{}, true
			for _, op := range []string{"hit", "miss"} {
				a, ok1 := r.ns(row{op, pair[0], n, formBytes, 1})
				c, ok2 := r.ns(row{op, pair[1], n, formBytes, 1})
				complete = complete && ok1 && ok2
				cells = append(cells, fmt.Sprintf("%.1f ÷ %.1f = %.2f", a, c, a/c))
			}
			if complete {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", n, pair[0], r.facts(row{"hit", pair[0], n, formBytes, 1}),
					pair[1], r.facts(row{"hit", pair[1], n, formBytes, 1}), strings.Join(cells, " | "))
			}
		}
	}
	if b.Len() == 0 {
		return orNotRun("")
	}
	return "| n | ours | rate | bits/key | theirs | rate | bits/key | hit, ns | miss, ns |\n|---|---|---|---|---|---|---|---|---|\n" + b.String()
}

// fasterList names each row in which a peer is faster than this library's Filter, as it
// is by default, in one goroutine.
func (r *results) fasterList() string {
	var b strings.Builder
	for _, n := range r.Values("Set/", "n") {
		for _, key := range []string{formBytes, formString} {
			for _, op := range []string{"add", "hit", "miss"} {
				mine, ok := r.ns(row{op, base, n, key, 1})
				for _, impl := range peers() {
					o := row{op, impl.name, n, key, 1}
					ns, run := r.ns(o)
					if !ok || !run || ns >= mine {
						continue
					}
					fmt.Fprintf(&b, "| %s | %s | %s | %s | %.1f against %.1f | %.2f | %s |\n", op, n, key, impl.name, ns, mine, ns/mine,
						r.facts(row{"hit", impl.name, n, key, 1}))
				}
			}
		}
	}
	if b.Len() == 0 {
		return "None in this run.\n"
	}
	return "| op | n | keys | faster than Filter | ns | ratio | its rate | its bits/key |\n|---|---|---|---|---|---|---|---|\n" + b.String()
}

func (r *results) hashTable() string {
	var b strings.Builder
	for _, name := range r.Names {
		if fn := record.Part(name, "fn"); fn != "" {
			ns, _ := r.Median(name, "ns/op")
			fp, _ := r.Median(name, "fp-rate")
			fmt.Fprintf(&b, "| %s | %.1f | %s |\n", fn, ns, percent(fp))
		}
	}
	if b.Len() == 0 {
		return orNotRun("")
	}
	return "| hash | ns a key | rate of false positives |\n|---|---|---|\n" + b.String()
}
