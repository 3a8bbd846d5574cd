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

// luaTrusted is the function that says what sight.judge says, of a bitmap, in a word.
const luaTrusted = `
local function untrusted(key, gen, shape, bytes, durable)
  if redis.call('STRLEN', key) ~= tonumber(bytes) then return 'lost' end
  local marker = redis.call('GET', gen)
  if not marker then return 'unmarked' end
  local there, history = string.match(marker, '^1 (%S+) %S+ (%S+) %d+$')
  if not there then return 'unmarked' end
  if there ~= shape then return 'shape ' .. there end
  if durable ~= '1' then
    local info = redis.call('INFO', 'replication')
    if not string.find(info, 'role:master\r', 1, true) or string.match(info, 'master_replid:(%w+)') ~= history then return 'history' end
  end
end
`

// Keys: filter, marker. Arguments: shape, bytes, durable, hashes, positions. Replies with + and a digit a key.
var scriptContains = redis.NewScript(luaTrusted + `
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

// Keys: filter, marker, the filter that is being built. Arguments as above. Bits are set in every filter that is there, and
// the digit says whether that changed the first; - instead of + says that the first is not there.
var scriptAdd = redis.NewScript(`
local k = tonumber(ARGV[4])
local marker = redis.call('GET', KEYS[2])
local there = marker and string.match(marker, '^1 (%S+) ')
if there and there ~= ARGV[1] then return '-shape ' .. there end
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
  end
end
return table.concat(out)
`)

// Key: a string that is to be zeros. Argument: its last byte. Replies 0 if the key exists, and 1.
var scriptReserve = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SETRANGE', KEYS[1], ARGV[1], '\0')
return 1
`)

// Key: a bitmap. Argument: the bytes that it is to have, if it has any.
var scriptLengthen = redis.NewScript(`
local bytes, last = redis.call('STRLEN', KEYS[1]), tonumber(ARGV[1]) * 8 - 1
if bytes > 0 and bytes * 8 <= last then redis.call('SETBIT', KEYS[1], last, 0) end
return 1
`)

// Keys: the filter that is being built, who builds it, two keys for work. Arguments: the builder, bytes, offset, chunk. The chunk's bits are
// added to those that are there, which other processes may have set meanwhile.
var scriptMerge = redis.NewScript(`
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

// run calls a script once for each list of arguments, all in one round trip, and returns the replies.
func run(ctx context.Context, client redis.UniversalClient, s *redis.Script, keys []string, calls [][]any) ([]string, error) {
	if len(calls) == 1 {
		reply, err := s.Run(ctx, client, keys, calls[0]...).Text()
		return []string{reply}, err
	}
	replies, err := pipelined(ctx, client, calls, func(p redis.Pipeliner, _ int, args []any) *redis.Cmd { return s.EvalSha(ctx, p, keys, args...) })
	if isReply(err, "NOSCRIPT") { // the first call brings the script for the others
		replies, err = pipelined(ctx, client, calls, func(p redis.Pipeliner, i int, args []any) *redis.Cmd {
			if i == 0 {
				return s.Eval(ctx, p, keys, args...)
			}
			return s.EvalSha(ctx, p, keys, args...)
		})
	}
	return replies, err
}

func pipelined(ctx context.Context, client redis.UniversalClient, calls [][]any, call func(p redis.Pipeliner, i int, args []any) *redis.Cmd) ([]string, error) {
	cmds := make([]*redis.Cmd, len(calls))
	client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, args := range calls {
			cmds[i] = call(p, i, args)
		}
		return nil
	}) // its error is that of one of the commands
	replies := make([]string, len(calls))
	for i, cmd := range cmds {
		reply, err := cmd.Text()
		if err != nil {
			return nil, err
		}
		replies[i] = reply
	}
	return replies, nil
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
	case "superseded":
		return ErrSuperseded
	}
	return fmt.Errorf("%w: a script replied %q", bloom.ErrCorrupt, word)
}
