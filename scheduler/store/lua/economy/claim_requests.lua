-- Move the oldest requests of a collection to a group, within its limits.
-- KEYS partition
-- ARGV collection group most bytes stored tokens alone
-- most, bytes, stored, tokens: what the group has room for; alone '1': it has room for the first in any case
-- USES store economy
-- OK   count bytes tokens stored full
--      full: 1 if a request was left for which there is no room
local collected = key('collected', collection)
local ids = redis.call('ZRANGE', collected, 0, most - 1)
local sums, full = {0, 0, 0, 0}, 0
for _, id in ipairs(ids) do
  local r = read_request(id)
  if not r then
    write('ZREM', collected, id)
  else
    local room = sums[2] + r.bytes <= tonumber(bytes) and sums[3] + r.tokens <= tonumber(tokens)
      and sums[4] + r.stored <= tonumber(stored)
    if not room and not (alone == '1' and sums[1] == 0) then
      full = 1
      break
    end
    for i, value in ipairs({1, r.bytes, r.tokens, r.stored}) do
      sums[i] = sums[i] + value
    end
    leave_collection(id, r)
    write('HSET', key('request', id), 'group', group)
    put_request({'sent', group}, id)
  end
end
return {'OK', {}, sums[1], sums[2], sums[3], sums[4], full}
