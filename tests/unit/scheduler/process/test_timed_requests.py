"""Requests to a server that may not answer."""

from __future__ import annotations

from threading import Event

import pytest

from sleipnir.scheduler.process.timed_requests import TimedRequests

LIMIT_S = 60.0


class Server:
    """Its library gives up waiting for it while it is silent."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_silent = True

    def request(self) -> str:
        self.asked += 1
        if self.is_silent:
            raise TimeoutError
        return "here"


def test_nobody_waits_for_a_server_that_is_silent_but_one_now_and_then() -> None:
    server, now = Server(), [0.0]
    requests = TimedRequests(LIMIT_S, lambda: now[0])

    for asked in (1, 2):
        for _ in range(3):
            with pytest.raises(TimeoutError, match="it does not answer"):
                requests.ask(server.request)
        assert server.asked == asked
        now[0] += LIMIT_S

    server.is_silent = False
    assert [requests.ask(server.request) for _ in range(3)] == ["here"] * 3


def test_a_request_that_never_ends_is_given_up() -> None:
    never = Event()

    with pytest.raises(TimeoutError):
        TimedRequests(0.01).ask(never.wait)

    never.set()


def test_a_failure_is_an_answer() -> None:
    requests = TimedRequests(LIMIT_S)

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            requests.ask(lambda: 1 // 0)
