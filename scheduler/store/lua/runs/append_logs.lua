-- Keep output of a visit with its run, the newest that fits; also of one that just ended.
-- KEYS partition
-- ARGV run_id limit byte_limit dropped rest
-- dropped: entries that were left out before
-- REST the entries
-- USES store
local run, logs = key('run', run_id), key('logs', run_id)
if redis.call('EXISTS', run) == 0 then return {'OK', {}} end
local expires_in = redis.call('PTTL', key('history', run_id))  -- -1: not yet

local kept = redis.call('LLEN', logs)
local bytes, count = tonumber(redis.call('HGET', run, 'log_bytes') or '') or 0, kept + #rest
for _, entry in ipairs(rest) do
  bytes = bytes + #entry
end

-- How many of the oldest have to go: of those that are kept, then of the new ones.
local gone = 0
local function drop(entries)
  for _, entry in ipairs(entries) do
    if bytes <= tonumber(byte_limit) and count - gone <= tonumber(limit) then return end
    bytes, gone = bytes - #entry, gone + 1
  end
end
for first = 0, kept - 1, 50 do
  if bytes <= tonumber(byte_limit) and count - gone <= tonumber(limit) then break end
  drop(redis.call('LRANGE', logs, first, first + 49))
end
drop(rest)

push('RPUSH', logs, rest)
write('HSET', run, 'log_bytes', math.max(0, bytes))
if gone + dropped > 0 then
  write('HINCRBY', run, 'log_dropped', gone + dropped)
end
if expires_in >= 0 then
  write_undone_by(nil, 'PEXPIRE', logs, expires_in)
end
if gone > 0 then
  write_last('LTRIM', logs, gone, -1)
end
return {'OK', {}}
