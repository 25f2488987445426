-- Look no more whether a batch has finished, unless a run of it has ended since its timer was read.
-- KEYS partition
-- ARGV batch due
-- due: of the timer, ms
-- USES store hooks
if tonumber(redis.call('ZSCORE', timers, batch_timer(batch)) or '') == tonumber(due) then
  write('ZREM', timers, batch_timer(batch))
end
return {'OK', {}}
