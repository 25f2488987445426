"""Who is at work is asked again when the broker does not let us ask."""

from __future__ import annotations

import pytest
from redis.exceptions import AuthenticationError, ConnectionError, RedisError

from sleipnir.scheduler.store import workers
from sleipnir.scheduler.store.workers import live_workers, worker_slots


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_PAUSE_S", 0.0)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception, times: int) -> list[str]:
    asked: list[str] = []

    def ask(broker_url: str, _max_wait_s: float) -> dict[str, int]:
        asked.append(broker_url)
        if len(asked) <= times:
            raise error
        return {"a": 2, "b": 3}

    monkeypatch.setattr(workers, "_ask", ask)
    return asked


def test_a_connection_that_breaks_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = failing(monkeypatch, ConnectionError("Connection closed by server."), times=2)

    assert live_workers("redis://one") == {"a": 2, "b": 3}
    assert len(asked) == 3


def test_a_batch_goes_on_where_workers_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, ConnectionError("Connection closed by server."), times=99)

    assert worker_slots("redis://one") is None


def test_what_will_not_pass_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = failing(monkeypatch, AuthenticationError("no"), times=99)

    with pytest.raises(RedisError):
        worker_slots("redis://one")
    assert len(asked) == 1
