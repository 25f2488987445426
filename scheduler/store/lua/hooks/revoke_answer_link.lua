-- Have the link of a recipient open nothing any more; the same one cannot be made again.
-- KEYS partition
-- ARGV recipient
-- partition: the key of the question's links
-- USES
-- OK   digest  of the link; '' if there was none that is good
local digest = redis.call('HGET', partition, recipient)
if not digest or string.sub(digest, 1, 8) == 'revoked ' then return {'OK', {}, ''} end
write('HSET', partition, recipient, 'revoked ' .. digest)
return {'OK', {}, digest}
