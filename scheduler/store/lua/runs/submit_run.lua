-- Accept a run, at most once per run id.
-- KEYS partition
-- ARGV run_id start agent digest history event field_count rest
-- REST field_count name, value pairs of the record; then key, JSON text pairs of the state
-- USES store listed indexes dispatch create
-- OK   created  1, or 0 where a run of that id exists already
if redis.call('EXISTS', key('run', run_id)) == 1 then
  return reply(0)
end
local fields, seeds = split(rest, tonumber(field_count))
create(run_id, fields, seeds, event, agent, digest, no_past(start, history))
return reply(1)
