-- Release a partition, so that another scheduler can take it at once.
-- KEYS partition
-- ARGV owner
local lock = partition .. ':owner'
if redis.call('GET', lock) == owner then
  remove(lock)
end
return {'OK', {}}
