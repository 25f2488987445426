-- Carry out what a schedule does next: start at most one run, and note how it stands then.
-- KEYS partition
-- ARGV run_id name revision due standing waits allows skipped missed of_agent own_url start agent digest history event session last field_count rest
-- run_id: '' to start none. due: ms, '' for never. standing: JSON text. waits: 1 if instants wait
-- allows: 1 if the run may start beside one that is open
-- skipped missed: how many instants more. own_url: of its runs' events; '' for none. session last: as of submit_run.lua
-- REST field_count name, value pairs of the run's record; then key, JSON text pairs of the state
-- USES store hooks hours listed indexes dispatch create
-- OK   created  1, or 0 if no run was to start, or a run of that id exists already
-- ERR  schedule_changed  it was changed, or removed, since it was read
-- ERR  not_over  the run of an earlier instant, or of the session, has not ended
local schedule, index = key('schedule', name), partition .. ':schedules'
local known, before, failed = unpack(redis.call('HMGET', schedule, 'revision', 'last', 'failed'))
if known ~= revision then return {'schedule_changed'} end
local is_busy = before and is_open(before)
if run_id ~= '' and allows ~= '1' and is_busy then return {'not_over'} end

local created = 0
if run_id ~= '' and redis.call('EXISTS', key('run', run_id)) == 0 then
  if session ~= '' then
    local sessions = partition .. ':sessions'
    if (redis.call('HGET', sessions, session) or '') ~= last or is_open(last) then
      return {'not_over'}
    end
    write('HSET', sessions, session, run_id)
  end
  local fields, seeds = split(rest, tonumber(field_count))
  create(run_id, fields, seeds, event, agent, digest, no_past(start, history))
  created = 1
end
if run_id ~= '' then
  write('HSET', schedule, 'last', run_id)
end
write('HSET', schedule, 'standing', standing, 'waits', waits, 'revision', known + 1)
if failed then
  write('HDEL', schedule, 'failed')
end
count_in(partition .. ':scheduled', 'skipped', tonumber(skipped))
count_in(partition .. ':scheduled', 'missed', tonumber(missed))
local hooks = tonumber(missed) > 0 and redis.call('GET', partition .. ':hooks')
if hooks then
  hooks = cjson.decode(hooks)
  local event_id = event_id_of(table.concat({'schedule', name, known}, ' '))
  local subject = {schedule = name, missed = tonumber(missed)}
  record_deliveries(hooks, 'schedule.missed', event_id, subject,
    {agent = of_agent, labels = {schedule = name}})
  record_own(hooks, 'schedule.missed', event_id, subject, own_url)
end

-- The run that instants wait for may have ended since the caller looked.
if waits == '1' and run_id == '' and not is_busy then due = now_ms end
write('ZADD', index, due == '' and 'inf' or due, name)
if due == '' then
  write('ZREM', timers, timer('schedule', name))
else
  write('ZADD', timers, due, timer('schedule', name))
end
return reply(created)
