-- Read everything a run has in its partition at one instant, to check that it fits together.
-- KEYS partition
-- ARGV run_id rest
-- REST visits that some index names with this run, besides those that are open
-- USES store
-- OK   record visits staged pending indexed deadline expiry children parent keys steps
--      visits    visit, packed, its timer, its child's timer, asked at, question, invocations, turns
--      children  run id, status, parent; parent: status, the visit packed, whether it lists us
--      keys      kind, ms until it expires: -1 never, -2 it does not exist
--      '' stands for what does not exist
local run = key('run', run_id)
local record = redis.call('HGETALL', run)
local digest, parent = unpack(redis.call('HMGET', run, 'digest', 'parent'))

local function score(index, member)
  return redis.call('ZSCORE', index, member) or ''
end

local named, visits = {}, {}
local function add(names)
  for _, visit in ipairs(names) do
    if not named[visit] then
      named[visit] = true
      local map = key('map', run_id .. ' ' .. visit)
      local invocations = redis.call('EXISTS', map) == 1
        and (redis.call('HGET', map, 'inflight') or '0') or ''
      visits[#visits + 1] = {
        visit, redis.call('HGET', key('visits', run_id), visit) or '',
        score(timers, timer('visit', run_id, visit)), score(timers, timer('child', run_id, visit)),
        score(inbox, run_id .. ' ' .. visit),
        redis.call('HEXISTS', key('questions', run_id), visit), invocations,
        redis.call('LLEN', key('turns', run_id .. ' ' .. visit)),
      }
    end
  end
end
add(redis.call('HKEYS', key('visits', run_id)))
add(redis.call('HKEYS', key('questions', run_id)))
add(rest)

local children = {}
for i, child in ipairs(redis.call('LRANGE', key('children', run_id), 0, -1)) do
  local status, of = unpack(redis.call('HMGET', key('run', child), 'status', 'parent'))
  children[i] = {child, status or '', of or ''}
end

local above = {}
if parent then
  local parent_run, parent_visit = string.match(parent, '^(%S+) (%S+)$')
  above = {
    redis.call('HGET', key('run', parent_run), 'status') or '',
    redis.call('HGET', key('visits', parent_run), parent_visit) or '',
    redis.call('LPOS', key('children', parent_run), run_id) and 1 or 0,
  }
end

local keys = {}
for _, kind in ipairs({'run', 'state', 'history', 'events', 'logs', 'children',
  'visits', 'staged', 'pending', 'questions'}) do
  keys[#keys + 1] = kind
  keys[#keys + 1] = redis.call('PTTL', key(kind, run_id))
end

return {'OK', {}, record, visits, redis.call('HKEYS', key('staged', run_id)),
  redis.call('LRANGE', key('pending', run_id), 0, -1),
  score(partition .. ':runs', run_id), score(timers, timer('deadline', run_id)),
  digest and score(timers, timer('expiry', run_id, digest)) or '',
  children, above, keys, redis.call('LLEN', key('history', run_id))}
