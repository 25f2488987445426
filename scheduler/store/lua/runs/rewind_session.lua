-- Take the last run out of a session: the one it continued is the last again. It stays, as any run.
-- KEYS partition
-- ARGV run_id session
-- run_id: what the caller takes to be its last run
-- USES store
-- OK   before  the last run now; '' if there was none before, and the session is removed
-- ERR  not_over  that run has not ended, or the session was continued since the caller looked
-- ERR  run_gone  the run before it is not kept any more, or belongs to another session
local sessions = partition .. ':sessions'
if redis.call('HGET', sessions, session) ~= run_id or is_open(run_id) then
  return {'not_over'}
end
local before = redis.call('HGET', key('run', run_id), 'continues')
if before == '' then
  write('HDEL', sessions, session)
  return {'OK', {}, ''}
end
if not before or redis.call('HGET', key('run', before), 'session') ~= session then
  return {'run_gone'}
end
write('HSET', sessions, session, before)
return {'OK', {}, before}
