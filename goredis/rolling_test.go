package goredis

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// newTestRolling returns a filter of 4 buckets of a minute, and its clock, which begins at the beginning of a span.
func newTestRolling(t *testing.T, client *redis.Client) (r *Rolling, clock *time.Time) {
	r, err := NewRolling(client, freshKey(), RollingOptions{Span: time.Minute, Keep: 4, Capacity: 2000, ErrorRate: 0.001})
	require.NoError(t, err)
	now := time.Unix(1_700_000_040, 0) // 28,333,334 minutes
	r.now = func() string { return strconv.FormatInt(now.UnixMilli(), 10) }
	return r, &now
}

func TestRolling(t *testing.T) {
	client, ctx := plain(t), t.Context()
	r, now := newTestRolling(t, client)
	k := keysUpTo(10)
	// Before Start nothing is known, and an add does not change that for Span·Keep.
	requireVerdicts(t, r, guard.Unknown, k)
	answers, err := r.Add(ctx, nil, k[0], k[1])
	require.NoError(t, err)
	require.Equal(t, []guard.Verdict{guard.Unknown, guard.Unknown}, answers)
	requireVerdicts(t, r, guard.Maybe, k[:2])
	requireVerdicts(t, r, guard.Unknown, k[2:])
	for range 3 {
		*now = now.Add(time.Minute)
		requireVerdicts(t, r, guard.Maybe, k[:2])
		if now.Before(time.Unix(1_700_000_040+180, 0)) {
			requireVerdicts(t, r, guard.Unknown, k[2:])
		}
	}
	requireVerdicts(t, r, guard.Absent, k[2:]) // it began at the beginning of the oldest live span
	*now = now.Add(time.Minute)
	requireVerdicts(t, r, guard.Absent, k)

	require.NoError(t, r.Start(ctx))
	requireVerdicts(t, r, guard.Absent, k)
	answers, err = r.Add(ctx, nil, k[0], k[1], k[0])
	require.NoError(t, err)
	require.Equal(t, []guard.Verdict{guard.Absent, guard.Absent, guard.Maybe}, answers)
	*now = now.Add(90 * time.Second)
	answers, err = r.Add(ctx, nil, k[1], k[2])
	require.NoError(t, err)
	require.Equal(t, []guard.Verdict{guard.Maybe, guard.Absent}, answers)
	starts, err := r.Buckets(ctx)
	require.NoError(t, err)
	require.Equal(t, []time.Time{time.Unix(1_700_000_280, 0), time.Unix(1_700_000_340, 0)}, starts)
	first := r.bucketPrefix() + strconv.FormatInt(starts[0].UnixMilli(), 10)
	require.EqualValues(t, 1, client.Exists(ctx, first).Val())
	require.InDelta(t, 5*time.Minute, client.PTTL(ctx, first).Val(), float64(time.Minute))
	*now = time.Unix(1_700_000_280, 0).Add(4*time.Minute - 1)
	requireVerdicts(t, r, guard.Maybe, k[:3])
	*now = now.Add(1)
	requireVerdicts(t, r, guard.Absent, k[:1])
	requireVerdicts(t, r, guard.Maybe, k[1:3])
	require.NoError(t, r.AddKeys(ctx, k[5:6]))
	require.Zero(t, client.Exists(ctx, first).Val(), "deleted")

	// The clock is set back: nothing is forgotten, and keys are remembered.
	*now = now.Add(-time.Hour)
	requireVerdicts(t, r, guard.Maybe, [][]byte{k[1], k[2], k[5]})
	require.NoError(t, r.AddKeys(ctx, k[6:7]))
	*now = now.Add(time.Hour)
	requireVerdicts(t, r, guard.Maybe, [][]byte{k[1], k[2], k[5], k[6]})

	// Idle for long: all buckets go in one step.
	*now = now.Add(1000 * time.Hour)
	requireVerdicts(t, r, guard.Absent, k)
	answers, err = r.Add(ctx, nil, k[0])
	require.NoError(t, err)
	require.Equal(t, []guard.Verdict{guard.Absent}, answers)
	starts, err = r.Buckets(ctx)
	require.NoError(t, err)
	require.Len(t, starts, 1)
	require.NoError(t, r.Drop(ctx))
	require.Empty(t, client.Keys(ctx, "*"+r.Key()+"*").Val())
	starts, err = r.Buckets(ctx)
	require.NoError(t, err)
	require.Empty(t, starts)
}

