package rolling

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The model has for each key the moment at which it was last added, and what is promised of
// it: found for Span·(Keep−1), gone after Span·Keep, as the clock runs forward. When the clock is
// set back, keys last as much longer, but no more than a Span if somebody adds before and after.
func TestRotatingPromise(t *testing.T) {
	steps := 5000
	if testing.Short() {
		steps /= 10
	}
	const span = time.Second
	for _, keep := range []int{2, 3, 7} {
		for _, setBack := range []string{"never", "any time", "busy"} {
			t.Run(fmt.Sprintf("keep=%d/setBack=%s", keep, setBack), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(keep), 1))
				c := newClock()
				r := newExact(span, keep, c.now)
				type moment struct{ passed, longer time.Duration }
				var at moment
				added := map[uint64]moment{}
				found, gone := 0, 0
				for range steps {
					switch x := rng.IntN(100); {
					case x < 40:
						key := rng.Uint64N(30)
						r.AddUint64(key)
						added[key] = at
					case x < 60:
						step := time.Duration(rng.Int64N(int64(span)))
						switch rng.IntN(50) {
						case 0:
							step *= 20
						case 1, 2, 3, 4, 5:
							step = span * time.Duration(rng.IntN(3))
						}
						c.move(step)
						at.passed += step
					case x < 61 && setBack == "any time":
						back := time.Duration(rng.Int64N(int64(3 * span)))
						c.move(-back)
						at.longer += back
					case x < 61 && setBack == "busy":
						r.AddUint64(1 << 40)
						c.move(-time.Duration(rng.Int64N(int64(3 * span))))
						r.AddUint64(1 << 40)
						at.longer += span
					default:
						key := rng.Uint64N(30)
						then, ever := added[key]
						got := r.ContainsUint64(key)
						age := at.passed - then.passed
						switch {
						case !ever:
							require.False(t, got)
						case age <= span*time.Duration(keep-1):
							require.True(t, got, "key %d, %v old", key, age)
							found++
						case age >= span*time.Duration(keep)+at.longer-then.longer:
							require.False(t, got, "key %d, %v old", key, age)
							gone++
						}
					}
				}
				require.Greater(t, min(found, gone), steps/100, "%d %d", found, gone)
			})
		}
	}
}

// model is a Rotating made of maps, with the clock in nanoseconds.
type model struct {
	span, start, now int64
	number, keep     int64
	buckets          map[int64]map[byte]bool
}

func (m *model) contains(key byte) bool {
	passed := max(0, m.now-m.start) / m.span
	for number, keys := range m.buckets {
		if keys[key] && number > m.number+passed-m.keep {
			return true
		}
	}
	return false
}

func (m *model) catchUp() {
	if m.now < m.start {
		m.start = m.now
	}
	passed := (m.now - m.start) / m.span
	m.start += passed * m.span
	m.number += passed
}

func (m *model) add(key byte) (added bool) {
	m.catchUp()
	added = !m.contains(key)
	if m.buckets[m.number] == nil {
		m.buckets[m.number] = map[byte]bool{}
	}
	m.buckets[m.number][key] = true
	return added
}

func FuzzRotating(f *testing.F) {
	f.Add(byte(2), []byte{0, 1, 4, 9, 0, 1, 2, 1})
	f.Add(byte(3), []byte{0, 1, 5, 255, 0, 1, 6, 0, 0, 1, 3, 1, 7, 0, 0, 1})
	f.Add(byte(5), []byte{1, 9, 4, 10, 1, 9, 4, 49, 3, 9, 5, 30, 1, 9, 4, 200, 0, 9, 3, 9})
	f.Fuzz(func(t *testing.T, k byte, ops []byte) {
		keep := int64(2 + k%8)
		m := model{span: 10, keep: keep, buckets: map[int64]map[byte]bool{}}
		zero := newClock().t
		r := newExact(10, int(keep), func() time.Time { return zero.Add(time.Duration(m.now)) })
		for ops = ops[:min(len(ops), 400)]; len(ops) >= 2; ops = ops[2:] {
			arg := ops[1]
			switch ops[0] % 8 {
			case 0, 1:
				require.Equal(t, m.add(arg), r.AddUint64(uint64(arg)))
			case 2:
				m.catchUp()
				known := m.contains(arg)
				if !known {
					m.add(arg)
				}
				require.Equal(t, !known, r.AddUniqueUint64(uint64(arg)))
			case 3:
				require.Equal(t, m.contains(arg), r.ContainsUint64(uint64(arg)))
			case 4:
				m.now += int64(arg)
			case 5:
				m.now -= int64(arg)
			case 6:
				m.catchUp()
				m.start = m.now
				m.number++
				r.Rotate()
			case 7:
				m.start = m.now
				m.number++
				clear(m.buckets)
				r.Reset()
			}
			require.LessOrEqual(t, len(r.state.Load().buckets), int(keep))
		}
		for key := range 256 {
			require.Equal(t, m.contains(byte(key)), r.ContainsUint64(uint64(key)), "key %d", key)
		}
	})
}
