package goredis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// startCluster starts three nodes with a third of the slots each.
func startCluster(t *testing.T, protocol int) *redis.ClusterClient {
	ctx := t.Context()
	var nodes []*server
	var addrs []string
	for range 3 {
		s := startRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
		nodes, addrs = append(nodes, s), append(addrs, s.addr())
	}
	for i, s := range nodes {
		c := s.client()
		require.NoError(t, c.ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err())
		require.NoError(t, c.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		if i > 0 {
			require.NoError(t, nodes[0].client().ClusterMeet(ctx, "127.0.0.1", fmt.Sprint(s.port)).Err())
		}
	}
	for _, s := range nodes {
		c := s.client()
		require.Eventually(t, func() bool {
			info := c.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		}, 30*time.Second, 20*time.Millisecond)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Protocol: protocol})
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCluster(t *testing.T) {
	client, ctx := startCluster(t, 2), t.Context()
	for _, key := range []string{"users", "{users}", "app:{tenant7}:users", "a{b", "x", "y", "z"} {
		b := newTestBitmap(t, client, key, Options{})
		slot := client.ClusterKeySlot(ctx, key).Val()
		for _, sibling := range []string{b.gen, b.next, b.load, b.log, b.build, b.next + ".a"} {
			require.Equal(t, slot, client.ClusterKeySlot(ctx, sibling).Val(), sibling)
		}
		require.NoError(t, b.Reserve(ctx))
		require.NoError(t, b.AddKeys(ctx, keysUpTo(2000)))
		requireVerdicts(t, b, guard.Maybe, keysUpTo(2000))
		require.Greater(t, absentShare(t, b, keyRange(5000, 6000)), 0.9)
		require.NoError(t, b.Rebuild(ctx, scanOf(keyRange(100, 900)), RebuildOptions{}))
		requireVerdicts(t, b, guard.Maybe, keyRange(100, 900))
		f, err := b.Pull(ctx, PullOptions{})
		require.NoError(t, err)
		require.NoError(t, b.Push(ctx, f, PushOptions{}))
		require.NoError(t, b.Ready(ctx))
		client.Del(ctx, key)
		requireVerdicts(t, b, guard.Unknown, keysUpTo(3))
		require.NoError(t, b.Drop(ctx))
		r, err := NewRolling(client, key, RollingOptions{Span: time.Minute, Keep: 3, Capacity: 1000, ErrorRate: 0.01})
		require.NoError(t, err)
		require.NoError(t, r.Start(ctx))
		require.NoError(t, r.AddKeys(ctx, keysUpTo(100)))
		requireVerdicts(t, r, guard.Maybe, keysUpTo(100))
		require.NoError(t, r.Drop(ctx))
	}
	_, err := NewBitmap(client, "no}tag", BitmapOptions{Bits: 64, Hashes: 2})
	require.ErrorIs(t, err, bloom.ErrInvalid)
	f, err := NewFilter(client, "f", FilterOptions{Capacity: 10, ErrorRate: 0.1})
	require.NoError(t, err)
	require.ErrorIs(t, f.Reserve(ctx), ErrNoModule)
	_, err = f.Check(ctx, []byte("x"))
	require.ErrorIs(t, err, ErrNoModule)

	// Keys in all slots: one MGET cannot have them, the cache can.
	cache, err := NewCache[int, string](client, CacheOptions[int, string]{Prefix: "row:"})
	require.NoError(t, err)
	var ks []int
	var items []guard.Item[int, string]
	for i := range 200 {
		ks = append(ks, i)
		items = append(items, guard.Item[int, string]{Key: i, Entry: guard.Entry[string]{Value: fmt.Sprint("v", i), Missing: false}, TTL: time.Minute})
	}
	node, err := client.MasterForKey(ctx, "row:0")
	require.NoError(t, err)
	require.ErrorContains(t, node.MGet(ctx, "row:0", "row:1").Err(), "CROSSSLOT")
	require.NoError(t, cache.SetMany(ctx, items))
	got, err := cache.GetMany(ctx, append(ks, 1000))
	require.NoError(t, err)
	require.Len(t, got, 200)
	require.Equal(t, "v7", got[7].Value)
	require.NoError(t, cache.Fence(ctx, ks[:50], time.Second))
	got, err = cache.GetMany(ctx, ks)
	require.NoError(t, err)
	require.Len(t, got, 150)
}

// A slot moves to another node with its keys: a client finds them there, and since it cannot know that
// nothing was lost, they are confirmed first.
func TestClusterSlotMoves(t *testing.T) {
	client, ctx := startCluster(t, 3), t.Context()
	b := newTestBitmap(t, client, "{users}", Options{})
	require.NoError(t, b.Reserve(ctx))
	require.NoError(t, b.AddKeys(ctx, keysUpTo(500)))
	slot := client.ClusterKeySlot(ctx, "{users}").Val()
	from, err := client.MasterForKey(ctx, "{users}")
	require.NoError(t, err)
	to := from
	for i := 0; to.Options().Addr == from.Options().Addr; i++ {
		to, err = client.MasterForKey(ctx, fmt.Sprint(i))
		require.NoError(t, err)
	}
	fromID, toID := from.Do(ctx, "CLUSTER", "MYID").Val(), to.Do(ctx, "CLUSTER", "MYID").Val()
	require.NoError(t, to.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", fromID).Err())
	require.NoError(t, from.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", toID).Err())
	host, port, _ := strings.Cut(to.Options().Addr, ":")
	require.NoError(t, from.Do(ctx, "MIGRATE", host, port, b.Key(), 0, 5000).Err())
	// Half of it is here and half there.
	answers, _ := b.Verdicts(ctx, nil, keysUpTo(50))
	require.NotContains(t, answers, guard.Absent)
	require.NoError(t, from.Do(ctx, "MIGRATE", host, port, b.gen, 0, 5000).Err())
	answers, _ = b.Verdicts(ctx, nil, keysUpTo(50))
	require.NotContains(t, answers, guard.Absent)
	for _, node := range []*redis.Client{to, from} {
		require.NoError(t, node.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", toID).Err())
	}
	require.Eventually(t, func() bool { return isUnknown(b.Ready(ctx)) }, 10*time.Second, 10*time.Millisecond)
	requireVerdicts(t, b, guard.Unknown, keysUpTo(50))
	require.NoError(t, b.Confirm(ctx))
	requireVerdicts(t, b, guard.Maybe, keysUpTo(500))
}
