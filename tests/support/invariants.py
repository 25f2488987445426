"""The check with which every fault test ends."""

from __future__ import annotations

import redis

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck


def assert_consistent(client: redis.Redis, *, runs: int) -> None:
    """Nothing stored contradicts itself, and the runs are there to show it."""
    audit = ConsistencyCheck(client)
    assert [str(violation) for violation in audit.violations()] == []
    assert audit.runs_seen >= runs
