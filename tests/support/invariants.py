"""The consistency check at the end of every fault test."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import redis

from sleipnir.scheduler.doctor import consistency
from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.runs.consistency.rules import Violation
from sleipnir.scheduler.runs.spending import spent_fields, sum_of
from sleipnir.scheduler.store.keys import counted_key, day_key


def all_violations(client: redis.Redis) -> list[Violation]:
    """Return what breaks rules in a Redis in which nothing happens; looks twice at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consistency, "_BEFORE_SECOND_LOOK_S", 0.0)
        return list(ConsistencyCheck(client).violations())


def rules_broken(client: redis.Redis) -> set[str]:
    return {found.rule for found in all_violations(client)}


def assert_consistent(client: redis.Redis, *, runs: int) -> None:
    """Check that nothing stored is inconsistent, and that at least so many runs were checked."""
    audit = ConsistencyCheck(client)
    assert [str(violation) for violation in audit.violations()] == []
    assert audit.runs_seen >= runs
    assert_spending_adds_up(client)


def assert_spending_adds_up(client: redis.Redis) -> None:
    """Check that the sums of each run are what it has used, and that the days' miss none of it."""
    redis_: Any = client  # redis-py types every reply as a union of its sync and async forms
    keys, of_roots = partial(redis_.scan_iter, count=1_000), 0
    for key in keys("{p*}:run:*"):
        record = redis_.hgetall(key)
        if "archived" in record:
            continue
        spent = sum_of(spent_fields(record).values())
        assert spent.prompt_tokens == int(record.get("prompt_tokens", 0)), key
        assert spent.completion_tokens == int(record.get("completion_tokens", 0)), key
        assert spent.cached_tokens == int(record.get("cached_tokens", 0)), key
        assert spent.cache_written_tokens == int(record.get("cache_written_tokens", 0)), key
        assert abs(spent.known_usd - float(record.get("cost", 0))) < 1e-9, key
        of_roots += 0 if "parent" in record else spent.prompt_tokens + spent.completion_tokens
    sums = [
        text.split()
        for key in keys(counted_key("{p*}", "spend", "*"))
        for text in redis_.hvals(key)
    ]
    sums += [json.loads(redis_.hget(key, ""))[""] for key in keys(day_key("spend", "*"))]
    assert sum(int(each[2]) + int(each[3]) for each in sums) >= of_roots
