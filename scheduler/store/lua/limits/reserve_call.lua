-- Admit a model call if every limit, pause and budget allows it, or say when to try again.
-- KEYS partition
-- ARGV call spec
-- spec: JSON, as scheduler/store/rate_limiter.py makes it
-- USES limits
-- OK   verdict delay_ms name why detail
--      verdict: go | wait | refused | begin, if the day's budget has to be started first
--      why: requests | tokens | concurrency | pause | command | budget | held
--      detail: the reason of a pause; what is spent of a budget, JSON; for `go` what is reserved, and
--      how long the call has waited, JSON
--      for `go`, delay_ms is the number of tokens that the reply is limited to, or 0, and name the
--      budget that limits it
local reservation = cjson.decode(spec)
local mine = read_call(call)
local max_wait_ms = reservation.max_wait_ms

-- A call that can use another model takes no place in line: it would not come back, and later calls
-- would wait behind nobody.
local function passes_on(name, why, at)
  return {'OK', {}, 'wait', math.ceil(at - now_ms), name, why, ''}
end

local function wait(kind, name, why, at, detail, for_person)
  book(call, mine, kind, name, at)
  if for_person then
    for _, run in ipairs(reservation.runs) do
      write('HSET', partition .. ':people', run, name)
    end
    keep(partition .. ':people', now_ms + 7 * DAY_MS)
  end
  return {'OK', {}, 'wait', math.ceil(at - now_ms), name, why, detail or ''}
end

-- Early, because of a redelivery: its instant stands.
if mine.at and now_ms < mine.at then
  return {'OK', {}, 'wait', mine.at - now_ms, mine.name, 'booked', ''}
end

-- ---- pauses
local probing = {}
for _, name in ipairs(reservation.names) do
  local command = redis.call('HGET', partition .. ':settings', name .. '.paused')
  if command then
    -- The command that ends the pause wakes the waiting calls.
    local at = next_in(name, line_of(mine, 'pause'), now_ms + KEPT_MS, APART_MS)
    return wait('waiting', name, 'command', at, command, true)
  end
  local pause = read_pause(name)
  if pause and (reservation.next_model or max_wait_ms > 0) then
    local closed = now_ms < pause.until_ms
    local tried = not closed and pause.kind ~= 'throttled' and pause.probe ~= call
      and now_ms < (pause.probe_until or 0)
    if (closed or tried) and reservation.next_model then
      return {'OK', {}, 'refused', 0, name, 'pause', pause.reason}
    end
    mine.since = mine.since or now_ms
    if now_ms < mine.since + max_wait_ms then
      if closed or tried then
        local from = closed and pause.until_ms or now_ms + 1000
        local at = after_pause(mine, name, from, max_wait_ms)
        return wait('waiting', name, 'pause', at, pause.reason)
      end
      if pause.kind ~= 'throttled' then
        probing[name] = pause
      end
    end
  end
end

