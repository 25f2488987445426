-- Maintains the indexes and counts of lib/listed.lua. They follow from a run's record alone, so the
-- function that added an entry can also take it back.
-- LAZY

-- Statuses that have an index: the rare ones.
local RARE = {waiting = true, failed = true, cancelled = true, timed_out = true}
local ENDS_KEPT = 20
local ENDS_KEPT_MS = 3600000
local DEAREST = 20

-- Add to a number in a hash; a field that reaches 0 is removed.
local function count_in(target, field, by)
  if by == 0 then return end
  local undone_by = {'HINCRBY', target, field, 0 - by}
  local sum = write_undone_by(undone_by, 'HINCRBY', target, field, by)
  if sum == by then  -- it was not there
    undone_by[1], undone_by[4] = 'HDEL', nil
  elseif sum == 0 then
    write_undone_by(nil, 'HDEL', target, field)
  end
end

local function count_run(r, by)
  sum_up(r, by, function(name, field, n)
    count_in(partition .. ':' .. name, field, n)
  end)
end

-- Add to the number of runs that ended in an hour, and return how many numbers there are if this
-- one is new. A field that reaches 0 stays: with the last one, the hash would lose its expiry.
local function count_in_hour(target, field, by)
  local undone_by = {'HINCRBY', target, field, 0 - by}
  if write_undone_by(undone_by, 'HINCRBY', target, field, by) == by then
    undone_by[1], undone_by[4] = 'HDEL', nil
    return redis.call('HLEN', target)
  end
end

-- Count a root run that has ended in the hour of its end, or take it out again. Runs that are
-- removed stay counted.
local function count_end(r, by)
  if not FINAL[r.status] then return end
  local hour = hour_of(r.ended)
  local target, kind = partition .. ':ended:' .. hour, kind_of_end(r)
  local field = (r.agent or '') .. '\n' .. (r.batch or '') .. '\n' .. kind
  local numbers = count_in_hour(target, field, by)
  if numbers == 1 then
    note_hour(hour)
    write('PEXPIRE', target, spend_retention_ms)
  elseif numbers and numbers > most_hourly_sums then
    write_undone_by(nil, 'HDEL', target, field)
    count_in_hour(target, 'other\nother\n' .. kind, by)
  end
end

-- Keep the dearest of the root runs that ended on a day, of which lists are made.
local function note_cost(run_id, r)
  if not r.cost or not FINAL[r.status] then return end
  local dearest = partition .. ':dearest:' .. day_of(r.ended)
  write_undone_by({'ZREM', dearest, run_id}, 'ZADD', dearest, r.cost, run_id)
  write_undone_by(nil, 'ZREMRANGEBYRANK', dearest, 0, -1 - DEAREST)
  write_undone_by(nil, 'PEXPIRE', dearest, 2 * retention_ms)
end

local function forget_cost(run_id, r)
  if r.cost and FINAL[r.status] then
    write('ZREM', partition .. ':dearest:' .. day_of(r.ended), run_id)
  end
end

local function ids_of(run_id)
  return key('ids', string.sub(run_id, 1, 3))
end

local function enter(name, run_id, r)
  local index = partition .. ':' .. name
  write_undone_by({'ZREM', index, run_id}, 'ZADD', index, r.created or 0, run_id)
end

local function leave(name, run_id, r)
  local index = partition .. ':' .. name
  write_undone_by({'ZADD', index, r.created or 0, run_id}, 'ZREM', index, run_id)
end

-- `at`: when something happened in its batch, if not now.
local function note_activity(r, at)
  if not r.batch then return end
  local batches = partition .. ':batches'
  local latest = at and redis.call('ZSCORE', batches, r.batch)
  if not latest or tonumber(latest) < tonumber(at) then
    write('ZADD', batches, at or now_ms, r.batch)
  end
end

-- The rate of a batch is that of its last ends; other partitions keep some, too.
local function note_end(run_id, r)
  local ends = partition .. ':batchends:' .. r.batch
  write_undone_by({'ZREM', ends, run_id}, 'ZADD', ends, now_ms, run_id)
  write_undone_by(nil, 'ZREMRANGEBYRANK', ends, 0, -1 - ENDS_KEPT)
  write_undone_by(nil, 'PEXPIRE', ends, ENDS_KEPT_MS)
end

-- With its last stored run, a batch's name is removed.
local function forget_activity(r)
  if r.batch and redis.call('EXISTS', key('batch', r.batch)) == 0 then
    write('ZREM', partition .. ':batches', r.batch)
  end
end

-- Add a run; `r` has the fields of its record. `status`: its index besides those that contain it
-- whatever its status.
local function list_as(run_id, r, status)
  local ids = ids_of(run_id)
  write_undone_by({'HDEL', ids, run_id}, 'HSET', ids, run_id, '')
  tell_others('run', run_id)
  if r.parent then
    enter('childruns', run_id, r)
    return
  end
  for _, name in ipairs(lasting_indexes(r)) do
    enter(name, run_id, r)
  end
  if status then
    enter(status, run_id, r)
  end
  count_run(r, 1)
  note_activity(r, r.ended)
end

-- Add a new run.
local function list_run(run_id, r)
  list_as(run_id, r, 'open')
end

-- Add a run that ended elsewhere.
local function list_ended(run_id, r)
  list_as(run_id, r, RARE[r.status] and r.status)
  if not r.parent then
    count_end(r, 1)
    note_cost(run_id, r)
  end
end

-- Move a run to another status; `ended` is when it ended, or false.
local function relist_run(run_id, r, status, ended)
  tell_others('run', run_id, 'run.' .. status)
  if r.parent then return end
  count_run(r, -1)
  count_end(r, -1)
  forget_cost(run_id, r)
  if RARE[r.status] then
    leave(r.status, run_id, r)
  end
  if FINAL[r.status] and not FINAL[status] then
    enter('open', run_id, r)
  elseif FINAL[status] and not FINAL[r.status] then
    leave('open', run_id, r)
  end
  r.status, r.ended = status, ended
  if RARE[status] then
    enter(status, run_id, r)
  end
  count_run(r, 1)
  count_end(r, 1)
  note_cost(run_id, r)
  note_activity(r)
  if r.batch and FINAL[status] then
    note_end(run_id, r)
  end
end

-- Remove a run. Without its record, its entries in the smaller indexes cannot be found.
local function unlist_run(run_id, r)
  write('HDEL', ids_of(run_id), run_id)
  if not r.status then
    for _, name in ipairs({'runs', 'childruns', 'open', 'waiting', 'failed', 'cancelled',
      'timed_out'}) do
      write('ZREM', partition .. ':' .. name, run_id)
    end
    return
  end
  if r.parent then
    leave('childruns', run_id, r)
    return
  end
  count_run(r, -1)
  forget_cost(run_id, r)
  for _, name in ipairs(lasting_indexes(r)) do
    leave(name, run_id, r)
  end
  if not FINAL[r.status] then
    leave('open', run_id, r)
  end
  if RARE[r.status] then
    leave(r.status, run_id, r)
  end
  forget_activity(r)
end

-- Take a run out of its batch, where another one has replaced it.
local function leave_batch(run_id, r)
  local run, batch = key('run', run_id), r.batch
  count_run(r, -1)
  count_end(r, -1)
  leave('batch:' .. batch, run_id, r)
  write_undone_by({'HSET', run, 'batch', batch}, 'HDEL', run, 'batch')
  forget_activity(r)
  r.batch = false
  count_run(r, 1)
  count_end(r, 1)
end
