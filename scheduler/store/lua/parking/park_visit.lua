-- Park a visit on things by call id, without occupying a worker.
-- KEYS partition
-- ARGV run_id visit token mode event turn usage attempt used_count rest
-- mode: all | first: whether it resumes after all of them or after the first
-- turn: the entry its conversation gets for this, or ''; attempt: '1' if another attempt begins
-- REST used_count calls whose rows it has used; then call, kind, allowed_ms (-1: no limit) and
--      detail of each thing
-- USES store hooks hours listed usage indexes dispatch economy waiting waits kept finish
-- ERR  run_closed stale_visit
-- ERR  step_failing  its step or its map failed for good: stage this visit as discarded
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_parking(run_id, visit, token, status)
if refusal then return refusal end

-- The turn that a visit is about to rest for may have come while it executed.
local function until_recalled(allowed)
  local recalled = key('recalled', run_id .. ' ' .. visit)
  local at = redis.call('GET', recalled)
  remove(recalled)
  return at and math.max(0, math.min(allowed, at - now_ms)) or allowed
end

local used, waits = {}, {}
for i = 1, used_count do
  used[i] = rest[i]
end
for i = used_count + 1, #rest, 4 do
  local kind, allowed = rest[i + 1], tonumber(rest[i + 2])
  if kind == 'timer' and attempt ~= '1' then
    allowed = until_recalled(allowed)
  end
  waits[#waits + 1] = {call = rest[i], kind = kind, allowed = allowed, detail = rest[i + 3]}
end
if turn ~= '' then
  record_turn(run_id, visit, v, turn)
end
v.attempt = v.attempt + attempt
add_usage(run_id, usage)
narrate(run_id, event)
park(run_id, visit, v, mode, waits, used)
return reply()
