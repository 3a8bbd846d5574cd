package goredis

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redbloom-go/bloom"
)

// This file has the scripts. Each answers with a string: a state, and a digit a key.
//
// Scripts call commands on the keys that they are given and on no other, but for Rolling's buckets, whose names
// depend on the server's clock; they have the slot of the key that is given.

// script is one whose text is at hand.
type script struct {
	*redis.Script
	text string
}

func newScript(text string) *script { return &script{redis.NewScript(text), text} }

// luaTrusted is the function that says what sight.judge says, of a bitmap, in a word.
const luaTrusted = `
local function untrusted(key, gen, shape, bytes, durable)
  local marker = redis.call('GET', gen) or ''
  local there = string.match(marker, '^[01] (%S+)')
  if there and there ~= shape then return 'shape ' .. there end
  if redis.call('STRLEN', key) ~= tonumber(bytes) then return 'lost' end
  local history = string.match(marker, '^1 %S+ %S+ (%S+) %d+$')
  if not history then return 'unmarked' end
  if durable ~= '1' then
    local info = redis.call('INFO', 'replication')
    if not string.find(info, 'role:master\r', 1, true) or string.match(info, 'master_replid:(%w+)') ~= history then return 'history' end
  end
end
`

// Keys: filter, marker. Arguments: shape, bytes, durable, hashes, positions. Replies with + and a digit a key.
var scriptContains = newScript(luaTrusted + `
local key, k = KEYS[1], tonumber(ARGV[4])
local why = untrusted(key, KEYS[2], ARGV[1], ARGV[2], ARGV[3])
if why then return '-' .. why end
local out = {'+'}
for first = 5, #ARGV, k do
  local all = '1'
  for i = first, first + k - 1 do
    if redis.call('GETBIT', key, ARGV[i]) == 0 then all = '0' break end
  end
  out[#out + 1] = all
end
return table.concat(out)
`)

// Keys: filter, marker, the filter that is being built, who builds it. Arguments as above. Bits are set in every filter
// that is there, and the digit says whether that changed the first; - instead of + says that the first is not there.
// Then its marker is taken away: a filter that comes back later, from a backup or under its old name, lacks what is
// added now. One that is being built by other parameters would lack it too, so its builder must not finish.
var scriptAdd = newScript(`
local k = tonumber(ARGV[4])
local there = string.match(redis.call('GET', KEYS[2]) or '', '^[01] (%S+)')
if there and there ~= ARGV[1] then return '-shape ' .. there end
local built = string.match(redis.call('GET', KEYS[4]) or '', '^%x+ (%S+)')
if built and built ~= ARGV[1] then redis.call('DEL', KEYS[3], KEYS[4]) end
local out = {'+'}
for n = 1, 3, 2 do
  local key = KEYS[n]
  local bytes = redis.call('STRLEN', key)
  if bytes == tonumber(ARGV[2]) then
    for first = 5, #ARGV, k do
      local new = '0'
      for i = first, first + k - 1 do
        if redis.call('SETBIT', key, ARGV[i], 1) == 0 then new = '1' end
      end
      if n == 1 then out[#out + 1] = new end
    end
  elseif n == 1 then
    out[1] = '-lost'
    redis.call('DEL', KEYS[2])
  end
end
return table.concat(out)
`)

// Keys: a string that is to be zeros, marker. Arguments: its last byte, the marker of one that is not
// whole. Replies 0 if the key exists, and 1.
var scriptReserve = newScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('SETRANGE', KEYS[1], ARGV[1], '\0')
return 1
`)

// Keys: a bitmap, marker. Arguments: shape, the bytes that it is to have, if it has any.
var scriptLengthen = newScript(`
local there = string.match(redis.call('GET', KEYS[2]) or '', '^[01] (%S+)')
if there and there ~= ARGV[1] then return '-shape ' .. there end
local bytes, last = redis.call('STRLEN', KEYS[1]), tonumber(ARGV[2]) * 8 - 1
if bytes > 0 and bytes * 8 <= last then redis.call('SETBIT', KEYS[1], last, 0) end
return '+'
`)

// Keys: the filter that is being built, who builds it, two keys for work. Arguments: the builder, bytes, offset, chunk.
// The chunk's bits are added to those that are there, which other processes may have set meanwhile.
var scriptMerge = newScript(`
local key, a, b, at, chunk = KEYS[1], KEYS[3], KEYS[4], tonumber(ARGV[3]), ARGV[4]
if redis.call('GET', KEYS[2]) ~= ARGV[1] or redis.call('STRLEN', key) ~= tonumber(ARGV[2]) then return '-superseded' end
if redis.call('BITCOUNT', key, at, at + #chunk - 1) > 0 then
  redis.call('SET', a, redis.call('GETRANGE', key, at, at + #chunk - 1))
  redis.call('SET', b, chunk)
  redis.call('BITOP', 'OR', a, a, b)
  chunk = redis.call('GET', a)
  redis.call('DEL', a, b)
end
redis.call('SETRANGE', key, at, chunk)
return '+'
`)

// run calls a script once for each list of arguments, all in one round trip, and returns the replies. If the client
// must not send it again when a reply is lost, it is final.
func run(ctx context.Context, client redis.UniversalClient, s *script, keys []string, calls [][]any, final bool) ([]string, error) {
	replies := make([]string, len(calls))
	todo := make([]int, len(calls))
	for i := range calls {
		todo[i] = i
	}
	var err error
	for _, first := range [][]any{{"EVALSHA", s.Hash()}, {"EVAL", s.text}} {
		cmds := make([]*redis.Cmd, len(todo))
		send := func(n int) redis.Cmder {
			args := append(first[:2:2], len(keys))
			for _, key := range keys {
				args = append(args, key)
			}
			cmds[n] = redis.NewCmd(ctx, append(args, calls[todo[n]]...)...)
			if final {
				return once{cmds[n]}
			}
			return cmds[n]
		}
		if len(todo) == 1 {
			_ = client.Process(ctx, send(0)) // the command has the error
		} else {
			_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for n := range todo {
					_ = p.Process(ctx, send(n))
				}
				return nil
			})
		}
		var missing []int
		for n, cmd := range cmds {
			replies[todo[n]], err = cmd.Text()
			switch {
			case err == nil:
			case isReply(err, "NOSCRIPT"):
				missing = append(missing, todo[n])
			default:
				return nil, err
			}
		}
		if todo = missing; len(todo) == 0 {
			return replies, nil
		}
	}
	return nil, err
}

// refusal is what the word means that a script replied with.
func (r *remote) refusal(word string) error {
	switch name, rest, _ := strings.Cut(word, " "); name {
	case "lost":
		return fmt.Errorf("%w: there is no bitmap of the right size at key %q", ErrUnknown, r.key)
	case "unmarked":
		return fmt.Errorf("%w: nobody has marked the bitmap at key %q as whole", ErrUnknown, r.key)
	case "history":
		return fmt.Errorf("%w: the server that has key %q is a replica, or a restart or failover may have lost writes", ErrUnknown, r.key)
	case "shape":
		return r.otherShape(rest)
	case "list":
		return fmt.Errorf("%w: %q, a string that is no list of buckets", ErrWrongType, r.key)
	case "superseded":
		return ErrSuperseded
	}
	return fmt.Errorf("%w: a script replied %q", bloom.ErrCorrupt, word)
}
