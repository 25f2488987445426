-- Ends visits and runs: releases everything they hold, ends their children, resumes their parent.
-- LAZY

-- Remove a visit from all indexes; whatever it was doing is void.
local function drop_visit(run_id, visit, v)
  write('ZREM', timers, timer('visit', run_id, visit))
  forget_turns(run_id, visit, v)
  forget_waits(run_id, visit, v)
end

-- Interrupt an open visit, or drop it with its void result; what it has is set aside.
local function interrupt_visit(run_id, visit, v, how, marked)
  local visits = key('visits', run_id)
  write_undone_by({'HSET', visits, visit, v.packed}, 'HDEL', visits, visit)
  write('ZREM', timers, timer('visit', run_id, visit))
  set_aside(run_id, visit, v, how, marked)
end

-- Release the open visits of a run that has ended, and the visits set aside before; unless it
-- succeeded, these stay for a retry.
local function close_visits(run_id, status, kept, number)
  local over, how = status == 'succeeded', kept and all_kept(run_id) or {}
  local open = redis.call('HGETALL', key('visits', run_id))
  for i = 1, #open, 2 do
    local visit, v = open[i], parse_visit(open[i + 1])
    report_interrupted(run_id, visit, v, number)
    if over or v.status == 'staged' and not how[visit] then
      drop_visit(run_id, visit, v)
    elseif v.status == 'staged' then
      write('ZREM', timers, timer('visit', run_id, visit))
    else
      write('ZREM', timers, timer('visit', run_id, visit))
      set_aside(run_id, visit, v, 'broken')
    end
  end
  if not over then
    let_kept_expire(run_id)
  elseif kept then
    forget_kept(run_id)
  end
end

-- Deliver the result of a run to its parent's visit, if that waits for it.
local function wake_parent(run_id, parent, status, output, failure, value)
  local parent_run, visit = string.match(parent, '^(%S+) (%S+)$')
  local v = read_visit(parent_run, visit)
  local call, row
  if v then
    call, row = row_of_child(parent_run, visit, v, run_id)
  end
  if call then
    close_row(parent_run, visit, v, call, row, child_result(run_id, status, output, failure, value))
  end
end

-- Cancel the running children that a run has spawned; if the run may be retried, it keeps their
-- ids, with which a retry continues them.
local function cancel_spawned(run_id, status)
  local spawned = key('spawned', run_id)
  for _, child_id in ipairs(redis.call('HVALS', spawned)) do
    cancel_child(child_id)
  end
  if status == 'succeeded' then
    remove(spawned)
  else
    write_undone_by({'PERSIST', spawned}, 'PEXPIRE', spawned, 2 * retention_ms)
  end
end

-- Let a schedule continue when a run that it started has ended: one that waited for that may start,
-- and a failure may pause it.
local function settle_schedule(name, run_id, status)
  local schedule = key('schedule', name)
  local stops, waits = unpack(redis.call('HMGET', schedule, 'stops', 'waits'))
  local paused = stops == '1' and (status == 'failed' or status == 'timed_out')
  if paused then
    write('HSET', schedule, 'failed', run_id)
  end
  if paused or waits == '1' then
    write('ZADD', timers, now_ms, timer('schedule', name))
  end
end

-- `failure`: the error as JSON text, or ''. `orphaned`: the parent has no use for the result.
-- `value`: the result as JSON text, if it has one.
function finish(run_id, status, output, failure, orphaned, value)
  local run = key('run', run_id)
  local r = read_listed(run_id)
  if r.spawns then
    cancel_spawned(run_id, status)
  end
  local before, started, batch = r.status, r.started, r.batch

  close_visits(run_id, status, r.kept, r.try)
  if r.deadline then
    write('ZREM', timers, timer('deadline', run_id))
  end
  remove(key('visits', run_id), key('pending', run_id), key('questions', run_id))

  if r.parent and not orphaned then  -- first: its status tells if it waited for a person
    wake_parent(run_id, r.parent, status, output, failure, value)
  end
  if r.spawned and not orphaned then
    local parent_run = string.match(r.parent, '^%S+')
    write('HDEL', key('spawned', parent_run), handle_of(run_id))
    free_place(parent_run)
  end
  undo[#undo + 1] = {'HDEL', run, 'output', 'error', 'ended'}
  write_undone_by({'HSET', run, 'status', before}, 'HSET', run, 'status', status,
    'output', output, 'error', failure, 'ended', now_ms)
  if value then
    write_undone_by({'HDEL', run, 'value'}, 'HSET', run, 'value', value)
  end
  relist_run(run_id, r, status, now_ms)
  local context = redis.call('HGET', run, 'context') or ''  -- it may end with a broken record
  narrate(run_id, cjson.encode({
    kind = 'ended', status = status, error = failure, failed_nodes = tonumber(r.failed_nodes or ''),
    converses = string.find(context, '"converses": true', 1, true) and true or nil,
    elapsed_ms = started and now_ms - tonumber(started) or 0,
    number = tonumber(r.try or '')}))

  add('ZADD', timers, {now_ms + retention_ms, timer('expiry', run_id)})
  if archive_after_ms >= 0 and not r.parent then
    local due = now_ms + archive_after_ms
    write_undone_by({'ZREM', archivable, run_id}, 'ZADD', archivable, due, run_id)
  end
  -- The sweep removes them at `expiry`; this is in case no scheduler ever runs again. The record
  -- stays until then: it tells which counts to take the run out of.
  local kinds = {'state', 'history', 'events', 'logs', 'children'}
  if r.failed_nodes or r.handled_failures then
    kinds[#kinds + 1] = 'failures'
  end
  if r.parent or r.spawns then
    kinds[#kinds + 1] = 'messages'
  end
  if r.transcripts_end then
    kinds[#kinds + 1] = 'transcripts'
  end
  if r.failed_transcripts_end then
    kinds[#kinds + 1] = 'failed_transcripts'
  end
  if r.try then
    kinds[#kinds + 1] = 'superseded'
  end
  for _, kind in ipairs(kinds) do
    local name = key(kind, run_id)
    write_undone_by({'PERSIST', name}, 'PEXPIRE', name, 2 * retention_ms)
  end

  if batch then
    tell('sleipnir:batch:' .. batch, run_id)
  end
  report('ended', run_id, r.try, status, tonumber(r.try and started or r.created) or now_ms, failure)
  if r.schedule then
    settle_schedule(r.schedule, run_id, status)
  end
end
