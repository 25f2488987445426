-- Make a schedule, or change one that stands as the caller saw it.
-- KEYS partition
-- ARGV name revision due digest definition standing run stops waits
-- revision: as it was read; '' to make a new one. due: ms, '' for never
-- stops: 1 if a failure pauses it. waits: 1 if instants wait
-- USES store hooks indexes listed
-- ERR  schedule_exists  there is one of that name
-- ERR  schedule_changed  it was changed, or removed, since it was read
local schedule, index = key('schedule', name), partition .. ':schedules'
local known, before = unpack(redis.call('HMGET', schedule, 'revision', 'digest'))
if revision == '' and known then return {'schedule_exists'} end
if revision ~= '' and known ~= revision then return {'schedule_changed'} end

if before ~= digest then
  if before then count_in(partition .. ':bundles', before, -1) end
  count_in(partition .. ':bundles', digest, 1)
end
write('HSET', schedule, 'digest', digest, 'revision', (known or 0) + 1, 'definition', definition,
  'standing', standing, 'run', run, 'stops', stops, 'waits', waits)
write('ZADD', index, due == '' and 'inf' or due, name)
if due == '' then
  write('ZREM', timers, timer('schedule', name))
else
  write('ZADD', timers, due, timer('schedule', name))
end
return {'OK', {}}
