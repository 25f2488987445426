-- Limits of model calls: names of keys, calls that wait, rates, slots, pauses, budgets.
-- `partition` is the hash tag `{limits}`: what applies to one call lies in one slot.

-- Instants are by a clock of their own: by how much it is ahead makes up for what Redis' clock
-- was set by. Only days are by Redis' clock.
local clock_ms = now_ms
now_ms = now_ms + (tonumber(redis.call('GET', partition .. ':ahead') or '') or 0)

-- A minute, and what a call may come late: however late within that, no minute holds too much.
local SLACK_MS = 2000
local WINDOW_MS = 60000 + SLACK_MS
-- Waiting calls of one pause come back this far apart.
local APART_MS = 10
-- A call that did not come when it was due has lost its turn.
local ABSENT_MS = 5000
-- How long what concerns a call is kept after the instant it was to come back at.
local KEPT_MS = 600000
local DAY_MS = 86400000
-- Longer than a worker tries to get an answer.
local ANSWER_KEPT_MS = 300000

local FRESH, BOOKED = 2, 1  -- how a call stands in line; 0: it has come back before, in vain

local function id(kind, name)
  return partition .. ':' .. kind .. ':' .. name
end

-- Keep a key until an instant.
local function keep(key, at)
  write('PEXPIRE', key, string.format('%.0f', at - now_ms))
end

local function number(key, field)
  return tonumber(redis.call('HGET', key, field) or '') or 0
end

-- ---- calls that wait

local function read_call(call)
  local at, rank, since, list, name =
    unpack(redis.call('HMGET', id('call', call), 'at', 'rank', 'since', 'list', 'name'))
  return {
    at = tonumber(at or ''), rank = tonumber(rank or '') or FRESH,
    since = tonumber(since or ''), list = list, name = name,
  }
end

-- Take a call off the list it waits in.
local function leave(call, mine)
  if not mine.list then return end
  write('ZREM', mine.list, call)
  if redis.call('EXISTS', mine.list) == 0 then
    write('ZREM', partition .. ':names', mine.name)
  end
  mine.list = nil
end

-- Remember when a call is to come back, and what it waits for. `kind` is the list it waits in:
-- `waiting`, or `queue` for a place.
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

-- The next instant in one of a name's lines, no sooner than `from`; the line moves on by `apart`.
local function next_in(name, line, from, apart)
  local state = id('state', name)
  local at = math.max(from, now_ms, number(state, line))
  write('HSET', state, line, at + apart)
  keep(state, at + DAY_MS)
  return math.ceil(at)
end

-- The line a call joins: those who have come back in vain go before those who have not.
local function line_of(mine, kind)
  return kind .. (mine.rank == FRESH and '.line' or '.late')
end

-- ---- rates

-- What many 429s have left of a limit, between 0 and 1; it recovers in 100 s.
local function share(name)
  local left, cut_at = unpack(redis.call('HMGET', id('state', name), 'share', 'cut_at'))
  if not left then return 1 end
  return math.min(1, tonumber(left) + (now_ms - tonumber(cut_at)) / 100000)
end

local function cut(name, apart_ms)
  local state = id('state', name)
  -- Calls that went together are refused together: that is one refusal.
  if now_ms - number(state, 'cut_at') < math.max(apart_ms, 5000) then return end
  write('HSET', state, 'share', math.max(0.05, share(name) / 2), 'cut_at', now_ms)
  keep(state, now_ms + DAY_MS)
end

-- How long a limit is used up by so many units. Rounded so that calls of one size, going one
-- after the other, fit into each minute together.
local function charge(per_minute, units)
  if units <= 0 then return 0 end
  return WINDOW_MS / math.max(1, math.floor(per_minute / math.min(units, per_minute)))
end

-- What was used this minute and the one before: for people to see.
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

-- Calls whose turn it is, and that have not come yet.
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

-- When a call that a pause holds up is to come back: the first as the pause ends, the others
-- after it one by one, all of them for the last time when their max wait is over.
local function after_pause(mine, name, from, max_wait_ms)
  local at = next_in(name, line_of(mine, 'pause'), from, APART_MS)
  return max_wait_ms and math.min(at, mine.since + max_wait_ms) or at
end

-- ---- budgets

local function budget_id(budget)
  if budget.id ~= 'day' then return budget.id end
  return string.format('day:%d', math.floor(clock_ms / DAY_MS))
end

-- Give back what calls had reserved whose worker is gone.
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
  local cost, tokens, held_cost, held_tokens, granted = unpack(redis.call('HMGET',
    id('budget', name), 'cost', 'tokens', 'held_cost', 'held_tokens', 'granted'))
  return {
    cost = tonumber(cost or '') or 0, tokens = tonumber(tokens or '') or 0,
    held_cost = tonumber(held_cost or '') or 0, held_tokens = tonumber(held_tokens or '') or 0,
    granted = tonumber(granted or '') or 0,
  }
end
