-- Remove a schedule; the runs that it has started go on.
-- KEYS partition
-- ARGV name
-- USES store hooks indexes listed
-- OK   removed  1, or 0 if there was none
local schedule = key('schedule', name)
local digest = redis.call('HGET', schedule, 'digest')
if digest then
  count_in(partition .. ':bundles', digest, -1)
  remove(schedule)
end
write('ZREM', partition .. ':schedules', name)
write('ZREM', timers, timer('schedule', name))
return {'OK', {}, digest and 1 or 0}
