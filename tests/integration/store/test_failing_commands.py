"""Whichever command of a transition fails, the transition has not happened, and can be repeated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache, partial
from typing import Any

import pytest

from sleipnir.scheduler.errors import RunClosed, TransitionBroken
from sleipnir.scheduler.limits.allotments import NOTHING, Amount, Settlement
from sleipnir.scheduler.limits.records import Grant, ProviderFailure, Used
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.process.backoff import PROVIDER
from sleipnir.scheduler.runs.consistency.rules import REPAIRS, Repair, repairable
from sleipnir.scheduler.runs.conversation.messages import Letter
from sleipnir.scheduler.runs.events import QuestionAnswered, RunRetried
from sleipnir.scheduler.runs.failures import of_node
from sleipnir.scheduler.runs.hooks.model import EVENTS, Hook
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.inbound.answer_links import AnswerLink
from sleipnir.scheduler.runs.item_ways import Way
from sleipnir.scheduler.runs.model import Failure, Lease, NewFork, RunContext, Usage, Wait
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.runs.schedules.model import Schedule, Timing
from sleipnir.scheduler.runs.schedules.template import to_text
from sleipnir.scheduler.runs.tries import AnotherTry, Beginning, OtherAgent
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.store import scripts
from sleipnir.scheduler.store.archive.summary import ObjectPlace
from sleipnir.scheduler.store.cached_replies import CachedReplies
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.economy.groups import Group, Groups
from sleipnir.scheduler.store.economy.requests import NewRequest
from sleipnir.scheduler.store.hooks.batch_ends import BatchTimer
from sleipnir.scheduler.store.hooks.deliveries import DeliveryPlace
from sleipnir.scheduler.store.hooks.records import HookEvent
from sleipnir.scheduler.store.keys import QUEUE, build_claim_key, run_key
from sleipnir.scheduler.store.limit_queries import PARTITION as LIMITS
from sleipnir.scheduler.store.parking import wait_for
from sleipnir.scheduler.store.people.answer_links import AnswerLinks
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.scheduler.store.schedules.schedules import StoredSchedule
from sleipnir.scheduler.store.scripts import compose, script_names
from sleipnir.scheduler.store.visits import Taker
from tests.support.engine import Engine
from tests.support.invariants import rules_broken
from tests.support.keys import dump
from tests.support.limits import reservation
from tests.support.queue import lose_all
from tests.support.runs import (
    CHILD,
    DIGEST,
    FAILED,
    RUN,
    a_question,
    a_run,
    advance,
    ask,
    begin,
    fanned_out,
    go_to,
    look_at,
    spawn,
    stage,
    started,
)

# The n-th command that a script calls fails as one does that meets what it cannot work with.
FAILING = """
local real, left = redis, {n}
local function failing(how)
  return function(...)
    left = left - 1
    if left == 0 then error({{err = 'ERR made to fail: ' .. ...}}) end
    return how(...)
  end
end
local redis = setmetatable({{call = failing(real.call)}}, {{__index = real}})
"""

GRAPH = """
start: a
initial_state: {none: []}
nodes:
  a: {type: map, over: "{{none}}", as: item, branch: b, collect_into: all, next: done}
  b: {type: llm, model: openai:m, prompt: "-"}
  done: {type: end}
