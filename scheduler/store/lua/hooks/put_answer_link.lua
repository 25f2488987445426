-- Make a link the only one of its recipient to a question, unless it was revoked.
-- KEYS partition
-- ARGV recipient digest most kept_ms
-- partition: the key of the question's links. most: recipients that it may have
-- USES
-- OK   problem earlier  why it was not made: `full`, `revoked`, or ''; the digest it replaces, or ''
local known = redis.call('HGET', partition, recipient)
if known == 'revoked ' .. digest then return {'OK', {}, 'revoked', ''} end
if not known and redis.call('HLEN', partition) >= tonumber(most) then
  return {'OK', {}, 'full', ''}
end
write('HSET', partition, recipient, digest)
write('PEXPIRE', partition, kept_ms)
return {'OK', {}, '', known or ''}
