package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redbloom-go/bloom/benchmarks/internal/record"
	"gonum.org/v1/plot/plotter"
)

// report has the results of each figure that was measured.
type report map[string]*record.Results

func (o options) read() (report, error) {
	r := report{}
	for _, f := range figures {
		file, err := os.Open(o.path(f.name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		results, err := record.Read(file, file.Name())
		file.Close()
		if err != nil {
			return nil, err
		}
		r[f.name] = results
	}
	if len(r) == 0 {
		return nil, fmt.Errorf("no results in %s", o.results)
	}
	return r, nil
}

// writePage writes the generated parts of GUARD.md, and the plots beside it.
func (o options) writePage() error {
	r, err := o.read()
	if err != nil {
		return err
	}
	path := filepath.Join(o.docs, "GUARD.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := record.Splice(string(old), r.sections())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return err
	}
	for name, chart := range r.charts() {
		svg, err := chart.SVG()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.docs, name), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r report) sections() []record.Section {
	sections := []record.Section{{Name: "run", Text: r.run()}}
	for name, table := range map[string]func(*record.Results) string{
		"reject": rejectTable, "queries": queryTables, "rebuild": rebuildTables, "hotkey": hotKeyTable,
	} {
		text := "Not in this run.\n"
		if results := r[name]; results != nil {
			text = table(results)
		}
		sections = append(sections, record.Section{Name: name, Text: text})
	}
	return sections
}

// run says where and when each figure was measured.
func (r report) run() string {
	var b strings.Builder
	var versions []string
	for _, f := range figures {
		results := r[f.name]
		if results == nil {
			continue
		}
		c := results.Config
		fmt.Fprintf(&b, "- %s: %s, %s cores of an %s, %s/%s, %s, `%s`\n", f.name, c["date"], c["cpus"], c["cpu"], c["goos"], c["goarch"], c["go"], c["command"])
		for _, name := range peerModules {
			if v := name + " " + c[name]; c[name] != "" && !slices.Contains(versions, v) {
				versions = append(versions, v)
			}
		}
	}
	slices.Sort(versions)
	fmt.Fprintf(&b, "- versions: %s\n", strings.Join(versions, ", "))
	return b.String()
}

// value is a median as text, or a dash.
func value(r *record.Results, name, unit, format string, scale float64) string {
	if x, ok := r.Median(name, unit); ok {
		return fmt.Sprintf(format, x*scale)
	}
	return "–"
}

// grouped writes a whole number with commas.
func grouped(x float64) string {
	s := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func count(r *record.Results, name, unit string) string {
	if x, ok := r.Median(name, unit); ok {
		return grouped(x)
	}
	return "–"
}

// titles are what tables call the defences.
var titles = map[string]string{
	"guard":        "**guard**",
	"guard-nulls":  "guard without a filter: its null cache",
	"null-cache":   "null cache only: guard without a filter",
	"cache-only":   "nothing: a cache of rows",
	"otter":        "otter, nil for no row",
	"hot":          "samber/hot, WithMissingCache",
	"sturdyc":      "sturdyc, WithMissingRecordStorage",
	"redis-getbit": "one GETBIT of a Redis on the same machine",
	"guard-p0.01":  "**guard 1 %**",
	"guard-p0.001": "**guard 0.1 %**",
	"off":          "filter off meanwhile",
	"refill":       "filter emptied and filled",
}

// medianAndLeast are times of a row: where other programs disturb, the least tells more of the code.
func medianAndLeast(r *record.Results, name string) string {
	least, ok := record.Quantile(r.Samples[name]["ns/op"], 0)
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%s (%s)", value(r, name, "ns/op", "%.0f", 1), grouped(least))
}

func rejectTable(r *record.Results) string {
	var b strings.Builder
	b.WriteString("| | keys held | int64 | string, 17 bytes | [16]byte | allocations |\n|---|---|---|---|---|---|\n")
	for _, impl := range r.Values("Reject/", "impl") {
		for _, n := range r.Values("Reject/impl="+impl+"/", "n") {
			var cells []string
			allocs := "–"
			for _, key := range []string{"int64", "string", "bytes16"} {
				name := func(g int) string { return fmt.Sprintf("Reject/impl=%s/key=%s/n=%s/g=%d", impl, key, n, g) }
				cell := medianAndLeast(r, name(1))
				if two := medianAndLeast(r, name(2)); two != "–" {
					cell += " · " + two
				}
				if cell != "–" {
					allocs = value(r, name(1), "allocs/op", "%.0f", 1)
				}
				cells = append(cells, cell)
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", titles[impl], n, strings.Join(cells, " | "), allocs)
		}
	}
	return b.String()
}

// shares are the shares of absent keys in attacks.
var shares = []string{"50", "90", "99"}

func queryTables(r *record.Results) string {
	var b strings.Builder
	for _, keys := range []string{"unique", "zipf"} {
		fmt.Fprintf(&b, "Absent keys that are %s, queries for them in %s lookups:\n\n",
			map[string]string{"unique": "asked for once", "zipf": "asked for by Zipf's law"}[keys], grouped(float64(lookupsOf(r))))
		b.WriteString("| | filter's load | 50 % absent | 90 % absent | 99 % absent | absent keys kept, at 99 % | rows loaded again, at 99 % |\n|---|---|---|---|---|---|---|\n")
		for _, impl := range r.Values("Queries/", "impl") {
			for _, load := range r.Values("Queries/impl="+impl+"/", "load") {
				var cells []string
				name := func(absent string) string {
					return fmt.Sprintf("Queries/impl=%s/absent=%s/keys=%s/load=%s", impl, absent, keys, load)
				}
				for _, absent := range shares {
					cells = append(cells, count(r, name(absent), "absent-queries"))
				}
				cells = append(cells, count(r, name("99"), "nulls-kept"), count(r, name("99"), "row-queries"))
				if load == "none" {
					load = "–"
				}
				fmt.Fprintf(&b, "| %s | %s | %s |\n", titles[impl], load, strings.Join(cells, " | "))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// lookupsOf is how many lookups the attacks had.
func lookupsOf(r *record.Results) int {
	n, _ := r.Median(r.Names[0], "lookups")
	return int(n)
}

func rebuildTables(r *record.Results) string {
	var b strings.Builder
	for _, n := range r.Values("Rebuilt/", "n") {
		fmt.Fprintf(&b, "%s keys, microseconds of a Get, the reading of the clock (some 0.05) included:\n\n", n)
		b.WriteString("| | | rejected: p50 | p99 | p99.9 | longest | cached row: p50 | p99 | p99.9 | longest |\n|---|---|---|---|---|---|---|---|---|---|\n")
		for _, impl := range r.Values("Rebuilt/", "impl") {
			for _, phase := range []string{"before", "during", "after"} {
				var cells []string
				for _, answer := range []string{"rejected", "row"} {
					name := fmt.Sprintf("Rebuild/impl=%s/n=%s/phase=%s/answer=%s", impl, n, phase, answer)
					for _, unit := range []string{"p50-ns", "p99-ns", "p999-ns", "max-ns"} {
						cells = append(cells, value(r, name, unit, "%.3g", 1e-3))
					}
				}
				fmt.Fprintf(&b, "| %s | %s | %s |\n", titles[impl], phase, strings.Join(cells, " | "))
			}
		}
		b.WriteString("\n| | keys scanned a second | took, s | filter, MB | live heap before, MB | at most, MB | queries meanwhile | of so many lookups | wrong \"absent\" | keys lost |\n|---|---|---|---|---|---|---|---|---|---|\n")
		for _, impl := range r.Values("Rebuilt/", "impl") {
			name := fmt.Sprintf("Rebuilt/impl=%s/n=%s", impl, n)
			during := fmt.Sprintf("Traffic/impl=%s/n=%s/phase=during", impl, n)
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", titles[impl],
				count(r, name, "keys/s"), value(r, name, "ms", "%.1f", 1e-3), value(r, name, "filter-MB", "%.0f", 1),
				value(r, name, "heap-before-MB", "%.0f", 1), value(r, name, "heap-peak-MB", "%.0f", 1),
				count(r, during, "queries"), count(r, during, "lookups"), most(r, during, "wrong-absent"), most(r, name, "lost-keys"))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// most is the worst run.
func most(r *record.Results, name, unit string) string {
	if s := r.Samples[name][unit]; len(s) > 0 {
		return grouped(slices.Max(s))
	}
	return "–"
}

func hotKeyTable(r *record.Results) string {
	var b strings.Builder
	callers := strings.Join(r.Values("Expiry/", "callers"), ", ")
	fmt.Fprintf(&b, "| %s callers | loads of 2 ms, at most | p99, ms | with deadlines of 20 ms, loads of 200 ms | p99, ms | the caller without a deadline fails |\n|---|---|---|---|---|---|\n", callers)
	for _, impl := range r.Values("Expiry/", "impl") {
		name := func(figure string) string { return fmt.Sprintf("%s/impl=%s/callers=%s", figure, impl, callers) }
		failed := 0
		all := r.Samples[name("Deadline")]["patient-failed"]
		for _, x := range all {
			if x > 0 {
				failed++
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %d of %d times |\n", titles[impl], most(r, name("Expiry"), "loads"), value(r, name("Expiry"), "p99-ms", "%.1f", 1),
			most(r, name("Deadline"), "loads"), value(r, name("Deadline"), "p99-ms", "%.1f", 1), failed, len(all))
	}
	fmt.Fprintf(&b, "\nMarkCreated took %s ns for a key without a load under way, and %s ns for one with a load.\n",
		value(r, "MarkCreated/load=none", "ns/op", "%.0f", 1), value(r, "MarkCreated/load=under-way", "ns/op", "%.0f", 1))
	return b.String()
}

// charts are the plots, by the names of their files.
func (r report) charts() map[string]record.Chart {
	charts := map[string]record.Chart{}
	if results := r["reject"]; results != nil {
		charts["guard-reject.svg"] = rejectChart(results)
	}
	if results := r["queries"]; results != nil {
		charts["guard-queries.svg"] = queryChart(results)
	}
	if results := r["rebuild"]; results != nil {
		charts["guard-rebuild.svg"] = rebuildChart(results)
	}
	return charts
}

// span makes a line of a value that does not depend on what the horizontal axis has.
func span(p plotter.XYs, from, to float64) plotter.XYs {
	if len(p) == 1 {
		return plotter.XYs{{X: from, Y: p[0].Y}, {X: to, Y: p[0].Y}}
	}
	return p
}

func rejectChart(r *record.Results) record.Chart {
	c := record.Chart{Title: "Lookup of a key that does not exist, least of all samples", XLabel: "keys in the filter", YLabel: "ns", XLog: true, YLog: true}
	low, high := number(r.Values("Reject/impl=guard/", "n")[0]), number(slices.MaxFunc(r.Values("Reject/impl=guard/", "n"), byNumber))
	for _, impl := range r.Values("Reject/", "impl") {
		for _, key := range r.Values("Reject/impl="+impl+"/", "key") {
			if impl == "redis-getbit" || key == "bytes16" {
				continue
			}
			l := record.Line{Name: impl + ", " + key}
			for _, n := range r.Values("Reject/impl="+impl+"/", "n") {
				if y, ok := record.Quantile(r.Samples[fmt.Sprintf("Reject/impl=%s/key=%s/n=%s/g=1", impl, key, n)]["ns/op"], 0); ok {
					l.Points = append(l.Points, plotter.XY{X: number(n), Y: y})
				}
			}
			l.Points = span(l.Points, low, high)
			c.Lines = append(c.Lines, l)
		}
	}
	return c
}

func number(s string) float64 {
	x, _ := strconv.ParseFloat(s, 64)
	return x
}

func byNumber(a, b string) int { return cmp.Compare(number(a), number(b)) }

func queryChart(r *record.Results) record.Chart {
	c := record.Chart{Title: "Queries for absent keys, 99 % of lookups, each key once", XLabel: "rows ÷ capacity of the filter", YLabel: "queries", YLog: true}
	for _, impl := range r.Values("Queries/", "impl") {
		l := record.Line{Name: impl}
		for _, load := range r.Values("Queries/impl="+impl+"/", "load") {
			if y, ok := r.Median(fmt.Sprintf("Queries/impl=%s/absent=99/keys=unique/load=%s", impl, load), "absent-queries"); ok && y > 0 {
				l.Points = append(l.Points, plotter.XY{X: number(load), Y: y})
			}
		}
		l.Points = span(l.Points, 0.5, 1.5)
		c.Lines = append(c.Lines, l)
	}
	return c
}

func rebuildChart(r *record.Results) record.Chart {
	c := record.Chart{Title: "Lookup of an absent key while the filter is rebuilt, one run", XLabel: "ms from the beginning of the rebuild", YLabel: "p99, ns", YLog: true}
	for _, impl := range []string{"guard", "off"} {
		l := record.Line{Name: impl}
		prefix := fmt.Sprintf("Window/impl=%s/run=0/", impl)
		for _, ms := range r.Values(prefix, "ms") {
			if y, ok := r.Median(prefix+"ms="+ms, "p99-ns"); ok {
				l.Points = append(l.Points, plotter.XY{X: number(ms), Y: y})
			}
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}