// A bucket, the list, or the history is lost: the answer is Unknown until it no longer matters, and keys that are added
// after the loss are found.
func TestRollingLoss(t *testing.T) {
	client, ctx := plain(t), t.Context()
	for name, lose := range map[string]func(r *Rolling, bucket string){
		"bucket":  func(_ *Rolling, bucket string) { client.Del(ctx, bucket) },
		"shorter": func(_ *Rolling, bucket string) { client.Set(ctx, bucket, "x", 0) },
		"list":    func(r *Rolling, _ string) { client.Del(ctx, r.Key()) },
		"history": func(r *Rolling, _ string) {
			f := client.Get(ctx, r.Key()).Val()
			i := len(r.bitmap.shape) + 1
			client.Set(ctx, r.Key(), f[:i]+"00"+f[i+2:], 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, now := newTestRolling(t, client)
			k := keysUpTo(10)
			require.NoError(t, r.Start(ctx))
			require.NoError(t, r.AddKeys(ctx, k[:1]))
			*now = now.Add(time.Minute)
			require.NoError(t, r.AddKeys(ctx, k[1:2]))
			starts, err := r.Buckets(ctx)
			require.NoError(t, err)
			lose(r, r.bucketPrefix()+strconv.FormatInt(starts[0].UnixMilli(), 10))
			*now = now.Add(time.Second)
			answers, err := r.Verdicts(ctx, nil, k[:3])
			require.NoError(t, err)
			require.NotContains(t, answers, guard.Absent)
			require.NoError(t, r.AddKeys(ctx, k[3:4]))
			for range 3 {
				answers, err = r.Verdicts(ctx, nil, [][]byte{k[0], k[1], k[2], k[3]})
				require.NoError(t, err)
				require.NotContains(t, answers[:3], guard.Absent)
				require.Equal(t, guard.Maybe, answers[3])
				*now = now.Add(time.Minute)
			}
			*now = now.Add(time.Minute)
			requireVerdicts(t, r, guard.Absent, k[2:3])
		})
	}
}

// Against a model, over many spans: what was added in the last Span·(Keep−1) is found, and what is older than Span·Keep
// is not.
func TestRollingModel(t *testing.T) {
	client, ctx := plain(t), t.Context()
	r, now := newTestRolling(t, client)
	require.NoError(t, r.Start(ctx))
	random := rand.New(rand.NewPCG(1, 2))
	last := map[int]time.Time{}
	keys := keysUpTo(400)
	wrong, old := 0, 0
	for range shorter(400, 150) {
		*now = now.Add(time.Duration(random.IntN(20_000)) * time.Millisecond)
		i := random.IntN(len(keys) - 3)
		for j := i; j < i+3; j++ {
			last[j] = *now
		}
		require.NoError(t, r.AddKeys(ctx, keys[i:i+3]))
		answers, err := r.Verdicts(ctx, nil, keys)
		require.NoError(t, err)
		for j, v := range answers {
			at, added := last[j]
			switch age := now.Sub(at); {
			case added && age <= 3*time.Minute:
				require.Equal(t, guard.Maybe, v)
			case !added || age >= 4*time.Minute:
				old++
				if v != guard.Absent {
					wrong++
				}
			}
		}
	}
	require.Less(t, float64(wrong), 0.001*float64(old)+5*10, "false positives")
}

