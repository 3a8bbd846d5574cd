package checks

// The Go of README.md and of pages in docs/, which TestCodeOfThePages compares with this file: so it compiles.

import (
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/rolling"
)

func keeping(filter *bloom.Filter) error {
	if err := bloom.Save("users.bloom", filter); err != nil {
		return err
	}
	loaded, err := bloom.Load[bloom.Filter]("users.bloom")
	if err != nil {
		return err
	}
	shared, err := bloom.OpenMapped("users.bloom")
	_, _ = loaded, shared
	return err
}

func choosing() []any {
	filter := bloom.Must(bloom.New(1_000_000, 0.01))
	shared := bloom.Must(bloom.NewConcurrent(1_000_000, 0.01))
	fast := bloom.Must(bloom.NewBlocked(1_000_000, 0.01))
	stream := bloom.Must(bloom.NewScalable(10_000, 0.01))
	sessions := bloom.Must(bloom.NewCuckoo(1_000_000, 0.01))
	counted := bloom.Must(bloom.NewCounting(1_000_000, 0.01))
	lastHour := bloom.Must(rolling.NewRotating(100_000, 0.01, rolling.RotatingOptions{Span: 15 * time.Minute, Keep: 5}))
	return []any{filter, shared, fast, stream, sessions, counted, lastHour}
}

func concurrent(parts [][]string, first func(key string)) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	seen, err := bloom.NewConcurrent(1_000_000, 0.01)
	if err != nil {
		return err
	}
	for _, part := range parts {
		wg.Go(func() {
			for _, key := range part {
				if seen.AddString(key) {
					first(key)
				}
			}
		})
	}
	return nil
}

func locked(cuckoo *bloom.Cuckoo, id string, ids []string) (found []bool, err error) {
	sessions := bloom.NewLocked(cuckoo)
	sessions.Write(func(c *bloom.Cuckoo) {
		_, err = c.AddString(id)
	})
	sessions.Read(func(c *bloom.Cuckoo) {
		found = c.ContainsManyString(nil, ids)
	})
	return found, err
}

func persistence(filter *bloom.Filter, rebuild func() (*bloom.Filter, error)) error {
	if err := bloom.Save("users.bloom", filter); err != nil {
		return err
	}
	filter, err := bloom.Load[bloom.Filter]("users.bloom", bloom.WithMaxBytes(1<<30))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		filter, err = rebuild()
	case errors.Is(err, bloom.ErrCorrupt), errors.Is(err, bloom.ErrIncomplete), errors.Is(err, bloom.ErrVersion):
		filter, err = rebuild()
	}
	_ = filter
	return err
}

func mapped() error {
	shared, err := bloom.OpenMapped("users.bloom")
	if err != nil {
		return err
	}
	defer shared.Close()
	return nil
}

func digests(filters []*bloom.Filter, key string) bool {
	d := filters[0].DigestString(key)
	for _, f := range filters {
		if f.ContainsDigest(d) {
			return true
		}
	}
	return false
}

var (
	_ = keeping
	_ = choosing
	_ = concurrent
	_ = locked
	_ = persistence
	_ = mapped
	_ = digests
)
