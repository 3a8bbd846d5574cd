package bloom

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// together runs f in n goroutines that start at the same time, and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// Used by one goroutine it is a Filter.
func TestConcurrentIsFilter(t *testing.T) {
	for _, s := range allSchemes {
		for _, n := range []uint64{1, 100, 10_000} {
			for _, rate := range []float64{0.3, 0.01, 1e-6} {
				f, c := Must(New(n, rate, withScheme(s))), Must(NewConcurrent(n, rate, withScheme(s)))
				for i := range min(2*n, 5000) {
					key := uint64Bytes(i)
					require.Equal(t, f.Contains(key[:]), c.Contains(key[:]))
					require.Equal(t, f.Add(key[:]), c.Add(key[:]), "%v: %d keys, rate %v, key %d", s, n, rate, i)
					require.True(t, c.ContainsUint64(i))
				}
				require.True(t, f.Equal(c.Filter()))
				require.True(t, c.Equal(f.Concurrent()))
				want := f.Info()
				want.Kind = "Concurrent"
				require.Equal(t, want, c.Info())
				require.Equal(t, f.Info(), c.Filter().Info())
				require.Equal(t, f.EstimateLen(), c.EstimateLen())
				require.Equal(t, f.FillRatio()+f.ErrorRate(), c.FillRatio()+c.ErrorRate())
			}
		}
	}
}

// Sizes of every kind, most of them with keys that repeat positions.
func TestConcurrentRawSizes(t *testing.T) {
	for _, s := range allSchemes {
		for _, bits := range []uint64{1, 3, 63, 64, 65, 128, 1000, 10_007} {
			for _, k := range []int{1, 2, 7, 30} {
				f := Must(NewWithSize(bits, k, withScheme(s)))
				c := f.Concurrent()
				for i := range uint64(100) {
					require.Equal(t, f.ContainsUint64(i), c.ContainsUint64(i))
					require.Equal(t, f.AddUint64(i), c.AddUint64(i), "%v %d %d key %d", s, bits, k, i)
				}
				require.True(t, c.Filter().Equal(f))
				require.Equal(t, f.Len(), c.Len())
			}
		}
	}
}

func TestConcurrentTwins(t *testing.T) {
	f, g := Must(NewConcurrent(1000, 0.01)), Must(NewConcurrent(1000, 0.01))
	require.True(t, f.Add([]byte("a")) && g.AddString("a"))
	require.True(t, f.AddString("b") && g.AddDigest(f.DigestString("b")))
	require.True(t, f.AddUint64(1) && g.AddDigest(f.DigestUint64(1)))
	require.True(t, f.Equal(g))
	require.True(t, f.Contains([]byte("a")) && f.ContainsString("b") && f.ContainsUint64(1) && f.ContainsDigest(g.DigestString("a")))
	require.Equal(t, []bool{false, true}, f.AddMany(nil, [][]byte{[]byte("a"), []byte("c")}))
	require.Equal(t, []bool{true, false}, g.AddManyString(nil, []string{"c", "b"}))
	require.True(t, f.Equal(g))
	require.Equal(t, []bool{true, false}, f.ContainsMany(nil, [][]byte{[]byte("c"), []byte("d")}))
	require.Equal(t, []bool{true, false}, f.ContainsManyString(nil, []string{"c", "d"}))
	require.Panics(t, func() { f.AddDigest(Must(New(1, 0.1, WithSeed(1))).DigestString("a")) })
}

// 8 readers of keys that are present, while others are added: nobody misses one.
func TestConcurrentReadersMissNothing(t *testing.T) {
	lookups := uint64(100_000)
	if testing.Short() {
		lookups /= 10
	}
	for _, s := range allSchemes {
		c := Must(NewConcurrent(20_000, 0.01, withScheme(s)))
		for i := range uint64(10_000) {
			c.AddUint64(i)
		}
		var misses atomic.Uint64
		together(10, func(g int) {
			if g >= 8 {
				for i := range uint64(5000) {
					key := uint64(g)<<32 + i
					if c.AddUint64(key); !c.ContainsUint64(key) {
						misses.Add(1)
					}
				}
				return
			}
			for i := range lookups {
				if !c.ContainsUint64((i*7 + uint64(g)) % 10_000) {
					misses.Add(1)
				}
			}
		})
		require.Zero(t, misses.Load())
	}
}

