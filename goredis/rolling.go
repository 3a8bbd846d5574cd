package goredis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
	"github.com/redbloom-go/bloom/guard"
)

// Rolling is a filter in Redis that forgets by itself, a bucket of time at a time, as rolling.Rotating does in a
// process: keys go into the bucket of the present span, a key is contained while any bucket that has it is live, and a
// bucket is deleted as a whole. It needs no module: a bucket is a bitmap, and every call a script and one round trip. A
// key is remembered for more than Span·(Keep−1) and at most Span·Keep from the moment at which it was added last, by
// the clock of the server. When that is set back, keys go into the latest bucket that there is.
//
// The key itself holds the list of buckets, and each bucket is at a key with the time of its beginning behind it, such
// as "{seen}~1700000000000". Those expire by themselves too. It heals by itself: where buckets were lost, or a restart
// or a failover may have lost writes, the answer for keys that are in no bucket is Unknown, until all that was lost
// would be forgotten by then anyway: Span·Keep after the next add.
//
// It fits guard.Options.Filter, with which rows are to be remembered for a time only.
type Rolling struct {
	bitmap *Bitmap // has the parameters of each bucket
	o      RollingOptions
	now    func() string // "" for the server's clock
}

// RollingOptions say what a [Rolling] is. All who use a key must agree on them.
type RollingOptions struct {
	Span time.Duration // of a bucket, whole milliseconds
	Keep int           // buckets that are live, 2 … 1000

	// Capacity is for the keys of one bucket. ErrorRate is that of all buckets together: each has ErrorRate/Keep.
	Capacity  uint64
	ErrorRate float64

	Hash []bloom.Option // as in BitmapOptions

	Options
}

// NewRolling returns the filter at key. It sends nothing. The error wraps bloom.ErrInvalid for bad parameters, and
// bloom.ErrTooLarge for a bucket that no Redis string holds.
func NewRolling(client redis.UniversalClient, key string, o RollingOptions) (*Rolling, error) {
	if o.Span < time.Millisecond || o.Span%time.Millisecond != 0 || o.Keep < 2 || o.Keep > 1000 {
		return nil, fmt.Errorf("%w: Span is %v, want whole milliseconds, and Keep %d, want 2 … 1000", bloom.ErrInvalid, o.Span, o.Keep)
	}
	b, err := NewBitmap(client, key, BitmapOptions{Capacity: o.Capacity, ErrorRate: o.ErrorRate / float64(o.Keep), Hash: o.Hash, Options: o.Options})
	if err != nil {
		return nil, err
	}
	b.shape = fmt.Sprintf("rolling:%d:%d:%s", o.Span.Milliseconds(), o.Keep, strings.TrimPrefix(b.shape, "bitmap:"))
	return &Rolling{b, o, func() string { return "" }}, nil
}

// luaRolling reads the list: "shape history since first,second,…". Since is the time from which on the
// buckets have all keys, 0 for always. Arguments as in scriptContains, then now, span, keep and the
// beginning of bucket keys before the positions.
const luaRolling = `
local shape, bytes, durable, k, now, span, keep, prefix =
  ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8]
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
local current = now - now % span
local history, master = '-', true
if durable ~= '1' then
  local info = redis.call('INFO', 'replication')
  master = string.find(info, 'role:master\r', 1, true)
  history = string.match(info, 'master_replid:(%w+)') or '?'
end
local list = redis.call('GET', KEYS[1])
local there, of, since, starts = nil, nil, now, {}
if list then
  local names
  there, of, since, names = string.match(list, '^(rolling:%S+) (%S+) (%d+) ([%d,]*)$')
  if not there then return '-list' end
  if there ~= shape then return '-shape ' .. there end
  since = tonumber(since)
  for start in string.gmatch(names, '%d+') do
    start = tonumber(start)
    if start > current then current = start end
    starts[#starts + 1] = start
  end
end
local oldest = current - (keep - 1) * span
local function name(start) return prefix .. string.format('%.0f', start) end
local lost = not there or of ~= history
local live = {}
for _, start in ipairs(starts) do
  if start >= oldest then
    if redis.call('STRLEN', name(start)) == bytes then live[#live + 1] = start else lost = true end
  end
end
local function contained(first)
  for n = #live, 1, -1 do
    local key, all = name(live[n]), true
    for i = first, first + k - 1 do
      if redis.call('GETBIT', key, ARGV[i]) == 0 then all = false break end
    end
    if all then return '1' end
  end
  return '0'
end
local whole = master and not lost and since <= oldest
local out = {}
`

// Replies with + and a digit a key, 1 for what is contained, 0 for what is not, and ? for what is in no bucket while
// buckets are lacking.
var scriptRollingContains = newScript(luaRolling + `
for first = 9, #ARGV, k do
  local answer = contained(first)
  if answer == '0' and not whole then answer = '?' end
  out[#out + 1] = answer
end
return '+' .. table.concat(out)
`)

