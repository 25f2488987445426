-- Take a run out of its batch, where another attempt has replaced it.
-- KEYS partition
-- ARGV run_id batch
-- USES store hooks hours listed indexes
local r = read_listed(run_id)
if r.batch == batch then
  leave_batch(run_id, r)
end
return {'OK', {}}
