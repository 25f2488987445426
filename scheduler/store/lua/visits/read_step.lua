-- Return what a finished parallel step staged, and the current values its reducers start from.
-- KEYS partition
-- ARGV run_id rest
-- REST the keys that have reducers
-- USES store
-- OK   staged current  node, outcome pairs; key, JSON text pairs
local current = {}
for i, value in ipairs(read_fields(key('state', run_id), rest)) do
  if value then
    current[#current + 1] = rest[i]
    current[#current + 1] = value
  end
end
return {'OK', {}, redis.call('HGETALL', key('staged', run_id)), current}
