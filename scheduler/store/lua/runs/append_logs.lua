-- Append a visit's output to its run, also just after its end; the oldest entries are dropped at
-- the limit. Each is stamped with the time; `<kind>_end` of the record counts all ever appended.
-- KEYS partition
-- ARGV run_id kind limit byte_limit dropped rest
-- kind: logs | transcripts | failed_transcripts
-- dropped: number of entries already left out
-- REST the entries: non-empty JSON objects
-- USES store
local run, logs = key('run', run_id), key(kind, run_id)
if redis.call('EXISTS', run) == 0 then return {'OK', {}} end
local expires_in = redis.call('PTTL', key('history', run_id))  -- -1: not over

local kept = redis.call('LLEN', logs)
local r = redis.call('HMGET', run, kind .. '_bytes', kind .. '_end')
local bytes, count = tonumber(r[1] or '') or 0, kept + #rest
local log_end = (tonumber(r[2] or '') or kept) + #rest
local stamp = '{"at":' .. now_ms .. ','
for i, entry in ipairs(rest) do
  rest[i] = stamp .. string.sub(entry, 2)
  bytes = bytes + #rest[i]
end

-- How many of the oldest to drop: of the stored ones, then of the new ones.
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
write('HSET', run, kind .. '_bytes', math.max(0, bytes), kind .. '_end', log_end)
if gone + dropped > 0 then
  write('HINCRBY', run, kind .. '_dropped', gone + dropped)
end
if expires_in >= 0 then
  write_undone_by(nil, 'PEXPIRE', logs, expires_in)
end
if gone > 0 then
  write_last('LTRIM', logs, gone, -1)
end
return {'OK', {}}
