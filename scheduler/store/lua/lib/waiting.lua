-- What visits wait for, the places of a step's window, and whether a run is `waiting`.
--
-- Each thing that a visit waits for is a row of its hash `waits`, call id → text, where the call id
-- is that of the call that asked for it. A closed row stays until the visit has used its result.
--   <kind> open <since> <allowed> <detail>   since: ms; allowed: ms until its timer is due, -1: never
--   <kind> done <result>
-- Kinds; in parentheses the call ids that graph nodes use:
--   question    a person's answer (question; `guard-<digest>` for consent to a guarded call); detail
--               is the root whose model may give it, if any
--   child       the end of a run, whose id is the detail (child)
--   map         the end of a map's last invocation (map)
--   timer       only for its time (timer)
--   message     a message from another run
--   place       room for one more child; detail is how many may be alive (place)
--   build       the end of a knowledge base's build by another run; detail is its claim, a word (build)
--   batch       a provider's reply to a request in a batch; detail is the request's id (batch-<id>)
--
-- run.busy counts the visits that can continue without a person; at 0 the run is `waiting`.
-- run.free counts the free places in the step's window; absent if the frontier fits into it.

local settle

-- Waits that need a person. A map's invocations are counted themselves, as are the children of
-- which one has to end for a place.
local NEEDS_PERSON = {question = true, map = true, message = true, place = true}

local function waits_of(run_id, visit)
  return key('waits', run_id .. ' ' .. visit)
end

local function wait_timer(run_id, visit, call)
  return timer('wait', run_id, visit) .. ' ' .. call
end

-- A question's name in the run's hash of questions and, after the run id, in the inbox.
local function question_of(visit, call)
  return call == 'question' and visit or visit .. ' ' .. call
end

local function parse_row(text)
  local kind, state, rest = string.match(text, '^(%l+) (%l+) (.*)$')
  if state ~= 'open' then return {kind = kind, result = rest, text = text} end
  local since, allowed, detail = string.match(rest, '^(%d+) (%-?%d+) (.*)$')
  return {
    kind = kind, is_open = true, since = tonumber(since), allowed = tonumber(allowed),
    detail = detail, text = text,
  }
end

local function open_text(row)
  return string.format('%s open %.0f %.0f ', row.kind, row.since, row.allowed) .. row.detail
end

local function read_row(run_id, visit, v, call)
  local text = v.open > 0 and redis.call('HGET', waits_of(run_id, visit), call)
  return text and parse_row(text)
end

local function read_rows(run_id, visit)
  local found, rows = redis.call('HGETALL', waits_of(run_id, visit)), {}
  for i = 1, #found, 2 do
    rows[found[i]] = parse_row(found[i + 1])
  end
  return rows
end

-- Whether a visit waits for children that its model has spawned.
local function collects(rows)
  for call, row in pairs(rows) do
    if row.kind == 'child' and not row.result and (row.call or call) ~= 'child' then return true end
  end
  return false
end

local function is_still(row)
  if row.kind ~= 'child' then return NEEDS_PERSON[row.kind] end
  return redis.call('HGET', key('run', row.detail), 'status') == 'waiting'
end

local function is_busy(v)
  return v.status ~= 'waiting' or v.open > v.still
end

-- The open row of a visit that waits for this child.
local function row_of_child(run_id, visit, v, child_id)
  if v.open == 0 then return end
  for call, row in pairs(read_rows(run_id, visit)) do
    if row.is_open and row.kind == 'child' and row.detail == child_id then return call, row end
  end
end

local function change(run_id, field, by)
  local run = key('run', run_id)
  write_undone_by({'HINCRBY', run, field, 0 - by}, 'HINCRBY', run, field, by)
end

-- Update run.busy after the waits of a visit have changed.
local function count_visit(run_id, v, was_busy)
  local busy = is_busy(v)
  if busy ~= was_busy then
    change(run_id, 'busy', busy and 1 or -1)
    settle(run_id)
  end
end

-- Remove a completed visit; only now may its waits and a map's results be removed.
local function forget_visit(run_id, visit, v)
  local visits = key('visits', run_id)
  write_undone_by({'HSET', visits, visit, v.packed}, 'HDEL', visits, visit)
  stop_timer(timer('visit', run_id, visit))
  forget_turns(run_id, visit, v)
  if v.rows > 0 then
    forget_waits(run_id, visit, v)
  end
end

-- Tell the parent's visit that this child now waits for a person (1), or no longer does (-1).
local function tell_parent(run_id, parent, by)
  local parent_run, visit = string.match(parent, '^(%S+) (%S+)$')
  local v = read_visit(parent_run, visit)
  if not v or not row_of_child(parent_run, visit, v, run_id) then return end
  local was_busy = is_busy(v)
  v.still = v.still + by
  write_visit(parent_run, visit, v)
  count_visit(parent_run, v, was_busy)
end

function settle(run_id)
  local run = key('run', run_id)
  local status, busy, parent, created, batch =
    unpack(redis.call('HMGET', run, 'status', 'busy', 'parent', 'created', 'batch'))
  local settled
  if status == 'running' and tonumber(busy) == 0 then
    settled = 'waiting'
  elseif status == 'waiting' and tonumber(busy) > 0 then
    settled = 'running'
  else
    return
  end
  write_undone_by({'HSET', run, 'status', status}, 'HSET', run, 'status', settled)
  local r = {status = status, parent = parent, created = created, batch = batch}
  relist_run(run_id, r, settled)
  if parent then
    tell_parent(run_id, parent, settled == 'waiting' and 1 or -1)
  end
end

-- Whether a visit belongs to a step or map that has failed for good: it must not wait any more.
local function is_void(run_id, visit)
  local map_visit = map_of(visit)
  return redis.call('HGET', key('run', run_id), 'failing')
    or map_visit and redis.call('HGET', key('map', run_id .. ' ' .. map_visit), 'halted')
end

-- As check_holder, for a visit that is to park.
local function check_parking(run_id, visit, token, status)
  if is_over(status) then return {'run_closed'} end
  if is_void(run_id, visit) then return {'step_failing'} end
  return check_holder(run_id, visit, token, status)
end

-- Release a visit's place in the window to the next visit held back.
local function release_place(run_id, visit)
  if map_of(visit) then return end
  local run = key('run', run_id)
  local free, agent, digest = unpack(redis.call('HMGET', run, 'free', 'agent', 'digest'))
  if not free then return end
  local following = pop(key('pending', run_id))
  if not following then
    change(run_id, 'free', 1)
    return
  end
  local v = read_visit(run_id, following) or new_visit()
  make_ready(run_id, following, v, label_of(run_id, following, agent), digest)
end

-- Resume a visit. It needs a place in the window, unless it is an invocation or `in_place`.
local function resume(run_id, visit, v, in_place)
  local run = key('run', run_id)
  local free, agent, digest = unpack(redis.call('HMGET', run, 'free', 'agent', 'digest'))
  v.tries, v.token = 0, '-'
  if free and not in_place and not map_of(visit) then
    if tonumber(free) == 0 then
      v.status = 'held'
      write_visit(run_id, visit, v)
      push('LPUSH', key('pending', run_id), {visit})
      return
    end
    change(run_id, 'free', -1)
  end
  make_ready(run_id, visit, v, label_of(run_id, visit, agent), digest)
end
