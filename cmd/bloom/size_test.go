package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSizeText(t *testing.T) {
	for name, args := range map[string]string{
		"size.txt":          "size -n 1000000 -p 0.01",
		"size-tiny.txt":     "size -n 1 -p 1e-6",
		"size-low-rate.txt": "size -n 1e5 -p 1e-13",
		"size-huge.txt":     "size -n 20e9 -p 0.001",
		"size-given.txt":    "size --bits 9585059 --hashes 7",
		"size-given-p.txt":  "size --bits 9585059 --hashes 7 -p 0.001",
		"size-given-n.txt":  "size --bits 9585059 -n 2e6",
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, mustRun(t, "", strings.Fields(args)...)) })
	}
}

// What size says is what filters are and do.
func TestSizeIsThatOfFilters(t *testing.T) {
	var s sizes
	require.NoError(t, json.Unmarshal([]byte(mustRun(t, "", "size", "-n", "30000", "-p", "0.001", "--json")), &s))
	assert.EqualValues(t, 30000, s.Capacity)
	opts := map[string][]bloom.Option{"BF.RESERVE": {bloom.WithScheme(bloom.RedisBloom)}, "NONSCALING": {bloom.WithScheme(bloom.RedisBloom), bloom.WithNonScaling()}}
	require.Len(t, s.Kinds, 7)
	for _, k := range s.Kinds {
		kind := kindValue(strings.ToLower(k.Kind))
		if len(opts[k.Kind]) > 0 {
			kind = kindScalable
		}
		f := bloom.Must(kind.make(30000, 0.001, opts[k.Kind]...))
		i := f.Info()
		assert.Equal(t, [3]uint64{i.Bits, uint64(i.Hashes), i.SizeBytes}, [3]uint64{k.Bits, uint64(k.Hashes), k.Bytes}, k.Kind)
		assert.InDelta(t, 8*float64(i.SizeBytes)/30000, k.BitsPerKey, 0.01)
		rates := measureRates(kind, 30000, 0.001, tableLoads, opts[k.Kind])
		require.Len(t, k.Loads, len(tableLoads))
		for j, l := range k.Loads {
			switch {
			case l.Rate == nil:
				assert.Greater(t, l.Load, 1.0)
				assert.True(t, math.IsNaN(rates[j]), "%s at %v", k.Kind, l.Load)
			case l.Load <= 1:
				assert.LessOrEqual(t, *l.Rate, 0.00105, "%s at %v", k.Kind, l.Load)
				fallthrough
			default:
				assert.InEpsilon(t, rates[j], *l.Rate, 0.1, "%s at %v", k.Kind, l.Load)
			}
		}
	}
}

func TestSizeDraws(t *testing.T) {
	for _, args := range []string{"size -n 1000000 -p 0.01", "size -n 1 -p 0.999", "size --bits 1000 --hashes 7", "size -n 1e5 -p 1e-13"} {
		svg := mustRun(t, "", append(strings.Fields(args), "--svg", "-")...)
		assert.True(t, strings.HasPrefix(svg, "<?xml"), args)
		assert.Contains(t, svg, "Filter")
		assert.Equal(t, svg, mustRun(t, "", append(strings.Fields(args), "--svg", "-")...), "the same bytes each time")
		file := temp(t, "rate.svg")
		assert.Contains(t, mustRun(t, "", append(strings.Fields(args), "--svg", file)...), "keys at a rate of")
		assert.Equal(t, svg, string(read(t, file)))
	}
}

func TestCountValue(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "12": 12, "1_000_000": 1e6, "1e6": 1e6, "2.5e3": 2500, "0x10": 16, "18446744073709551615": 1<<64 - 1} {
		var c count
		require.NoError(t, c.Set(text), text)
		assert.EqualValues(t, want, c)
	}
	for _, text := range []string{"", "x", "-1", "1.5", "1e30", "NaN", "Inf", "1,000"} {
		var c count
		assert.Error(t, c.Set(text), text)
	}
}
