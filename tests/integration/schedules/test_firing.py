"""Instants of schedules start runs: once each, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sleipnir.scheduler.errors import ActionRefused, ScheduleNotFound, SubmissionRefused
from sleipnir.scheduler.runs.model import Failure, Status
from sleipnir.scheduler.runs.schedules.model import Schedule
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.filters import RunFilter
from tests.support.engine import Engine

HELLO = """
start: done
nodes:
  done: {type: end, output: "Hello at {{scheduled_at}}, {{initial_prompt}}"}
"""
ASKS = """
start: ask
nodes:
  ask: {type: input, question: Which?, next: done}
  done: {type: end, output: done}
"""
MINUTE_MS = 60_000


@pytest.fixture(autouse=True)
def none_left(engine: Engine) -> Iterator[None]:
    yield
    for schedule in engine.client.schedules.list():
        engine.client.schedules.delete(schedule.name)


def create(engine: Engine, graph: str = HELLO, name: str = "news", /, **wanted: Any) -> Schedule:
    wanted = {"every": "1m", **wanted}
    return engine.client.schedules.create(name, {"agent": agent_of(engine, graph), **wanted})


def agent_of(engine: Engine, graph: str) -> str:
    engine.write("tested", graph)
    return "tested"


def pass_minutes(engine: Engine, minutes: int) -> None:
    for _ in range(minutes):
        engine.clock.move(60)
        engine.tick()


def runs(engine: Engine) -> list[str]:
    """The ids of all runs, oldest first."""
    page = engine.queries.list_runs(RunFilter(), 1_000)
    return [row.run_id for row in reversed(page.entries)]


def standing(engine: Engine, name: str = "news") -> Schedule:
    return engine.client.schedules.get(name)


def test_an_instant_starts_a_run_that_knows_it(engine: Engine) -> None:
    schedule = create(engine, prompt="Ada", label={"team": "a"})

    pass_minutes(engine, 1)
    engine.drive()

    (run_id,) = runs(engine)
    assert schedule.next_ms is not None
    at = to_rfc3339(schedule.next_ms)
    run = engine.run(run_id)
    assert (run.output, run.labels) == (
        f"Hello at {at}, Ada",
        {"team": "a", "schedule": "news", "scheduled_at": at},
    )
    now = standing(engine)
    assert (now.last_run, now.last_ms, now.fired) == (run_id, schedule.next_ms, 1)
    assert now.next_ms == schedule.next_ms + MINUTE_MS
    assert now.revision == schedule.revision + 1  # one transition, which sets the next timer


@pytest.mark.parametrize(
    ("overlap", "started", "skipped", "waiting"),
    [
        ("skip", 1, 3, 0),
        ("buffer-one", 1, 2, 1),
        ("buffer-all", 1, 0, 3),
        ("cancel-other", 4, 0, 0),
        ("allow-all", 4, 0, 0),
    ],
)
def test_an_instant_at_which_a_run_is_open(
    engine: Engine, overlap: str, started: int, skipped: int, waiting: int
) -> None:
    create(engine, ASKS, overlap=overlap)

    for _ in range(4):
        pass_minutes(engine, 1)
        engine.drive()

    now = standing(engine)
    assert (len(runs(engine)), now.skipped, len(now.buffered)) == (started, skipped, waiting)
    ended = Counter(str(engine.run(run_id).status) for run_id in runs(engine))
    assert ended["cancelled"] == (3 if overlap == "cancel-other" else 0)


def test_buffered_instants_start_when_the_run_before_them_ends(engine: Engine) -> None:
    first = create(engine, ASKS, overlap="buffer-all").next_ms
    for _ in range(3):
        pass_minutes(engine, 1)
        engine.drive()

    for count in (1, 2, 3):
        engine.client.answer(runs(engine)[-1], "a")
        engine.drive()
        engine.clock.move(1)
        engine.tick()
        engine.drive()
        assert len(runs(engine)) == min(count + 1, 3)

    assert first is not None
    at = [engine.run(run_id).labels["scheduled_at"] for run_id in runs(engine)]
    assert at == [to_rfc3339(first + n * MINUTE_MS) for n in range(3)]
    assert standing(engine).buffered == ()


def test_missed_instants_fire_late_or_are_counted(engine: Engine) -> None:
    create(engine, overlap="allow-all", catchup="3m")

    engine.clock.move(10 * 60)
    engine.tick()

    now = standing(engine)
    assert now.missed + len(runs(engine)) == 10
    assert len(runs(engine)) in (3, 4)  # 3 min back from an instant of the clock's own


def test_a_failed_run_pauses_the_schedule_that_says_so(engine: Engine) -> None:
    create(engine, ASKS, overlap="buffer-all", pause_on_failure=True)
    pass_minutes(engine, 2)
    engine.drive()
    (run_id,) = runs(engine)

    engine.store.runs.close(run_id, "failed", Failure("R001", "no", None))
    pass_minutes(engine, 3)

    now = standing(engine)
    assert now.paused == f"run {run_id} did not succeed"
    assert (runs(engine), now.next_ms, now.buffered) == ([run_id], None, ())

    engine.client.schedules.resume("news")
    pass_minutes(engine, 1)
    assert len(runs(engine)) == 2


def test_a_schedule_uses_the_files_of_when_it_was_made(engine: Engine) -> None:
    agent = agent_of(engine, HELLO)
    engine.client.schedules.create("news", {"agent": agent, "every": "1m"})
    engine.write("tested", HELLO.replace("Hello", "Good morning"))

    with pytest.raises(SubmissionRefused, match="have changed since schedule 'news' was made"):
        engine.client.schedules.edit("news", {"prompt": "Ada"})
    pass_minutes(engine, 1)
    engine.drive()
    engine.client.schedules.edit("news", {"agent": agent})
    pass_minutes(engine, 1)
    engine.drive()

    outputs = [str(engine.run(run_id).output).partition(" at")[0] for run_id in runs(engine)]
    assert outputs == ["Hello", "Good morning"]


def test_its_bundle_is_kept_as_long_as_the_schedule(engine: Engine) -> None:
    digest = create(engine).digest
    engine.clock.move(30 * 86_400)

    kept = engine.store.bundles.get(digest)
    assert engine.store.bundles.remove_unused(timedelta(days=1), 100) == 0
    assert kept is not None
    engine.client.schedules.delete("news")

    assert engine.store.bundles.remove_unused(timedelta(days=1), 100) == 1


def test_trigger_and_backfill(engine: Engine) -> None:
    schedules = engine.client.schedules
    create(engine, ASKS)
    start = engine.clock.ms
    run_id = schedules.trigger("news")
    engine.drive()

    with pytest.raises(ActionRefused, match=f"run {run_id} of schedule 'news' is open"):
        schedules.trigger("news")
    engine.client.cancel(run_id)
    engine.clock.move(1)
    again = schedules.trigger("news")
    engine.client.cancel(again)
    schedules.pause("news", "holiday")
    engine.clock.move(600)
    filled = schedules.backfill("news", start, start + 5 * MINUTE_MS)
    repeated = schedules.backfill("news", start, start + 5 * MINUTE_MS)

    assert (len(filled.started), filled.existing) == (5, 0)
    assert (len(repeated.started), repeated.existing) == (0, 5)
    assert standing(engine).paused == "holiday"


def test_what_is_refused(engine: Engine) -> None:
    create(engine)
    for wanted, message in (
        ({}, "either --cron or --every"),
        ({"cron": "* * * *"}, "expected five fields"),
        ({"cron": "61 * * * *"}, "bad minute"),
        ({"cron": "@hourly", "timezone": "Mars/Base"}, "no time zone 'Mars/Base'"),
        ({"every": "often"}, "every: 'often' is not a duration"),
        ({"every": "1m", "catchup": "1s"}, "catchup: Input should be greater"),
        ({"every": "1m", "overlap": "sometimes"}, "overlap: Input should be"),
        ({"every": "1m", "labels": {"schedule": "x"}}, "'schedule' is the schedule's own"),
        ({"every": "1m", "wen": 1}, "wen: Extra inputs"),
    ):
        with pytest.raises(SubmissionRefused, match=message):
            engine.client.schedules.create("other", {"agent": agent_of(engine, HELLO), **wanted})
    with pytest.raises(SubmissionRefused, match="there is a schedule 'news' already"):
        create(engine)
    with pytest.raises(SubmissionRefused, match="not a valid name"):
        create(engine, HELLO, "two words")
    with pytest.raises(ScheduleNotFound):
        engine.client.schedules.pause("other")


def test_each_instant_fires_once_or_is_counted_whatever_happens(engine: Engine) -> None:
    """Two schedulers that die anywhere, outages, jumps of the clock, pauses."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    create(engine, overlap=chance.choice(["allow-all", "skip", "buffer-one", "buffer-all"]))
    schedulers = [engine.scheduler, engine.another_scheduler()]
    first = standing(engine).next_ms
    assert first is not None
    paused_over = 0
    while (now := standing(engine)).fired + now.skipped + now.missed < 200:
        match chance.randrange(12):
            case 0:
                engine.clock.move(chance.randrange(3_600))
            case 1:
                engine.clock.set_by(3_600)
            case 2:
                engine.clock.set_by(-3_600)
            case 3:
                schedulers[chance.randrange(2)] = engine.another_scheduler()
            case 4:
                before = now.next_ms or 0
                engine.client.schedules.pause("news")
                engine.clock.move(chance.randrange(300))
                after = engine.client.schedules.resume("news").next_ms or 0
                paused_over += (after - before) // MINUTE_MS
            case 5:
                for run_id in runs(engine)[-20:]:
                    engine.client.cancel(run_id)
            case _:
                engine.clock.move(chance.randrange(180))
        schedulers[chance.randrange(2)].run_once()
        if chance.random() < 0.5:
            engine.drive()

    now = standing(engine)
    assert now.next_ms is not None
    instants = (now.next_ms - first) // MINUTE_MS - paused_over
    counted = now.fired + now.skipped + now.missed + len(now.buffered)
    assert counted == instants, seed
    stored = Counter(engine.run(run_id).labels["scheduled_at"] for run_id in runs(engine))
    assert max(stored.values(), default=1) == 1, seed


def test_a_succeeded_run_pauses_nothing(engine: Engine) -> None:
    create(engine, pause_on_failure=True)

    for _ in range(2):
        pass_minutes(engine, 1)
        engine.drive()

    assert standing(engine).paused is None
    assert [engine.run(run_id).status for run_id in runs(engine)] == [Status.SUCCEEDED] * 2
