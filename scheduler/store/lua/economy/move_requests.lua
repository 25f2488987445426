-- Move requests of a group to another one.
-- KEYS partition
-- ARGV group other rest
-- REST ids
-- USES store economy
for _, id in ipairs(rest) do
  local r = read_request(id)
  if r and r.group == group then
    local list = r.unwanted and 'unwanted' or 'sent'
    write('ZREM', key(list, group), id)
    put_request({list, other}, id)
    write('HSET', key('request', id), 'group', other)
  end
end
return {'OK', {}}
