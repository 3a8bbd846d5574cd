package bloomd_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// go-redis has typed commands for these filters, and its own names and types for the answers.
func TestGoRedis(t *testing.T) {
	for _, proto := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", proto), func(t *testing.T) {
			ctx := context.Background()
			c := redis.NewClient(&redis.Options{Addr: startServer(t).Addr(), Protocol: proto, ClientName: "test"})
			defer c.Close()
			goRedisBloom(t, ctx, c)
			goRedisCuckoo(t, ctx, c)
			goRedisKeys(t, ctx, c)
		})
	}
}

func goRedisBloom(t *testing.T, ctx context.Context, c *redis.Client) {
	require.Equal(t, "OK", c.BFReserve(ctx, "b", 0.01, 1000).Val())
	require.EqualError(t, c.BFReserve(ctx, "b", 0.01, 1000).Err(), "ERR item exists")
	require.NoError(t, c.BFReserveExpansion(ctx, "b4", 0.01, 1000, 4).Err())
	require.NoError(t, c.BFReserveNonScaling(ctx, "bn", 0.01, 2).Err())
	require.NoError(t, c.BFReserveWithArgs(ctx, "ba", &redis.BFReserveOptions{Capacity: 1000, Error: 0.1, Expansion: 3}).Err())
	require.True(t, c.BFAdd(ctx, "b", "x").Val())
	added, err := c.BFAdd(ctx, "b", "x").Result()
	require.NoError(t, err)
	require.False(t, added)
	require.Equal(t, []bool{false, true}, c.BFMAdd(ctx, "b", "x", "y").Val())
	require.Equal(t, []bool{true, true}, c.BFInsert(ctx, "bi", &redis.BFInsertOptions{Capacity: 20, Error: 0.1, Expansion: 3}, "x", "y").Val())
	require.EqualError(t, c.BFInsert(ctx, "none", &redis.BFInsertOptions{NoCreate: true}, "x").Err(), "ERR not found")
	require.True(t, c.BFExists(ctx, "b", "x").Val())
	require.Equal(t, []bool{true, false}, c.BFMExists(ctx, "b", "x", "absent").Val())
	require.Equal(t, int64(2), c.BFCard(ctx, "b").Val())
	info, err := c.BFInfo(ctx, "b").Result()
	require.NoError(t, err)
	require.Equal(t, redis.BFInfo{Capacity: 1000, Size: 1480, Filters: 1, ItemsInserted: 2, ExpansionRate: 2}, info)
	for _, one := range []struct {
		ask  func(context.Context, string) *redis.BFInfoCmd
		want redis.BFInfo
	}{
		{c.BFInfoCapacity, redis.BFInfo{Capacity: 1000}}, {c.BFInfoSize, redis.BFInfo{Size: 1480}}, {c.BFInfoFilters, redis.BFInfo{Filters: 1}},
		{c.BFInfoItems, redis.BFInfo{ItemsInserted: 2}}, {c.BFInfoExpansion, redis.BFInfo{ExpansionRate: 2}},
	} {
		info, err := one.ask(ctx, "b").Result()
		require.NoError(t, err)
		require.Equal(t, one.want, info)
	}
	for iterator := int64(0); ; {
		d, err := c.BFScanDump(ctx, "b", iterator).Result()
		require.NoError(t, err)
		if d.Iter == 0 {
			break
		}
		require.NoError(t, c.BFLoadChunk(ctx, "copy", d.Iter, d.Data).Err())
		iterator = d.Iter
	}
	require.Equal(t, []bool{true, true, false}, c.BFMExists(ctx, "copy", "x", "y", "absent").Val())
	require.EqualError(t, c.BFInfo(ctx, "none").Err(), "ERR not found")
}

func goRedisCuckoo(t *testing.T, ctx context.Context, c *redis.Client) {
	require.Equal(t, "OK", c.CFReserve(ctx, "c", 1000).Val())
	require.NoError(t, c.CFReserveExpansion(ctx, "c2", 1000, 2).Err())
	require.NoError(t, c.CFReserveBucketSize(ctx, "c4", 1000, 4).Err())
	require.NoError(t, c.CFReserveMaxIterations(ctx, "cm", 1000, 9).Err())
	require.NoError(t, c.CFReserveWithArgs(ctx, "ca", &redis.CFReserveOptions{Capacity: 1000, BucketSize: 3, MaxIterations: 5, Expansion: 4}).Err())
	require.True(t, c.CFAdd(ctx, "c", "x").Val())
	require.False(t, c.CFAddNX(ctx, "c", "x").Val())
	require.Equal(t, []bool{true, true}, c.CFInsert(ctx, "c", &redis.CFInsertOptions{}, "x", "y").Val())
	require.Equal(t, []int64{0, 1}, c.CFInsertNX(ctx, "c", &redis.CFInsertOptions{NoCreate: true}, "x", "z").Val())
	require.True(t, c.CFExists(ctx, "c", "y").Val())
	require.Equal(t, []bool{true, false}, c.CFMExists(ctx, "c", "y", "absent").Val())
	require.Equal(t, int64(2), c.CFCount(ctx, "c", "x").Val())
	require.True(t, c.CFDel(ctx, "c", "x").Val())
	info, err := c.CFInfo(ctx, "c").Result()
	require.NoError(t, err)
	require.Equal(t, redis.CFInfo{Size: 1080, NumBuckets: 512, NumFilters: 1, NumItemsInserted: 3, NumItemsDeleted: 1, BucketSize: 2, ExpansionRate: 1, MaxIteration: 20}, info)
	for iterator := int64(0); ; {
		d, err := c.CFScanDump(ctx, "c", iterator).Result()
		if errors.Is(err, redis.Nil) {
			break // how go-redis has the end
		}
		require.NoError(t, err)
		if d.Iter == 0 {
			break
		}
		require.NoError(t, c.CFLoadChunk(ctx, "ccopy", d.Iter, d.Data).Err())
		iterator = d.Iter
	}
	require.Equal(t, []bool{true, true, false}, c.CFMExists(ctx, "ccopy", "x", "y", "absent").Val())
	require.EqualError(t, c.CFDel(ctx, "none", "x").Err(), "Not found")
}

