-- Shift a partition's timers by lost time, which must not count; at most once.
-- KEYS partition
-- ARGV back_ms expected_ms least_ms lease_ms
-- back_ms: when Redis came back after an outage; 0 without one
-- expected_ms: what the clock would show if it had not been set; 0 if it was not
-- least_ms: a shorter outage counts as ordinary time
-- USES store hooks hours listed indexes dispatch waiting
-- OK   gap_ms  by how much everything was shifted; 0 if another scheduler has done it already
local swept = tonumber(redis.call('GET', partition .. ':swept') or now_ms)
local back, expected = tonumber(back_ms), tonumber(expected_ms)
local about = 1000  -- more than sweeps are apart, or clocks differ

local gap = 0
if back > 0 and back - swept >= tonumber(least_ms) then
  gap = back - swept
elseif expected > 0 then
  -- The instant of the last sweep tells whether it was before the clock was set.
  local ahead = now_ms > expected
  if ahead and swept < expected + about or not ahead and swept > now_ms then
    gap = now_ms - expected
  end
end
write('SET', partition .. ':swept', now_ms)
if gap == 0 then return {'OK', {}, 0} end

-- Work resumes before a scheduler gets here: what is younger than the gap stays as it is.
local function is_older(instant)
  if gap < 0 then return instant > now_ms end
  return instant > 0 and instant <= swept + about
end

-- When a visit's timer was set is unknown. This lengthens none by more than a lease.
local function visit_due(due)
  if gap < 0 then
    return due > now_ms - gap / 2 and due + gap or due
  end
  return math.max(due, math.min(due + gap, now_ms + tonumber(lease_ms)))
end

local function instant_of(run_id, field)
  return tonumber(redis.call('HGET', key('run', run_id), field) or 0)
end

-- A visit may have several timers, but is shifted once.
local shifted = {}
local function shift_visit(run_id, visit)
  local v = not shifted[run_id .. visit] and read_visit(run_id, visit)
  if not v or not v.status then return end
  shifted[run_id .. visit] = true
  v.began = is_older(v.began) and v.began + gap or v.began
  v.rests = is_older(v.rests) and v.rests + gap or v.rests
  v.published = is_older(v.published) and v.published + gap or v.published
  write_visit(run_id, visit, v)
end

-- A row says when its timer was set.
local function shift_wait(run_id, visit, call, due)
  local waits = waits_of(run_id, visit)
  local text = redis.call('HGET', waits, call)
  local row = text and parse_row(text)
  if not row or not row.is_open or not is_older(row.since) then return due end
  row.since = row.since + gap
  write_undone_by({'HSET', waits, call, text}, 'HSET', waits, call, open_text(row))
  return due + gap
end

local entries = redis.call('ZRANGE', timers, 0, -1, 'WITHSCORES')
local moved = {}
for i = 1, #entries, 2 do
  local member, due = entries[i], tonumber(entries[i + 1])
  local kind, run_id, visit, call = string.match(member, '^(%S+) (%S+) ?(%S*) ?(.*)$')
  if kind == 'visit' then
    due = visit_due(due)
    shift_visit(run_id, visit)
  elseif kind == 'wait' then
    due = shift_wait(run_id, visit, call, due)
    shift_visit(run_id, visit)
  elseif kind == 'expiry' or kind == 'deadline' and is_older(instant_of(run_id, 'started')) then
    due = due + gap
  end
  if kind == 'deadline' then
    write('HSET', key('run', run_id), 'deadline', due)
  end
  moved[#moved + 1] = due
  moved[#moved + 1] = member
end
in_pieces(write, 'ZADD', timers, moved)
return {'OK', {}, gap}
