package migrate

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/redbloom-go/bloom"
	"github.com/stretchr/testify/require"
)

// Filters that bits-and-blooms wrote, in every form, answer as they answered there.
func TestBitsAndBloomsFixtures(t *testing.T) {
	for _, l := range lives(t, "bitsandblooms") {
		var f, little, fromJSON, standard, gobbed BitsAndBlooms
		require.NoError(t, f.UnmarshalBinary(l.read(t, "bitsandblooms", ".bin")))
		require.NoError(t, little.UnmarshalBinary(l.read(t, "bitsandblooms", ".little-endian")))
		text := string(l.read(t, "bitsandblooms", ".json"))
		require.NoError(t, json.Unmarshal([]byte(text), &fromJSON))
		require.NoError(t, json.Unmarshal([]byte(strings.NewReplacer("-", "+", "_", "/").Replace(text)), &standard))
		require.NoError(t, gobbed.GobDecode(l.read(t, "bitsandblooms", ".bin")))
		for _, other := range []BitsAndBlooms{little, fromJSON, standard, gobbed} {
			require.Equal(t, f, other, l.Name)
		}

		require.Equal(t, l.Bits, f.Bits())
		require.Equal(t, l.Hashes, f.Hashes())
		if f.FillRatio() < 1 {
			require.Equal(t, float64(l.Count), math.Floor(f.EstimateLen()+0.5), l.Name)
		}
		l.same(t, func(i int) bool {
			key := bytesKey(i)
			found := f.Contains(key)
			require.Equal(t, found, f.ContainsString(string(key)))
			return found
		})
	}
}

func TestBitsAndBloomsRefuses(t *testing.T) {
	numbers := func(n ...uint64) []byte { return appendWords(nil, n) }
	littleEndian := func(head []byte, n ...uint64) []byte {
		for _, x := range n {
			head = binary.LittleEndian.AppendUint64(head, x)
		}
		return head
	}
	for _, c := range []struct {
		name string
		data []byte
		want error
		says string
	}{
		{"m = 0", numbers(0, 3, 0), bloom.ErrCorrupt, "0 bits"},
		{"k = 0", numbers(64, 0, 64, 1), bloom.ErrCorrupt, "0 hashes"},
		{"k = 2001", numbers(64, 2001, 64, 1), bloom.ErrTooLarge, "2001 hashes"},
		{"m > 2^48", numbers(1<<48+1, 3, 1<<48+1), bloom.ErrTooLarge, "the limit is 2^48"},
		{"a bit past m", numbers(63, 3, 63, 1<<63), bloom.ErrCorrupt, "past the 63 bits"},
		{"a bit past m, FromWithM", numbers(65, 3, 128, 1, 2), bloom.ErrCorrupt, "past the 65 bits"},
		{"a bit past m, little-endian", littleEndian(numbers(63, 3), 63, 1<<63), bloom.ErrCorrupt, "past the 63 bits"},
		{"bitset a bit short", numbers(64, 3, 63, 1), bloom.ErrCorrupt, "a bitset of 63 bits in a filter of 64"},
		{"bitset a word long", numbers(64, 3, 128, 1, 1), bloom.ErrCorrupt, "128"},
		{"bitset empty", numbers(64, 3, 0), bloom.ErrCorrupt, "a bitset of 0"},
		{"a bitset alone", numbers(128, 1, 2), bloom.ErrCorrupt, "a bitset of 2"},
		{"m flipped", numbers(1000|1<<20, 7, 1000, 1), bloom.ErrCorrupt, "a bitset of 1000"},
	} {
		var f BitsAndBlooms
		err := f.UnmarshalBinary(c.data)
		require.ErrorIs(t, err, c.want, c.name)
		require.ErrorContains(t, err, c.says, c.name)
		require.Zero(t, f)
	}
}

func TestBitsAndBloomsJSON(t *testing.T) {
	var f BitsAndBlooms
	good := `{"m":64,"k":3,"b":"AAAAAAAAAEAAAAAAAAAAAQ=="}`
	require.NoError(t, json.Unmarshal([]byte(good), &f))
	was := f
	for text, want := range map[string]error{
		`null`:                   bloom.ErrCorrupt,
		`{}`:                     bloom.ErrCorrupt,
		`{"m":64,"k":3}`:         bloom.ErrCorrupt,
		`{"m":0,"k":0,"b":null}`: bloom.ErrCorrupt,
		`{"m":1,"k":1,"b":null}`: bloom.ErrCorrupt,
		`{"m":-1,"k":1,"b":""}`:  bloom.ErrCorrupt,
		`{"m":64,"k":3,"b":""}`:  bloom.ErrIncomplete,
		`{"m":64,"k":3,"b":"AAAAAAAAAEAAAAAAAAAAAQ"}`:   bloom.ErrCorrupt, // no padding
		`{"m":64,"k":3,"b":"AAAAAAAAAEAAAAAAAAAA"}`:     bloom.ErrIncomplete,
		`{"m":64,"k":3,"b":"AAAAAAAAAEAAAAAAAAAAAQAA"}`: bloom.ErrCorrupt, // a byte more
		`{"m":65,"k":3,"b":"AAAAAAAAAEAAAAAAAAAAAQ=="}`: bloom.ErrCorrupt,
		`{"m":64,"k":0,"b":"AAAAAAAAAEAAAAAAAAAAAQ=="}`: bloom.ErrCorrupt,
		good + "1": bloom.ErrCorrupt,
		`[`:        bloom.ErrCorrupt,
	} {
		require.ErrorIs(t, f.UnmarshalJSON([]byte(text)), want, text)
		require.Equal(t, was, f)
	}

	forged := []byte(`{"m":1073741824,"k":3,"b":"AAAAAEAA` + strings.Repeat("A", 1<<20) + `"}`)
	before := allocated()
	require.ErrorIs(t, f.UnmarshalJSON(forged), bloom.ErrIncomplete)
	require.LessOrEqual(t, allocated()-before, uint64(64<<10+4*len(forged)))

	// In a struct, as an element of a slice, as a value of a map; a null beside a pointer is a nil
	// pointer, as always.
	var all struct {
		One  BitsAndBlooms
		List []BitsAndBlooms
		Map  map[string]*BitsAndBlooms
	}
	require.NoError(t, json.Unmarshal([]byte(`{"One":`+good+`,"List":[`+good+`],"Map":{"a":`+good+`,"b":null}}`), &all))
	require.Equal(t, was, all.One)
	require.Equal(t, []BitsAndBlooms{was}, all.List)
	require.Equal(t, map[string]*BitsAndBlooms{"a": &was, "b": nil}, all.Map)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"One":null}`), &all), bloom.ErrCorrupt)
}

func FuzzBitsAndBlooms(f *testing.F) {
	for _, record := range records(f, "bitsandblooms") {
		f.Add(record)
	}
	f.Fuzz(fuzz(formats[0]))
}

func FuzzBitsAndBloomsJSON(f *testing.F) {
	f.Add([]byte(`{"m":64,"k":3,"b":"AAAAAAAAAEAAAAAAAAAAAQ=="}`))
	f.Add([]byte(`{"m":1,"k":1,"b":"AAAAAAAAAAA="}`))
	f.Add([]byte(`{"m":0,"k":0,"b":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d BitsAndBlooms
		if d.UnmarshalJSON(data) != nil {
			require.Zero(t, d)
			return
		}
		again := formats[0].encode(d.words, d.m, d.k)
		var other BitsAndBlooms
		require.NoError(t, other.UnmarshalBinary(again))
		require.Equal(t, d, other)
	})
}