// 8 writers add the same keys at the same time: no bit is lost, and no key is new
// twice. Small filters and few keys make the races frequent.
func TestConcurrentWritersOfTheSameKeys(t *testing.T) {
	rounds, keys := 200, uint64(10_000)
	if testing.Short() {
		rounds, keys = 20, 2000
	}
	for _, s := range allSchemes {
		f, c := Must(New(keys, 0.01, withScheme(s))), Must(NewConcurrent(keys, 0.01, withScheme(s)))
		for i := range keys {
			f.AddUint64(i)
		}
		newTo := make([]atomic.Int32, keys)
		var trues atomic.Uint64
		together(8, func(int) {
			for i := range keys {
				if c.AddUint64(i) {
					newTo[i].Add(1)
					trues.Add(1)
				}
			}
		})
		require.True(t, f.Equal(c.Filter()))
		require.Equal(t, trues.Load(), c.Len())
		require.LessOrEqual(t, trues.Load(), keys)
		require.Greater(t, float64(trues.Load()), 0.9*float64(keys))
		for i := range newTo {
			require.LessOrEqual(t, newTo[i].Load(), int32(1), "key %d", i)
		}

		for range rounds {
			small := Must(NewConcurrent(10, 1e-6, withScheme(s)))
			var each [20]atomic.Int32
			together(4, func(g int) {
				for i := range uint64(len(each)) {
					if g%2 == 1 {
						i = uint64(len(each)) - 1 - i
					}
					if small.AddUint64(i) {
						each[i].Add(1)
					}
				}
			})
			for i := range each {
				require.LessOrEqual(t, each[i].Load(), int32(1))
				require.True(t, small.ContainsUint64(uint64(i)))
			}
		}
	}
}

// Disjoint keys: together the writers make the filter that one would have made.
func TestConcurrentWritersOfOtherKeys(t *testing.T) {
	const each = 2000
	f, c := Must(New(8*each, 0.01)), Must(NewConcurrent(8*each, 0.01))
	for i := range uint64(8 * each) {
		f.AddUint64(i)
	}
	together(8, func(g int) {
		for i := range uint64(each) {
			c.AddUint64(uint64(g)*each + i)
		}
	})
	require.True(t, c.Filter().Equal(f))
	require.InDelta(t, f.Len(), c.Len(), 50)
}

// All that may run at the same time does. It is the race detector's test, and shows
// that unions in both directions end.
func TestConcurrentEverythingAtOnce(t *testing.T) {
	a, b := Must(NewConcurrent(1000, 0.01)), Must(NewConcurrent(1000, 0.01))
	plain := Must(New(1000, 0.01))
	plain.AddString("plain")
	together(6, func(g int) {
		for i := range uint64(300) {
			switch g {
			case 0:
				a.AddUint64(i)
			case 1:
				b.AddUint64(1000 + i)
			case 2:
				if a.Union(b) != nil || a.UnionFilter(plain) != nil {
					t.Error("union failed")
				}
			case 3:
				if b.Union(a) != nil || b.Union(b) != nil {
					t.Error("union failed")
				}
			case 4:
				a.Info()
				a.Equal(b)
				a.Clone()
			case 5:
				a.ContainsUint64(i)
				b.Filter()
			}
		}
	})
	require.NoError(t, a.Union(b))
	require.NoError(t, b.Union(a))
	require.True(t, a.Equal(b))
	require.True(t, a.ContainsString("plain"))
	for i := range uint64(300) {
		require.True(t, a.ContainsUint64(i) && a.ContainsUint64(1000+i))
	}
}

func TestConcurrentUnion(t *testing.T) {
	a, b, both := Must(NewConcurrent(1000, 0.01)), Must(New(1000, 0.01)), Must(New(1000, 0.01))
	for i := range uint64(1000) {
		a.AddUint64(i)
		b.AddUint64(500 + i)
		both.AddUint64(i)
		both.AddUint64(500 + i)
	}
	c := a.Clone()
	require.NoError(t, a.UnionFilter(b))
	require.True(t, a.Filter().Equal(both))
	require.NoError(t, c.Union(b.Concurrent()))
	require.True(t, c.Equal(a))
	require.True(t, a.Info().LenEstimated)
	require.InDelta(t, a.EstimateLen(), float64(a.Len()), 0.5)

	require.ErrorIs(t, a.Union(nil), ErrInvalid)
	require.ErrorIs(t, a.UnionFilter(nil), ErrInvalid)
	require.ErrorIs(t, a.UnionFilter(Must(New(1000, 0.01, WithSeed(1)))), ErrMismatch)
	require.ErrorIs(t, a.Union(Must(NewConcurrent(2000, 0.01))), ErrMismatch)
	require.False(t, a.Equal(nil))
	require.False(t, a.Equal(Must(NewConcurrent(2000, 0.01))))
	_, err := NewConcurrent(0, 0.1)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = NewConcurrent(1000, 0.1, WithMaxBytes(1))
	require.ErrorIs(t, err, ErrTooLarge)
}

