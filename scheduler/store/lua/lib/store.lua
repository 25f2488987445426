-- Shared by all scripts: key names, the time, visits as records, narration.
-- All keys of a run and its indexes carry the partition's hash tag, so they are in one slot.

local FINAL = {succeeded = true, failed = true, cancelled = true, timed_out = true}
local timers = partition .. ':timers'
local inbox = partition .. ':inbox'
local archivable = partition .. ':archivable'
-- On a cluster, the tag of the partition's group: it comes before the names of keys outside of
-- partitions that are in the same slot.
local group_tag = string.match(partition, '^({[^}]*}).') or ''

local function key(kind, id)
  return partition .. ':' .. kind .. ':' .. id
end

local function timer(kind, run_id, visit)
  return visit and kind .. ' ' .. run_id .. ' ' .. visit or kind .. ' ' .. run_id
end

-- Whether a run exists and has not ended.
local function is_open(run_id)
  local status = redis.call('HGET', key('run', run_id), 'status')
  return status and not FINAL[status]
end

-- The labels in the text of a record's field.
local function labels_in(text)
  local readable, labels = pcall(cjson.decode, text or '{}')
  return readable and labels or {}
end

local tell_hooks  -- of lib/hooks.lua

-- Tell who has lists of runs or of questions open, if anybody does: `run <run>` has come to a status,
-- `ask <run>` and `answer <run>` of a question. And tell hooks, if there are any, of an `event` of
-- the run, perhaps about a `question`.
local function tell_others(what, run_id, event, question)
  local watched, hooks = unpack(redis.call('MGET', partition .. ':watched', partition .. ':hooks'))
  if watched then
    tell('sleipnir:changes', what .. ' ' .. run_id)
  end
  if hooks and event then
    tell_hooks(hooks, event, run_id, question)
  end
end

-- Visit ids: `<step>/<node>`; for an item of a map `<step>/<map node>/<index>`, and from the second
-- node of its chain on `<step>/<map node>/<index>/<node>/<number>`: its n-th visit of that node.

local function visit_of(step, node)
  return step .. '/' .. node
end

-- `at`: `<node>/<number>`, false or nil while the item is at its first visit.
local function invocation_of(map_visit, index, at)
  return map_visit .. '/' .. index .. (at and '/' .. at or '')
end

local function node_of(visit)
  return string.match(visit, '^%d+/([^/]+)')
end

-- The map visit of an invocation, its index, and the node it names, '' for the map's branch; nil for
-- any other visit.
local function map_of(visit)
  return string.match(visit, '^(%d+/[^/]+)/(%d+)/?([^/]*)')
end

-- The handle by which a parent and its model know a child.
local function handle_of(child_id)
  return string.sub(child_id, -8)
end

