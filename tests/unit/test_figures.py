"""Figures that sentences of the documentation name are those of the code."""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest

from sleipnir.graphs import env_file
from sleipnir.graphs.document import document
from sleipnir.graphs.tools import reader
from sleipnir.scheduler.batch import lines
from sleipnir.scheduler.cli import arguments
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded import watchdog
from sleipnir.scheduler.runs import recording
from sleipnir.scheduler.service import clock_monitor as timekeeper
from sleipnir.scheduler.service import scheduler as service
from sleipnir.scheduler.service.sweeps.bundles import remove_unused_bundles
from sleipnir.scheduler.service.sweeps.stranded import StrandedSweep
from sleipnir.scheduler.store import connection
from sleipnir.scheduler.store import runs as store
from sleipnir.scheduler.store.knowledge.indexes import POINTED_AT_S
from sleipnir.worker.delivery import isolated, isolation
from sleipnir.worker.llm.provider import transport
from tests.support.pages import ROOT, TEXTS

MIB = 1024 * 1024
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
DEFAULTS = Settings()
STOP_TIMES = ("deploy/compose.yaml", "deploy/systemd/sleipnir-worker.service")


def test_the_compose_file_sets_what_the_manual_says_of_redis() -> None:
    wanted = re.findall(r"^\| `([a-z-]+ [a-z0-9]+)` \|", TEXTS["operating.md"], re.M)
    compose = (ROOT / "deploy/compose.yaml").read_text()

    assert len(wanted) == 4
    assert [setting for setting in wanted if f"--{setting}" not in compose] == []


def seconds_of(sweep: Callable[..., object], parameter: str) -> float:
    """The default of a sweep's parameter."""
    seconds: float = signature(sweep).parameters[parameter].default.total_seconds()
    return seconds


def stop_times() -> set[int]:
    """What the units and the compose file give a process to end, in seconds."""
    text = "".join((ROOT / file).read_text() for file in STOP_TIMES)
    return set(map(int, re.findall(r"(?:TimeoutStopSec=|stop_grace_period: )(\d+)", text)))


# Words around a figure in operating.md, its unit, and what the code has.
OPERATING: list[tuple[str, float, Any]] = [
    ("when their leases expire, after # s at most", 1, DEFAULTS.lease_s),
    ("hangs for two leases (# s at least)", 1, isolation._SHORTEST_SILENCE_S),
    ("does not respond for two leases, # s at least", 1, watchdog.SHORTEST_SILENCE_S),
    ("another scheduler takes over after # s", 1, service._OWNERSHIP_S),
    ("growing pauses of up to # s", 1, connection.RETRY_OUTAGE._backoff._cap),  # type: ignore[attr-defined]
    ("retry with pauses of up to # s", 1, connection.RETRY_OUTAGE._backoff._cap),  # type: ignore[attr-defined]
    ("the scheduler waits # s before it expires leases", 1, service._RENEWALS_S),
    ("by more than # s at once", 1, timekeeper._JUMP_S),
    ("took no writes for more than # s", 1, timekeeper._LONG_AWAY_S),
    ("abandoned after # minutes", MINUTE_S, transport.LONGEST_CALL_S),
    ("gives its running nodes `drain_s` (# s)", 1, DEFAULTS.drain_s),
    ("by a lease, # s", 1, DEFAULTS.lease_s),
    ("another takes over after # s", 1, DEFAULTS.lease_s),
    ("Lost its worker # times", 1, DEFAULTS.max_deliveries),
    ("The last # events", 1, DEFAULTS.narration_limit),
    ("and the last # entries", 1, store._LOG_ENTRIES),
    ("entries and # MiB (`log_limit_bytes`)", MIB, DEFAULTS.log_limit_bytes),
    ("`history_limit_bytes` (# MiB)", MIB, DEFAULTS.history_limit_bytes),
    ("`concurrency` (#)", 1, DEFAULTS.concurrency),
    ("`lease_s` (#)", 1, DEFAULTS.lease_s),
    ("`max_deliveries` (#)", 1, DEFAULTS.max_deliveries),
    ("`drain_s` (#)", 1, DEFAULTS.drain_s),
    ("`retention_s` (# days)", DAY_S, DEFAULTS.retention_s),
    ("`state_limit_bytes` (# MiB)", MIB, DEFAULTS.state_limit_bytes),
    ("`value_limit_bytes` (# MiB)", MIB, DEFAULTS.value_limit_bytes),
]
SECURITY: list[tuple[str, float, Any]] = [
    ("at most # values", 1, document.MAX_ALIASED_NODES),
    ("ends at # levels", 1, document.MAX_DEPTH),
    ("# s of processor time (`check_timeout_s`)", 1, DEFAULTS.check_timeout_s),
    ("the first # calls are carried out", 1, DEFAULTS.calls_limit),
    ("# MiB of an agent's or a configuration file", MIB, document.MAX_FILE_BYTES),
    ("# MiB of an agent's or a configuration file", MIB, env_file._LIMIT_BYTES),
    ("# MiB of a tool file", MIB, reader._LIMIT_BYTES),
    ("# MiB of a recording", MIB, recording.LIMIT_BYTES),
    ("# MiB of one line of a batch", MIB, lines.RECORD_LIMIT_CHARS),
    ("# MiB of a prompt on standard input", MIB, arguments._PIPED_LIMIT_CHARS),
]
FIGURES = [
    (page, *row)
    for page, rows in (("operating.md", OPERATING), ("security.md", SECURITY))
    for row in rows
]
# Figures that are words.
WORDS = [
    ("until five minutes after the last one", isolated._IDLE_S, 5 * MINUTE_S),
    ("still looks stuck a minute later", seconds_of(StrandedSweep, "apart"), MINUTE_S),
    ("is reported in the scheduler's log once an hour", service._UNTIL_NEXT_ATTEMPT_S, HOUR_S),
    ("a pointer counts for 90 days after", POINTED_AT_S, 90 * DAY_S),
    ("was not submitted for a day", seconds_of(remove_unused_bundles, "unused_for"), DAY_S),
]


def prose(page: str) -> str:
    """A page without its notes, each sentence on one line."""
    return " ".join(re.sub(r"\[\^[\w-]+\]", "", TEXTS[page]).split())


@pytest.mark.parametrize(("page", "words", "unit", "real"), FIGURES)
def test_a_figure_in_the_documentation_is_that_of_the_code(
    page: str, words: str, unit: float, real: float
) -> None:
    before, _, after = words.partition("#")

    found = re.findall(re.escape(before) + r"([\d,]+)" + re.escape(after), prose(page))

    assert [int(figure.replace(",", "")) * unit for figure in found] == [real]


@pytest.mark.parametrize(("words", "real", "expected"), WORDS)
def test_a_figure_in_words_is_that_of_the_code(words: str, real: float, expected: float) -> None:
    assert words in prose("operating.md")
    assert real == expected


def test_processes_have_more_time_to_end_than_they_give_their_nodes() -> None:
    assert "the included units and the Compose file allow 40 s" in prose("operating.md")
    assert stop_times() == {40}
    assert DEFAULTS.drain_s < 40
