-- Write what is known of a group, if its provider's lease is still held.
-- KEYS partition
-- ARGV provider token group_id text kept_ms
-- text: JSON, or '' to forget the group
-- USES
-- ERR  not_due  the lease is lost
if redis.call('GET', partition .. ':lease:' .. provider) ~= token then return {'not_due'} end
local groups = partition .. ':groups'
if text == '' then
  write('HDEL', groups, group_id)
else
  write('HSET', groups, group_id, text)
  write('PEXPIRE', groups, kept_ms)
end
return {'OK', {}}
