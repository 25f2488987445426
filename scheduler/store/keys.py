"""Every Redis key: its pattern, type, contents, owner and expiry.

`{pNN}` is the partition's hash tag, NN from the first two hex digits of the run id. Child
runs share their root's partition, so a parent and its children change in one transition.

Of a run, `{pNN}:<kind>:<run>`, kept for the retention time after its end; the record until the
sweep removes it, the others expire by themselves after twice that time:
    run       hash    the record; field `n:<node>` counts the visits of a node,
                      `died:<visit>` processes of its own that a visit took down in a row
    state     hash    key → JSON text
    history   list    one checkpoint a super-step; the first holds the seeds; folded if long
    events    stream  narration, capped
    logs      list    output of scripts, capped
    children  list    ids of child runs
    spawned   hash    those that its model has started and that go on, by the last 8 digits; of a
                      run that did not succeed those that ended with it
    failures  list    those that the run outlives, the first 100 of each kind; the record
                      counts all (`failed_nodes`, `handled_failures`)
    tokens    stream  model replies as they are generated, for watchers; capped, expires in seconds
    messages  list    of a child run: what others have sent it; how many of them it has read is
                      in its state
    transcripts  list  conversations of `llm` nodes with their models, capped
    failed_transcripts  list  those of attempts that failed, capped by itself: what succeeded
                              never takes their place
    superseded  list  checkpoints that a retry from an earlier step has taken back
Of a run, gone with its end if it succeeded; else kept as long as the others, for another try:
    staged    hash    node → what a finished branch of the current step produced
    kept      hash    visits that broke off or failed, as lua/lib/kept.lua says
Of a run, gone with its end at the latest (`waits`, `map`, `turns` stay of visits that are `kept`):
    visits    hash    open visits, packed as lua/lib/store.lua says
    pending   list    visits that the step's window holds back
    questions hash    visit, or `<visit> <call id>` if it has several → open question
    escalations zset  of a root: `<run> <question>` of its descendants, which its model may answer
                      → asked at, ms
    waits     hash    (`:<run> <visit>`) what a visit waits for, and what came of it, by call id,
                      as lua/lib/waiting.lua says
    map       hash    (`:<run> <visit>`) items, results and window of a map
    turns     list    (`:<run> <visit>`) a conversation: replies of the model, results of calls
    recalled  string  (`:<run> <visit>`) a visit's turn came before it was at rest: when, ms;
                      expires in seconds
A key that is removed while its script goes on is `<key> removed` until that has ended.
Of a partition, without expiry, each entry removed with what it names:
    {pNN}:timers   zset    when to look, ms, at `visit <run> <visit>`, `deadline <run>`,
                           `wait <run> <visit> <call id>`, `expiry <run> <bundle digest>`
    {pNN}:inbox    zset    `<run> <question>` → asked at, ms
    {pNN}:bundles  hash    bundle digest → number of this partition's runs that use it
    {pNN}:sessions hash    `<agent>/<session>` → its last run
Of these the indexes, written by lua/lib/indexes.lua; each zset has run → created at, ms:
    {pNN}:ids:<first 3 digits>  hash    runs and child runs; their ids are the fields
    {pNN}:childruns             zset    child runs; they are in no other index
    {pNN}:runs                  zset    root runs
    {pNN}:agent:<agent>         zset    those of an agent
    {pNN}:batch:<batch>         zset    those of a batch
    {pNN}:label:<key>=<value>   zset    those with a label
    {pNN}:open                  zset    those that are queued, running or waiting
    {pNN}:waiting  :failed  :cancelled  :timed_out  zset  those of that status
    {pNN}:batches               zset    batch → when one of its runs was created, began to wait or
                                        no longer did, or ended, ms
Of these the sums over stored root runs, whole numbers; a field that comes to 0 is removed:
    {pNN}:batchtally:<batch>    hash    of a batch: runs by status, `open` being queued or running;
                                        of those that are over, `cost` in billionths of a dollar,
                                        `tokens`, and runs whose cost is not known, `unpriced`
    {pNN}:tally                 hash    of runs that are over: `<status> <duration> <agent>`, the
                                        duration in s that they took at most, 1 to 86400 or inf;
                                        `cost|prompt|completion|cached|unpriced <agent>`
Of these who looks after the partition:
    {pNN}:owner    string  the scheduler that sweeps the partition; expires in seconds
    {pNN}:swept    string  when it last did, ms: until then no time was lost
    {pNN}:watched  string  somebody has a list of runs or questions open, and is told of changes on
                           the channel `sleipnir:changes`; expires in seconds
Of limits of model calls, `{limits}:…`, all in one slot; all expire but `settings`:
    settings           hash    what `sleipnir limits` changed
    ahead              string  by how much the limits' clock is ahead of Redis', ms
    names              zset    what calls wait for → when one last did, ms
    waiting:<name>     zset    calls → when each is to come back, ms
    queue:<limit>      zset    the same of calls that wait for one of a limit's places
    call:<call>        hash    a call that waits: when it is due, since when, and for what
    state:<name>       hash    rates, lines and counts of a limit or of what is paused
    held:<limit>       zset    calls in a place of a limit → until when unless renewed, ms
    budget:<budget>    hash    what was spent of it, and what calls have reserved of it
    holds:<budget>     zset    such a reservation → until when unless renewed, ms
    budgets            zset    budgets → when last used, ms
    pauses             hash    model or connection → why it pauses, and until when
    people             hash    run that waits for a person to lift a limit → what that limits
    released:<call>    string  the answer to a call's release, should it be asked for again
Shared:
    sleipnir:bundle:<digest>   string  a packed agent directory; swept when unused
    sleipnir:bundles           zset    digest → last submission that used it, ms
    sleipnir:batch:<batch>     hash    what `sleipnir batch` makes of an input: `agent`, and its
                                       `lines`; expires after twice the retention time. Also
                                       the channel on which the batch's runs are named as they end
    sleipnir:cache:<digest>    string  a model's reply, by its request; expires as its node says
    sleipnir:index:<address>   string  hash of a knowledge base's packed index, number of its parts
    sleipnir:index:<address>:<digest>:<n> string  a part of it; all expire, later if something
                                       names it
    sleipnir:index-of          hash    bundle and node → address of the index that its runs search;
                                       swept with the bundle
    sleipnir:build-claim:<name> string  the run that builds an index; expires
    sleipnir:build-file:<name>:<n> string  documents or texts of a build; expires in a day
    sleipnir:vector:<digest>   string  the vector of a text, by model and text; expires in a day
    sleipnir:failures:<call>   string  how often embedding a batch has failed; expires in minutes
    sleipnir:recording:<digest> string  model calls that reply in place of a model
    sleipnir:recorded:<run>    hash    model calls of a root run and its children, as they go
    sleipnir:replayed:<run>    hash    which recorded replies such a run was given
                                       the last three expire after the retention time
    sleipnir:audit             stream  what people did to runs; the newest 100,000 acts
    sleipnir:machine:<name>    string  a worker of that machine is alive; expires in seconds
    sleipnir:worker:<name>     hash    a worker process: slots, visits, memory; expires in seconds
    sleipnir:probe             string  written to see whether that is possible; expires at once
    sleipnir:workers           set     their names; expires in a day
    sleipnir                   list    the queue, if the broker is this Redis; its first lane,
                                       `sleipnir\\x06\\x16<n>` the others (lua/lib/dispatch.lua)
    sleipnir:turns             zset    messages of batches' runs that have not begun → turn
    sleipnir:last-turns        hash    batch → the turn of its last run; expires
    sleipnir@<name>            list    the queue of runs that need that machine's files, with
                                       lanes and turns of its own
"""

