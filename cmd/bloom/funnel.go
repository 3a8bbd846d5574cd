package main

import (
	"strconv"

	"github.com/redbloom-go/bloom/migrate"
)

var funnels = []string{"string", "chars", "long", "int"}

// funnelled asks a filter of Guava as the funnel does by which objects were put: for numbers in decimal where
// it is one of numbers. A line that is no such number was never put.
func funnelled(g *migrate.Guava, funnel string) container {
	switch funnel {
	case "chars":
		return each(func(key []byte) bool { return g.ContainsUTF16(string(key)) })
	case "long":
		return each(func(key []byte) bool {
			n, err := strconv.ParseInt(string(key), 10, 64)
			return err == nil && g.ContainsUint64(uint64(n))
		})
	case "int":
		return each(func(key []byte) bool {
			n, err := strconv.ParseInt(string(key), 10, 32)
			return err == nil && g.ContainsInt32(int32(n))
		})
	}
	return each(g.Contains)
}
