-- Take the lease of a visit and read what its node needs. Safe to repeat with the same token.
-- KEYS partition
-- ARGV run_id visit token lease_ms bundle rest
-- bundle: the agent that will execute it; '' for whichever the run has
-- REST the state's keys to read, and of what an item of a map has written; none for all of them
-- USES store hooks hours listed indexes dispatch waiting begin
-- OK   status tries width visit_number attempt turns age_ms wait_ms parked_ms left_ms results context item way own life machine state
--      age_ms since it first began, wait_ms from its step's start to then; parked_ms of its age
--      left_ms until the run's deadline, -1 without one; item: of a map's invocation
--      way, own  where the item has been before, as JSON text, and key, value pairs it has written
--      life     changes when the run is started again or continues after its end
--      machine  the only one whose workers may take the run by now, '' for any
--      results  call id, result pairs of its closed waits that it has not used yet
-- ERR  run_closed   the run has ended, or its deadline has passed
-- ERR  stale_visit  it is done, parked, or held by another delivery: nothing to do
local refusal, begun = begin(run_id, visit, token, lease_ms, bundle, rest)
if refusal then return refusal end
return {'OK', {}, unpack(begun)}
