"""The sums of days: counted in partitions, added up once a day is over."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.errors import RunClosed, StaleVisit
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import ModelCall, Usage
from sleipnir.scheduler.runs.spending import MOST_COMBINATIONS, OTHERS, Spent, spent_field, sum_of
from sleipnir.scheduler.service.sweeps.spending import add_up_days
from sleipnir.scheduler.store.daily_spending import DAY_MS, DailySpending
from sleipnir.scheduler.store.keys import spent_key
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
    usage = Usage(tokens, 1, tokens * 1e-6, 4, 2, call)
    engine.store.visits.record_turn(lease, 0, "{}", event=None, usage=usage)


def by(engine: Engine, day: int, *names: str) -> dict[tuple[str, ...], Spent]:
    sums = DailySpending(engine.redis).by([day], names).get(day, {})
    return {tuple(field.split("\n")): Spent(*numbers) for field, numbers in sums.items()}


def fold(engine: Engine) -> int:
    return add_up_days(engine.store)


def test_days_that_are_over_are_added_up_and_keep_their_sums(engine: Engine, clock: Clock) -> None:
    days = range(clock.ms // DAY_MS, clock.ms // DAY_MS + 2)
    spending = DailySpending(engine.redis)
    for node, tokens in (("a", 10), ("b", 20), ("a", 30)):
        book(engine, node, tokens)
    clock.move(_DAY_S)
    book(engine, "a", 40, "batch")
    before = [spending.by(days, names) for names in ((), ("node",), _NAMES)]

    folded = [fold(engine), fold(engine)]

    assert folded == [1, 0]
    assert [spending.by(days, names) for names in ((), ("node",), _NAMES)] == before
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
    assert not list(engine.redis.scan_iter(f"{{p*:spend:{days[0]}"))


def test_what_is_counted_for_a_day_after_it_was_added_up_is_added_to_it(
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


def test_beyond_the_most_combinations_of_a_day_the_rest_is_counted_for_others(
    engine: Engine, clock: Clock
) -> None:
    submit(engine, "00" + "1" * 14)
    day, partition = clock.ms // DAY_MS, "{p00}"
    sums = {
        spent_field(("x", str(n), "", "m")): "1 1 1 1 0 0 7 0" for n in range(MOST_COMBINATIONS - 1)
    }
    engine.redis.hset(spent_key(partition, day), mapping=sums)
    engine.redis.sadd(f"{partition}:spenddays", day)

    lease = begin(engine, "1/s", run_id="00" + "1" * 14)
    for turn in range(2):
        usage = Usage(100, 0, 1e-9, call=ModelCall("a", "openai:m", 1))
        engine.store.visits.record_turn(lease, turn, "{}", event=None, usage=usage)
    before = by(engine, day, *_NAMES)
    clock.move(_DAY_S)
    fold(engine)
    after = by(engine, day, *_NAMES)

    assert engine.redis.exists(spent_key(partition, day)) == 0
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