// Adds keys, and replies what the other script would have before. Writes the list whenever it changes.
var scriptRollingAdd = newScript(luaRolling + `
if lost then since = now end
local has = false
local names = {}
for _, start in ipairs(live) do
  has = has or start == current
  names[#names + 1] = string.format('%.0f', start)
end
for _, start in ipairs(starts) do
  if start < oldest then redis.call('DEL', name(start)) end
end
if not has then
  redis.call('SETRANGE', name(current), bytes - 1, '\0')
  redis.call('PEXPIRE', name(current), span * (keep + 1))
  names[#names + 1] = string.format('%.0f', current)
  live[#live + 1] = current
end
local new = shape .. ' ' .. history .. ' ' .. string.format('%.0f', since) .. ' ' .. table.concat(names, ',')
if new ~= list then redis.call('SET', KEYS[1], new) end
for first = 9, #ARGV, k do
  local answer = contained(first)
  for i = first, first + k - 1 do redis.call('SETBIT', name(current), ARGV[i], 1) end
  if answer == '0' and not whole then answer = '?' end
  out[#out + 1] = answer
end
return '+' .. table.concat(out)
`)

// Key returns the key of the filter.
func (r *Rolling) Key() string { return r.bitmap.key }

// Start makes an empty filter in the place of what there is, which answers Absent at once: nothing was seen before it
// returns. Without it, the filter begins with the first add, and answers Unknown until that is Span·Keep ago. It
// returns an error that wraps [ErrWrongType], and does nothing, if the key holds something else.
func (r *Rolling) Start(ctx context.Context) error {
	history, err := r.bitmap.history(ctx)
	if err != nil {
		return err
	}
	if err := r.Drop(ctx); err != nil {
		return err
	}
	return r.bitmap.client.Set(ctx, r.Key(), r.bitmap.shape+" "+history+" 0 ", 0).Err()
}

// Drop deletes the filter with its buckets. Errors are as of [Rolling.Start].
func (r *Rolling) Drop(ctx context.Context) error {
	starts, err := r.starts(ctx)
	if err != nil {
		return err
	}
	names := []string{r.Key()}
	for _, start := range starts {
		names = append(names, r.bucketPrefix()+strconv.FormatInt(start, 10))
	}
	return r.bitmap.client.Del(ctx, names...).Err()
}

// starts reads the list, of which there may be none.
func (r *Rolling) starts(ctx context.Context) (starts []int64, err error) {
	list, err := r.bitmap.client.Get(ctx, r.Key()).Result()
	if err == redis.Nil {
		return nil, nil
	}
	if err != nil {
		return nil, r.bitmap.explain(err)
	}
	fields := strings.Split(list, " ")
	if len(fields) != 4 || !strings.HasPrefix(list, "rolling:") {
		return nil, r.bitmap.refusal("list")
	}
	for text := range strings.SplitSeq(fields[3], ",") {
		if text == "" { // there is no bucket
			continue
		}
		start, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, r.bitmap.refusal("list")
		}
		starts = append(starts, start)
	}
	return starts, nil
}

func (r *Rolling) bucketPrefix() string { return strings.TrimSuffix(r.bitmap.gen, "gen") }

func (r *Rolling) ask(ctx context.Context, dst []guard.Verdict, s *script, keys [][]byte, final bool) ([]guard.Verdict, error) {
	if len(keys) == 0 {
		return dst, nil
	}
	calls := r.bitmap.calls(keys)
	for i, args := range calls {
		more := append(make([]any, 0, len(args)+4), args[:4]...)
		more = append(more, r.now(), r.o.Span.Milliseconds(), r.o.Keep, r.bucketPrefix())
		calls[i] = append(more, args[4:]...)
	}
	digits, err := r.bitmap.digits(ctx, s, []string{r.Key()}, calls, len(keys), final)
	if err != nil {
		return unknowns(dst, len(keys), err)
	}
	for _, d := range []byte(digits) {
		if d == '?' {
			dst = append(dst, guard.Unknown)
		} else {
			dst = append(dst, verdict(d == '1'))
		}
	}
	return dst, nil
}

// Verdicts appends one verdict a key to dst, in one round trip: Maybe for what a live bucket has; Absent for
// what is in none, if the buckets have all keys that were added since the oldest of them began; Unknown
// otherwise. Errors are as in [Bitmap.Verdicts].
func (r *Rolling) Verdicts(ctx context.Context, dst []guard.Verdict, keys [][]byte) ([]guard.Verdict, error) {
	return r.ask(ctx, dst, scriptRollingContains, keys, false)
}

// Add adds keys to the bucket of the present span and appends to dst what [Rolling.Verdicts] would have answered for
// each just before. Of processes that add a new key at the same time, one alone is answered Absent. The first add of a
// span makes the bucket and deletes those that are over. On error keys may have been added: the client does not send an
// add again, whatever its MaxRetries is, since the answer to the second would be Maybe for a key that nobody had seen.
func (r *Rolling) Add(ctx context.Context, dst []guard.Verdict, keys ...[]byte) ([]guard.Verdict, error) {
	return r.ask(ctx, dst, scriptRollingAdd, keys, true)
}

// AddKeys is Add without the answers, which the client may send again.
func (r *Rolling) AddKeys(ctx context.Context, keys [][]byte) error {
	_, err := r.ask(ctx, nil, scriptRollingAdd, keys, false)
	return err
}

// Buckets returns when each bucket that is listed began, oldest first. Those whose time is over are listed until the
// next add.
func (r *Rolling) Buckets(ctx context.Context) ([]time.Time, error) {
	starts, err := r.starts(ctx)
	var times []time.Time
	for _, start := range starts {
		times = append(times, time.UnixMilli(start))
	}
	return times, err
}
