"""The consistency check at the end of every fault test."""

from __future__ import annotations

from typing import Any

import redis

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.runs.spending import spent_fields, sum_of


def assert_consistent(client: redis.Redis, *, runs: int) -> None:
    """Check that nothing stored is inconsistent, and that at least so many runs were checked."""
    audit = ConsistencyCheck(client)
    assert [str(violation) for violation in audit.violations()] == []
    assert audit.runs_seen >= runs
    assert_spending_adds_up(client)


def assert_spending_adds_up(client: redis.Redis) -> None:
    """Check that the sums by node and model of each run are what the run has used."""
    redis_: Any = client  # redis-py types every reply as a union of its sync and async forms
    for key in redis_.scan_iter("{p*}:run:*", count=1_000):
        record = redis_.hgetall(key)
        spent = sum_of(spent_fields(record).values())
        assert spent.prompt_tokens == int(record.get("prompt_tokens", 0)), key
        assert spent.completion_tokens == int(record.get("completion_tokens", 0)), key
        assert spent.cached_tokens == int(record.get("cached_tokens", 0)), key
        assert spent.cache_written_tokens == int(record.get("cache_written_tokens", 0)), key
        assert abs(spent.known_usd - float(record.get("cost", 0))) < 1e-9, key
