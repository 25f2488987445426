"""How long indexes are kept: as long as something names them, and a while longer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.service.sweeps.knowledge import KnowledgeSweep
from sleipnir.scheduler.store.keys import index_key
from sleipnir.scheduler.store.knowledge.artifact_store import OutsideIndexes
from sleipnir.scheduler.store.knowledge.indexes import POINTED_AT_S, Indexes
from sleipnir.worker.knowledge.agent_base import AgentBase, base_of
from tests.integration.knowledge.test_artifact_store import PACKED
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import leaked_keys
from tests.support.knowledge import BY_WORDS, PETS

RETENTION_S = 600.0


@pytest.fixture
def built(engine: Engine) -> str:
    """The address of an index that a run has built."""
    engine.configure(retention_s=RETENTION_S)
    run = engine.finish(BY_WORDS, PETS, prompt="cats")
    address = indexes_of(engine).address_of(run.digest, "look_up")
    assert address is not None
    return address


def indexes_of(engine: Engine) -> Indexes:
    return Indexes(engine.store.client, engine.store.settings)


def base_here(engine: Engine) -> AgentBase:
    return base_of(load_agent(engine.write("tested", BY_WORDS, PETS)), None, engine.store.settings)


def kept_s(engine: Engine, address: str) -> list[float]:
    """How long the index stays: its record, and each of its parts."""
    keys = engine.redis.keys(f"{index_key(address)}*")
    assert len(keys) > 1
    return [engine.redis.pttl(key) / 1000 for key in keys]


def expire_soon(engine: Engine, address: str) -> None:
    for key in engine.redis.keys(f"{index_key(address)}*"):
        engine.redis.pexpire(key, 60_000)


def about(expected_s: float) -> Callable[[float], bool]:
    return lambda found: expected_s - 60 < found <= expected_s


def test_an_index_is_kept_while_a_pointer_names_it_and_then_for_the_retention_time(
    engine: Engine, built: str
) -> None:
    engine.write("tested", BY_WORDS, PETS)
    engine.client.prepare("tested")  # notes what was built
    assert all(map(about(POINTED_AT_S), kept_s(engine, built)))
    expire_soon(engine, built)
    engine.client.prepare("tested")  # reads the note
    engine.finish(BY_WORDS, PETS, prompt="dogs")  # uses it, which is no reason to keep it less long
    assert all(map(about(POINTED_AT_S), kept_s(engine, built)))
    assert_consistent(engine.redis, runs=1)

    base_here(engine).forget(indexes_of(engine))

    assert all(map(about(RETENTION_S), kept_s(engine, built)))


def test_an_index_that_a_pointer_names_no_longer_is_let_go(engine: Engine, built: str) -> None:
    engine.write("tested", BY_WORDS, PETS)
    engine.client.prepare("tested")
    base = base_here(engine)
    other = {"address": "b" * 64, "files": 1, "chunks": 1, "dimension": None}

    base.note(base.order("a"), other, indexes_of(engine))

    assert all(map(about(RETENTION_S), kept_s(engine, built)))


def test_an_index_is_kept_while_a_run_may_yet_search_it(engine: Engine, built: str) -> None:
    engine.write("tested", BY_WORDS, PETS)
    engine.client.prepare("tested")
    run_id = engine.client.submit(engine.client.prepare("tested"), Request(prompt="dogs"))
    sweep = KnowledgeSweep(engine.store)
    expire_soon(engine, built)
    sweep.run_once()
    assert all(map(about(RETENTION_S), kept_s(engine, built)))

    engine.client.cancel(run_id)
    engine.clock.move(RETENTION_S)
    engine.tick()
    engine.store.bundles.remove_unused(timedelta(0), 10)
    expire_soon(engine, built)
    sweep.run_once()

    assert all(map(about(60.0), kept_s(engine, built)))
    assert not engine.redis.exists("sleipnir:index-of")
    assert leaked_keys(engine.redis) == []


def test_an_index_elsewhere_is_kept_likewise(tmp_path: Path) -> None:
    now = [1000.0]
    indexes = OutsideIndexes(str(tmp_path), 60, lambda: now[0])
    for name in ("pointed at", "let go"):
        indexes.put(name, PACKED)
        indexes.record(name, 1000)
        indexes.record(name)  # used, which is no reason to keep it less long
    indexes.let_go("let go")
    now[0] += 500

    indexes.put("new", PACKED)

    assert sorted(file.name for file in tmp_path.glob("*.json")) == ["new.json", "pointed at.json"]
