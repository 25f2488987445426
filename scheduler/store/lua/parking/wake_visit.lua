-- Wake a visit that rests until its turn; other visits are left alone.
-- KEYS partition
-- ARGV run_id visit delay_ms
-- USES store hooks hours listed indexes dispatch economy waiting waits kept finish
-- OK   recalled  1 if it rested
local v = read_visit(run_id, visit)
if v and v.status == 'leased' then
  -- It may be about to rest: then it must not rest for longer than this.
  write_last('SET', key('recalled', run_id .. ' ' .. visit),
    string.format('%.0f', now_ms + delay_ms), 'PX', 60000)
end
local row = v and v.status == 'waiting' and read_row(run_id, visit, v, 'timer')
if not row or not row.is_open then return {'OK', {}, 0} end
if tonumber(delay_ms) > 0 then
  write_last('ZADD', timers, 'XX', now_ms + delay_ms, wait_timer(run_id, visit, 'timer'))
else
  close_row(run_id, visit, v, 'timer', row, '')
end
return reply(1)
