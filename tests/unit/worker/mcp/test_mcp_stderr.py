"""What of an MCP server's stderr reaches the worker's log."""

from __future__ import annotations

import logging
from collections import deque

import pytest

from sleipnir.worker.mcp.transports import StderrLog, Traces


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="sleipnir.mcp")


def test_a_flood_is_cut_to_so_many_lines_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    log = StderrLog("noisy", deque(maxlen=3), clock)

    log.data_received(b"".join(b"line %d\n" % number for number in range(5_000)))
    clock.now = 61
    log.data_received(b"calm\n")

    said = [record.getMessage() for record in caplog.records]
    assert said[:100] == [f"noisy: line {number}" for number in range(100)]
    assert said[100:] == ["noisy: … and 4900 more lines", "noisy: calm"]


def test_the_end_tells_what_was_left_out(caplog: pytest.LogCaptureFixture) -> None:
    log = StderrLog("noisy", deque(maxlen=3), Clock())

    log.data_received(b"line\n" * 103)
    log.connection_lost(None)

    assert caplog.records[-1].getMessage() == "noisy: … and 3 more lines"


def test_only_printable_text_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    log = StderrLog("noisy", deque(maxlen=3), Clock())

    log.data_received(b"a\x1b[2Jb\rc\xff\n\x00\n")

    assert [record.getMessage() for record in caplog.records] == [
        "noisy: a\\x1b[2Jb\\rc\ufffd",
        "noisy: \\x00",
    ]


def test_what_was_said_last_is_kept_for_failures_however_much_it_was() -> None:
    traces = Traces()
    log = StderrLog("noisy", traces.stderr, Clock())

    log.data_received(b"noise\n" * 10_000 + b"out of \x07disk\n")

    assert traces.last_lines() == ["noise", "noise", "out of \\x07disk"]
