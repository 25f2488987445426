-- Read a partition's indexes at one instant, and what its runs say of their bundles and sums.
-- KEYS partition
-- ARGV rest
-- REST batches that have a tally
-- USES store listed
-- OK   runs timers inbox bundles used sums counted batches members sessions
--      runs            root runs and child runs
--      bundles used    digest, count pairs: as stored, and as counted, of runs and schedules; '' for
--                      those without a record
--      sums counted    `<hash> <field>`, n pairs of the tallies: as stored, and as counted
--      batches members batches that have an activity, and batches of the runs
--      sessions        those whose last run does not exist, or is not of that session
local runs = redis.call('ZRANGE', partition .. ':runs', 0, -1)
for _, run_id in ipairs(redis.call('ZRANGE', partition .. ':childruns', 0, -1)) do
  runs[#runs + 1] = run_id
end

local digests, sums, batches = {}, {}, {}
local function note(name, field, n)
  local sum = name .. ' ' .. field
  sums[sum] = (sums[sum] or 0) + n
end
for _, run_id in ipairs(runs) do
  local r = read_listed(run_id)
  local digest = r.digest or ''
  digests[digest] = (digests[digest] or 0) + 1
  if r.status and not r.parent then
    sum_up(r, 1, note)
    batches[r.batch or ''] = true
  end
end
batches[''] = nil
for _, name in ipairs(redis.call('ZRANGE', partition .. ':schedules', 0, -1)) do
  local digest = redis.call('HGET', key('schedule', name), 'digest') or ''
  digests[digest] = (digests[digest] or 0) + 1
end

local function flat(found)
  local list = {}
  for name, n in pairs(found) do
    list[#list + 1] = name
    list[#list + 1] = string.format('%.0f', n)
  end
  return list
end

local members = {}
for batch in pairs(batches) do
  members[#members + 1] = batch
end
for _, batch in ipairs(rest) do
  batches[batch] = true
end
local kept = {}
local function read_sums(name)
  local found = redis.call('HGETALL', partition .. ':' .. name)
  for i = 1, #found, 2 do
    kept[#kept + 1] = name .. ' ' .. found[i]
    kept[#kept + 1] = found[i + 1]
  end
end
read_sums('tally')
for batch in pairs(batches) do
  read_sums('batchtally:' .. batch)
end

local sessions, broken = redis.call('HGETALL', partition .. ':sessions'), {}
for i = 1, #sessions, 2 do
  if redis.call('HGET', key('run', sessions[i + 1]), 'session') ~= sessions[i] then
    broken[#broken + 1] = sessions[i]
  end
end

return {'OK', {}, runs, redis.call('ZRANGE', timers, 0, -1), redis.call('ZRANGE', inbox, 0, -1),
  redis.call('HGETALL', partition .. ':bundles'), flat(digests), kept, flat(sums),
  redis.call('ZRANGE', partition .. ':batches', 0, -1), members, broken}
