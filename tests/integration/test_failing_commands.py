"""Whichever command of a transition fails, the transition has not happened, and can be repeated."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import scheduler.lua
from scheduler.advance import Branch, Plan
from scheduler.audit import Audit
from scheduler.dispatch import DirectDispatcher
from scheduler.errors import TransitionBroken
from scheduler.keys import LANE_SEPARATOR, QUEUE, batch_key, run_key
from scheduler.limits.book import Granted, LimitBook, Setback, Used
from scheduler.limits.rules import Budget, Limit
from scheduler.lua import script_names
from scheduler.run import Failure, Lease, Usage
from scheduler.store import RunStore
from tests.support.engine import Engine
from tests.support.keys import dump
from tests.support.limits import want
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
    engine.store.open_map(begin(engine, "2/a"), "b", 2, ["1", "2", "3"])
    begin(engine, "2/a/1")


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


def everything(engine: Engine) -> None:
    """One of all that a run can hold."""
    fanned_out(engine, "a", "b", "c", "d", "e", window=4)
    ask(engine, "2/a")
    spawn(engine, "2/b")
    engine.store.open_map(begin(engine, "2/c"), "b", 2, ["1", "2", "3"])
    engine.store.record_turn(begin(engine, "2/d"), 0, "{}")


def resting(engine: Engine) -> None:
    engine.store.postpone(started(engine), 5)


def lost(engine: Engine) -> None:
    started(engine)
    engine.clock.move(60)


def ended(engine: Engine) -> None:
    advance(engine, started(engine), Plan({}, output="x"))


WIDE = go_to("n0", "n1", "n2", k='"' + "x" * 99 + '"', other="1")
USAGE = Usage(3, 4, 0.5, 2)
ITEM = '{"kind":"item"}'
CANCELLED = Failure("cancelled", "enough", None)

# By script and the way it takes: what has to be there, and what then happens to it.
TRANSITIONS: dict[str, tuple[Action, Action]] = {
    "submit_run": (
        lambda e: e.redis.sadd(batch_key("b"), RUN),
        lambda e: e.store.submit(a_run(batch="b", timeout_s=60)),
    ),
    "begin_visit": (
        lambda e: e.store.submit(a_run(timeout_s=60)),
        lambda e: begin(e, "1/s"),
    ),
    "advance_step": (
        started,
        lambda e: e.store.advance(held("1/s"), 1, WIDE, cap=9, window=2, event="{}", usage=USAGE),
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
        lambda e: e.store.stage(held("2/a"), 2, Branch({}, ("z",)), event="{}", usage=USAGE),
    ),
    "stage_visit of the last": (
        last_of_two,
        lambda e: e.store.stage(held("2/b"), 2, Branch({}, ("z",))),
    ),
    "stage_visit that failed": (everything, lambda e: e.store.stage(held("2/d"), 2, FAILED)),
    "stage_item": (
        a_map,
        lambda e: e.store.stage_item(
            held("2/a/1"), "{}", halt=False, elapsed_s=1, usage=USAGE, spent=USAGE, event=ITEM
        ),
    ),
    "stage_item that halts": (
        halting,
        lambda e: e.store.stage_item(held("2/a/1"), "{}", halt=True, elapsed_s=1),
    ),
    "open_map": (
        step_of_three,
        lambda e: e.store.open_map(held("2/a"), "b", 2, ["1", "2", "3"]),
    ),
    "ask_question": (
        step_of_three,
        lambda e: e.store.ask(held("2/a"), a_question("2/a"), event="{}", turn="{}"),
    ),
    "answer_question": (asked, lambda e: e.store.answer(RUN, "2/a", "yes", event="{}")),
    "spawn_child": (
        step_of_three,
        lambda e: e.store.spawn(held("2/a"), a_run(CHILD, parent=f"{RUN} 2/a"), 300, event="{}"),
    ),
    "expire_child": (a_child, lambda e: e.store.expire_child(RUN, "2/a")),
    "postpone_visit": (
        started,
        lambda e: e.store.postpone(held("1/s"), 5, event="{}", turn="{}", usage=USAGE),
    ),
    "recall_visit": (resting, lambda e: e.store.recall_visit(RUN, "1/s")),
    "recall_visit too early": (started, lambda e: e.store.recall_visit(RUN, "1/s", 5)),
    "record_turn": (
        started,
        lambda e: e.store.record_turn(held("1/s"), 0, "{}", event="{}", usage=USAGE),
    ),
    "return_visit": (started, lambda e: e.store.give_back(held("1/s"))),
    "return_visit for later": (started, lambda e: e.store.give_back(held("1/s"), 5)),
    "redeliver_visit": (lost, lambda e: e.store.redeliver(RUN, "1/s")),
    "accuse_visit": (started, lambda e: e.store.accuse(held("1/s"), "SIGKILL")),
    "close_run": (everything, lambda e: e.store.close(RUN, "cancelled", CANCELLED)),
    "purge_run": (ended, lambda e: e.store.purge(RUN, DIGEST)),
    "append_logs": (started, lambda e: e.store.append_logs(RUN, ["x" * 99] * 3)),
    "fold_history": (started, lambda e: e.store._fold_history(RUN)),
    "reserve_call": (lambda e: None, lambda e: book(e).reserve(CALL)),
    "settle_call": (
        lambda e: book(e).reserve(CALL),
        lambda e: book(e).settle(Granted(CALL, ("day",)), Used(9, 0.5, 1.0)),
    ),
    "settle_call that failed": (
        lambda e: book(e).reserve(CALL),
        lambda e: book(e).settle(Granted(CALL, ("day",)), Used(9, 0.5, 1.0), BUSY),
    ),
}

# These read, repeat what they do at every tick, or are tested where they are at home.
OTHERS = {
    *("disown_partition", "find_unfinished", "inspect_partition", "inspect_run", "put_off"),
    *("read_map", "read_step", "read_turns", "recall_calls", "renew_calls", "renew_leases"),
    *("repair_run", "sweep_partition"),
}

DAY = ("day", Budget("day", usd=9.0, tokens=99))
CALL = want(1, Limit("p:m", 5, 100, 1), budgets=(DAY,), tokens=10)
BUSY = Setback("busy", "p:m", "HTTP 429", 1.0, 60.0)


def book(engine: Engine) -> LimitBook:
    return LimitBook(engine.redis, engine.clock)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_that_fails_has_not_happened(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    prepare, action = TRANSITIONS[name]
    prepare(engine)
    violations = rules_broken(engine)

    commands = repeat_until_done(engine, monkeypatch, action)

    assert commands > 2
    assert rules_broken(engine) <= violations | {"bundle", "commits"}
    engine.redis.flushall()  # runs made by hand leave what nobody ends


def test_every_script_that_changes_runs_is_made_to_fail() -> None:
    assert {name.split()[0] for name in TRANSITIONS} | OTHERS == set(script_names())


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
    engine.redis.delete(QUEUE, *(f"{QUEUE}{LANE_SEPARATOR}{lane}" for lane in range(1, 4)))
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


def rules_broken(engine: Engine) -> set[str]:
    return {found.rule for found in Audit(engine.redis).violations()}


def repeat_until_done(engine: Engine, monkeypatch: pytest.MonkeyPatch, action: Action) -> int:
    """Make each command fail in turn until none is left; how many there were."""
    before = trace(engine)
    whole = scheduler.lua.compose
    for n in itertools.count(1):
        monkeypatch.setattr(scheduler.lua, "compose", partial(_failing, whole, n))
        engine.store = RunStore(
            engine.redis, engine.store.settings, DirectDispatcher(), engine.clock
        )
        broken = failure_of(engine, action)
        monkeypatch.undo()
        if broken is None:
            return n
        assert "made to fail" in broken.reason
        assert trace(engine) == before, broken
    raise AssertionError


def failure_of(engine: Engine, action: Action) -> TransitionBroken | None:
    try:
        action(engine)
    except TransitionBroken as broken:
        return broken
    return None


def _failing(compose: Callable[..., str], n: int, *given: Any) -> str:
    return FAILING.format(n=n) + compose(*given)


def trace(engine: Engine) -> dict[str, Any]:
    """All that Redis holds, but for the instants at which timers of open visits are due."""
    found = dump(engine.redis)
    found.pop(batch_key("b"), None)
    for key, (content, _) in found.items():
        if key.endswith(":timers"):
            found[key] = sorted(member for member, _ in content)
    return found
