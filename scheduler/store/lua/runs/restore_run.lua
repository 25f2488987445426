-- Bring an archived run back, at most once; what has changed of its record meanwhile stays.
-- KEYS partition
-- ARGV run_id place for_ms field_count rest
-- place: of the object that was read
-- for_ms: in how long it may be archived again; '' for never
-- REST field_count name, value pairs that its record lacks; then its parts as lib/whole.lua says
-- USES store whole
-- OK   restored  1, or 0 if it is gone, or not archived there
local run = key('run', run_id)
if redis.call('HGET', run, 'archived') ~= place then return {'OK', {}, 0} end
local fields, parts = split(rest, tonumber(field_count))
add('HSET', run, fields)
write('HDEL', run, 'archived', 'prompt', 'secrets')
write_parts(run_id, parts)
if for_ms ~= '' then
  write('ZADD', archivable, now_ms + for_ms, run_id)
end
return {'OK', {}, 1}