from __future__ import annotations

from sleipnir.lazy import lazy_imports

# It brings OpenSSL, which help does without.
with lazy_imports():
    import hashlib
    import secrets


PARTITIONS = 64
ALL_PARTITIONS = tuple(f"{{p{number:02d}}}" for number in range(PARTITIONS))

BUNDLES = "sleipnir:bundles"
INDEX_OF = "sleipnir:index-of"
AUDIT = "sleipnir:audit"
WORKERS = "sleipnir:workers"
PROBE = "sleipnir:probe"
CHANGES = "sleipnir:changes"
QUEUE = "sleipnir"
# As kombu names the lists of a queue's priorities.
LANE_SEPARATOR = "\x06\x16"
LANES = 4
# What stands in the last lane for a message in the queue's turns.
TURN_MARK = "0"
# Ids that begin with the same so many are in one index: 250 of a million runs.
_DIGITS_OF_IDS = 3


def watched_key(partition: str) -> str:
    return f"{partition}:watched"


def new_run_id() -> str:
    """Return a random run id: 16 hex digits, the first two choose the partition."""
    return secrets.token_hex(8)


def new_id_in_session(session: str) -> str:
    """A random id in the partition of a session, `<agent>/<name>`: its runs all lie there."""
    return _prefix_of_session(session) + secrets.token_hex(7)