"""

Action = Callable[[Engine], object]


def held(visit: str, run_id: str = RUN) -> Lease:
    """The lease that was taken while preparing."""
    return Lease(run_id, visit, "t1")


def held_again(visit: str) -> Lease:
    """The lease that was taken in another try."""
    return Lease(RUN, visit, "t2")


def step_of_three(engine: Engine) -> None:
    fanned_out(engine, "a", "b", "c", window=2)
    begin(engine, "2/a")


def last_of_two(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    stage(engine, "2/a")
    begin(engine, "2/b")


def all_staged(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    stage(engine, "2/a")
    stage(engine, "2/b")


def a_map(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    engine.store.parking.open_map(begin(engine, "2/a"), "b", 2, ["1", "2", "3"])
    begin(engine, "2/a/1")


def fanned_out_on_a_machine(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    engine.redis.hset(run_key("run", RUN), "machine", "gone")
    engine.store.runs.move(RUN, "shed")


def halting(engine: Engine) -> None:
    a_map(engine)
    ask(engine, "2/a/0")


def asked(engine: Engine) -> None:
    fanned_out(engine, "a")
    ask(engine, "2/a")


def a_child(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    spawn(engine, "2/a")
    begin(engine, "1/s", run_id=CHILD)


def a_sender(engine: Engine) -> None:
    a_child(engine)
    begin(engine, "2/b")


SECOND = "01dddddddddddddd"


def members(engine: Engine) -> None:
    """Children of two members of a team, of which the second has a turn."""
    fanned_out(engine, "a", "b")
    for node, child in (("a", CHILD), ("b", SECOND)):
        context = RunContext(root=RUN, member=f"graph_agent_{node}")
        run = a_run(child, parent=f"{RUN} 2/{node}", context=context)
        lease = begin(engine, f"2/{node}")
        engine.store.parking.spawn(lease, run, 300, member=f"2/{node}", event=EVENT)
    begin(engine, "1/s", run_id=SECOND)


def last_of_a_team(engine: Engine) -> None:
    members(engine)
    send_to_member(engine)
    for child in (CHILD, SECOND):
        engine.store.runs.close(child, "cancelled", Failure("cancelled", "x", None))
    stage(engine, "2/a")
    begin(engine, "2/b")


def cancelled_team(engine: Engine) -> None:
    members(engine)
    send_to_member(engine)
    engine.store.runs.close(RUN, "cancelled", CANCELLED)


def send_to_member(engine: Engine, to: str = "") -> None:
    letter = Letter(to, "graph_agent_b", "x", member="" if to else "2/a")
    engine.store.messages.send(held("1/s", SECOND), 0, "{}", letter, EVENT)


def spawn_agent(engine: Engine) -> None:
    run = a_run(CHILD, parent=f"{RUN} 2/a")
    engine.store.children.start(held("2/a"), run, 4, event=EVENT)


def spawned(engine: Engine) -> None:
    """A child that a model has started, whose end its next visit waits for."""
    fanned_out(engine, "a")
    begin(engine, "2/a")
    spawn_agent(engine)
    advance(engine, held("2/a"), go_to("b"))
    engine.store.parking.park(begin(engine, "3/b"), [Wait("c", "child", detail=CHILD)])
    lease = begin(engine, "1/s", run_id=CHILD)
    engine.store.visits.record_turn(lease, 0, "{}", usage=USAGE)


def spawned_and_cancelled(engine: Engine) -> None:
    spawned(engine)
    engine.store.runs.close(RUN, "cancelled", CANCELLED)


def an_escalation(engine: Engine) -> None:
    """A child asks what the model of its root may answer, which waits for it."""
    fanned_out(engine, "a", "b")
    context = RunContext(depth=1, root=RUN, supervised=True)
    child = a_run(CHILD, parent=f"{RUN} 2/a", context=context)
    engine.store.children.start(begin(engine, "2/a"), child, 4)
    engine.store.parking.park(held("2/a"), [Wait("agent__collect", "child", detail=CHILD)])
    begin(engine, "1/s", run_id=CHILD)


def an_open_escalation(engine: Engine) -> None:
    an_escalation(engine)
    engine.store.parking.park(held("1/s", CHILD), [wait_for(ESCALATED)])
    begin(engine, "2/a", "t2")


def a_late_child(engine: Engine) -> None:
    a_child(engine)
    engine.clock.move(300)


def everything(engine: Engine) -> None:
    """One of all that a run can hold."""
    fanned_out(engine, "a", "b", "c", "d", "e", window=4, timeout_s=600)
    ask(engine, "2/a")
    spawn(engine, "2/b")
    engine.store.parking.open_map(begin(engine, "2/c"), "b", 2, ["1", "2", "3"])
    engine.store.visits.record_turn(begin(engine, "2/d"), 0, "{}")


def resting(engine: Engine) -> None:
    engine.store.parking.postpone(started(engine), 5)


A_BUILD = Wait("build", "build", 30, "c")


def wait_for_a_build(engine: Engine, lease: Lease) -> None:
    engine.redis.set(build_claim_key("c"), "another run", px=60_000)
    engine.store.parking.park(lease, [A_BUILD])


def lost(engine: Engine) -> None:
    started(engine)
    engine.clock.move(60)


def in_session(engine: Engine) -> None:
    advance(engine, started(engine, session=("x/y", "")), Plan({}, output="x"))


def continued(engine: Engine) -> None:
    """Two runs of a session, the last one cancelled."""
    in_session(engine)
    second = a_run(BESIDE, session=("x/y", RUN), continues=RUN)
    engine.store.runs.submit(second)
    engine.client.cancel(BESIDE)


def ended(engine: Engine) -> None:
    lease = started(engine, batch="b")
    plan = Plan({}, output="x")
    engine.store.visits.advance(lease, 1, plan, cap=9, window=8, usage=USAGE)


def cancelled(engine: Engine) -> None:
    everything(engine)
    engine.store.runs.close(RUN, "cancelled", CANCELLED)


def archive(engine: Engine) -> None:
    (read,) = engine.store.whole_runs.read([RUN])
    assert read is not None
    engine.store.whole_runs.archive([(read, PLACE)])


def mapping_again(engine: Engine) -> None:
    a_map(engine)
    engine.store.visits.record_turn(held("2/a/1"), 0, "{}")
    engine.store.parking.stage_item(begin(engine, "2/a/0"), '{"value":1}', elapsed_ms=1000)
    engine.store.runs.close(RUN, "cancelled", CANCELLED)
    engine.store.runs.retry(AGAIN)
    begin(engine, "2/a", "t2")


def outlived(engine: Engine) -> None:
    """A run that has ended, and outlived a failure of its first step."""
    failures = of_node("s", 1, "R013", "why", handled=False)
    lease = started(engine)
    nodes = {"s": {"ms": 1, "failed": 1}}
    engine.store.visits.advance(
        lease, 1, Plan({}, output="x"), cap=9, window=2, nodes=nodes, failures=failures
    )


def away(engine: Engine) -> None:
    """Redis was, for an hour."""
    everything(engine)
    advance(engine, started_beside(engine), Plan({}, output="x"))
    engine.store.partitions.sweep("me", 5, 10, engine.clock())
    engine.clock.move(3600)


def started_beside(engine: Engine) -> Lease:
    """Another run, in the same partition."""
    engine.store.runs.submit(a_run(BESIDE))
    return begin(engine, "1/s", run_id=BESIDE)


def replies(engine: Engine) -> CachedReplies:
    return CachedReplies(engine.redis, engine.store.clock)


def asking(engine: Engine) -> None:
    replies(engine).find("d", "a")


def record_too_late(engine: Engine) -> None:
    with suppress(RunClosed):
        engine.store.visits.record_turn(held("2/d"), 1, '"late"', usage=USAGE)


def lining_up(engine: Engine) -> None:
    """One call goes, others wait for its place and for their turn."""
    for number in range(1, 4):
        limiter(engine).reserve(reservation(number, Limit("p:m", 5, 100, 1), tokens=10))


def broken(*commands: str, prepare: Action = everything) -> Action:
    """A run of which somebody has taken a part away: words of commands, parted by `|`."""

    def prepare_and_break(engine: Engine) -> None:
        prepare(engine)
        for command in commands:
            engine.redis.execute_command(*command.format(run=RUN, child=CHILD).split("|"))

    return prepare_and_break


def held_back(engine: Engine) -> None:
    fanned_out(engine, "a", "b", window=1)
    ask(engine, "2/a")


def resumed_and_held_back(engine: Engine) -> None:
    held_back(engine)
    engine.store.parking.answer(RUN, "2/a", "yes")


def mend(engine: Engine, repair: Repair) -> None:
    """What the sweep does that looks for stranded runs, at its second look."""
    run_id = CHILD if repair == "cancel" else RUN
    run = look_at(engine, run_id)
    assert repair in {each.repair for each in repairable(run)}
    failure = Failure("R023", "it could not go on", None) if repair == "fail" else None
    assert engine.store.runs.repair(run_id, run.digest, [repair], failure)


def call(name: str, *arguments: str | int) -> Action:
    """A transition of one partition by itself, where the store does it for all."""
    return lambda engine: engine.store.transition(name)(
        PARTITION, *arguments, clock=str(engine.clock())
    )


PARTITION = partition_of(RUN)
BESIDE = "01bbbbbbbbbbbbbb"
WIDE = go_to("n0", "n1", "n2", k='"' + "x" * 99 + '"', other="1")
USAGE = Usage(3, 4, 0.5, 2)
EVENT = QuestionAnswered("a")
IMPORTED = WholeRun(
    RUN,
    {
        **{"agent": "tested", "digest": DIGEST, "status": "failed", "created": "1", "ended": "2"},
        **{"step": "1", "frontier": "a", "context": "{}", "n:a": "1", "batch": "b"},
        **{"session": "tested/s", "cost": "1", "labels": '{"team":"a"}'},
    },
    {
        "state": {"k": "1"},
        "history": ['{"at":1,"step":0,"frontier":["a"],"nodes":{},"writes":{}}'],
        "events": [("1-0", "{}"), ("2-0", "{}")],
        "kept": {"1/a": "broken waiting - 1 1 0 1 0 1 0 0 0 all"},
    },
    {"1/a": {"waits": {"c": "question open 1 1 "}}},
)
PLACE = ObjectPlace("2026/01/02", 1, 9, "0" * 64)
ON_ITS_WAY = Way(["b", "c"], {}, {})
ESCALATED = a_question("1/s", CHILD, call="user__ask", allowed_s=60)
CANCELLED = Failure("cancelled", "enough", None)
LAST_STEP = '{"at":2,"step":1,"frontier":["a","b","c","d","e"],"nodes":{},"writes":{"k":"v"}}'
REQUEST_ID = RUN[:2] + "9" * 30
REQUEST = NewRequest(
    REQUEST_ID,
    f"batch-{REQUEST_ID}",
    "p:m",
    "{}",
    "d",
    9,
    deadline_s=60,
    named="s p:m",
    hold="h",
)


def joined(engine: Engine) -> None:
    started(engine)
    holding_the_provider(engine)
    write_group(engine)
    write_group(engine, "h")
    engine.store.requests.join(held("1/s"), REQUEST)


def in_a_group(engine: Engine) -> None:
    joined(engine)
    claim(engine)


def claim(engine: Engine) -> None:
    room = (9999, 9999, 9999)
    engine.store.requests.claim(partition_of(RUN), "p:m", "g", 9, room, alone=False)


def unwanted(engine: Engine) -> None:
    in_a_group(engine)
    engine.store.runs.close(RUN, "cancelled", CANCELLED)


def write_group(engine: Engine, group_id: str = "g") -> None:
    Groups(engine.store).write(Group(group_id, "p", "p:m", "ready", 1), "t")


def holding_the_provider(engine: Engine) -> None:
    Groups(engine.store).take_lease("p", "t", 60_000)


AGAIN = AnotherTry(RUN, 1, 3, RunRetried(2, ("a",), 2))
FROM_THE_START = AnotherTry(
    RUN,
    1,
    3,
    RunRetried(1, ("s",), 2),
    begin=Beginning(1, ("s",), {"initial_prompt": '""'}, {"s": 1}),
    agent=OtherAgent(RUN, "e" * 64, RunContext(root=RUN), {}),
    limit_ms="-",
)
FORK = NewFork(
    a_run(forked_from=("0f" * 8, 1)),
    step=2,
    frontier=("a", "b"),
    visits={"s": 1, "a": 1, "b": 1},
    history=(
        '{"at":1,"step":0,"frontier":["s"],"nodes":{},"writes":{}}',
        '{"at":2,"step":1,"frontier":["a","b"],"nodes":{"s":null},"writes":{}}',
    ),
    window=1,
    failures=of_node("s", 1, "R013", "no luck", handled=False),
)

# By script and the way it takes: what has to be there, and what then happens to it.
# In the partition of the runs here.
NIGHTLY = Schedule("night17", "x", DIGEST, Timing(every_s=3600), next_ms=1_700_000_000_000)
A_RUN_OF_IT = to_text(a_run())


def scheduled(engine: Engine, **fields: Any) -> None:
    engine.store.schedules.put(replace(NIGHTLY, **fields), A_RUN_OF_IT, is_new=True)


def nightly(engine: Engine) -> StoredSchedule:
    """The schedule as it stands, in the partition of the test's runs."""
    stored = engine.store.schedules.read("night17")
    assert stored is not None
    return stored


