-- Sums of an hour, which lib/usage.lua and lib/indexes.lua count in a partition:
--   {pNN}:hours   the set of the hours since 1970 that it has sums of. Once an hour is over, a sweep
--                 adds them up over all partitions (scheduler/store/figures/folding.py)
-- LAZY

local HOUR_MS = 3600000
local DAY_MS = 24 * HOUR_MS

local function hour_of(at_ms)
  return string.format('%.0f', math.floor(at_ms / HOUR_MS))
end

local function day_of(at_ms)
  return string.format('%.0f', math.floor(at_ms / DAY_MS))
end

-- Have an hour added up once it is over.
local function note_hour(hour)
  local hours = partition .. ':hours'
  if redis.call('SISMEMBER', hours, hour) == 0 then
    write_undone_by({'SREM', hours, hour}, 'SADD', hours, hour)
  end
  write('PEXPIRE', hours, spend_retention_ms)
end
