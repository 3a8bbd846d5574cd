package guard

import "context"

// InProcess makes a [Filter] of one in this process that the guard is not to rebuild, for
// Options.Filter: above all rolling.Rotating, whose keys end by age, for rows that do so too. Its
// methods must be safe for concurrent use. It is there from the beginning, so it must have all keys
// before the guard is used. A lookup takes an allocation more than with a filter of the guard's own.
func InProcess(f interface {
	Add(key []byte) bool
	Contains(key []byte) bool
}) Filter {
	return inProcess{f}
}

type inProcess struct {
	f interface {
		Add(key []byte) bool
		Contains(key []byte) bool
	}
}

func (p inProcess) Verdicts(_ context.Context, dst []Verdict, keys [][]byte) ([]Verdict, error) {
	for _, key := range keys {
		v := Absent
		if p.f.Contains(key) {
			v = Maybe
		}
		dst = append(dst, v)
	}
	return dst, nil
}

func (p inProcess) AddKeys(_ context.Context, keys [][]byte) error {
	for _, key := range keys {
		p.f.Add(key)
	}
	return nil
}
