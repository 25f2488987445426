-- Define a hook or a trigger, or change one that is as the caller saw it.
-- KEYS partition
-- ARGV name before definition
-- partition: the key of all of that kind. before: as it was read; '' to make a new one
-- USES
-- ERR  name_taken  there is one of that name
-- ERR  definition_changed  it was changed, or removed, since it was read
local known = redis.call('HGET', partition, name)
if before == '' and known then return {'name_taken'} end
if before ~= '' and known ~= before then return {'definition_changed'} end
write('HSET', partition, name, definition)
return {'OK', {}}