func TestRollingClock(t *testing.T) {
	client, ctx := plain(t), t.Context()
	r, err := NewRolling(client, freshKey(), RollingOptions{Span: time.Hour, Keep: 2, Capacity: 100, ErrorRate: 0.01})
	require.NoError(t, err)
	require.NoError(t, r.Start(ctx))
	require.NoError(t, r.AddKeys(ctx, keysUpTo(50)))
	requireVerdicts(t, r, guard.Maybe, keysUpTo(50))
	starts, err := r.Buckets(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, starts)
	require.WithinDuration(t, time.Now(), starts[0], time.Hour+time.Minute)
	other, err := NewRolling(client, r.Key(), RollingOptions{Span: time.Hour, Keep: 3, Capacity: 100, ErrorRate: 0.01})
	require.NoError(t, err)
	require.ErrorIs(t, other.AddKeys(ctx, keysUpTo(1)), bloom.ErrMismatch)
	for _, o := range []RollingOptions{
		{}, {Span: time.Hour, Keep: 1, Capacity: 10, ErrorRate: 0.1}, {Span: time.Microsecond, Keep: 3, Capacity: 10, ErrorRate: 0.1},
		{Span: time.Hour, Keep: 3}, {Span: time.Hour, Keep: 3, Capacity: 10, ErrorRate: 9},
	} {
		_, err := NewRolling(client, "k", o)
		require.ErrorIs(t, err, bloom.ErrInvalid)
	}
}

// A lost reply is never sent again where the answer to the second would be another.
func TestRollingLostReply(t *testing.T) {
	client, ctx := plain(t), t.Context()
	r, _ := newTestRolling(t, client)
	require.NoError(t, r.Start(ctx))
	var lose atomic.Bool
	bad := connect(t, client.Options().Addr, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, _, addr string) (net.Conn, error) {
			c, err := net.Dial("unix", addr)
			return &forgetful{c, &lose}, err
		}
	})
	r.bitmap.client = bad
	require.NoError(t, r.AddKeys(ctx, keysUpTo(1)))
	for _, n := range []int{2, maxPositions} { // one script, and several
		require.NoError(t, bad.Ping(ctx).Err()) // over the connection that is broken next
		lose.Store(true)
		_, err := r.Add(ctx, nil, keysUpTo(n)[1:]...)
		require.Error(t, err)
		require.False(t, lose.Load())
		require.NoError(t, bad.Ping(ctx).Err())
		lose.Store(true)
		require.NoError(t, r.AddKeys(ctx, keysUpTo(n)), "there is no answer that could be another")
		require.False(t, lose.Load())
		requireVerdicts(t, r, guard.Maybe, keysUpTo(2))
	}
}

// forgetful is a connection that loses a reply.
type forgetful struct {
	net.Conn
	lose *atomic.Bool
}

func (c *forgetful) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.lose.CompareAndSwap(true, false) {
		c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// At a key that holds something else, nothing is changed.
func TestRollingAtAnotherKey(t *testing.T) {
	client, ctx, key := plain(t), t.Context(), freshKey()
	r, err := NewRolling(client, key, RollingOptions{Span: time.Hour, Keep: 3, Capacity: 100, ErrorRate: 0.1})
	require.NoError(t, err)
	b := newTestBitmap(t, client, key, Options{})
	require.NoError(t, b.Reserve(ctx))
	require.NoError(t, b.AddKeys(ctx, keysUpTo(10)))
	for range 2 {
		answers, err := r.Verdicts(ctx, nil, keysUpTo(2))
		require.ErrorIs(t, err, ErrWrongType)
		require.Equal(t, []guard.Verdict{guard.Unknown, guard.Unknown}, answers)
		require.ErrorIs(t, r.AddKeys(ctx, keysUpTo(2)), ErrWrongType)
		require.ErrorIs(t, r.Start(ctx), ErrWrongType)
		require.ErrorIs(t, r.Drop(ctx), ErrWrongType)
		_, err = r.Buckets(ctx)
		require.ErrorIs(t, err, ErrWrongType)
		if b.Ready(ctx) != nil {
			break
		}
		requireVerdicts(t, b, guard.Maybe, keysUpTo(10))
		require.NoError(t, b.Drop(ctx))
		require.NoError(t, client.LPush(ctx, key, "a list").Err())
	}
	require.NoError(t, client.Del(ctx, key).Err())
	// And the other way round.
	require.NoError(t, r.Start(ctx))
	require.NoError(t, r.AddKeys(ctx, keysUpTo(2)))
	requireVerdicts(t, b, guard.Unknown, keysUpTo(2))
	require.NoError(t, b.AddKeys(ctx, keysUpTo(2)))
	requireVerdicts(t, r, guard.Maybe, keysUpTo(2))
}
