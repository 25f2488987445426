-- Append an entry to a visit's conversation, at most once: a crash repeats nothing before it.
-- What it used counts even if it is refused.
-- KEYS partition
-- ARGV run_id visit token position turn event usage
-- position: the number of entries that the caller knows of
-- USES store hours usage
-- ERR  run_closed stale_visit
local status = redis.call('HGET', key('run', run_id), 'status')
local refusal, v = check_holder(run_id, visit, token, status)
if refusal then
  count_dropped(run_id, visit, token, position, turn, usage)
  return refusal
end

if v.turns == tonumber(position) then
  record_turn(run_id, visit, v, turn)
  write_visit(run_id, visit, v)
  add_usage(run_id, usage)
  narrate(run_id, event)
end
return {'OK', {}}
