"""Every Redis key: its pattern, type, contents, owner and expiry.

On a cluster partitions are in groups, and `{pNN}` and names of queues begin with the tag of their
group instead, as cluster/layout.py says.

`{pNN}` is the partition's hash tag, NN from the first two hex digits of the run id. Child
runs share their root's partition, so a parent and its children change in one transition.

Of a run, `{pNN}:<kind>:<run>`, kept for the retention time after its end; the sweep then removes
the record; the others expire by themselves after twice that time:
    run       hash    the record; field `n:<node>` counts the visits of a node,
                      `died:<visit>` isolated processes that a visit killed in a row;
                      `spent:<node> <model>` sums up model calls as lua/lib/usage.lua says
    state     hash    key → JSON text
    history   list    one checkpoint per super-step; the first holds the seeds; folded if long;
                      these, logs and transcripts are packed as process/packing.py says
    events    stream  narration, capped
    logs      list    output of scripts, capped; a long reply of a model is named by its place in
                      the transcripts
    children  list    ids of child runs
    spawned   hash    children started by its model and still alive, by their last 8 digits; if
                      the run did not succeed, those that ended with it
    failures  list    node failures that did not end the run, the first 100 of each kind; the
                      record counts all (`failed_nodes`, `handled_failures`)
    tokens    stream  model replies as they are generated, for watchers; capped, expires in seconds
    messages  list    inbox of a normal agent's run; its state says how many it has read, of `mail`
                      if it is a member of a team
    transcripts  list  conversations of visits with their models, capped
    failed_transcripts  list  those of failed attempts, capped separately: transcripts of
                              successful ones never displace them
    superseded  list  checkpoints that a retry from an earlier step has replaced
  of an archived run only the record and `children` are left; the record has fewer fields, `prompt`,
  the beginning of its prompt, `secrets`, JSON of its secret variables, and `archived`: where its
  object is, its size, and its SHA-256 in base64
Of a run, removed at its end if it succeeded; else kept as long as the others, for a retry:
    staged    hash    node → result of a finished branch of the current step
    mail      hash    messages of the current step's teams: `message <member> <n>`, `sent <member>`
                      how many, `child <member>` the newest child that reads them; a member is the
                      visit of a node or an item
    kept      hash    visits that were interrupted or failed, as lua/lib/kept.lua says
Of a run, removed at its end at the latest (`waits`, `map`, `turns` stay for `kept` visits):
    visits    hash    open visits, packed as lua/lib/store.lua says
    pending   list    visits held back by the step's window
    questions hash    visit, or `<visit> <call id>` if it has several → open question
    escalations zset  of a root: `<run> <question>` of its descendants, which its model may answer
                      → asked at, ms
    waits     hash    (`:<run> <visit>`) what a visit waits for, and the results, by call id,
                      as lua/lib/waiting.lua says
    map       hash    (`:<run> <visit>`) items, results and window of a map; of items under
                      way, where they are and what they have written; which failures
                      stopped it
    turns     list    (`:<run> <visit>`) a conversation: the model's replies, results of calls
    dropped   string  (`:<run> <visit> <token> <entry>`) the usage of a reply that came too late is
                      counted; expires in an hour
    recalled  string  (`:<run> <visit>`) when a visit was woken before it had parked, ms;
                      expires in seconds
Of a root run that was removed, for the retention time:
    gone      string  what old links to it show: its agent, its end, and when it was removed
A key removed by a script that is still running is renamed to `<key> removed` until the end.
Of a partition, without expiry; each entry is removed with what it names:
    {pNN}:timers   zset    due at, ms, of `visit <run> <visit>`, `deadline <run>`,
                           `wait <run> <visit> <call id>`, `expiry <run>`, `schedule <name>`,
                           `hook <digits> <hook> <event>` and `batch <digits> <batch>`, where
                           the digits are those of the partition
    {pNN}:inbox    zset    `<run> <question>` → asked at, ms
    {pNN}:builds   zset    `<claim> <run> <visit> <call id>` of waits for a build by another run
    {pNN}:archivable zset  root runs that have ended and are not archived → when to do that, ms
    {pNN}:bundles  hash    bundle digest → number of this partition's runs that use it
    {pNN}:sessions hash    `<agent>/<session>` → its last run
    {pNN}:schedules zset   schedules → the next instant, ms; `inf` if there is none
    {pNN}:schedule:<name>  hash  a schedule: its `definition`, the `run` that it starts, how it
                           is `standing`, its `last` run; it is also one use of its bundle
Of these the indexes, written by lua/lib/indexes.lua; each zset has run → created at, ms:
    {pNN}:ids:<first 3 digits>  hash    runs and child runs; their ids are the fields
    {pNN}:childruns             zset    child runs; they are in no other index
    {pNN}:runs                  zset    root runs
    {pNN}:agent:<agent>         zset    those of an agent
    {pNN}:batch:<batch>         zset    those of a batch
    {pNN}:label:<key>=<value>   zset    those with a label
    {pNN}:open                  zset    those that are queued, running or waiting
    {pNN}:waiting  :failed  :cancelled  :timed_out  zset  those of that status
    {pNN}:batches               zset    batch → when one of its runs was created, started or
                                        stopped waiting, or ended, ms
    {pNN}:dearest:<days since 1970>  zset  root run → cost, of those that ended that day: the 20
                                        dearest; expires after twice the retention time
    {pNN}:batchends:<batch>     zset    run → ended at, ms: the last of a batch's runs that ended;
                                        expires in an hour
Of these the sums over stored root runs, whole numbers; a field that reaches 0 is removed:
    {pNN}:batchtally:<batch>    hash    runs of a batch by status (`open`: queued or running); of
                                        ended ones, `cost` in billionths of a dollar, `tokens`,
                                        and `unpriced`, the number of runs of unknown cost
    {pNN}:tally                 hash    of ended runs: `<status> <duration> <agent>`, where
                                        duration is a bucket's upper bound in s, 1 to 86400 or
                                        inf; `cost|prompt|completion|cached|unpriced <agent>`
Of these, without the above:
    {pNN}:scheduled hash   instants of schedules that were `skipped` and `missed`; stays
    {pNN}:repairs  hash    repair of a stranded run, by its name → how often it was made; stays
Of these, the sums of an hour (UTC), as they are counted, until they are added up once it is over;
they expire after `spend_retention_s`:
    {pNN}:spend:<hours since 1970>  hash  what model calls used: agent, node, batch, model → sum, as
                                          lua/lib/usage.lua says
    {pNN}:labelled:<hours since 1970>  hash  the same by the labels of root runs: label, value → sum
    {pNN}:ended:<hours since 1970>  hash  how root runs ended: agent, batch, status, duration, cost
                                          → number, as lua/lib/listed.lua says
    {pNN}:hours                     set   these hours
Of these, requests that providers are to answer in batches, as lua/lib/economy.lua says; they expire
after twice the retention time:
    {pNN}:request:<id>             hash  a request: its visit, its body until the provider has it
    {pNN}:collected:<collection>   zset  requests that belong to no group yet → joined at, ms
    {pNN}:collecting               hash  collection → bytes stored of these
    {pNN}:sent:<group>             zset  requests of a group that somebody waits for
    {pNN}:unwanted:<group>         zset  requests of a group that nobody waits for any more
    {pNN}:settled                  hash  request and group → what it has used of budgets
    {pNN}:hooks    string  JSON text of the hooks that transitions tell of events; missing if none
                           does
    {pNN}:deliveries hash  `<hook> <event>` → JSON text of what was not delivered yet
    {pNN}:batchtold:<batch> string  when the last run of a batch had ended, ms, as hooks were told;
                           expires after twice the retention time
Of these, which scheduler owns the partition:
    {pNN}:owner    string  the scheduler that sweeps the partition; expires in seconds
    {pNN}:swept    string  when it last swept, ms: no time was lost until then
    {pNN}:watched  string  a client watches lists of runs or questions: publish changes on the
                           channel `sleipnir:changes`; expires in seconds
Of the limits of model calls, `{limits}:…`, all in one slot; all expire but `settings`:
    settings           hash    what `sleipnir limits` changed
    ahead              string  by how much the limits' clock is ahead of Redis' clock, ms
    names              zset    what calls wait for → when a call last waited for it, ms
    waiting:<name>     zset    calls → when each is to try again, ms
    queue:<limit>      zset    the same for calls that wait for a slot of a limit
    call:<call>        hash    a call that waits: when it is due, since when, for what, and for how
                               long it has in all
    state:<name>       hash    rates, lines and counts of a limit, or of something paused
    held:<limit>       zset    calls that hold a slot of a limit → expiry of the lease, ms
    shares:<limit>     zset    `<allotment>|<slots>` that a process holds → expiry of its lease, ms
    budget:<budget>    hash    what was spent of it, what calls have reserved, and with which
                               limits hooks were told that it is used up
    holds:<budget>     zset    such a reservation, or an allotment's → expiry of its lease, ms
    budgets            zset    budgets → when last used, ms
    pauses             hash    model or connection → why it pauses, and until when
    people             hash    run that waits for a person to lift a limit → the limit's name
    made:<request>     string  the call that is under way, which equal calls wait for; a lease
    sharing:<request>  zset    these calls → since when each waits, ms
    released:<id>      string  the answer to a release or a settlement, if it is requested again
Of groups of these, `{economy}:…`, all in one slot; all expire:
    collections        zset    collections that may have requests → when one last joined, ms
    groups             hash    group → JSON text: how far it has come, the provider's ids
    shares:<group>     hash    request with a line → ids of equal ones, which get the same reply
    lease:<provider>   string  the worker that sends and fetches for a provider, or tells budgets
    wishes             hash    what `sleipnir limits` has ordered: `send <provider>`, `live <group>`
Shared:
    sleipnir:bundle:<digest>   string  a packed agent directory; swept when unused
    sleipnir:bundles           zset    digest → last submission that used it, ms
    sleipnir:batch:<batch>     hash    a batch's `agent`, its number of input `lines`, until when a
                                       command submits more at least, `held_until`, ms, the URL of
                                       its own events, `webhook`, and the sums of its removed runs,
                                       `removed <field of batchtally>`; expires after twice the
                                       retention time. Also the name of the channel
                                       that announces the batch's runs as they end
    sleipnir:attached:<batch>  hash    files that its lines attach to prompts: SHA-256 → content,
                                       and `bytes` of all of them; expires as its record does
    sleipnir:spend:<days since 1970>  hash  what model calls used on a day, in the hours that are
    sleipnir:labelled:<days since 1970>  hash  added up, by labels too, and how runs ended: names of
    sleipnir:ended:<days since 1970>  hash  sums, some or all → JSON text; expires after
                                       `spend_retention_s`; `folds`: how often any were added
    sleipnir:hour:spend:<hours since 1970>  hash  the same of each hour; expire after 35 days
    sleipnir:hour:labelled:<hours since 1970>  hash
    sleipnir:hour:ended:<hours since 1970>  hash
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
    sleipnir:archive           hash    `archived` runs, `bytes` of their objects, `failures`, the
                                       `reason` of the last one; `failing_since`, ms, until a
                                       round has none
    sleipnir:audit             stream  what people did to runs; the newest 100,000 actions
    sleipnir:views:<user>      hash    the lists of runs that a person has named → their queries
    sleipnir:opened:<user>     zset    questions that a person has opened → when last; the newest
                                       10,000; expires 90 days after the last one
    sleipnir:answer-link:<digest> string  JSON text of a link, by the SHA-256 of its token
    sleipnir:answer-links:<question> hash  recipient → digest of its link, or
                                       `revoked <digest>`; both expire within a week
    sleipnir:triggers          hash    trigger → its definition, JSON text
    sleipnir:inbound:figures   hash    requests from outside, by what became of them: `trigger
                                       <outcome>`, `<trigger> <made_ms> <outcome>` of each that
                                       there is; `link <outcome>`
    sleipnir:hooks             hash    hook → its definition, JSON text
    sleipnir:hooks:figures     hash    `<hook> <figure>`: `delivered` and `given_up` events,
                                       `failed` attempts; `failing_since`, ms, until one succeeds
    sleipnir:hooks:attempts:<hook> list the last 100 attempts, the newest first, JSON texts; they
                                       expire in a week
    sleipnir:samples           stream  the state of the engine, limits too, once a minute for a week
    sleipnir:machine:<name>    string  that machine has a live worker; expires in seconds
    sleipnir:fleet             hash    worker process → JSON text: slots, visits, memory, when it
                                       was heard of
    sleipnir:fleet:marks       hash    `asked <worker>` to drain, `noted <worker>` that it was lost;
                                       both expire in a day
    sleipnir:serves:<queue>    string  a live worker serves that queue; expires in seconds
    sleipnir:queues            zset    names of queues that runs have named → when last, s; expires
    sleipnir:format            string  `DATA_FORMAT` of what wrote the data
    sleipnir:layout            hash    `format`, and `groups`: 1, or 16 on a cluster; never changes
    sleipnir:probe             string  written to test that writes work; expires at once
    sleipnir:working           string  there is a live worker; expires in seconds
    sleipnir                   list    the queue, if the broker is this Redis: its first lane;
                                       `sleipnir\\x06\\x16<n>` are the others (lua/lib/dispatch.lua)
    sleipnir:turns             zset    messages of batch runs that have not started → turn
    sleipnir:last-turns        hash    batch → the turn of its last run; expires
    sleipnir.<name>            list    the queue of that name, with lanes and turns of its own
    sleipnir@<machine>         list    the queue of runs that are pinned to that machine, likewise;
                                       `sleipnir.<name>@<machine>`: that of a name
"""

