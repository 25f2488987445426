-- Remove from Redis what an archive has of an ended run, unless it was touched since it was read.
-- KEYS partition
-- ARGV run_id seen place rest
-- seen: what `sum_of` of lib/whole.lua gave when it was read
-- place: of the object, as the record will say
-- REST name, value pairs: the record that stays
-- USES store kept whole
-- OK   archived  1, or 0 if it is gone, continues, or was touched
local run = key('run', run_id)
if not FINAL[redis.call('HGET', run, 'status')] or sum_of(run_id) ~= seen then
  return {'OK', {}, 0}
end
remove_now(run)  -- a hash stays large when its large fields go
add('HSET', run, rest)
add('HSET', run, {'archived', place})
remove_parts(run_id)
write('ZREM', archivable, run_id)
return {'OK', {}, 1}
