package main

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redbloom-go/bloom/guard"
	"github.com/stretchr/testify/require"
)

var sample = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-z]+="[^"\\]*"\})? (\S+)$`)

// read returns the samples of a page in the text format, by name and label, and fails where it is not
// that format: every sample belongs to the metric before it, and no metric occurs twice.
func read(t *testing.T, text string) map[string]float64 {
	require.True(t, strings.HasSuffix(text, "\n"))
	samples, kinds, current := map[string]float64{}, map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			current, _, _ = strings.Cut(rest, " ")
			require.NotContains(t, kinds, current, "twice")
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			require.Equal(t, current, name)
			require.Contains(t, []string{"counter", "gauge", "histogram"}, kind)
			require.Equal(t, kind == "counter", strings.HasSuffix(name, "_total"), name)
			kinds[name] = kind
			continue
		}
		m := sample.FindStringSubmatch(line)
		require.NotNil(t, m, line)
		name := m[1]
		if kinds[current] == "histogram" {
			name = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		}
		require.Equal(t, current, name)
		value, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err, line)
		require.NotContains(t, samples, m[1]+m[2])
		samples[m[1]+m[2]] = value
	}
	return samples
}

func TestRun(t *testing.T) {
	var out bytes.Buffer
	const lookups = 20_000
	require.NoError(t, run(t.Context(), []string{"-lookups", strconv.Itoa(lookups)}, &out))
	s := read(t, out.String())
	sum := 0.
	for name, value := range s {
		if strings.HasPrefix(name, "guard_lookups_total") {
			sum += value
		}
	}
	require.EqualValues(t, lookups, sum)
	require.EqualValues(t, 1, s["guard_active"])
	require.Zero(t, s["guard_rebuilding"])
	require.EqualValues(t, 1, s["guard_rebuilds_total"])
	require.Zero(t, s["guard_false_negatives_total"])
	require.InDelta(t, float64(time.Now().Unix()), s["guard_complete_timestamp_seconds"], 600)
	// At half of its capacity the filter lets far less than 1 % through.
	require.Greater(t, s[`guard_lookups_total{answer="rejected"}`], 0.98*0.9*lookups)
	require.Equal(t, s["guard_loads_total"], s["guard_load_seconds_count"])
	require.Equal(t, s["guard_loads_total"], s[`guard_load_seconds_bucket{le="+Inf"}`])
	require.Equal(t, s["guard_loads_total"], s["guard_loaded_keys_total"], "no batches here")

	require.Error(t, run(t.Context(), []string{"-nonsense"}, io.Discard))
	require.Error(t, run(t.Context(), []string{"-addr", "no address"}, io.Discard))
	require.NoError(t, run(t.Context(), []string{"-h"}, io.Discard))
}

func TestObserver(t *testing.T) {
	m := new(Metrics)
	before := read(t, scrape(t, m))
	require.NotContains(t, before, "guard_active", "no guard yet")
	m.Loaded(guard.LoadEvent{Keys: 3, Missing: 2, Took: 2 * time.Millisecond})
	m.Loaded(guard.LoadEvent{Keys: 1, Took: time.Minute})
	m.Threshold(guard.ThresholdEvent{})
	m.FalseNegative(7)
	m.Rebuilt(guard.Report{}, errors.New("no"))
	m.Rebuilt(guard.Report{Took: 1500 * time.Millisecond}, nil)
	for name, want := range map[string]float64{
		`guard_load_seconds_bucket{le="0.001"}`:  0,
		`guard_load_seconds_bucket{le="0.0025"}`: 1,
		`guard_load_seconds_bucket{le="2.5"}`:    1,
		`guard_load_seconds_bucket{le="+Inf"}`:   2,
		"guard_load_seconds_sum":                 60.002,
		"guard_load_seconds_count":               2,
		"guard_loaded_keys_total":                4,
		"guard_loaded_missing_total":             2,
		"guard_thresholds_total":                 1,
		"guard_false_negatives_total":            1,
		"guard_failed_rebuilds_total":            1,
		"guard_rebuilds_total":                   1,
		"guard_last_rebuild_seconds":             1.5,
	} {
		require.Equal(t, want, read(t, scrape(t, m))[name], name)
	}
}

func scrape(t *testing.T, m *Metrics) string {
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	require.Equal(t, "text/plain; version=0.0.4; charset=utf-8", w.Header().Get("Content-Type"))
	return w.Body.String()
}