func goRedisKeys(t *testing.T, ctx context.Context, c *redis.Client) {
	require.Equal(t, "PONG", c.Ping(ctx).Val())
	require.NoError(t, c.Set(ctx, "s", "v", 0).Err())
	require.Equal(t, "v", c.Get(ctx, "s").Val())
	require.ErrorIs(t, c.Get(ctx, "none").Err(), redis.Nil)
	require.ErrorContains(t, c.BFAdd(ctx, "s", "x").Err(), "WRONGTYPE")
	cmds, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.BFAdd(ctx, "tx", "x")
		p.BFExists(ctx, "tx", "x")
		return nil
	})
	require.NoError(t, err)
	require.Len(t, cmds, 2)
	require.True(t, cmds[1].(*redis.BoolCmd).Val())
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		require.NoError(t, c.Set(ctx, "s", "w", 0).Err())
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Get(ctx, "s"); return nil })
		return err
	}, "s")
	require.ErrorIs(t, err, redis.TxFailedErr)
	keys, cursor, err := c.Scan(ctx, 0, "c*", 1000).Result()
	require.NoError(t, err)
	require.Zero(t, cursor)
	require.ElementsMatch(t, []string{"c", "c2", "c4", "cm", "ca", "ccopy", "copy"}, keys)
	require.Equal(t, "MBbloom--", c.Type(ctx, "b").Val())
	require.Equal(t, int64(2), c.Exists(ctx, "b", "c", "none").Val())
	require.Equal(t, map[string]string{"bf-error-rate": "0.01"}, c.ConfigGet(ctx, "bf-error-rate").Val())
	require.NoError(t, c.Rename(ctx, "copy", "b").Err())
	require.Greater(t, c.MemoryUsage(ctx, "b").Val(), int64(1000))
	require.Equal(t, int64(1), c.Del(ctx, "b").Val())
	require.Equal(t, "test", c.ClientGetName(ctx).Val())
	commands, err := c.Command(ctx).Result()
	require.NoError(t, err)
	require.Equal(t, int8(3), commands["bf.add"].Arity)
	require.NoError(t, c.FlushAll(ctx).Err())
	require.Zero(t, c.DBSize(ctx).Val())
}

func TestRedisCLI(t *testing.T) {
	cli := program(t, "redis-cli")
	_, port, err := net.SplitHostPort(startServer(t).Addr())
	require.NoError(t, err)
	for _, proto := range []string{"-2", "-3"} {
		script := "FLUSHALL\nBF.RESERVE b 0.01 1000\nBF.ADD b \"x y\"\nBF.EXISTS b \"x y\"\nBF.MADD b 1 2\nBF.INFO b CAPACITY\nBF.RESERVE b 0.01 1000\nCF.ADD c x\nCF.COUNT c x\nTYPE c\nFOO\n"
		got := output(t, script, cli, proto, "-p", port)
		want := map[string][]string{
			"-2": {"OK", "OK", "1", "1", "1\n1", "1000", "ERR item exists\n", "1", "1", "MBbloomCF", "ERR unknown command 'FOO', with args beginning with: \n"},
			"-3": {"OK", "OK", "(true)", "(true)", "(true)\n(true)", "Capacity 1000", "ERR item exists\n", "(true)", "1", "MBbloomCF", "ERR unknown command 'FOO', with args beginning with: \n"},
		}[proto]
		require.Equal(t, strings.Join(want, "\n")+"\n", got)
	}
	require.Contains(t, output(t, "", cli, "-p", port, "--scan"), "b\n")
	require.Contains(t, output(t, "", cli, "-p", port, "info", "server"), "server_name:bloomd")
	require.Contains(t, output(t, "", cli, "-p", port, "--bigkeys"), "Sampled 2 keys")
}

func TestRedisPy(t *testing.T) {
	python := program(t, "/usr/bin/python3")
	if err := exec.Command(python, "-c", "import redis.commands.bf").Run(); err != nil {
		missing(t, "python3-redis is not installed")
	}
	output(t, "", python, "testdata/client.py", startServer(t).Addr())
}

func TestNodeRedis(t *testing.T) {
	node := program(t, "node")
	if _, err := os.Stat(filepath.Join("testdata", "node", "node_modules", "redis")); err != nil {
		missing(t, "node-redis is not installed: npm ci in testdata/node")
	}
	for _, proto := range []string{"2", "3"} {
		output(t, "", node, "testdata/node/client.mjs", startServer(t).Addr(), proto)
	}
}

// redis-benchmark asks for settings first, and prints nothing of errors.
func TestRedisBenchmark(t *testing.T) {
	benchmark := program(t, "redis-benchmark")
	s := startServer(t)
	_, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	out := output(t, "", benchmark, "-p", port, "-n", "20000", "-P", "16", "-r", "1000", "-q", "BF.ADD", "b", "__rand_int__")
	require.Contains(t, out, "requests per second")
	require.NotContains(t, strings.ToLower(out), "error")
	require.NotContains(t, out, "WARNING")
	n, err := s.Engine().BFCard("b")
	require.NoError(t, err)
	require.Greater(t, n, int64(900))
	out = output(t, "", benchmark, "-p", port, "-n", "1000", "-q", "-t", "ping,set,get")
	require.NotContains(t, strings.ToLower(out), "error")
}
