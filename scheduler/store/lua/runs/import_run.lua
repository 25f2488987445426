-- Store a run that ended elsewhere, at most once per run id; it is as if it had ended here.
-- KEYS partition
-- ARGV run_id expires_ms field_count rest
-- expires_ms: in how long it is removed
-- REST field_count name, value pairs of its record; then its parts as lib/whole.lua says
-- USES store hooks hours listed indexes whole
-- OK   created  1, or 0 if a run of that id exists already
if redis.call('EXISTS', key('run', run_id)) == 1 then return {'OK', {}, 0} end
local fields, parts = split(rest, tonumber(field_count))
undo[#undo + 1] = {'DEL', key('run', run_id)}
add('HSET', key('run', run_id), fields)
write_parts(run_id, parts)

local r = read_listed(run_id)
list_ended(run_id, r)
count_in(partition .. ':bundles', r.digest, 1)
add('ZADD', timers, {now_ms + expires_ms, timer('expiry', run_id)})
if archive_after_ms >= 0 and not r.parent then
  write('ZADD', archivable, now_ms + archive_after_ms, run_id)
end
if r.session then
  local sessions = partition .. ':sessions'
  local last = redis.call('HGET', sessions, r.session)
  local at = last and tonumber(redis.call('HGET', key('run', last), 'created') or 0) or 0
  if at < tonumber(r.created) then
    write('HSET', sessions, r.session, run_id)
  end
end
return {'OK', {}, 1}
