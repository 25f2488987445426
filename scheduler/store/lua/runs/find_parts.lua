-- Read the record of a run that has ended, and find which parts of it there are. Reads only.
-- KEYS partition
-- ARGV run_id kinds kinds_of_visits
-- kinds: of a run's parts, as scheduler/runs/whole/parts.py has them, with blanks in between
-- kinds_of_visits: those of each visit that is kept
-- USES store whole
-- OK   record seen parts  the record's names and values, and what `sum_of` gives now
--      parts  a kind, of a visit `<kind> <visit>`
local parts = {}
local function find(names, id, suffix)
  for kind in string.gmatch(names, '%S+') do
    if redis.call('EXISTS', key(kind, id)) == 1 then
      parts[#parts + 1] = kind .. suffix
    end
  end
end
find(kinds, run_id, '')
for _, visit in ipairs(redis.call('HKEYS', key('kept', run_id))) do
  find(kinds_of_visits, run_id .. ' ' .. visit, ' ' .. visit)
end
return {'OK', {}, redis.call('HGETALL', key('run', run_id)), sum_of(run_id), parts}
