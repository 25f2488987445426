"""Whole runs: what is read of one can be written again, as a document in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.whole.document import from_json, to_json
from sleipnir.scheduler.runs.whole.parts import WholeRun
from tests.support.archive import broken_run
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.keys import dump
from tests.support.model_server import ModelServer

KEPT_S = 1000.0


def read(engine: Engine, run_id: str) -> WholeRun:
    (found,) = engine.store.whole_runs.read([run_id])
    assert found is not None
    return found.whole


def stored(engine: Engine, run_id: str) -> dict[str, Any]:
    """Return what Redis has of a run and in indexes, but for values that may be packed."""
    packed = ("history", "logs", "transcripts", "failed_transcripts")
    return {
        key: content
        for key, content in dump(engine.redis).items()
        if key.startswith(partition_of(run_id))
        and key.split(":")[1] not in ("gone", "timers", "ended", *packed)
    }


def test_a_run_is_the_same_after_its_removal_and_its_return(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    run_id = broken_run(engine, server, tmp_path / "mended")
    before, text = stored(engine, run_id), to_json(read(engine, run_id))
    engine.store.runs.purge(run_id)

    assert engine.store.whole_runs.put(from_json(text), KEPT_S)

    assert stored(engine, run_id) == before
    assert to_json(read(engine, run_id)) == text
    assert_consistent(engine.redis, runs=1)


def test_a_run_that_came_back_can_be_retried(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    run_id = broken_run(engine, server, mended)
    whole = read(engine, run_id)
    engine.store.runs.purge(run_id)
    engine.store.whole_runs.put(whole, KEPT_S)
    mended.touch()

    engine.client.retry(run_id)
    engine.drive()

    assert engine.run(run_id).status == Status.SUCCEEDED
    assert len(server.requests) == 1
    assert_consistent(engine.redis, runs=1)


def test_an_id_that_is_taken_is_left_as_it_is(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    run_id = broken_run(engine, server, tmp_path / "mended")
    whole, before = read(engine, run_id), dump(engine.redis)

    assert not engine.store.whole_runs.put(whole, KEPT_S)

    assert dump(engine.redis) == before


def test_what_is_not_there_is_not_read(engine: Engine) -> None:
    assert engine.store.whole_runs.read(["00" * 8]) == [None]