from __future__ import annotations

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.scheduler.runs.ids import partition_of

FORMAT = "sleipnir:format"
LAYOUT = "sleipnir:layout"
BUNDLES = "sleipnir:bundles"
INDEX_OF = "sleipnir:index-of"
AUDIT = "sleipnir:audit"
ARCHIVE_FIGURES = "sleipnir:archive"
TRIGGERS = "sleipnir:triggers"
INBOUND_FIGURES = "sleipnir:inbound:figures"
HOOKS = "sleipnir:hooks"
HOOK_FIGURES = f"{HOOKS}:figures"
SAMPLES = "sleipnir:samples"
FLEET = "sleipnir:fleet"
FLEET_MARKS = f"{FLEET}:marks"
WORKING = "sleipnir:working"
QUEUES = "sleipnir:queues"
PROBE = "sleipnir:probe"
CHANGES = "sleipnir:changes"
QUEUE = "sleipnir"
# How kombu names the lists of a queue's priorities.
LANE_SEPARATOR = "\x06\x16"
LANES = 4
# Entry of the last lane that stands for one message among the queue's turns.
TURN_MARK = "0"
# Ids that share this many first digits are in one index: about 250 of a million runs.
_DIGITS_OF_IDS = 3


def timers_key(partition: str) -> str:
    return f"{partition}:timers"


