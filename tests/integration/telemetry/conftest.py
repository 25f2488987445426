"""A collector that the engine of a test exports to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support.collector import Collector
from tests.support.engine import Clock, Engine


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as started:
        for name, value in started.environment.items():
            monkeypatch.setenv(name, value)
        yield started


@pytest.fixture
def traced(
    collector: Collector,
    redis_client: redis.Redis,
    clock: Clock,
    tmp_path: Path,
    own_directories: None,
) -> Engine:
    """An engine that exports traces."""
    return Engine(redis_client, clock, tmp_path)
