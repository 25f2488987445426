"""Providers that are unavailable, throttle or have no quota: who waits, for how long, in turn."""

from __future__ import annotations

import pytest
import redis

from sleipnir.scheduler.limits.limiter import (
    Granted,
    LimitBook,
    ProviderFailure,
    Refused,
    Used,
    Waits,
)
from tests.support.engine import Clock
from tests.support.limits import UNAVAILABLE, granted, waits, want

PATIENT = 3_600.0


@pytest.fixture
def book(redis_client: redis.Redis, clock: Clock) -> LimitBook:
    return LimitBook(redis_client, clock)


def fail(
    book: LimitBook, number: int, failure: ProviderFailure = UNAVAILABLE, **fields: float
) -> Waits | None:
    """The call of that number goes and fails."""
    call = want(number, patience_s=fields.get("patience_s", PATIENT))
    return book.settle(Granted(call), Used(), failure)[0]


def test_a_failed_call_waits_until_the_pause_is_over(book: LimitBook, clock: Clock) -> None:
    waiting = fail(book, 1)

    assert waiting is not None
    assert (waiting.delay_s, waiting.name, waiting.detail) == (1.0, "p", "Connection refused")
    assert book.notices().pauses == {"p"}


def test_pauses_grow_while_nobody_answers(book: LimitBook, clock: Clock) -> None:
    delays = []
    for _ in range(9):
        waiting = fail(book, 1)
        assert waiting is not None
        delays.append(waiting.delay_s)
        clock.move(waiting.delay_s)
        granted(book.reserve(want(1, patience_s=PATIENT)))

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_calls_that_fail_together_make_one_pause(book: LimitBook, clock: Clock) -> None:
    delays = [waiting.delay_s for n in range(5) if (waiting := fail(book, n))]

    assert delays == pytest.approx([1.0, 1.01, 1.02, 1.03, 1.04])


def test_after_a_pause_one_call_tries_for_all(book: LimitBook, clock: Clock) -> None:
    fail(book, 1)
    waits(book.reserve(want(2, patience_s=PATIENT)))
    clock.move(1.5)

    probe = book.reserve(want(2, patience_s=PATIENT))
    other = book.reserve(want(1, patience_s=PATIENT))

    assert isinstance(probe, Granted)
    assert waits(other).delay_s >= 1.0


def test_when_the_try_succeeds_everybody_goes_on(book: LimitBook, clock: Clock) -> None:
    fail(book, 1)
    clock.move(1.5)
    probe = granted(book.reserve(want(2, patience_s=PATIENT)))

    book.settle(probe, Used())

    assert book.notices().pauses == frozenset()
    assert all(isinstance(book.reserve(want(n, patience_s=PATIENT)), Granted) for n in range(3, 9))


def test_a_try_whose_worker_died_is_made_by_another_call(book: LimitBook, clock: Clock) -> None:
    fail(book, 1)
    clock.move(1.5)
    granted(book.reserve(want(2, patience_s=PATIENT)))

    clock.move(31)

    assert isinstance(book.reserve(want(3, patience_s=PATIENT)), Granted)


def test_a_hundred_calls_come_back_one_after_the_other(book: LimitBook, clock: Clock) -> None:
    fail(book, 0)

    delays = [waits(book.reserve(want(n, patience_s=PATIENT))).delay_s for n in range(1, 101)]

    assert len(set(delays)) == 100
    assert max(delays) == pytest.approx(2.0)


def test_patience_counts_from_the_first_failure_over_all_waits(
    book: LimitBook, clock: Clock
) -> None:
    waited = 0.0
    while (waiting := fail(book, 1, patience_s=10.0)) is not None:
        waited += waiting.delay_s
        clock.move(waiting.delay_s)
        granted(book.reserve(want(1, patience_s=10.0)))

    assert waited == pytest.approx(10.0)


def test_without_patience_nobody_waits_for_a_provider(book: LimitBook) -> None:
    assert fail(book, 1, patience_s=0.0) is None
    assert isinstance(book.reserve(want(2)), Granted)


def test_a_call_that_has_another_model_to_ask_does_not_wait(book: LimitBook) -> None:
    fail(book, 1)

    verdict = book.reserve(want(2, next_model=True))

    assert isinstance(verdict, Refused)
    assert (verdict.name, verdict.detail) == ("p", "Connection refused")


def test_what_the_server_asks_for_holds_for_everybody(book: LimitBook, clock: Clock) -> None:
    fail(
        book,
        1,
        ProviderFailure("throttled", "p:m", "HTTP 429: slow down", 1.0, 60.0, retry_after_s=20),
    )

    waiting = waits(book.reserve(want(2, patience_s=PATIENT)))

    assert waiting.delay_s == pytest.approx(20, abs=0.02)
    clock.move(21)
    assert isinstance(book.reserve(want(3, patience_s=PATIENT)), Granted)
    assert isinstance(book.reserve(want(4, patience_s=PATIENT)), Granted)


def test_a_pause_by_command_holds_even_without_patience(
    book: LimitBook, redis_client: redis.Redis
) -> None:
    book.pause("p", "maintenance")

    waiting = waits(book.reserve(want(1)))

    assert (waiting.why, waiting.detail) == ("command", "maintenance")
    assert redis_client.hget("{limits}:people", f"{1:016x}") == "p"
    assert book.resume("p")
    assert book.recall("p", 10) == [want(1).call]
    assert isinstance(book.reserve(want(1)), Granted)


def test_nothing_is_resumed_twice(book: LimitBook) -> None:
    book.pause("p", "maintenance")

    assert (book.resume("p"), book.resume("p")) == (True, False)
