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
  local at, rank, since, list, name, asked, waited =
    unpack(redis.call('HMGET', id('call', call), 'at', 'rank', 'since', 'list', 'name', 'asked',
      'waited'))
  return {
    at = tonumber(at or ''), rank = tonumber(rank or '') or FRESH,
    since = tonumber(since or ''), list = list, name = name,
    asked = tonumber(asked or ''), waited = tonumber(waited or '') or 0,
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
    'list', list, 'name', name, 'asked', mine.asked or now_ms)
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

-- The share of a limit that is left after 429s, between 0 and 1; it recovers in 100 s. And the number
-- of its slots in allotments.
local function share(name)
  local left, cut_at, allotted =
    unpack(redis.call('HMGET', id('state', name), 'share', 'cut_at', 'allotted'))
  local lasting = left and math.min(1, tonumber(left) + (now_ms - tonumber(cut_at)) / 100000) or 1
  return lasting, tonumber(allotted or '') or 0
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

-- Release the slots of an allotment, `<allotment>|<slots>`, if it still holds them.
local function release_slots(name, slots)
  if write('ZREM', id('shares', name), slots) == 1 then
    write('HINCRBY', id('state', name), 'allotted', 0 - string.match(slots, '%d+$'))
  end
end

-- Hold slots for an allotment, or renew them.
local function hold_slots(name, slots, expires)
  if write('ZADD', id('shares', name), expires, slots) == 1 then
    write('HINCRBY', id('state', name), 'allotted', string.match(slots, '%d+$'))
  end
  write('PEXPIRE', id('shares', name), DAY_MS)
  keep(id('state', name), now_ms + DAY_MS)
end

local function free_places(limit, call)
  local held, name = id('held', limit.name), limit.name
  write_undone_by(nil, 'ZREMRANGEBYSCORE', held, '-inf', now_ms)
  local lasting, allotted = share(name)
  if allotted > 0 then
    for _, lost in ipairs(redis.call('ZRANGEBYSCORE', id('shares', name), '-inf', now_ms)) do
      release_slots(name, lost)
    end
    allotted = number(id('state', name), 'allotted')
  end
  local slots = math.max(1, math.floor(limit.concurrency * lasting))
  local mine = redis.call('ZSCORE', held, call) and 1 or 0
  return slots - redis.call('ZCARD', held) - allotted + mine
end

-- Take into account for how long a call has held its slot.
local function note_time(limit, took_ms)
  local state = id('state', limit.name)
  local before = number(state, 'held_ms')
  write('HSET', state, 'held_ms', before > 0 and before + (took_ms - before) / 5 or took_ms)
  keep(state, now_ms + DAY_MS)
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

-- Release a reservation of a budget, `<who>|<cost>|<tokens>`, if it is still held.
local function release_hold(name, hold)
  if write('ZREM', id('holds', name), hold) == 1 then
    local cost, tokens = string.match(hold, '|(%d+)|(%d+)$')
    write('HINCRBY', id('budget', name), 'held_cost', string.format('%.0f', 0 - cost))
    write('HINCRBY', id('budget', name), 'held_tokens', string.format('%.0f', 0 - tokens))
  end
end

-- Release the reservations of calls whose worker died.
local function release_lost(name)
  for _, hold in ipairs(redis.call('ZRANGEBYSCORE', id('holds', name), '-inf', now_ms)) do
    release_hold(name, hold)
  end
end

-- Reserve part of a budget, or renew what is reserved.
local function hold_budget(name, hold, expires, kept_ms)
  local spent, cost, tokens = id('budget', name), string.match(hold, '|(%d+)|(%d+)$')
  if write('ZADD', id('holds', name), expires, hold) == 1 then
    write('HINCRBY', spent, 'held_cost', cost)
    write('HINCRBY', spent, 'held_tokens', tokens)
  end
  write('ZADD', partition .. ':budgets', now_ms, name)
  for _, kept in ipairs({spent, id('holds', name), partition .. ':budgets'}) do
    write('PEXPIRE', kept, kept_ms)
  end
end

local function spend(name, cost, tokens, kept_ms)
  write('HINCRBY', id('budget', name), 'cost', string.format('%.0f', cost))
  write('HINCRBY', id('budget', name), 'tokens', string.format('%.0f', tokens))
  write('PEXPIRE', id('budget', name), kept_ms)
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

local function usd_limit(budget, has)
  return budget.own and has.limit or budget.cost
end

-- ---- waking

-- Calls that wait for a budget, of which any may find room; each wakes others in turn.
local WOKEN_AT_ONCE = 2

-- Let calls of a list try again now, and add them to `woken`.
local function wake(list, most, woken)
  if most <= 0 then return end
  for _, other in ipairs(redis.call('ZRANGEBYSCORE', list, '(' .. now_ms, '+inf', 'LIMIT', 0, most)) do
    write('ZADD', list, now_ms, other)
    write('HSET', id('call', other), 'at', now_ms)
    woken[#woken + 1] = other
  end
end

-- Wake calls that wait for what others had reserved of a budget.
local function wake_for_budget(name, woken)
  wake(id('waiting', string.match(name, '^day:') and 'day' or name), WOKEN_AT_ONCE, woken)
end

-- Wake as many calls as there are free slots.
local function wake_for_slots(limit, call, woken)
  wake(id('queue', limit.name), free_places(limit, call) - due(limit.name), woken)
end
