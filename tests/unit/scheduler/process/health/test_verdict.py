"""When a process is live, and when it is ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sleipnir.scheduler.process.health.verdict import ChildHealth, not_live, not_ready

WELL = ChildHealth("worker 1", is_alive=True, age_s=300.0, known_s=300.0, silent_s=0.5)
SILENCE_S, LEASES_S = 30.0, 30.0


@pytest.mark.parametrize(
    ("child", "reason"),
    [
        (WELL, None),
        # Long nodes, and a Redis that is away, restart nothing.
        (replace(WELL, takes=False, redis_age_s=3600.0), None),
        # Restarts are pauses, if they follow a life ...
        (replace(WELL, is_alive=False, last_life_s=20.0), None),
        (replace(WELL, is_alive=False, last_life_s=1.0), "does not start: it last lived for 1.0 s"),
        # ... or if it has only just been started.
        (replace(WELL, is_alive=False, known_s=10.0, last_life_s=1.0), None),
        (replace(WELL, silent_s=31.0), "hangs: it has not been heard of for 31 s"),
        # Nothing is expected of one that starts, until it was heard of.
        (replace(WELL, age_s=40.0, silent_s=40.0), None),
        (replace(WELL, age_s=40.0, silent_s=31.0), "hangs"),
        (replace(WELL, age_s=61.0, silent_s=61.0), "hangs"),
    ],
)
def test_what_is_to_be_restarted_is_not_live(child: ChildHealth, reason: str | None) -> None:
    found = list(not_live([WELL, child], SILENCE_S))

    assert len(found) == (reason is not None)
    assert reason is None or f"worker 1 {reason}" in found[0]


@pytest.mark.parametrize(
    ("child", "is_draining", "reasons"),
    [
        (WELL, False, []),
        (WELL, True, ["draining"]),
        (replace(WELL, takes=False), False, ["worker 1 takes no messages"]),
        (replace(WELL, is_alive=False), False, ["worker 1 takes no messages"]),
        (replace(WELL, redis_age_s=30.0), False, ["Redis has not answered worker 1 for 30 s"]),
    ],
)
def test_what_takes_no_visits_is_not_ready(
    child: ChildHealth, is_draining: bool, reasons: list[str]
) -> None:
    assert list(not_ready([child], LEASES_S, is_draining=is_draining)) == reasons
