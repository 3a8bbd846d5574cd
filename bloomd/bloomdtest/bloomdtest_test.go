package bloomdtest_test

import (
	"context"
	"net"
	"testing"

	"github.com/redbloom-go/bloom/bloomd"
	"github.com/redbloom-go/bloom/bloomd/bloomdtest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Servers of different tests share nothing, and end with them.
func TestStart(t *testing.T) {
	ctx := context.Background()
	var addrs []string
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			s := bloomdtest.Start(t, func(c *bloomd.Config) { c.Password = name })
			addrs = append(addrs, s.Addr())
			c := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: name})
			defer c.Close()
			added, err := c.BFAdd(ctx, "seen", "alice").Result()
			require.NoError(t, err)
			require.True(t, added)
			found, err := s.Engine().BFExists("seen", "alice")
			require.NoError(t, err)
			require.True(t, found)
		})
	}
	require.NotEqual(t, addrs[0], addrs[1])
	for _, addr := range addrs {
		_, err := net.Dial("tcp", addr)
		require.Error(t, err)
	}
}