def archivable_key(partition: str) -> str:
    return f"{partition}:archivable"


def watched_key(partition: str) -> str:
    return f"{partition}:watched"


def sessions_key(partition: str) -> str:
    return f"{partition}:sessions"


def schedules_key(partition: str) -> str:
    return f"{partition}:schedules"


def schedule_key(partition: str, name: str) -> str:
    return f"{partition}:schedule:{name}"


def scheduled_key(partition: str) -> str:
    """Return the counts of instants that did not start a run."""
    return f"{partition}:scheduled"


def hooks_key(partition: str) -> str:
    return f"{partition}:hooks"


def deliveries_key(partition: str) -> str:
    return f"{partition}:deliveries"


def attempts_key(hook: str) -> str:
    return f"{HOOKS}:attempts:{hook}"


def run_key(kind: str, run_id: str) -> str:
    """Return the key of one part of a run, `kind` as in the table above."""
    return f"{partition_of(run_id)}:{kind}:{run_id}"


def bundle_key(digest: str) -> str:
    return f"sleipnir:bundle:{digest}"


def counted_key(partition: str, kind: str, hour: int | str) -> str:
    """Return the sums of an hour, given since 1970, in a partition; `kind`: its word."""
    return f"{partition}:{kind}:{hour}"


def hours_key(partition: str) -> str:
    """Return the set of the hours that a partition has sums of."""
    return f"{partition}:hours"


