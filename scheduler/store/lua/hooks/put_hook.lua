-- Make a hook, or change one that is as the caller saw it.
-- KEYS partition
-- ARGV name before definition
-- partition: the key of all hooks. before: as it was read; '' to make a new one
-- USES
-- ERR  hook_exists  there is one of that name
-- ERR  hook_changed  it was changed, or removed, since it was read
local known = redis.call('HGET', partition, name)
if before == '' and known then return {'hook_exists'} end
if before ~= '' and known ~= before then return {'hook_changed'} end
write('HSET', partition, name, definition)
return {'OK', {}}
