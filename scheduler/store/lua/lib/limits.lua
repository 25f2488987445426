-- Limits of model calls: key names, waiting calls, rates, slots, pauses, budgets.
-- `partition` is the hash tag `{limits}`: everything that applies to one call is in one slot.

-- Instants are by the limits' own clock: Redis' clock plus `ahead`, which makes up for changes of
-- Redis' clock. Only days are by Redis' clock.
local clock_ms = now_ms
now_ms = now_ms + (tonumber(redis.call('GET', partition .. ':ahead') or '') or 0)

-- A minute plus the delay allowed for calls: within that, no minute ever holds too many.
local SLACK_MS = 2000
local WINDOW_MS = 60000 + SLACK_MS
-- Calls that wait for one pause try again this far apart.
local APART_MS = 10
-- A call this late has lost its turn.
local ABSENT_MS = 5000
-- How long data of a call is kept after the instant at which it was to try again.
local KEPT_MS = 600000
local DAY_MS = 86400000
-- Longer than a worker keeps retrying for an answer.
local ANSWER_KEPT_MS = 300000

local FRESH, BOOKED = 2, 1  -- rank of a call in line; 0: it has been retried without success before

local function id(kind, name)
  return partition .. ':' .. kind .. ':' .. name
end

-- Let a key expire at an instant.
local function keep(key, at)
  write('PEXPIRE', key, string.format('%.0f', at - now_ms))
end

local function number(key, field)
  return tonumber(redis.call('HGET', key, field) or '') or 0
end

-- ---- waiting calls

local function read_call(call)
  local at, rank, since, list, name =
    unpack(redis.call('HMGET', id('call', call), 'at', 'rank', 'since', 'list', 'name'))
  return {
    at = tonumber(at or ''), rank = tonumber(rank or '') or FRESH,
    since = tonumber(since or ''), list = list, name = name,
  }
end

-- Remove a call from the list it waits in.
local function leave(call, mine)
  if not mine.list then return end
  write('ZREM', mine.list, call)
  if redis.call('EXISTS', mine.list) == 0 then
    write('ZREM', partition .. ':names', mine.name)
  end
  mine.list = nil
end

-- Record when a call is to try again, and what it waits for. `kind` is the list it waits in:
-- `waiting`, or `queue` for a slot.
local function book(call, mine, kind, name, at)
  leave(call, mine)
  local list, expires = id(kind, name), at + KEPT_MS
  write_undone_by(nil, 'ZREMRANGEBYSCORE', list, '-inf', now_ms - KEPT_MS)
  write('ZADD', list, at, call)
  write('HSET', id('call', call), 'at', at, 'rank', math.max(0, mine.rank - 1),
    'list', list, 'name', name)
  if mine.since then
    write('HSET', id('call', call), 'since', mine.since)
  end
  keep(id('call', call), expires)
  write('ZADD', partition .. ':names', now_ms, name)
  for _, kept in ipairs({list, partition .. ':names'}) do
    if redis.call('PTTL', kept) < at - now_ms + KEPT_MS then
      keep(kept, expires)
    end
  end
end

-- The next free instant of a line, not before `from`; the line advances by `apart`.
local function next_in(name, line, from, apart)
  local state = id('state', name)
  local at = math.max(from, now_ms, number(state, line))
  write('HSET', state, line, at + apart)
  keep(state, at + DAY_MS)
  return math.ceil(at)
end

-- The line a call joins: calls that have been retried without success go before others.
local function line_of(mine, kind)
  return kind .. (mine.rank == FRESH and '.line' or '.late')
end

-- ---- rates

-- The share of a limit that is left after 429s, between 0 and 1; it recovers in 100 s.
local function share(name)
  local left, cut_at = unpack(redis.call('HMGET', id('state', name), 'share', 'cut_at'))
  if not left then return 1 end
  return math.min(1, tonumber(left) + (now_ms - tonumber(cut_at)) / 100000)
