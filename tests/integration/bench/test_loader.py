"""What `sleipnir bench` stores to read lists from is what runs that are over leave."""

from __future__ import annotations

import pytest
import redis

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.worker.bench.loader import load
from tests.support.invariants import all_violations

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize("archived", [False, True])
def test_loaded_runs_are_consistent_and_listed(redis_client: redis.Redis, archived: bool) -> None:
    load(redis_client, 0, 500, NOW_MS, archived=archived)
    load(redis_client, 500, 100, NOW_MS, archived=archived)

    assert all_violations(redis_client) == []
    queries = RunQueries(redis_client)
    failed = queries.list_runs(RunFilter(statuses=frozenset({Status.FAILED})), 50)
    assert failed.total == len(failed.entries) > 5
    assert queries.list_runs(RunFilter(), 1).total == 600
    assert queries.list_runs(RunFilter(batch="batch-0"), 1).total == 3
