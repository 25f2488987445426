-- Write what has become of a delivery, and try it again later, if it is still open.
-- KEYS partition
-- ARGV field told member due
-- field: of the delivery; told: JSON text of it; member: its timer, which is `due` then, ms
-- USES store
-- OK   is_open  1, or 0 if it was removed meanwhile, as its hook was
local deliveries = partition .. ':deliveries'
if redis.call('HEXISTS', deliveries, field) == 0 then return {'OK', {}, 0} end
write('HSET', deliveries, field, told)
write('ZADD', timers, due, member)
return {'OK', {}, 1}