-- Split a list after its first 2 * `count` values: the fields of a hash, and what follows them.
local function split(list, count)
  local first, others = {}, {}
  for i, value in ipairs(list) do
    local part = i <= 2 * count and first or others
    part[#part + 1] = value
  end
  return first, others
end

-- A function that takes the next `count` values off a list each time it is called, or all remaining
-- ones without a count.
local function taker(list)
  local first = 1
  return function(count)
    local taken, stop = {}, count and first + count - 1 or #list
    for i = first, stop do
      taken[#taken + 1] = list[i]
    end
    first = stop + 1
    return taken
  end
end

-- A JSON object with more members in front, as text or packed (process/packing.py).
local function with_members(members, object)
  return (string.byte(object) == 255 and '\255' or '{') .. members .. string.sub(object, 2)
end

-- An open visit is one field of the hash `visits`. Its value:
--   status     ready | leased | staged | waiting, as the rows of lib/waiting.lua say
--              held: may continue, but waits for a place in its step's window
--   token      of the delivery that holds the lease; '-' if none does
--   tries      deliveries begun since it last parked; bounded by max_deliveries
--   attempt    from 1, plus one after each back-off
--   began      ms of the first begin, 0 before it; afterwards <ms>+<wait>+<parked>+<rests>, all ms:
--              wait from its step's start to <ms>; parked in total, without a map's wait for its
--              items; when it last parked, 0 if it has resumed since
--   published  ms of the last message
--   turns      entries in the list `turns`: a recorded conversation with a model
-- and, if it waits or has waited for anything:
--   rows       number of rows in the hash `waits`
--   open       those not closed yet
--   still      open ones that need a person
--   fresh      those closed since it last began
--   mode       all | first: whether it resumes after all of them or after the first
local function parse_visit(packed)
  local status, token, tries, attempt, began, times, published, turns, waits =
    string.match(packed, '^(%S+) (%S+) (%d+) (%d+) (%d+)([+%d]*) (%d+) (%d+) (.*)$')
  local wait, parked, rests = string.match(times or '', '^%+(%d+)%+(%d+)%+(%d+)$')
  local rows, open, still, fresh, mode = 0, 0, 0, 0, 'all'
  if waits and waits ~= '' then
    rows, open, still, fresh, mode = string.match(waits, '^(%d+) (%d+) (%d+) (%d+) (%l+)$')
  end
  return {
    status = rows and status, token = token, tries = tonumber(tries), attempt = tonumber(attempt),
    began = tonumber(began), wait = tonumber(wait) or 0, parked = tonumber(parked) or 0,
    rests = tonumber(rests) or 0, published = tonumber(published), turns = tonumber(turns),
    rows = tonumber(rows) or 0, open = tonumber(open) or 0, still = tonumber(still) or 0,
    fresh = tonumber(fresh) or 0, mode = mode, packed = packed,
  }
end

local function pack_visit(v)
  local began = v.began == 0 and '0'
    or string.format('%.0f+%.0f+%.0f+%.0f', v.began, v.wait, v.parked, v.rests)
  local packed = string.format('%s %s %d %d %s %.0f %d ', v.status, v.token, v.tries, v.attempt,
    began, v.published, v.turns)
  if v.rows == 0 then return packed end
  return packed .. string.format('%d %d %d %d %s', v.rows, v.open, v.still, v.fresh, v.mode)
end

local function read_visit(run_id, visit)
  local packed = redis.call('HGET', key('visits', run_id), visit)
  return packed and parse_visit(packed)
end

local function write_visit(run_id, visit, v)
  local visits, packed = key('visits', run_id), pack_visit(v)
  local undone_by = v.packed and {'HSET', visits, visit, v.packed} or {'HDEL', visits, visit}
  write_undone_by(undone_by, 'HSET', visits, visit, packed)
  v.packed = packed
end

local function new_visit()
  return {
    status = 'ready', token = '-', tries = 0, attempt = 1, began = 0, wait = 0, parked = 0,
    rests = 0, published = now_ms, turns = 0, rows = 0, open = 0, still = 0, fresh = 0, mode = 'all',
  }
end

-- Remove the timer of a handled visit. If undone, it is due when a lost message's would be, so its
-- earlier value need not be read.
local function stop_timer(member)
  write_undone_by({'ZADD', timers, now_ms + republish_ms, member}, 'ZREM', timers, member)
end

-- Append to a visit's conversation; the caller writes the visit.
local function record_turn(run_id, visit, v, entry)
  push('RPUSH', key('turns', run_id .. ' ' .. visit), {entry})
  v.turns = v.turns + 1
end

local function forget_turns(run_id, visit, v)
  if v.turns and v.turns > 0 then  -- nil in an unreadable record
    remove(key('turns', run_id .. ' ' .. visit))
  end
end

-- Whether this delivery still holds the visit's lease.
local function holds(v, token)
  return v and v.token == token and (v.status == 'leased' or v.status == 'staged')
end

-- Whether a run accepts no more results; one without a status does not exist.
local function is_over(status, deadline)
  return not status or FINAL[status] or deadline and now_ms >= tonumber(deadline)
end

-- Return nil and the visit that a delivery holds, or the refusal.
local function check_holder(run_id, visit, token, status, deadline)
  if is_over(status, deadline) then return {'run_closed'} end
  local v = read_visit(run_id, visit)
  if not holds(v, token) then return {'stale_visit'} end
  return nil, v
end

local function narrate(run_id, event)
  if event ~= '' then
    local events = key('events', run_id)
    local undone_by = {'XDEL', events}
    undone_by[3] = write_undone_by(undone_by,
      'XADD', events, 'MAXLEN', '~', narration_limit, '*', 'e', event)
  end
end

-- Add usage to a run and its ancestors; `usage` is '' or as lib/usage.lua says.
local function add_usage(run_id, usage)
  if usage ~= '' then
    count_call(run_id, usage)
  end
end
