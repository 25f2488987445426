-- Everything that is stored of an ended run: written as it was read, and whether it was touched since.

-- A digest of what any change to an ended run changes: its record and its last event.
local function sum_of(run_id)
  local fields, texts = redis.call('HGETALL', key('run', run_id)), {}
  for i = 1, #fields, 2 do
    texts[#texts + 1] = fields[i] .. '\0' .. fields[i + 1]
  end
  table.sort(texts)
  local newest = redis.call('XREVRANGE', key('events', run_id), '+', '-', 'COUNT', 1)
  texts[#texts + 1] = newest[1] and newest[1][1] or ''
  return redis.sha1hex(table.concat(texts, '\0'))
end

-- All but the record, and the list of its children, by which they are found.
local PARTS = {'state', 'history', 'events', 'logs', 'failures', 'messages', 'transcripts',
  'failed_transcripts', 'superseded', 'spawned'}
local UNTIL_ARCHIVED_MS = 3600000

local function remove_parts(run_id)
  for _, kind in ipairs(PARTS) do
    remove(key(kind, run_id))
  end
  forget_kept(run_id)
end

-- Have what is stored of an ended run expire later.
local function keep_parts(run_id)
  for _, kind in ipairs(PARTS) do
    write_undone_by(nil, 'PEXPIRE', key(kind, run_id), 2 * retention_ms)
  end
  write_undone_by(nil, 'PEXPIRE', key('children', run_id), 2 * retention_ms)
  let_kept_expire(run_id)
end

-- Write parts that are not there: for each its kind, perhaps followed by a visit, its shape, the
-- number of values, and these: fields of a hash, entries of a list, ids and texts of a stream.
local function write_parts(run_id, rest)
  local take = taker(rest)
  local kind, shape, count = unpack(take(3))
  while kind do
    local name, visit = string.match(kind, '^(%S+) ?(.*)$')
    local target, values = key(name, visit == '' and run_id or run_id .. ' ' .. visit), take(tonumber(count))
    undo[#undo + 1] = {'DEL', target}
    if shape == 'hash' then
      add('HSET', target, values)
    elseif shape == 'list' then
      push('RPUSH', target, values)
    else
      for i = 1, #values, 2 do
        write_undone_by(nil, 'XADD', target, values[i], 'e', values[i + 1])
      end
    end
    write_undone_by(nil, 'PEXPIRE', target, 2 * retention_ms)
    kind, shape, count = unpack(take(3))
  end
end
