-- End the rest of a visit that waits for its turn; one that does not rest is left alone.
-- KEYS partition
-- ARGV run_id visit delay_ms
-- USES store dispatch waiting
-- OK   recalled  1 if it rested
local v = read_visit(run_id, visit)
if not v or v.status ~= 'backoff' then return {'OK', {}, 0} end
if tonumber(delay_ms) > 0 then
  redis.call('ZADD', timers, 'XX', now_ms + delay_ms, timer('visit', run_id, visit))
else
  resume(run_id, visit, v, v.payload)
end
return reply(1)
