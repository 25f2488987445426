-- All or nothing: if anything fails in a script, none of its writes remain.
--
-- Redis does not roll back. So every write goes through one of these functions, which record how to
-- undo it; write commands are never passed to redis.call directly elsewhere.
--   write_undone_by  when the script knows the command that undoes the write
--   write            first reads what it replaces
--   set_known        fields of a hash whose earlier values the script has read
--   add, push        new fields, members or entries, any number of them
--   pop, pop_many, pop_last  the first entries of a list, the last one
--   write_last       a write that is costly to undo, made when little is left that could fail
--   remove           keys, removed at the very end
--   tell             messages to subscribers, sent after that
-- Every call of a script creates these functions again, so rarely used ones are created on demand.

local PIECE = 4000  -- arguments per call: Lua's stack holds 8,000

local undo = {}  -- commands; scripts may add their own
local reading, last, removed, told

-- `undone_by`: a command as a table; nil if an earlier entry undoes this too, or if the write is
-- harmless by itself.
local function write_undone_by(undone_by, command, ...)
  local answer = redis.call(command, ...)
  undo[#undo + 1] = undone_by
  return answer
end

-- How `write` reads what a command will replace, and records how to restore it.
local function make_reading()
  local before = {}
  local function note(...)
    undo[#undo + 1] = {...}
  end
  -- A key that becomes empty loses its expiry, too.
  local function note_expiry(target)
    local left = redis.call('PTTL', target)
    if left >= 0 then note('PEXPIRE', target, left) end
  end
  local function note_fields(target, ...)
    local names = {...}
    for i, old in ipairs(redis.call('HMGET', target, ...)) do
      if old then note('HSET', target, names[i], old) else note('HDEL', target, names[i]) end
    end
  end
  local function note_score(target, member)
    local score = redis.call('ZSCORE', target, member)
    if score then note('ZADD', target, score, member) else note('ZREM', target, member) end
  end
  function before.HDEL(target, ...)
    note_expiry(target)
    note_fields(target, ...)
  end
  function before.HSET(target, ...)
    local given, names = {...}, {}
    for i = 1, #given, 2 do
      names[#names + 1] = given[i]
    end
    note_fields(target, unpack(names))
  end
  function before.HINCRBY(target, field)
    note_fields(target, field)
  end
  before.HINCRBYFLOAT = before.HINCRBY
  function before.ZREM(target, ...)
    note_expiry(target)
    for _, member in ipairs({...}) do
      note_score(target, member)
    end
  end
  function before.ZADD(target, ...)
    local given = {...}
    for i = 2, #given, 2 do
      note_score(target, given[i])
    end
  end
  function before.PEXPIRE(target)
    local left = redis.call('PTTL', target)
    if left >= 0 then note('PEXPIRE', target, left) else note('PERSIST', target) end
  end
  function before.SET(target)
    local old = redis.call('GET', target)
    if not old then return note('DEL', target) end
    before.PEXPIRE(target)
    note('SET', target, old)
  end
  return before
end

local function write(command, target, ...)
  reading = reading or make_reading()
  -- Undoing a write that has not happened changes nothing, so this can be recorded first.
  reading[command](target, ...)
  return redis.call(command, target, ...)
end

-- `fields`: {name, earlier value or false, value} each.
local function set_known(target, fields)
  for first = 1, #fields, PIECE / 2 do
    local given, replaced, added = {}, {'HSET', target}, {'HDEL', target}
    for i = first, math.min(first + PIECE / 2 - 1, #fields) do
      local name, before, value = unpack(fields[i])
      given[#given + 1], given[#given + 2] = name, value
      if before then
        replaced[#replaced + 1], replaced[#replaced + 2] = name, before
      else
        added[#added + 1] = name
      end
    end
    undo[#undo + 1] = added[3] and added
    write_undone_by(replaced[3] and replaced, 'HSET', target, unpack(given))
  end
end

local function pop(target)
  local first = redis.call('LPOP', target)
  if first then
    undo[#undo + 1] = {'LPUSH', target, first}
  end
  return first
end

local function pop_last(target)
  local text = redis.call('RPOP', target)
  if text then
    undo[#undo + 1] = {'RPUSH', target, text}
  end
  return text
end

-- Remove the first `count` entries of a list, which has so many.
local function pop_many(target, count)
  while count > 0 do
    local popped = redis.call('LPOP', target, math.min(count, PIECE))
    local undone_by = {'LPUSH', target}
    for i = #popped, 1, -1 do
      undone_by[#undone_by + 1] = popped[i]
    end
    undo[#undo + 1] = undone_by
    count = count - #popped
  end
end

local function in_pieces(by, command, target, arguments)
  for first = 1, #arguments, PIECE do
    by(command, target, unpack(arguments, first, math.min(first + PIECE - 1, #arguments)))
  end
end

-- HSET of new fields, or ZADD of new members.
local function add(command, target, arguments)
  local inverse, offset = 'HDEL', 0
  if command == 'ZADD' then inverse, offset = 'ZREM', 1 end
  for first = 1, #arguments, PIECE do
    local stop = math.min(first + PIECE - 1, #arguments)
    local undone_by = {inverse, target}
    for i = first + offset, stop, 2 do
      undone_by[#undone_by + 1] = arguments[i]
    end
    write_undone_by(undone_by, command, target, unpack(arguments, first, stop))
  end
end

-- LPUSH or RPUSH.
local function push(command, target, entries)
  for first = 1, #entries, PIECE do
    local stop = math.min(first + PIECE - 1, #entries)
    local count = stop - first + 1
    local undone_by = command == 'LPUSH' and {'LTRIM', target, count, -1}
      or {'LTRIM', target, 0, -1 - count}
    write_undone_by(undone_by, command, target, unpack(entries, first, stop))
  end
end

-- At most one per script, in one piece; nothing else in the script may depend on it.
local function write_last(...)
  last = {...}
end

local function remove(...)
  removed = removed or {}
  for _, target in ipairs({...}) do
    removed[#removed + 1] = target
  end
end

-- For a key that the same script may read again.
local function remove_now(target)
  local aside = target .. ' removed'
  if redis.call('EXISTS', target) == 1 then
    write_undone_by({'RENAME', aside, target}, 'RENAME', target, aside)
    remove(aside)
  end
end

local function tell(channel, text)
  told = told or {}
  told[#told + 1] = {channel, text}
end

-- The values of many fields of a hash, false for missing ones.
local function read_fields(target, names)
  if names[1] and #names <= PIECE then return redis.call('HMGET', target, unpack(names)) end
  local values = {}
  for first = 1, #names, PIECE do
    local stop = math.min(first + PIECE - 1, #names)
    for i, value in ipairs(redis.call('HMGET', target, unpack(names, first, stop))) do
      values[first + i - 1] = value
    end
  end
  return values
end

local function complete()
  if last and removed then
    write(unpack(last))
  elseif last then
    redis.call(unpack(last))
  end
  if removed then
    -- Once one piece is removed there is no way back, and no reason to keep the next.
    local call = redis.call
    in_pieces(function(command, _, ...)
      call(command, ...)
      call = redis.pcall
    end, 'UNLINK', '', removed)
  end
  for _, message in ipairs(told or {}) do
    redis.pcall('PUBLISH', unpack(message))
  end
end

-- What a caller gets for a failure: `broken` and the reason; but Redis' own error if it refuses
-- all commands at the moment.
local function failed(reason)
  local text = type(reason) == 'table' and reason.err or tostring(reason)
  local refusal = string.gsub(text, '^@?user_script: ?%d+: %-', '')
  local code = string.match(refusal, '^(%u+) ')
  if code and code ~= 'ERR' and code ~= 'WRONGTYPE' or string.find(refusal, 'used memory')
    or string.find(refusal, 'ACL failure') or string.find(refusal, "can't run this command") then
    return {err = refusal}
  end
  return {'broken', refusal}
end

local function all_or_nothing(transition)
  local done, answer = pcall(transition)
  if done and (last or removed or told) then
    local failure
    done, failure = pcall(complete)
    answer = done and answer or failure
  end
  if done then return answer end
  for i = #undo, 1, -1 do
    redis.pcall(unpack(undo[i]))
  end
  return failed(answer)
end
