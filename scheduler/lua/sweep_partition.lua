-- Own a partition for a while and learn which of its timers are due.
-- KEYS partition
-- ARGV owner ttl_ms limit
-- OK   mine due  1 if this scheduler owns the partition now; the members due, oldest first
local lock = partition .. ':owner'
local holder = redis.call('GET', lock)
if holder and holder ~= owner then
  return {'OK', {}, 0, {}}
end
redis.call('SET', lock, owner, 'PX', ttl_ms)
return {'OK', {}, 1,
  redis.call('ZRANGEBYSCORE', partition .. ':timers', '-inf', now_ms, 'LIMIT', 0, limit)}