HOOK = Hook("default", "https://ops.example", EVENTS)
OWN = "https://own.example"
LINK = AnswerLink(f"{RUN}/1/ask/0", 1, "ann@example.com")


def hooked(engine: Engine) -> None:
    """Let somebody be told of everything."""
    engine.store.hooks.put(HOOK, None)


TRANSITIONS: dict[str, tuple[Action, Action]] = {
    "submit_run": (
        lambda e: e.store.runs.submit(a_run(BESIDE, batch="other")),
        lambda e: e.store.runs.submit(a_run(batch="b", timeout_s=60)),
    ),
    "submit_run in a session": (
        lambda e: e.store.runs.submit(a_run(BESIDE, session=("x/y", ""))),
        lambda e: e.store.runs.submit(a_run(session=("x/z", ""))),
    ),
    "put_schedule": (
        lambda e: None,
        lambda e: e.store.schedules.put(NIGHTLY, A_RUN_OF_IT, is_new=True),
    ),
    "put_schedule with another bundle": (
        scheduled,
        lambda e: e.store.schedules.put(
            replace(NIGHTLY, revision=1, digest="f" * 64), A_RUN_OF_IT, is_new=False
        ),
    ),
    "step_schedule": (
        scheduled,
        lambda e: e.store.schedules.step(
            nightly(e), replace(NIGHTLY, skipped=1, missed=2), a_run(schedule="night17")
        ),
    ),
    "step_schedule in a session, after a failure": (
        lambda e: (scheduled(e), e.redis.hset("{p01}:schedule:night17", "failed", RUN)),
        lambda e: e.store.schedules.step(
            nightly(e), NIGHTLY, a_run(schedule="night17", session=("x/z", ""))
        ),
    ),
    "remove_schedule": (scheduled, lambda e: e.store.schedules.remove(nightly(e))),
    "close_run of a schedule": (
        lambda e: (
            scheduled(e, pause_on_failure=True),
            e.store.runs.submit(a_run(schedule="night17")),
        ),
        lambda e: e.store.runs.close(RUN, "failed", FAILED),
    ),
    "put_definition": (lambda e: None, lambda e: e.store.hooks.put(HOOK, None)),
    "put_answer_link": (
        lambda e: AnswerLinks(e.store).put("earlier", LINK, 9_000),
        lambda e: AnswerLinks(e.store).put("later", LINK, 5_000),
    ),
    "revoke_answer_link": (
        lambda e: AnswerLinks(e.store).put("link", LINK, 9_000),
        lambda e: AnswerLinks(e.store).revoke(LINK.question_id, LINK.recipient),
    ),
    "record_event": (
        hooked,
        lambda e: e.store.hooks.record("{p01}", "run.failed", "evt_1", {"run": RUN}, url=OWN),
    ),
    "close_run of a batch whose end a hook is told of": (
        lambda e: (e.store.runs.submit(a_run(batch="x y")), hooked(e)),
        lambda e: e.store.runs.close(RUN, "failed", FAILED),
    ),
    "finish_batch": (hooked, lambda e: e.store.batch_ends.record("x y", "a", 5, OWN)),
    "settle_batch": (
        lambda e: e.redis.zadd("{p01}:timers", {BatchTimer("01", "x y").member: 5}),
        lambda e: e.store.batch_ends.settle(BatchTimer("01", "x y"), 5),
    ),
    "retry_delivery": (
        lambda e: (hooked(e), e.store.hooks.record("{p01}", "run.failed", "evt_1", {"run": RUN})),
        lambda e: e.store.deliveries.retry(
            DeliveryPlace("01", "default", "evt_1"),
            HookEvent("run.failed", "evt_1", 0, {"run": RUN}, attempts=1),
            5,
        ),
    ),
    "begin_visit that a hook is told of": (
        lambda e: (e.store.runs.submit(a_run(timeout_s=60)), hooked(e)),
        lambda e: begin(e, "1/s"),
    ),
    "close_run that a hook is told of": (
        lambda e: (started(e), hooked(e)),
        lambda e: e.store.runs.close(RUN, "failed", FAILED),
    ),
    "park_visit that a hook is told of": (
        lambda e: (step_of_three(e), hooked(e)),
        lambda e: e.store.parking.park(held("2/a"), [wait_for(a_question("2/a"))], event=EVENT),
    ),
    "close_wait that a hook is told of": (
        lambda e: (asked(e), hooked(e)),
        lambda e: e.store.parking.answer(RUN, "2/a", "yes", event=EVENT),
    ),
    "forget_session": (in_session, lambda e: e.store.runs.forget_session("x/y", RUN)),
    "rewind_session": (continued, lambda e: e.store.runs.rewind_session("x/y", BESIDE)),
    "rewind_session to its beginning": (
        in_session,
        lambda e: e.store.runs.rewind_session("x/y", RUN),
    ),
    "purge_run of a session": (in_session, lambda e: e.store.runs.purge(RUN)),
    "begin_visit": (
        lambda e: e.store.runs.submit(a_run(timeout_s=60)),
        lambda e: begin(e, "1/s"),
    ),
    "advance_step": (
        started,
        lambda e: e.store.visits.advance(
            held("1/s"), 1, WIDE, cap=9, window=2, event=EVENT, usage=USAGE
        ),
    ),
    "advance_step that begins the next visit": (
        lambda e: (started(e), e.pop()),
        lambda e: e.store.visits.advance(
            held("1/s"), 1, go_to("a"), cap=9, window=2, taker=Taker(QUEUE, held("2/a"))
        ),
    ),
    "advance_step after a failure": (
        started,
        lambda e: e.store.visits.advance(
            held("1/s"),
            1,
            Plan({}, output="x"),
            cap=9,
            window=2,
            failures=of_node("s", 1, "R013", "why", handled=False),
        ),
    ),
    "advance_step to the end": (
        started,
        lambda e: advance(e, held("1/s"), Plan({"k": "1"}, output="x")),
    ),
    "advance_step to a failure": (
        started,
        lambda e: advance(e, held("1/s"), Plan({}, failure=CANCELLED)),
    ),
    "advance_step too often": (
        started,
        lambda e: advance(e, held("1/s"), go_to("s", k="1"), cap=1),
    ),
    "advance_step of a child": (
        a_child,
        lambda e: advance(e, held("1/s", CHILD), Plan({}, output="x")),
    ),
    "advance_step of branches": (all_staged, lambda e: advance(e, held("2/b"), go_to("z"))),
    "stage_visit": (
        step_of_three,
        lambda e: e.store.visits.stage(held("2/a"), 2, Branch({}, ("z",)), usage=USAGE),
    ),
    "stage_visit of the last": (
        last_of_two,
        lambda e: e.store.visits.stage(held("2/b"), 2, Branch({}, ("z",))),
    ),
    "stage_visit that takes a message": (
        step_of_three,
        lambda e: e.store.visits.stage(held("2/a"), 2, Branch({}, ("z",)), queues=QUEUE),
    ),
    "stage_visit that failed": (everything, lambda e: e.store.visits.stage(held("2/d"), 2, FAILED)),
    "stage_item": (
        a_map,
        lambda e: e.store.parking.stage_item(
            held("2/a/1"), "{}", halt=False, elapsed_ms=1000, usage=USAGE, spent=USAGE, event=EVENT
        ),
    ),
    "stage_item that halts": (
        halting,
        lambda e: e.store.parking.stage_item(held("2/a/1"), "{}", halt=True, elapsed_ms=1000),
    ),
    "advance_item": (
        a_map,
        lambda e: e.store.parking.advance_item(
            held("2/a/1"), ("c", 1), {"k": "1"}, ON_ITS_WAY, event=EVENT, usage=USAGE
        ),
    ),
    "open_map": (
        step_of_three,
        lambda e: e.store.parking.open_map(held("2/a"), "b", 2, ["1", "2", "3"]),
    ),
    "park_visit on a question": (
        step_of_three,
        lambda e: e.store.parking.park(
            held("2/a"), [wait_for(a_question("2/a"))], event=EVENT, turn="{}"
        ),
    ),
    "close_wait": (asked, lambda e: e.store.parking.answer(RUN, "2/a", "yes", event=EVENT)),
    "spawn_child": (
        step_of_three,
        lambda e: e.store.parking.spawn(
            held("2/a"), a_run(CHILD, parent=f"{RUN} 2/a"), 300, event=EVENT
        ),
    ),
    "spawn_agent": (step_of_three, spawn_agent),
    "park_visit on a child that was spawned": (
        lambda e: (step_of_three(e), spawn_agent(e), begin(e, "2/b")),
        lambda e: e.store.parking.park(held("2/b"), [Wait("c", "child", detail=CHILD)]),
    ),
    "advance_step of a child that was spawned": (
        spawned,
        lambda e: advance(e, held("1/s", CHILD), Plan({}, output="x")),
    ),
    "close_run of one that has spawned": (
        spawned,
        lambda e: e.store.runs.close(RUN, "cancelled", CANCELLED),
    ),
    "retry_run of one that has spawned": (
        spawned_and_cancelled,
        lambda e: e.store.runs.retry(replace(AGAIN, event=RunRetried(3, ("b",), 2))),
    ),
    "move_run": (fanned_out_on_a_machine, lambda e: e.store.runs.move(RUN, "desk")),
    "move_run to any": (fanned_out_on_a_machine, lambda e: e.store.runs.move(RUN, None)),
    "expire_wait": (a_late_child, lambda e: e.store.parking.expire(RUN, "2/a", "child")),
    "park_visit until later": (
        started,
        lambda e: e.store.parking.postpone(held("1/s"), 5, event=EVENT, turn="{}", usage=USAGE),
    ),
    "join_collection": (
        lambda e: (started(e), e.store.requests.announce("p:m")),
        lambda e: e.store.requests.join(held("1/s"), REQUEST, EVENT),
    ),
    "claim_requests": (joined, claim),
    "move_requests": (in_a_group, lambda e: e.store.requests.move("g", "h", [REQUEST_ID])),
    "forget_bodies": (in_a_group, lambda e: e.store.requests.forget_bodies("g")),
    "deliver_reply": (
        in_a_group,
        lambda e: e.store.requests.deliver(REQUEST_ID, "g", {"a": 1}, USAGE),
    ),
    "deliver_reply that nobody waits for": (
        unwanted,
        lambda e: e.store.requests.deliver(REQUEST_ID, "g", {"a": 1}, USAGE),
    ),
    "close_run with a request in a collection": (
        joined,
        lambda e: e.store.runs.close(RUN, "cancelled", CANCELLED),
    ),
    "expire_wait of a request in a group": (
        lambda e: (in_a_group(e), e.clock.move(61)),
        lambda e: e.store.parking.expire(RUN, "1/s", f"batch-{REQUEST_ID}"),
    ),
    "write_group": (holding_the_provider, write_group),
    "park_visit on a build": (
        lambda e: (started(e), e.redis.set(build_claim_key("c"), "another run", px=60_000)),
        lambda e: e.store.parking.park(held("1/s"), [A_BUILD]),
    ),
    "close_builds": (
        lambda e: wait_for_a_build(e, started(e)),
        lambda e: call("close_builds", "c", 9)(e),
    ),
    "expire_wait of a build": (
        lambda e: (wait_for_a_build(e, started(e)), e.clock.move(31)),
        lambda e: e.store.parking.expire(RUN, "1/s", "build"),
    ),
    "wake_visit": (resting, lambda e: e.store.parking.wake(RUN, "1/s")),
    "wake_visit too early": (started, lambda e: e.store.parking.wake(RUN, "1/s", 5)),
    "record_turn": (
        started,
        lambda e: e.store.visits.record_turn(held("1/s"), 0, "{}", event=EVENT, usage=USAGE),
    ),
    "record_turn too late": (cancelled, lambda e: record_too_late(e)),
    "count_failed_call": (
        started,
        lambda e: e.store.call("count_failed_call", RUN, "s", "openai:m"),
    ),
    "spawn_child of a member": (
        step_of_three,
        lambda e: e.store.parking.spawn(
            held("2/a"), a_run(CHILD, parent=f"{RUN} 2/a"), 300, member="2/a", event=EVENT
        ),
    ),
    "send_message to a member": (members, send_to_member),
    "send_message to a run that reads as a member": (
        members,
        lambda e: send_to_member(e, to=CHILD),
    ),
    "advance_step of a team's": (
        last_of_a_team,
        lambda e: advance(e, held("2/b"), Plan({}, frontier=("c",))),
    ),
    "retry_run of a team's": (cancelled_team, lambda e: e.store.runs.retry(AGAIN)),
    "send_message": (
        a_sender,
        lambda e: e.store.messages.send(held("2/b"), 0, "{}", Letter(CHILD, "tested", "x"), EVENT),
    ),
    "park_visit on a question to the root": (
        an_escalation,
        lambda e: e.store.parking.park(held("1/s", CHILD), [wait_for(ESCALATED)]),
    ),
    "close_wait of a question to the root": (
        an_open_escalation,
        lambda e: e.store.parking.answer(CHILD, "1/s", "yes", call="user__ask"),
    ),
    "reply_escalation": (
        an_open_escalation,
        lambda e: e.store.escalations.reply(
            held_again("2/a"), 0, "{}", e.store.escalations.pending(RUN)[0], "yes", EVENT
        ),
    ),
    "requeue_visit": (started, lambda e: e.store.visits.requeue(held("1/s"))),
    "requeue_visit for later": (started, lambda e: e.store.visits.requeue(held("1/s"), 5)),
    "redeliver_visit": (lost, lambda e: e.store.visits.redeliver(RUN, "1/s")),
    "record_crash": (started, lambda e: e.store.visits.record_crash(held("1/s"), "SIGKILL")),
    "close_run": (everything, lambda e: e.store.runs.close(RUN, "cancelled", CANCELLED)),
    "fork_run": (lambda e: None, lambda e: e.store.runs.fork(FORK, EVENT)),
    "leave_batch": (ended, lambda e: e.store.runs.leave_batch("b", RUN)),
    "retry_run": (cancelled, lambda e: e.store.runs.retry(AGAIN)),
    "retry_run from an earlier step": (cancelled, lambda e: e.store.runs.retry(FROM_THE_START)),
    "retry_run from before a failure": (
        outlived,
        lambda e: e.store.runs.retry(FROM_THE_START),
    ),
    "retry_run with other values": (
        cancelled,
        lambda e: e.store.runs.retry(replace(AGAIN, changes={"k": '"v"'}, checkpoint=LAST_STEP)),
    ),
    "open_map again": (
        mapping_again,
        lambda e: e.store.parking.open_map(held_again("2/a"), "b", 2, ["1", "2", "3"]),
    ),
    "purge_run of one that may be retried": (cancelled, lambda e: e.store.runs.purge(RUN)),
    "archive_run": (cancelled, archive),
    "restore_run": (
        lambda e: (e.store.whole_runs.put(IMPORTED, 9.0), archive(e)),
        lambda e: e.store.whole_runs.restore(IMPORTED, PLACE),
    ),
    "purge_run of one that is to be archived": (
        lambda e: (e.configure(archive="/nowhere"), cancelled(e)),
        lambda e: e.store.runs.purge(RUN, by_hand=False),
    ),
    "import_run": (lambda e: None, lambda e: e.store.whole_runs.put(IMPORTED, 9.0)),
    "purge_run": (ended, lambda e: e.store.runs.purge(RUN)),
    "remove_bundle": (
        lambda e: e.store.bundles.put("e" * 64, b"unused"),
        lambda e: e.store.bundles.remove_unused(timedelta(0), 1),
    ),
    "append_logs": (started, lambda e: e.store.runs.append_logs(RUN, ["x" * 99] * 3)),
    "fold_history": (started, call("fold_history", RUN, "0", 0, 0, 9)),
    "begin_day_budget": (lambda e: None, lambda e: begin_day(e)),
    "reserve_call": (lambda e: begin_day(e), lambda e: limiter(e).reserve(CALL)),
    "release_call": (
        lambda e: limiter(e).reserve(CALL),
        lambda e: limiter(e).release(Grant(CALL, ("day",)), Used(9, 0.5, 1.0)),
    ),
    "release_call that failed": (
        lambda e: limiter(e).reserve(CALL),
        lambda e: limiter(e).release(Grant(CALL, ("day",)), Used(9, 0.5, 1.0), THROTTLED),
    ),
    "allot_calls": (
        lambda e: (begin_day(e), limiter(e).allot(SETTLEMENT), lining_up(e)),
        lambda e: limiter(e).allot(replace(SETTLEMENT, settlement_id="b", **SETTLED)),
    ),
    "renew_calls": (
        lambda e: limiter(e).reserve(CALL),
        lambda e: limiter(e).renew([Grant(CALL, ("day",))]),
    ),
    "find_reply": (lambda e: None, lambda e: replies(e).find("d", "a")),
    "find_reply of an equal call": (asking, lambda e: replies(e).find("d", "b")),
    "end_shared_call": (asking, lambda e: replies(e).end("d", "a", "{}", 60)),
    "wake_calls": (lining_up, lambda e: limiter(e).wake("p:m", 2)),
    "renew_leases": (
        a_map,
        lambda e: e.store.visits.renew([held("2/a/1"), held("2/b"), held("1/s")]),
    ),
    "shift_timers": (away, lambda e: call("shift_timers", e.clock(), 0, 30_000, 15_000)(e)),
    "shift_timers by a clock that was set": (
        away,
        lambda e: call("shift_timers", 0, e.clock() - 3_600_000, 30_000, 15_000)(e),
    ),
    "sweep_partition": (everything, lambda e: call("sweep_partition", "me", 5000, 9, e.clock())(e)),
    "release_partition": (
        lambda e: e.store.partitions.sweep("me", 5, 9),
        call("release_partition", "me"),
    ),
}

