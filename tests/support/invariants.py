"""The consistency check at the end of every fault test."""

from __future__ import annotations

import redis

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck


def assert_consistent(client: redis.Redis, *, runs: int) -> None:
    """Check that nothing stored is inconsistent, and that at least so many runs were checked."""
    audit = ConsistencyCheck(client)
    assert [str(violation) for violation in audit.violations()] == []
    assert audit.runs_seen >= runs
