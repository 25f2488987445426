-- Own a partition for a while, and learn which of its timers are due.
-- KEYS partition
-- ARGV owner ttl_ms limit seen_ms
-- seen_ms: an instant until which no time was lost; 0 for none
-- OK   mine due  1 if this scheduler owns the partition now; the members due, oldest first
local lock = partition .. ':owner'
local holder = redis.call('GET', lock)
-- An expiry longer than owners set is from before the clock was set back; its owner may be dead.
if holder and holder ~= owner and redis.call('PTTL', lock) <= tonumber(ttl_ms) then
  return {'OK', {}, 0, {}}
end
local due = redis.call('ZRANGEBYSCORE', partition .. ':timers', '-inf', now_ms, 'LIMIT', 0, limit)
-- Undo to no owner rather than to a dead one; a longer lock of our own does no harm.
local undone_by = holder ~= owner and {'DEL', lock} or nil
write_undone_by(undone_by, 'SET', lock, owner, 'PX', ttl_ms)
if seen_ms ~= '0' then
  write_undone_by(nil, 'SET', partition .. ':swept', seen_ms)
end
return {'OK', {}, 1, due}
