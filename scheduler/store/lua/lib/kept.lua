-- What is kept of visits that their run did not complete, until a retry of the run takes them up.
--
-- A visit set aside is one field of the hash `kept`: `<how> <packed visit>`, packed as in `visits`;
-- its keys `waits`, `turns` and `map` stay. How:
--   broken       interrupted: its conversation continues, and results it had waited for count
--   failed       starts over; answers and results of children it had waited for count
--   misanswered  the same, but answers do not count
-- While a run has such visits, its record says so in `kept`.
-- LAZY

local function keys_of_visit(run_id, visit)
  local name = run_id .. ' ' .. visit
  return {key('waits', name), key('turns', name), key('map', name)}
end

-- `marked`: keep the visit even if it left nothing, since others of its step completed.
local function set_aside(run_id, visit, v, how, marked)
  if not v.status then  -- an unreadable record
    forget_turns(run_id, visit, v)
    forget_waits(run_id, visit, v)
    return
  end
  if how ~= 'broken' and v.turns > 0 then
    forget_turns(run_id, visit, v)
    how, v.turns = 'misanswered', 0  -- answers were part of its conversation
  end
  if v.open > 0 then
    release_rows(run_id, visit)
  end
  if marked or v.turns > 0 or v.rows > 0 then
    write('HSET', key('kept', run_id), visit, how .. ' ' .. pack_visit(v))
    write('HSET', key('run', run_id), 'kept', '1')
  end
end

local function all_kept(run_id)
  local found, how, packed = redis.call('HGETALL', key('kept', run_id)), {}, {}
  for i = 1, #found, 2 do
    how[found[i]], packed[found[i]] = string.match(found[i + 1], '^(%l+) (.*)$')
  end
  return how, packed
end

local function drop_kept(run_id, visit)
  write('HDEL', key('kept', run_id), visit)
  remove(unpack(keys_of_visit(run_id, visit)))
end

local function forget_kept(run_id)
  for visit in pairs((all_kept(run_id))) do
    remove(unpack(keys_of_visit(run_id, visit)))
  end
  remove(key('kept', run_id), key('staged', run_id), key('mail', run_id))
end

-- Let the visits set aside expire with a run that has ended.
local function let_kept_expire(run_id)
  local names = {key('kept', run_id), key('staged', run_id), key('mail', run_id)}
  for visit in pairs((all_kept(run_id))) do
    for _, name in ipairs(keys_of_visit(run_id, visit)) do
      names[#names + 1] = name
    end
  end
  for _, name in ipairs(names) do
    -- One that expires already does so later, which does no harm.
    local undone_by = redis.call('PTTL', name) < 0 and {'PERSIST', name} or nil
    write_undone_by(undone_by, 'PEXPIRE', name, 2 * retention_ms)
  end
end

-- Keep a key from expiring. Call it before any write: undoing that may recreate the key, without
-- an expiry.
local function persist(name)
  if redis.call('PTTL', name) >= 0 then
    write_undone_by({'PEXPIRE', name, 2 * retention_ms}, 'PERSIST', name)
  end
end
