-- Remove a bundle that was found unused, unless it was submitted again since.
-- KEYS partition
-- ARGV digest submitted_ms
-- submitted_ms: of its last submission, when it was found unused
-- USES store
-- OK   removed  1, or 0 if it stays
local listed = group_tag .. 'sleipnir:bundles'
if tonumber(redis.call('ZSCORE', listed, digest) or '') ~= tonumber(submitted_ms) then
  return {'OK', {}, 0}
end
write('ZREM', listed, digest)
remove(group_tag .. 'sleipnir:bundle:' .. digest)
return {'OK', {}, 1}
