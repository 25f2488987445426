-- Derives a run's place in lists and counts from its record. Reads only.
--
-- A child run is only in the indexes `childruns` and `ids`. A root run is in
--   ids, runs, agent:<agent>, batch:<batch>, label:<key>=<value>   as long as it is stored
--   open                         until it ends, and in `waiting` while it waits
--   failed, cancelled, timed_out once it has ended that way
-- and is counted in `tally` once it has ended, and in the sums of the hour of its end
-- (lib/indexes.lua); in `batchtally:<batch>` always.
-- LAZY

-- The fields that these depend on, and others that finish and purge read.
local LISTED_BY = {'status', 'parent', 'agent', 'created', 'started', 'ended', 'batch', 'labels',
  'cost', 'unpriced', 'prompt_tokens', 'completion_tokens', 'cached_tokens', 'digest', 'deadline',
  'failed_nodes', 'handled_failures', 'kept', 'transcripts_end',
  'failed_transcripts_end', 'try', 'session', 'spawns', 'spawned', 'schedule'}
-- Upper bounds of the duration buckets, s.
local DURATIONS = {1, 5, 30, 120, 600, 3600, 86400}

local function read_listed(run_id)
  local r = {}
  for i, value in ipairs(redis.call('HMGET', key('run', run_id), unpack(LISTED_BY))) do
    r[LISTED_BY[i]] = value
  end
  return r
end

local function duration_of(r)
  local took_ms = (tonumber(r.ended) or 0) - (tonumber(r.started or r.ended) or 0)
  for _, most in ipairs(DURATIONS) do
    if took_ms <= 1000 * most then return most end
  end
  return 'inf'
end

-- How a root run ended: status, duration and cost, a line each. Durations in ms and costs in
-- billionths of a dollar from 2^(n-1) to less than 2^n are counted together, as n; 0 is none, and an
-- unknown cost is `-`.
local function kind_of_end(r)
  local took_ms = (tonumber(r.ended) or 0) - (tonumber(r.started or r.ended) or 0)
  local _, took = math.frexp(math.max(0, took_ms))
  local _, cost = math.frexp(math.floor((tonumber(r.cost) or 0) * 1e9 + 0.5))
  return r.status .. '\n' .. took .. '\n' .. (r.unpriced and '-' or cost)
end

-- Call `note` with each count of a root run, times `by`: hash, field, n. Money is in billionths of
-- a dollar: whole numbers add up to exactly 0 again.
local function sum_up(r, by, note)
  local batch = r.batch and 'batchtally:' .. r.batch
  if not FINAL[r.status] then
    if batch then note(batch, r.status == 'waiting' and 'waiting' or 'open', by) end
    return
  end
  local agent = r.agent or ''
  note('tally', r.status .. ' ' .. duration_of(r) .. ' ' .. agent, by)
  if batch then note(batch, r.status, by) end
  if r.unpriced then
    note('tally', 'unpriced ' .. agent, by)
    if batch then note(batch, 'unpriced', by) end
  end
  if not r.prompt_tokens and not r.cost then return end
  local cost = math.floor((tonumber(r.cost) or 0) * 1e9 + 0.5)
  local prompt, completion = tonumber(r.prompt_tokens) or 0, tonumber(r.completion_tokens) or 0
  note('tally', 'cost ' .. agent, by * cost)
  note('tally', 'prompt ' .. agent, by * prompt)
  note('tally', 'completion ' .. agent, by * completion)
  note('tally', 'cached ' .. agent, by * (tonumber(r.cached_tokens) or 0))
  if batch then
    note(batch, 'cost', by * cost)
    note(batch, 'tokens', by * (prompt + completion))
  end
end

-- The indexes that contain a root run whatever its status.
local function lasting_indexes(r)
  local names = {'runs', 'agent:' .. (r.agent or '')}
  if r.batch then
    names[3] = 'batch:' .. r.batch
  end
  for label, value in pairs(labels_in(r.labels)) do
    names[#names + 1] = 'label:' .. label .. '=' .. value
  end
  return names
end
