-- Remove a session; its last run stays, as any run does.
-- KEYS partition
-- ARGV run_id session
-- run_id: what the caller takes to be its last run
-- USES store
-- ERR  not_over  that run has not ended, or the session was continued since the caller looked
local sessions = partition .. ':sessions'
if redis.call('HGET', sessions, session) ~= run_id or is_open(run_id) then
  return {'not_over'}
end
write('HDEL', sessions, session)
return {'OK', {}}
