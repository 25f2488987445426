"""The sums of hours and days: counted in partitions, added up once an hour is over."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.errors import RunClosed, StaleVisit
from sleipnir.scheduler.runs.events import RunRetried
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import Failure, ModelCall, Usage
from sleipnir.scheduler.runs.spending import MOST_COMBINATIONS, OTHERS, Spent, spent_field, sum_of
from sleipnir.scheduler.runs.tries import AnotherTry
from sleipnir.scheduler.service.sweeps.figures import add_up_hours
from sleipnir.scheduler.store.figures.by_time import DAY_MS, HOUR_MS, FiguresByTime, SpendingByTime
from sleipnir.scheduler.store.figures.dearest import dearest_runs
from sleipnir.scheduler.store.figures.past import PastSums
from sleipnir.scheduler.store.figures.sums import ENDED, LABELLED, Sums
from sleipnir.scheduler.store.keys import counted_key, day_key
from tests.support.engine import Clock, Engine
from tests.support.runs import RUN, a_run, begin, submit

_DAY_S = DAY_MS / 1000
_NAMES = ("agent", "node", "batch", "model")


@pytest.fixture(autouse=True)
def _at_noon(clock: Clock) -> None:
    clock.ms += DAY_MS // 2 - clock.ms % DAY_MS


def book(engine: Engine, node: str, tokens: int, batch: str | None = None) -> None:
    """Let a node of a new run use tokens of a model."""
    run = a_run(new_run_id(), batch=batch)
    engine.store.runs.submit(run)
    lease = begin(engine, "1/s", run_id=run.run_id)
    call = ModelCall(node, "openai:m", 10)
    usage = Usage(tokens, 1, tokens * 1e-6, 4, 2, call=call)
    engine.store.visits.record_turn(lease, 0, "{}", event=None, usage=usage)


def by(engine: Engine, day: int, *names: str) -> dict[tuple[str, ...], Spent]:
    sums = SpendingByTime(engine.redis).by_day([day], names).get(day, {})
    return {tuple(field.split("\n")): Spent.of(numbers) for field, numbers in sums.items()}


def fold(engine: Engine) -> int:
    return add_up_hours(engine.store)


def test_hours_that_are_over_are_added_up_and_keep_their_sums(engine: Engine, clock: Clock) -> None:
    days = range(clock.ms // DAY_MS, clock.ms // DAY_MS + 2)
    spending = SpendingByTime(engine.redis)
    for node, tokens in (("a", 10), ("b", 20), ("a", 30)):
        book(engine, node, tokens)
    clock.move(_DAY_S)
    book(engine, "a", 40, "batch")
    before = [spending.by_day(days, names) for names in ((), ("node",), _NAMES)]

    folded = [fold(engine), fold(engine)]

    assert folded == [1, 0]
    assert [spending.by_day(days, names) for names in ((), ("node",), _NAMES)] == before
    assert [
        {names: each.prompt_tokens for names, each in by(engine, day, *_NAMES).items()}
        for day in days
    ] == [
        {("tested", "a", "", "openai:m"): 40, ("tested", "b", "", "openai:m"): 20},
        {("tested", "a", "batch", "openai:m"): 40},
    ]
    (first,) = by(engine, days[0]).values()
    assert (first.calls, first.ms) == (3, 30)
    assert (first.cached_tokens, first.cache_written_tokens) == (12, 6)
    assert first.known_usd == pytest.approx(60e-6)
    assert not list(engine.redis.scan_iter(f"{{p*:spend:{days[0] * 24 + 12}"))


def test_sums_that_were_read_are_kept_until_something_is_added(
    engine: Engine, clock: Clock
) -> None:
    past = PastSums()
    days = range(clock.ms // DAY_MS, clock.ms // DAY_MS + 2)
    hours = range(clock.ms // HOUR_MS, clock.ms // HOUR_MS + 25)

    def read(past: PastSums | None) -> list[dict[int, Sums]]:
        spending = SpendingByTime(engine.redis, past)
        return [
            spending.by_day(days, ("node",)),
            spending.by_day(days, _NAMES),
            spending.by_hour(hours, ("model",)),
        ]

    book(engine, "a", 10)
    clock.move(_DAY_S)
    book(engine, "b", 20)
    looks = [(read(past), read(None))]
    fold(engine)
    looks += [(read(past), read(None)), (read(past), read(None))]
    day = day_key("spend", days[0])
    engine.redis.hset(day, "node", "[]")  # what is kept is not read again
    assert read(past) == looks[-1][0] != read(None)
    clock.move(-_DAY_S)
    book(engine, "c", 5)
    clock.move(_DAY_S)
    fold(engine)
    looks.append((read(past), read(None)))

    assert all(kept == anew for kept, anew in looks)
    assert set(looks[-1][0][0][days[0]]) == {"a", "c"}


def test_the_sums_that_are_kept_have_a_bound() -> None:
    past = PastSums(most=10)
    for number in range(8):
        past.keep(str(number), "x", PastSums.Found("1", {"a": [1], "b": [1]}))
        past.find("1", "x")

    kept = [number for number in range(8) if past.find(str(number), "x")]
    past.forget("7", "x")

    assert kept == [1, 6, 7]
    assert past.find("7", "x") is None


def test_what_is_counted_for_an_hour_after_it_was_added_up_is_added_to_it(
    engine: Engine, clock: Clock
) -> None:
    day = clock.ms // DAY_MS
    book(engine, "a", 10)
    clock.move(_DAY_S)
    fold(engine)
    clock.move(-_DAY_S)
    book(engine, "a", 5)

    (late,) = by(engine, day).values()
    clock.move(_DAY_S)
    fold(engine)

    assert late.prompt_tokens == 15
    assert [*by(engine, day).values()] == [late]


def test_beyond_the_most_values_of_labels_of_an_hour_the_rest_is_counted_together(
    engine: Engine, clock: Clock
) -> None:
    key = counted_key("{p00}", "labelled", clock.ms // HOUR_MS)
    sums = {f"order\n{number}": "1 1 1 1 0 0 7 0 0 0" for number in range(1_000)}
    run = a_run("00" + "1" * 14, labels={"order": "new", "team": "web"})
    engine.store.runs.submit(run)
    lease = begin(engine, "1/s", run_id=run.run_id)
    engine.redis.hset(key, mapping=sums)
    engine.redis.sadd("{p00}:hours", clock.ms // HOUR_MS)

    usage = Usage(100, 0, 1e-9, call=ModelCall("a", "openai:m", 1))
    engine.store.visits.record_turn(lease, 0, "{}", usage=usage)

    labelled = FiguresByTime(engine.redis, LABELLED)
    others: Any = engine.redis.hget(key, "other\nother")
    assert engine.redis.hlen(key) == 1_001
    assert Spent.from_text(others).prompt_tokens == 200  # for each of its labels
    clock.move(_DAY_S)
    fold(engine)
    (kept,) = labelled.by_day([clock.ms // DAY_MS - 1], ("label",)).values()
    assert Spent.of(kept["order"]).calls + Spent.of(kept["other"]).calls == 1_002
    assert not labelled.unbalanced()


def test_beyond_the_most_combinations_of_a_day_the_rest_is_counted_for_others(
    engine: Engine, clock: Clock
) -> None:
    submit(engine, "00" + "1" * 14)
    day, partition = clock.ms // DAY_MS, "{p00}"
    sums = {
        spent_field(("x", str(n), "", "m")): "1 1 1 1 0 0 7 0" for n in range(MOST_COMBINATIONS - 1)
    }
    hour = clock.ms // HOUR_MS
    engine.redis.hset(counted_key(partition, "spend", hour), mapping=sums)
    engine.redis.sadd(f"{partition}:hours", hour)

    lease = begin(engine, "1/s", run_id="00" + "1" * 14)
    for turn in range(2):
        usage = Usage(100, 0, 1e-9, call=ModelCall("a", "openai:m", 1))
        engine.store.visits.record_turn(lease, turn, "{}", event=None, usage=usage)
    before = by(engine, day, *_NAMES)
    clock.move(_DAY_S)
    fold(engine)
    after = by(engine, day, *_NAMES)

    assert engine.redis.exists(counted_key(partition, "spend", hour)) == 0
    assert after == before
    assert len(after) == MOST_COMBINATIONS
    assert sum_of(after.values()).calls == MOST_COMBINATIONS + 1
    assert after[OTHERS].prompt_tokens == 200


def test_sums_expire_after_their_own_retention_time(engine: Engine, clock: Clock) -> None:
    engine.configure(spend_retention_s=3 * _DAY_S)
    book(engine, "a", 10)
    (counting,) = engine.redis.scan_iter("{p*:spend:*")
    kept = engine.redis.pttl(counting)
    clock.move(_DAY_S)
    fold(engine)
    (over,) = engine.redis.scan_iter("sleipnir:spend:*")

    assert 2 * DAY_MS < kept <= 3 * DAY_MS
    assert 2 * DAY_MS < engine.redis.pttl(over) <= 3 * DAY_MS


def test_a_reply_that_comes_too_late_counts_once_whoever_asks_again(
    engine: Engine, clock: Clock
) -> None:
    submit(engine, RUN)
    late = begin(engine, "1/s")
    usage = Usage(100, 0, 1e-4, call=ModelCall("s", "openai:m", 1))
    record = engine.store.visits.record_turn
    record(late, 0, '"first"', event=None, usage=usage)
    clock.move(60)
    engine.tick()  # its lease has ended
    lease = begin(engine, "1/s", "t2")
    record(lease, 1, '"second"', event=None, usage=usage)

    for position, turn in ((0, '"first"'), (1, '"late"'), (1, '"late"')):
        with pytest.raises(StaleVisit):
            record(late, position, turn, event=None, usage=usage)
    before = engine.run(RUN).usage
    engine.client.cancel(RUN)
    with pytest.raises(RunClosed):
        record(lease, 2, '"third"', event=None, usage=usage)

    day = clock.ms // DAY_MS
    assert by(engine, day, "node")["s",].prompt_tokens == 400
    assert (before.prompt_tokens, engine.run(RUN).usage.prompt_tokens) == (300, 300)


def ends(engine: Engine, hours: range, *names: str) -> dict[int, dict[tuple[str, ...], int]]:
    """The number of ended runs by hour and names, checked to be that by day."""
    figures = FiguresByTime(engine.redis, ENDED)
    found = {
        hour: {tuple(field.split("\n")): count for field, (count,) in sums.items()}
        for hour, sums in figures.by_hour(hours, names).items()
    }
    of_days = figures.together(range(hours[0] // 24, hours[-1] // 24 + 1), names)
    assert sum(sum(sums.values()) for sums in found.values()) == sum(n for (n,) in of_days.values())
    return {hour: sums for hour, sums in found.items() if sums}


def end(engine: Engine, status: str, batch: str | None = None, tokens: int = 0) -> str:
    run = a_run(new_run_id(), batch=batch)
    engine.store.runs.submit(run)
    if tokens:
        usage = Usage(tokens, 1, tokens * 1e-6, call=ModelCall("a", "openai:m", 10))
        lease = begin(engine, "1/s", run_id=run.run_id)
        engine.store.visits.record_turn(lease, 0, "{}", event=None, usage=usage)
    engine.store.runs.close(run.run_id, status, Failure("R001", "it failed", "s"))
    return run.run_id


def test_ended_runs_are_counted_by_the_hour_of_their_end(engine: Engine, clock: Clock) -> None:
    hour = clock.ms // HOUR_MS
    hours = range(hour, hour + 9)
    end(engine, "failed")
    end(engine, "cancelled", "b", tokens=1_000)
    clock.move(8 * 3_600)
    end(engine, "failed", "b")
    names = ("agent", "batch", "status")
    expected = {
        hour: {("tested", "", "failed"): 1, ("tested", "b", "cancelled"): 1},
        hour + 8: {("tested", "b", "failed"): 1},
    }

    before = ends(engine, hours, *names), ends(engine, hours, "agent", "status", "cost")
    folded = fold(engine)
    after = ends(engine, hours, *names), ends(engine, hours, "agent", "status", "cost")

    assert (folded, before[0]) == (1, expected)
    assert after == before
    # A thousandth of a dollar is a million billionths: below 2^20.
    assert before[1][hour]["tested", "cancelled", "20"] == 1


def test_a_retry_takes_the_end_back_and_a_removal_does_not(engine: Engine, clock: Clock) -> None:
    hour = clock.ms // HOUR_MS
    hours, names = range(hour, hour + 24 * 20), ("status",)
    failed = end(engine, "failed")
    end(engine, "failed", "b")

    clock.move(3 * 3_600)
    fold(engine)
    engine.store.runs.retry(AnotherTry(failed, 1, 1, RunRetried(1, ("s",), 2)))
    retried = ends(engine, hours, *names)
    engine.client.cancel(failed)
    ended_again = ends(engine, hours, *names)
    clock.move(15 * _DAY_S)
    engine.tick()

    assert retried == {hour: {("failed",): 1}}
    assert ended_again == {hour: {("failed",): 1}, hour + 3: {("cancelled",): 1}}
    assert not engine.client.queries.all_counts()["failed"]
    assert ends(engine, hours, *names) == ended_again


def test_beyond_the_most_combinations_of_an_hour_ends_are_counted_for_others(
    engine: Engine, clock: Clock
) -> None:
    submit(engine, "00" + "1" * 14)
    hour = clock.ms // HOUR_MS
    sums = {f"x{n}\n\nfailed\n1\n0": 1 for n in range(MOST_COMBINATIONS - 1)}
    counted = counted_key("{p00}", "ended", hour)
    engine.redis.hset(counted, mapping=sums)
    engine.redis.expire(counted, 60)

    engine.store.runs.close("00" + "1" * 14, "cancelled", Failure("R001", "it failed", "s"))

    stored = engine.redis.hgetall(counted)
    assert len(stored) == MOST_COMBINATIONS
    assert stored["other\nother\ncancelled\n0\n0"] == "1"


def test_the_dearest_runs_of_days_are_known_until_they_go_on(engine: Engine, clock: Clock) -> None:
    first = clock.ms // DAY_MS
    costs = {tokens: end(engine, "failed", tokens=tokens) for tokens in range(1_000, 31_000, 1_000)}
    end(engine, "failed")
    clock.move(_DAY_S)
    late = end(engine, "cancelled", tokens=25_500)
    days = [first, first + 1]

    before = dearest_runs(engine.redis, days), dearest_runs(engine.redis, days[1:])
    engine.store.runs.retry(AnotherTry(costs[30_000], 1, 1, RunRetried(1, ("s",), 2)))
    after = dearest_runs(engine.redis, days, 3)

    dearest = [costs[tokens] for tokens in sorted(costs, reverse=True)]
    assert before == ([*dearest[:5], late, *dearest[5:19]], [late])
    assert after == dearest[1:4]
