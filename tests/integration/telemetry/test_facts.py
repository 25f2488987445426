"""What spans of runs have in common is read for many runs at once."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.store.telemetry.facts import Facts
from tests.support.engine import Engine

GRAPH = "start: z\nnodes: {z: {type: end}}"


def test_what_was_loaded_is_not_asked_for_again(engine: Engine) -> None:
    facts = Facts(engine.store)
    runs = [engine.submit(GRAPH, labels={"number": str(number)}) for number in range(3)]
    facts.load([*runs, "0123456789abcdef"])
    engine.redis.config_resetstat()

    found = [facts.of(run_id).labels for run_id in runs]

    assert found == [{"number": str(number)} for number in range(3)]
    assert "cmdstat_hmget" not in engine.redis.info("commandstats")
    with pytest.raises(LookupError):
        facts.of("0123456789abcdef")
