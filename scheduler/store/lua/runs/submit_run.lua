-- Accept a run, at most once per run id.
-- KEYS partition
-- ARGV run_id start agent digest history event session last field_count rest
-- session: `<agent>/<name>` that it continues, or ''; last: its last run when the caller looked
-- REST field_count name, value pairs of the record; then key, JSON text pairs of the state
-- USES store hooks hours listed indexes dispatch create
-- OK   created  1, or 0 if a run of that id exists already
-- ERR  not_over  another run of the session has not ended, or was started since the caller looked
if redis.call('EXISTS', key('run', run_id)) == 1 then
  return reply(0)
end
if session ~= '' then
  local sessions = partition .. ':sessions'
  if (redis.call('HGET', sessions, session) or '') ~= last or is_open(last) then
    return {'not_over'}
  end
  write('HSET', sessions, session, run_id)
end
local fields, seeds = split(rest, tonumber(field_count))
create(run_id, fields, seeds, event, agent, digest, no_past(start, history))
return reply(1)