def partition_of_session(session: str) -> str:
    return partition_of(_prefix_of_session(session))


def _prefix_of_session(session: str) -> str:
    return hashlib.sha256(session.encode(errors="surrogatepass")).hexdigest()[:2]


def sessions_key(partition: str) -> str:
    return f"{partition}:sessions"


def new_child_id(parent: str) -> str:
    """Return a random id in the partition of `parent`."""
    return parent[:2] + secrets.token_hex(7)


def partition_of(run_id: str) -> str:
    """Return the hash tag of the run's partition; needs only the first two digits of an id.

    Raises:
        ValueError: if the id does not begin with two hex digits.
    """
    return ALL_PARTITIONS[int(run_id[:2], 16) % PARTITIONS]


def run_key(kind: str, run_id: str) -> str:
    """Return the key of one part of a run, `kind` as in the table above."""
    return f"{partition_of(run_id)}:{kind}:{run_id}"


def bundle_key(digest: str) -> str:
    return f"sleipnir:bundle:{digest}"


def cache_key(digest: str) -> str:
    return f"sleipnir:cache:{digest}"


def index_key(address: str) -> str:
    return f"sleipnir:index:{address}"


def index_part_key(address: str, digest: str, part: int) -> str:
    return f"{index_key(address)}:{digest[:16]}:{part}"


def vector_key(digest: str) -> str:
    return f"sleipnir:vector:{digest}"


def failures_key(call: str) -> str:
    return f"sleipnir:failures:{call}"


def build_claim_key(name: str) -> str:
    return f"sleipnir:build-claim:{name}"


def build_waiters_key(name: str) -> str:
    return f"sleipnir:build-waiters:{name}"


def build_file_key(name: str, part: int) -> str:
    return f"sleipnir:build-file:{name}:{part}"


def recording_key(digest: str) -> str:
    return f"sleipnir:recording:{digest}"


def recorded_key(root: str) -> str:
    return f"sleipnir:recorded:{root}"


def replayed_key(root: str) -> str:
    return f"sleipnir:replayed:{root}"


def batch_channel(batch: str) -> str:
    return f"sleipnir:batch:{batch}"


def batch_key(batch: str) -> str:
    return f"sleipnir:batch:{batch}"


def ids_keys(prefix: str) -> list[str]:
    """Return the indexes of the ids that begin with `prefix`, which has two digits or more."""
    partition = partition_of(prefix)
    if len(prefix) >= _DIGITS_OF_IDS:
        return [f"{partition}:ids:{prefix[:_DIGITS_OF_IDS]}"]
    return [f"{partition}:ids:{prefix}{digit:x}" for digit in range(16)]


def machine_key(machine: str) -> str:
    return f"sleipnir:machine:{machine}"


def worker_key(name: str) -> str:
    return f"sleipnir:worker:{name}"


def machine_queue(machine: str) -> str:
    """Return the queue of runs that are pinned to a machine."""
    return f"{QUEUE}@{machine}"


def lane_key(queue: str, lane: int) -> str:
    """Return the list of one lane of a queue; workers look into lane 0 first."""
    return f"{queue}{LANE_SEPARATOR}{lane}" if lane else queue


def turns_key(queue: str) -> str:
    """Messages of a queue's last lane, by turn."""
    return f"{queue}:turns"


def visit_id(step: int, node: str, index: int | None = None) -> str:
    """`<step>/<node>`, of a map's invocation `<step>/<map node>/<index>`."""
    return f"{step}/{node}" if index is None else f"{step}/{node}/{index}"


def invocation_id(map_visit: str, index: int) -> str:
    """Return the visit of one invocation of a map."""
    return f"{map_visit}/{index}"


def map_visit_of(visit: str) -> str | None:
    """Return the visit of the map that an invocation belongs to; None for any other visit."""
    step, node, index = parse_visit_id(visit)
    return None if index is None else visit_id(step, node)


def place_of(visit: str) -> str:
    """Where a visit is, whatever its step: its node, of an invocation `<map node>/<index>`."""
    return visit.partition("/")[2]


def parse_visit_id(visit: str) -> tuple[int, str, int | None]:
    """Return the step, node and index of a visit id."""
    step, node, *index = visit.split("/")
    return int(step), node, int(index[0]) if index else None