# What runs can lack, by what repair_run does about it.
BREAKAGES: dict[Repair, Action] = {
    "set_timers": broken("ZREM|{{p01}}:timers|visit {run} 2/e|wait {run} 2/b child|deadline {run}"),
    "list_questions": broken("ZREM|{{p01}}:inbox|{run} 2/a"),
    "close_waits": broken("HSET|{{p01}}:run:{child}|status|succeeded|output|ok"),
    "cancel": broken("HSET|{{p01}}:run:{run}|status|failed|error||output||ended|1"),
    "fail": broken("DEL|{{p01}}:visits:{run}"),
}
TRANSITIONS |= {
    **{f"repair_run: {name}": (it, partial(mend, repair=name)) for name, it in BREAKAGES.items()},
    "repair_run: an ended run": (
        broken("ZREM|{{p01}}:timers|expiry {run}", prepare=ended),
        partial(mend, repair="set_timers"),
    ),
}

# How a script writes; see scheduler/store/lua/lib/atomic.lua.
WRITING = re.compile(r"\b(write\w*|in_pieces|push|pop|remove\w*|tell)\(|\badd\('")

DAY = ("day", Budget("day", usd=9.0, tokens=99))
CALL = reservation(1, Limit("p:m", 5, 100, 1), budgets=(DAY,), tokens=10)
SETTLEMENT = Settlement(
    settlement_id="a",
    allotment="w",
    like=reservation(
        1,
        Limit("p:m", 60_000, 600_000, 200),
        budgets=(("day", Budget("day", usd=9_000.0, tokens=99_000)),),
    ),
    budgets=(),
    held=NOTHING,
    kept=NOTHING,
    begun=NOTHING,
    ended=NOTHING,
    used=Used(),
    asked=Amount(2, 20, 20, 2_000_000),
)
SETTLED: dict[str, Any] = {
    "budgets": ("day:19675",),
    "held": Amount(2, 20, 20, 2_000_000),
    "kept": Amount(1, 10, 10, 1_000_000),
    "begun": Amount(2, 20, 20, 2_000_000),
    "ended": Amount(1, 10, 10, 1_000_000),
    "used": Used(9, 0.5, 1.0),
}
THROTTLED = ProviderFailure("throttled", "p:m", "HTTP 429", PROVIDER)