def dearest_key(partition: str, day: int) -> str:
    """Return the dearest runs of a day, given since 1970, in a partition."""
    return f"{partition}:dearest:{day}"


def hour_key(kind: str, hour: int | str) -> str:
    """Return the sums of an hour that is over, of all partitions."""
    return f"sleipnir:hour:{kind}:{hour}"


def day_key(kind: str, day: int | str) -> str:
    """Return the sums of those hours of a day, of all partitions."""
    return f"sleipnir:{kind}:{day}"


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


def views_key(user: str) -> str:
    return f"sleipnir:views:{user}"


def opened_key(user: str) -> str:
    return f"sleipnir:opened:{user}"


def answer_link_key(digest: str) -> str:
    return f"sleipnir:answer-link:{digest}"


def answer_links_key(question_id: str) -> str:
    return f"sleipnir:answer-links:{question_id}"


def batch_key(batch: str) -> str:
    return f"sleipnir:batch:{batch}"


def batch_files_key(batch: str) -> str:
    return f"sleipnir:attached:{batch}"


def ids_keys(prefix: str) -> list[str]:
    """Return the indexes of the ids that begin with `prefix`, of two digits or more."""
    partition = partition_of(prefix)
    if len(prefix) >= _DIGITS_OF_IDS:
        return [f"{partition}:ids:{prefix[:_DIGITS_OF_IDS]}"]
    return [f"{partition}:ids:{prefix}{digit:x}" for digit in range(16)]


def machine_key(machine: str) -> str:
    return f"sleipnir:machine:{machine}"


def serving_key(queue: str) -> str:
    return f"sleipnir:serves:{queue}"


def named_queue(name: str) -> str:
    """Return the queue of a name."""
    return QUEUE if name == DEFAULT_QUEUE else f"{QUEUE}.{name}"


def machine_queue(machine: str, name: str = DEFAULT_QUEUE) -> str:
    """Return the queue, of a name, of runs that are pinned to a machine."""
    return f"{named_queue(name)}@{machine}"


def queue_name(queue: str) -> str:
    """Return the name of a queue, also of runs that are pinned to a machine."""
    return queue.partition("@")[0].partition(QUEUE)[2].removeprefix(".") or DEFAULT_QUEUE


def lane_key(queue: str, lane: int) -> str:
    """Return the list of one lane of a queue; workers look into lane 0 first."""
    return f"{queue}{LANE_SEPARATOR}{lane}" if lane else queue


def turns_key(queue: str) -> str:
    """Return the sorted set of the messages in a queue's last lane, by turn."""
    return f"{queue}:turns"
