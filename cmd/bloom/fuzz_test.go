package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is in a file, it is described and converted, or refused.
func FuzzFiles(f *testing.F) {
	for _, pattern := range []string{records + "/*.bloom", bitsDir + "/*-bits*", guavaDir + "/*.bin"} {
		paths, err := filepath.Glob(pattern)
		require.NoError(f, err)
		require.NotEmpty(f, paths)
		for _, path := range paths {
			data, err := os.ReadFile(path)
			require.NoError(f, err)
			if len(data) < 2000 {
				f.Add(data, "")
			}
		}
	}
	header := "\x01\x00\x00\x00\x00\x00\x00\x00\x26\x00\x00\x00\x00\x00\x00\x00"
	f.Add([]byte(header), "")
	f.Add([]byte(header+"\xff"), "redisbloom")
	f.Add([]byte(`{"m":1,"k":1,"b":""}`), "")
	f.Add([]byte("\x00\x01\x00\x00\x00\x01abcdefgh"), "guava")
	f.Fuzz(func(t *testing.T, data []byte, as string) {
		l := loading{}
		_ = word[format]{&l.format, formats}.Set(as) // a name that is none leaves it open
		file, err := l.read("-", bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, filter := range file.filters {
			describe(filter).print(io.Discard)
			for _, to := range written {
				if made, _, err := convert(filter, format(to)); err == nil {
					_, err := made.WriteTo(io.Discard)
					require.NoError(t, err)
				}
			}
		}
	})
}
