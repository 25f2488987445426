-- Append what a visit leaves to be read to its run, also just after its end; the oldest entries of a
-- kind are dropped at its limits. Each entry is stamped with the time; `<kind>_end` of the record
-- counts all ever appended.
-- KEYS partition
-- ARGV run_id rest
-- REST for each kind: kind limit byte_limit dropped count, then `count` entries
-- kind: logs | transcripts | failed_transcripts
-- dropped: number of entries already left out
-- entry: a non-empty JSON object, as text or packed
-- USES store
local run, stamp = key('run', run_id), string.format('"at":%.0f,', now_ms)
local take, kinds, names = taker(rest), {}, {'status'}
local kind, limit, byte_limit, dropped, count = unpack(take(5))
while kind do
  kinds[#kinds + 1] = {
    name = kind, limit = tonumber(limit), byte_limit = tonumber(byte_limit),
    dropped = tonumber(dropped), entries = take(tonumber(count)),
  }
  names[#names + 1], names[#names + 2] = kind .. '_bytes', kind .. '_end'
  kind, limit, byte_limit, dropped, count = unpack(take(5))
end
local known = redis.call('HMGET', run, unpack(names))
if not known[1] then return {'OK', {}} end
local expires_in = redis.call('PTTL', key('history', run_id))  -- -1: not over; -2: archived
if expires_in == -2 then return {'OK', {}} end
local fields = {}

local function append(to, bytes_before, end_before)
  local logs, entries = key(to.name, run_id), to.entries
  local kept = redis.call('LLEN', logs)
  local bytes, total = tonumber(bytes_before or '') or 0, kept + #entries
  for i, entry in ipairs(entries) do
    entries[i] = with_members(stamp, entry)
    bytes = bytes + #entries[i]
  end

  -- How many of the oldest to drop: of the stored ones, then of the new ones.
  local gone = 0
  local function drop(oldest)
    for _, entry in ipairs(oldest) do
      if bytes <= to.byte_limit and total - gone <= to.limit then return end
      bytes, gone = bytes - #entry, gone + 1
    end
  end
  for first = 0, kept - 1, 50 do
    if bytes <= to.byte_limit and total - gone <= to.limit then break end
    drop(redis.call('LRANGE', logs, first, first + 49))
  end
  drop(entries)

  push('RPUSH', logs, entries)
  local log_end = (tonumber(end_before or '') or kept) + #entries
  fields[#fields + 1] = {to.name .. '_bytes', bytes_before, math.max(0, bytes)}
  fields[#fields + 1] = {to.name .. '_end', end_before, log_end}
  if gone + to.dropped > 0 then
    write('HINCRBY', run, to.name .. '_dropped', gone + to.dropped)
  end
  if expires_in >= 0 then
    write_undone_by(nil, 'PEXPIRE', logs, expires_in)
  end
  pop_many(logs, gone)
end

for i, to in ipairs(kinds) do
  append(to, known[2 * i], known[2 * i + 1])
end
set_known(run, fields)
return {'OK', {}}
