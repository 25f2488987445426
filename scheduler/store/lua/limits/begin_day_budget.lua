-- Start a day's budget with what was spent that day before the budget was set, at most once.
-- KEYS partition
-- ARGV name cost tokens kept_ms
-- name: as it is stored, `day:<day since 1970>`; cost: in billionths of a dollar
-- USES limits
local spent = id('budget', name)
if redis.call('HEXISTS', spent, 'begun') == 0 then
  write('HSET', spent, 'begun', '1')
  write('HINCRBY', spent, 'cost', cost)
  write('HINCRBY', spent, 'tokens', tokens)
  write('PEXPIRE', spent, kept_ms)
end
return {'OK', {}}