def begin_day(engine: Engine) -> None:
    found = limiter(engine)
    found._begin_day_budget(found.queries.budget_id("day"))


def limiter(engine: Engine) -> RateLimiter:
    return RateLimiter(engine.redis, engine.store.clock)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_that_fails_has_not_happened(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    prepare, action = TRANSITIONS[name]
    prepare(engine)
    violations = rules_broken(engine.redis)

    commands = repeat_until_done(engine, monkeypatch, script_of(name), action)

    assert commands > 2
    assert rules_broken(engine.redis) <= violations | {"bundle", "commits"}
    engine.redis.flushall()  # runs made by hand leave what nobody ends


def test_every_script_that_writes_is_made_to_fail() -> None:
    texts = {
        name: compose(name, {}).split("local function transition()")[1] for name in script_names()
    }

    writing = {name for name, text in texts.items() if WRITING.search(text)}

    assert {script_of(name) for name in TRANSITIONS} == writing


def test_every_repair_is_made_to_fail() -> None:
    source = scripts.source_of("repair_run")
    table = source.split("REPAIRS = {")[1].split("\n}")[0]

    assert set(re.findall(r"^  (\w+) = ", table, re.M)) == BREAKAGES.keys() == set(REPAIRS)


def test_a_run_whose_commit_fails_ends_at_once(engine: Engine) -> None:
    run_id = engine.submit(GRAPH)
    engine.redis.set(run_key("history", run_id), "no list")

    engine.drive()

    run = engine.run(run_id)
    assert (run.status, run.failure and run.failure.code) == ("failed", "R023")
    assert "WRONGTYPE" in str(run.failure)
    engine.redis.flushall()


@pytest.mark.parametrize("can_be_ended", [True, False])
def test_the_scheduler_tries_nothing_again_for_ever(
    engine: Engine, can_be_ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run_id, other = engine.submit(GRAPH), engine.submit(GRAPH)
    lose_all(engine.redis)
    if can_be_ended:
        engine.redis.hdel(run_key("run", run_id), "agent")
    else:
        engine.redis.set(run_key("visits", run_id), "no hash")

    for _ in range(3):
        engine.clock.move(60)
        engine.tick()

    assert caplog.text.count(f"timer 'visit {run_id} 1/a': redeliver_visit failed") == 1
    status = engine.redis.hget(run_key("run", run_id), "status")
    assert status == ("failed" if can_be_ended else "queued")
    engine.drive()
    assert engine.run(other).status == "succeeded"
    engine.redis.flushall()


def script_of(name: str) -> str:
    """The script that is made to fail in one of the tests."""
    return name.split()[0].rstrip(":")


def repeat_until_done(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, script: str, action: Action
) -> int:
    """Make each command of a script fail in turn until none is left; how many there were."""
    before = trace(engine, script)
    for n in itertools.count(1):
        monkeypatch.setattr(scripts, "compose", partial(_failing, script, n))
        engine.store = RunStore(
            engine.redis, engine.store.settings, DirectDispatcher(), engine.clock
        )
        broken = failure_of(engine, action)
        monkeypatch.undo()
        if broken is None:
            return n
        assert "made to fail" in broken.reason
        assert trace(engine, script) == before, broken
    raise AssertionError


def failure_of(engine: Engine, action: Action) -> TransitionBroken | None:
    try:
        action(engine)
    except TransitionBroken as broken:
        return broken
    return None


@cache
def _composed(name: str, constants: tuple[tuple[str, str | int], ...]) -> str:
    return compose(name, dict(constants))


def _failing(script: str, n: int, name: str, *given: Any) -> str:
    whole = _composed(name, *(tuple(each.items()) for each in given))
    return FAILING.format(n=n) + whole if name == script else whole


def trace(engine: Engine, script: str) -> dict[str, Any]:
    """All that Redis holds, but for when it is seen to what is open: that may come sooner."""
    found = dump(engine.redis)
    for key, (content, _) in found.items():
        if _is_only_a_reminder(script, key):
            found[key] = sorted(member for member, _ in content)
    return found


def _is_only_a_reminder(script: str, key: str) -> bool:
    if script == "renew_calls":  # what is kept for longer is kept
        return key.startswith((f"{LIMITS}:held:", f"{LIMITS}:holds:"))
    return script != "shift_timers" and key.endswith(":timers")
