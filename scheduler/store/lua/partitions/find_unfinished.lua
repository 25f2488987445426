-- Return some of a partition's runs that have not ended, or have left something behind.
-- KEYS partition
-- ARGV first count limit
-- first: position among the partition's runs, children last, to begin at
-- count: how many to examine at most
-- limit: how many to return at most
-- USES store
-- OK   following runs  the position to continue at, 0 after the last one
local roots, stop = redis.call('ZCARD', partition .. ':runs'), first + count - 1
local runs = redis.call('ZRANGE', partition .. ':runs', first, stop)
if stop >= roots then
  local from = math.max(0, first - roots)
  for _, run_id in ipairs(redis.call('ZRANGE', partition .. ':childruns', from, stop - roots)) do
    runs[#runs + 1] = run_id
  end
end
local found = {}
for position, run_id in ipairs(runs) do
  local status, digest = unpack(redis.call('HMGET', key('run', run_id), 'status', 'digest'))
  local over = is_over(status)
  if status and not over
    or over and redis.call('EXISTS', key('visits', run_id), key('questions', run_id),
      key('pending', run_id)) > 0
    or status and not redis.call('ZSCORE', timers, timer('expiry', run_id, digest)) then
    found[#found + 1] = run_id
    if #found == tonumber(limit) then return {'OK', {}, first + position, found} end
  end
end
return {'OK', {}, #runs < tonumber(count) and 0 or first + #runs, found}