-- ---- limits
local charges, slots = {}, {}
local latest
for _, limit in ipairs(reservation.limits) do
  local name, state = limit.name, id('state', limit.name)
  for _, kind in ipairs({'requests', 'tokens'}) do
    if limit[kind] then
      local flow, late, line = unpack(redis.call('HMGET', state,
        kind .. '.flow', kind .. '.late', kind .. '.line'))
      local slot = tonumber(flow or '') or 0
      if mine.rank >= BOOKED then slot = math.max(slot, tonumber(late or '') or 0) end
      if mine.rank >= FRESH then slot = math.max(slot, tonumber(line or '') or 0) end
      local units = kind == 'requests' and 1 or reservation.tokens
      local apart = charge(math.max(1, limit[kind] * share(name)), units)
      charges[#charges + 1] = {state = state, kind = kind, apart = apart, units = units}
      if slot > now_ms + SLACK_MS and (not latest or slot > latest.slot) then
        latest = {name = name, kind = kind, slot = slot, apart = apart}
      end
    end
  end
end
if latest and reservation.next_model then
  return passes_on(latest.name, latest.kind, latest.slot)
elseif latest then
  local at = next_in(latest.name, line_of(mine, latest.kind), latest.slot, latest.apart)
  return wait('waiting', latest.name, latest.kind, at)
end
for _, limit in ipairs(reservation.limits) do
  if limit.concurrency then
    local free = free_places(limit, call)
    local before_me = mine.rank == FRESH and due(limit.name) or 0
    if free <= before_me then
      local held_ms = number(id('state', limit.name), 'held_ms')
      local apart = math.max(50, (held_ms > 0 and held_ms or 5000) / limit.concurrency)
      if reservation.next_model then return passes_on(limit.name, 'concurrency', now_ms + apart) end
      local at = next_in(limit.name, line_of(mine, 'concurrency'), now_ms + apart, apart)
      return wait('queue', limit.name, 'concurrency', at)
    end
  end
end

-- ---- budgets
-- A reply that would be too long for what is left of a budget is limited to what fits. What other
-- calls have reserved does not count: it is waited for.
local limited, limited_by = 0, ''
local reply = reservation.reply
if reply then
  local fit = reservation.worst_tokens - reply.prompt_tokens
  local least = math.min(reply.least_tokens, fit)
  for _, budget in ipairs(reservation.budgets) do
    if budget.on_excess ~= 'stop' then
      local has = read_budget(budget_id(budget))
      local more, usd = 1 + has.granted, usd_limit(budget, has)
      local left = budget.tokens and budget.tokens * more - has.tokens - reply.prompt_tokens or fit
      if usd and reply.token_cost > 0 then
        local left_cost = usd * more - has.cost - reply.prompt_cost
        left = math.min(left, math.floor(left_cost / reply.token_cost))
      end
      if left < fit then fit, limited_by = left, budget.id end
    end
  end
  if limited_by ~= '' and fit >= least then
    limited = fit
    reservation.worst_tokens = reply.prompt_tokens + fit
    reservation.cost = math.ceil(reply.prompt_cost + fit * reply.token_cost)
  end
end

local hold = string.format('%s|%.0f|%.0f', call, reservation.cost, reservation.worst_tokens)
local budgets = {}
for _, budget in ipairs(reservation.budgets) do
  local name = budget_id(budget)
  release_lost(name)
  budgets[#budgets + 1] = name
  if not redis.call('ZSCORE', id('holds', name), hold) then
    local has = read_budget(name)
    if budget.id == 'day' and not has.begun then
      return {'OK', {}, 'begin', 0, name, 'budget', ''}
    end
    local more, usd = 1 + has.granted, usd_limit(budget, has)
    local over = usd and has.cost + reservation.cost > usd * more
      or budget.tokens and has.tokens + reservation.worst_tokens > budget.tokens * more
    local detail = cjson.encode(has)
    if over and budget.on_excess == 'fail' then
      return {'OK', {}, 'refused', 0, budget.id, 'budget', detail}
    elseif over and budget.on_excess == 'pause' then
      local from = now_ms + KEPT_MS
      if budget.id == 'day' then
        from = math.min(from, now_ms + DAY_MS - clock_ms % DAY_MS)
      end
      local at = next_in(budget.id, line_of(mine, 'budget'), from, APART_MS)
      return wait('waiting', budget.id, 'budget', at, detail, true)
    elseif budget.on_excess ~= 'stop'
      and (usd and has.cost + has.held_cost + reservation.cost > usd * more
        or budget.tokens
          and has.tokens + has.held_tokens + reservation.worst_tokens > budget.tokens * more) then
      -- Part of what running calls have reserved may be left over.
      local at = next_in(budget.id, line_of(mine, 'held'), now_ms + 1000, 100)
      return wait('waiting', budget.id, 'held', at, detail)
    end
  end
end

-- ---- admit it
for _, c in ipairs(charges) do
  count(c.state, c.kind, c.units)
  write('HSET', c.state, c.kind .. '.flow',
    math.max(now_ms, number(c.state, c.kind .. '.flow')) + c.apart)
  if mine.rank == FRESH and number(c.state, c.kind .. '.line') > now_ms then
    write('HINCRBYFLOAT', c.state, c.kind .. '.line', c.apart)
  end
  keep(c.state, math.max(now_ms, number(c.state, c.kind .. '.line')) + DAY_MS)
end
for _, limit in ipairs(reservation.limits) do
  if limit.concurrency then
    write('ZADD', id('held', limit.name), now_ms + reservation.lease_ms, call)
    write('PEXPIRE', id('held', limit.name), DAY_MS)
  end
end
for _, name in ipairs(budgets) do
  hold_budget(name, hold, now_ms + reservation.lease_ms, reservation.kept_ms)
end
if #budgets > 0 then
  write_undone_by(nil, 'ZREMRANGEBYSCORE', partition .. ':budgets', '-inf', now_ms - reservation.kept_ms)
end
for name, pause in pairs(probing) do
  pause.probe, pause.probe_until = call, now_ms + 30000
  write_pause(name, pause)
end
leave(call, mine)
write('HDEL', id('call', call), 'at', 'rank', 'list', 'name', 'asked')
local waited = mine.waited + (mine.asked and now_ms - mine.asked or 0)
if waited > 0 then
  write('HSET', id('call', call), 'waited', waited)
end
if mine.since then
  write('HSET', id('call', call), 'since', mine.since)
end
if waited > 0 or mine.since then
  write('PEXPIRE', id('call', call), DAY_MS)
end
write('HDEL', partition .. ':people', unpack(reservation.runs))
return {'OK', {}, 'go', limited, limited_by, '', cjson.encode({
  budgets = budgets, cost = reservation.cost, worst_tokens = reservation.worst_tokens,
  waited_ms = waited})}
