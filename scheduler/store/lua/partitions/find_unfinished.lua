-- Return some of a partition's runs that have not ended, or would never be removed.
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
  local status = redis.call('HGET', key('run', run_id), 'status')
  local will_go = FINAL[status] and redis.call('ZSCORE', timers, timer('expiry', run_id))
  if status and not will_go then
    found[#found + 1] = run_id
    if #found == tonumber(limit) then return {'OK', {}, first + position, found} end
  end
end
return {'OK', {}, #runs < tonumber(count) and 0 or first + #runs, found}