func TestConcurrentCloneReset(t *testing.T) {
	c := Must(NewConcurrent(100, 0.01))
	c.AddString("a")
	d := c.Clone()
	require.True(t, c.Equal(d))
	d.AddString("b")
	require.False(t, c.Equal(d))
	require.Equal(t, uint64(1), c.Len())
	words := &d.bits.words[0]
	d.Reset()
	require.Same(t, words, &d.bits.words[0], "the buffer is kept")
	require.Zero(t, float64(d.Len())+d.FillRatio())
	require.False(t, d.ContainsString("a"))

	f := c.Filter()
	f.AddString("z")
	require.False(t, c.ContainsString("z"), "a copy")
	g := f.Concurrent()
	g.AddString("y")
	require.False(t, f.ContainsString("y"), "a copy")
}

func TestConcurrentNoAllocations(t *testing.T) {
	key, word := []byte("a key of more than sixteen bytes"), "user:12345678"
	dst, keys, words := make([]bool, 0, 8), [][]byte{key, key}, []string{word, word}
	for _, s := range allSchemes {
		c := Must(NewConcurrent(1000, 0.01, withScheme(s)))
		d, fresh := c.Digest(key), uint64(0)
		for name, op := range map[string]func(){
			"Add": func() { c.Add(key) }, "AddString": func() { c.AddString(word) },
			"AddUint64": func() { c.AddUint64(fresh); fresh++ }, "AddDigest": func() { c.AddDigest(d) },
			"Contains": func() { c.Contains(key) }, "ContainsString": func() { c.ContainsString(word) },
			"ContainsUint64": func() { c.ContainsUint64(7) }, "ContainsDigest": func() { c.ContainsDigest(d) },
			"AddMany": func() { c.AddMany(dst, keys) }, "AddManyString": func() { c.AddManyString(dst, words) },
			"ContainsMany": func() { c.ContainsMany(dst, keys) }, "ContainsManyString": func() { c.ContainsManyString(dst, words) },
			"Len": func() { c.Len() },
		} {
			require.Zero(t, testing.AllocsPerRun(100, op), "%v %s", s, name)
		}
	}
}

func TestConcurrentZero(t *testing.T) {
	var c Concurrent
	require.False(t, c.ContainsString("a") || c.Contains(nil) || c.ContainsUint64(1) || c.ContainsDigest(Digest{}))
	require.Equal(t, []bool{false}, c.ContainsManyString(nil, []string{"a"}))
	require.Zero(t, c.EstimateLen()+c.FillRatio()+c.ErrorRate()+c.TargetRate())
	require.Zero(t, c.Len()+c.Capacity()+c.Bits()+c.SizeBytes()+uint64(c.Hashes()))
	require.Equal(t, Info{Kind: "Concurrent"}, c.Info())
	require.True(t, c.Equal(c.Clone()))
	require.True(t, c.Filter().Equal(&Filter{}))
	require.True(t, c.Equal((&Filter{}).Concurrent()))
	c.Reset()
	for _, add := range []func(){
		func() { c.AddString("a") }, func() { c.AddUint64(1) }, func() { c.AddDigest(Digest{}) },
	} {
		require.PanicsWithValue(t, zeroAdd, add)
	}
}

func TestLocked(t *testing.T) {
	l := NewLocked(Must(NewCounting(1000, 0.01)))
	together(4, func(int) {
		for i := range uint64(1000) {
			l.Write(func(c *Counting) { c.AddUint64(i) })
			l.Read(func(c *Counting) {
				if !c.ContainsUint64(i) {
					t.Errorf("key %d missed", i)
				}
			})
		}
	})
	l.Read(func(c *Counting) { require.Equal(t, uint64(4000), c.Len()) })

	require.Panics(t, func() { l.Read(func(*Counting) { panic("use") }) })
	require.Panics(t, func() { l.Write(func(*Counting) { panic("use") }) })
	l.Write(func(c *Counting) { c.Reset() }) // the locks were released
	l.Read(func(c *Counting) { require.Zero(t, c.Len()) })
}