end

local function cut(name, apart_ms)
  local state = id('state', name)
  -- Calls made together are refused together: that counts as one refusal.
  if now_ms - number(state, 'cut_at') < math.max(apart_ms, 5000) then return end
  write('HSET', state, 'share', math.max(0.05, share(name) / 2), 'cut_at', now_ms)
  keep(state, now_ms + DAY_MS)
end

-- For how long so many units use up a limit. Rounded so that equal calls, one after the other,
-- fit into each minute together.
local function charge(per_minute, units)
  if units <= 0 then return 0 end
  return WINDOW_MS / math.max(1, math.floor(per_minute / math.min(units, per_minute)))
end

-- Usage of this minute and the one before, for display.
local function count(state, kind, units)
  local minute = math.floor(now_ms / 60000)
  local counted, so_far = unpack(redis.call('HMGET', state, kind .. '.minute', kind .. '.count'))
  if tonumber(counted or '') == minute then
    write('HINCRBY', state, kind .. '.count', string.format('%.0f', units))
    return
  end
  local before = tonumber(counted or '') == minute - 1 and so_far or 0
  write('HSET', state, kind .. '.minute', minute, kind .. '.before', before,
    kind .. '.count', string.format('%.0f', units))
end

-- ---- slots

local function free_places(limit, call)
  local held = id('held', limit.name)
  write_undone_by(nil, 'ZREMRANGEBYSCORE', held, '-inf', now_ms)
  local slots = math.max(1, math.floor(limit.concurrency * share(limit.name)))
  local mine = redis.call('ZSCORE', held, call) and 1 or 0
  return slots - redis.call('ZCARD', held) + mine
end

-- The number of calls whose turn it is, but that have not come yet.
local function due(name)
  return redis.call('ZCOUNT', id('queue', name), now_ms - ABSENT_MS, now_ms)
end

-- ---- pauses

local function read_pause(name)
  local text = redis.call('HGET', partition .. ':pauses', name)
  return text and cjson.decode(text)
end

local function write_pause(name, pause)
  write('HSET', partition .. ':pauses', name, cjson.encode(pause))
  keep(partition .. ':pauses', now_ms + DAY_MS)
end

-- When a call held up by a pause is to try again: the first as the pause ends, the others one by
-- one after it, and each for the last time when its max wait ends.
local function after_pause(mine, name, from, max_wait_ms)
  local at = next_in(name, line_of(mine, 'pause'), from, APART_MS)
  return max_wait_ms and math.min(at, mine.since + max_wait_ms) or at
end

-- ---- budgets

local function budget_id(budget)
  if budget.id ~= 'day' then return budget.id end
  return string.format('day:%d', math.floor(clock_ms / DAY_MS))
end

-- Release the reservations of calls whose worker died.
local function release_lost(name)
  local holds, spent = id('holds', name), id('budget', name)
  for _, hold in ipairs(redis.call('ZRANGEBYSCORE', holds, '-inf', now_ms)) do
    local cost, tokens = string.match(hold, '|(%d+)|(%d+)$')
    write('ZREM', holds, hold)
    write('HINCRBY', spent, 'held_cost', string.format('%.0f', 0 - cost))
    write('HINCRBY', spent, 'held_tokens', string.format('%.0f', 0 - tokens))
  end
end

local function read_budget(name)
  local cost, tokens, held_cost, held_tokens, granted, begun, limit, told =
    unpack(redis.call('HMGET', id('budget', name), 'cost', 'tokens', 'held_cost', 'held_tokens',
      'granted', 'begun', 'limit', 'told'))
  return {
    cost = tonumber(cost or '') or 0, tokens = tonumber(tokens or '') or 0,
    held_cost = tonumber(held_cost or '') or 0, held_tokens = tonumber(held_tokens or '') or 0,
    granted = tonumber(granted or '') or 0, begun = begun, limit = tonumber(limit or '') or nil,
    told = told,
  }
end
