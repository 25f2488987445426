-- Read the indexes of a partition at one instant, and what its runs say of their bundles.
-- KEYS partition
-- USES store
-- OK   runs timers inbox bundles used
--      bundles used  digest, count pairs: as kept, and as counted; '' for runs without record
local runs = redis.call('ZRANGE', partition .. ':runs', 0, -1)
local counts = {}
for _, run_id in ipairs(runs) do
  local digest = redis.call('HGET', key('run', run_id), 'digest') or ''
  counts[digest] = (counts[digest] or 0) + 1
end
local used = {}
for digest, count in pairs(counts) do
  used[#used + 1] = digest
  used[#used + 1] = count
end
return {'OK', {}, runs, redis.call('ZRANGE', timers, 0, -1), redis.call('ZRANGE', inbox, 0, -1),
  redis.call('HGETALL', partition .. ':bundles'), used}
