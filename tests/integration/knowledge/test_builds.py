"""Builds of knowledge bases: runs of their own, shared by workers, taken over, cancelled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.knowledge import pointer
from sleipnir.graphs.knowledge.pointer import read_pointer
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.runs.events import ItemCommitted, StepCommitted
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import NO_USAGE, RunRow
from sleipnir.scheduler.runs.recording import written
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.knowledge.agent_base import base_of
from sleipnir.worker.knowledge.root_build import result_of, submit_build
from tests.support.dying import survives
from tests.support.engine import Engine
from tests.support.knowledge import BY_MEANING, LETTERS, embedding, texts_asked
from tests.support.model_server import ModelServer, fails, says


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    return embedding(server)


def build_of(engine: Engine, run_id: str) -> RunRow:
    [child] = engine.queries.children(run_id)
    return child


def rest(engine: Engine, seconds: float) -> None:
    """Let the engine go on after a pause."""
    engine.clock.move(seconds)
    engine.tick()
    engine.drive()


def test_a_build_is_a_child_run_with_a_visit_for_each_batch(
    engine: Engine, server: ModelServer
) -> None:
    run = engine.finish(BY_MEANING, LETTERS, prompt="dddd")

    assert run.status == "succeeded", run.failure
    build = build_of(engine, run.run_id)
    assert (build.agent, build.status) == ("kb build tested look_up", "succeeded")
    done = [(event.done, event.total) for event in engine.events(build.run_id, ItemCommitted)]
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert build.usage.prompt_tokens == 60
    assert run.usage.prompt_tokens == 70  # with what the query took
    assert engine.redis.keys("sleipnir:build-*") == []


def test_runs_that_come_at_once_build_once(engine: Engine, server: ModelServer) -> None:
    runs = [
        engine.submit(BY_MEANING, LETTERS, prompt=f"{letter} {letter}") for letter in "abcdefabcd"
    ]
    engine.drive()
    rest(engine, 3)

    for run_id in runs:
        assert engine.run(run_id).status == "succeeded", engine.run(run_id).failure
    builds = [child for run_id in runs for child in engine.queries.children(run_id)]
    assert len(builds) == 1
    texts = [text for text in texts_asked(server) if text in LETTERS.values()]
    assert sorted(texts) == sorted(LETTERS.values())


@pytest.mark.parametrize("visits", range(1, 9))
def test_a_worker_that_dies_at_any_visit_of_a_build_costs_no_text_twice(
    engine: Engine, server: ModelServer, visits: int
) -> None:
    run_id = engine.submit(BY_MEANING, LETTERS, prompt="dddd")
    for _ in range(visits):
        engine.work_once()
    message = engine.pop()  # with its worker
    assert message is not None
    engine.begin(message[0], message[1])
    for _ in range(20):
        if engine.run(run_id).is_final:
            break
        rest(engine, 20)

    assert engine.run(run_id).status == "succeeded", engine.run(run_id).failure
    assert engine.state(run_id)["sources"] == ["./docs/d.md"]
    assert sorted(texts_asked(server)) == sorted([*LETTERS.values(), "dddd"])


@pytest.mark.parametrize("visits", range(1, 8))
def test_a_worker_that_dies_between_a_stage_of_a_build_and_its_commit_changes_nothing(
    engine: Engine, server: ModelServer, visits: int
) -> None:
    run_id = engine.submit(BY_MEANING, LETTERS, prompt="dddd")
    for _ in range(visits):
        engine.work_once()

    assert not survives("after.execute:kill", engine.work_once)

    for _ in range(20):
        if engine.run(run_id).is_final:
            break
        rest(engine, 20)
    assert engine.run(run_id).status == "succeeded", engine.run(run_id).failure
    assert engine.state(run_id)["sources"] == ["./docs/d.md"]
    assert sorted(texts_asked(server)) == sorted([*LETTERS.values(), "dddd"])
    assert engine.redis.keys("sleipnir:build-*") == []


def test_a_cancelled_run_ends_its_build_and_the_next_one_builds_anew(
    engine: Engine, server: ModelServer
) -> None:
    cancelled = engine.submit(BY_MEANING, LETTERS, prompt="dddd")
    for _ in range(3):  # one batch is done
        engine.work_once()
    engine.client.cancel(cancelled)
    engine.drive()
    assert build_of(engine, cancelled).status == "cancelled"

    run = engine.finish(BY_MEANING, LETTERS, prompt="dddd")

    assert run.status == "succeeded", run.failure
    assert sorted(texts_asked(server)) == sorted([*LETTERS.values(), "dddd"])


def test_a_build_that_fails_names_its_reason_and_a_retry_goes_on_with_it(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(embeddings_retry_limit=1)
    server.script._rules.clear()
    server.when(
        lambda request: "c ccccccccc" in request.body["input"], fails(400, "no c"), says("")
    )
    server.when(lambda _request: True, says(""))
    run = engine.finish(BY_MEANING, LETTERS, prompt="dddd")
    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R020", "look_up")
    assert "no c" in failure.message

    engine.client.retry(run.run_id)
    engine.drive()
    for _ in range(5):
        rest(engine, 20)

    assert engine.run(run.run_id).status == "succeeded", engine.run(run.run_id).failure
    asked = texts_asked(server)
    assert asked.count("a aaaaaaaaa") == 1
    assert asked.count("c ccccccccc") == 2


def test_vectors_that_expired_meanwhile_are_made_once_more(
    engine: Engine, server: ModelServer
) -> None:
    run_id = engine.submit(BY_MEANING, LETTERS, prompt="dddd")
    for _ in range(5):  # all batches are done
        engine.work_once()
    engine.redis.delete(engine.redis.keys("sleipnir:vector:*")[0])
    engine.drive()

    assert engine.run(run_id).status == "succeeded", engine.run(run_id).failure
    assert len(texts_asked(server)) == len(LETTERS) + 2


def test_a_recorded_run_is_replayed_where_nothing_was_built(
    engine: Engine, server: ModelServer, tmp_path: Path
) -> None:
    recorded = engine.finish(BY_MEANING, LETTERS, prompt="dddd", recorded=True)
    found = engine.client.recordings.recorded(recorded.run_id)
    assert (len(found.calls), found.complete) == (len(LETTERS) + 1, True)
    assert sum(call.usage.prompt_tokens for call in found.calls) == recorded.usage.prompt_tokens
    recording = engine.client.recordings.put(written(found.entries), "calls")
    engine.redis.delete(*engine.redis.keys("sleipnir:index*"), *engine.redis.keys("sleipnir:vec*"))
    engine._directory = tmp_path / "another machine"
    engine.configure()
    server.requests.clear()

    run = engine.finish(BY_MEANING, LETTERS, prompt="dddd", replay=recording)

    assert engine.state(run.run_id)["sources"] == ["./docs/d.md"]
    assert (server.requests, run.usage) == ([], NO_USAGE)
    missed = engine.finish(BY_MEANING, LETTERS, prompt="eeee", replay=recording)
    assert "the recording has no embedding of this text" in engine.failure(missed.run_id).message
    assert engine.client.recordings.misses(missed.run_id)


def test_what_was_known_without_asking_is_recorded_too(engine: Engine, server: ModelServer) -> None:
    engine.finish(BY_MEANING, LETTERS, prompt="dddd")

    run = engine.finish(BY_MEANING, LETTERS, prompt="dddd", recorded=True)

    assert len(engine.client.recordings.recorded(run.run_id).calls) == 1


def test_whoever_loads_an_agent_notes_what_its_runs_have_built(
    engine: Engine, server: ModelServer
) -> None:
    engine.finish(BY_MEANING, LETTERS, prompt="dddd")
    file = engine.write("tested", BY_MEANING, LETTERS) / "look_up.yaml"
    assert not file.exists()

    engine.client.prepare("tested")

    noted = read_pointer(file)
    assert noted is not None
    assert (noted.files, noted.chunks, noted.dimension) == (6, 6, 26)
    run = engine.finish(BY_MEANING, {**LETTERS, "docs/a.md": "changed"}, prompt="dddd")
    assert engine.state(run.run_id)["sources"] == ["./docs/d.md"]  # as it was built
    assert engine.queries.children(run.run_id) == []


def test_a_knowledge_base_keeps_the_top_k_that_its_node_had(
    engine: Engine, server: ModelServer
) -> None:
    graph = BY_MEANING.replace("top_k: 2", "top_k: 3")
    engine.finish(graph, LETTERS, prompt="abcd")
    file = engine.write("tested", graph, LETTERS) / "look_up.yaml"
    engine.client.prepare("tested")
    without = BY_MEANING.replace("    top_k: 2\n", "")

    run = engine.finish(without, LETTERS, prompt="abcd")

    assert len(engine.state(run.run_id)["sources"]) == 3
    base = base_of(load_agent(file.parent), None, engine.store.settings)
    assert base.top_k == 3
    run = engine.finish(BY_MEANING, LETTERS, prompt="abcd")  # what the node says counts
    assert len(engine.state(run.run_id)["sources"]) == 2


def test_what_is_built_of_a_shipped_agent_is_noted_in_the_data_directory(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.finish(BY_MEANING, LETTERS, prompt="dddd")
    directory = engine.write("tested", BY_MEANING, LETTERS)
    monkeypatch.setattr(pointer, "SHIPPED_AGENTS", directory.parent)

    engine.client.prepare("tested")

    kept = data_dir() / "kb" / "tested" / "look_up.yaml"
    assert kept.exists()
    assert not (directory / "look_up.yaml").exists()
    base = base_of(load_agent(directory), None, engine.store.settings)
    assert base.pointer() == pointer.read_pointer(kept)
    monkeypatch.undo()  # somebody's own agent of that name is another one
    assert base.pointer() is None


def test_an_index_that_is_no_longer_stored_is_built_anew_with_a_warning(
    engine: Engine, server: ModelServer
) -> None:
    engine.finish(BY_MEANING, LETTERS, prompt="dddd")
    engine.client.prepare("tested")  # notes what was built
    prepared = engine.client.prepare("tested")
    engine.redis.delete(*engine.redis.keys("sleipnir:index*"))
    engine._directory = engine._directory / "another machine"
    engine.configure()

    run_id = engine.client.submit(prepared, Request(prompt="dddd"))
    engine.drive()

    assert engine.state(run_id)["sources"] == ["./docs/d.md"]
    [warned] = [event.warnings for event in engine.events(run_id, StepCommitted) if event.warnings]
    assert "its index was no longer stored, or had an older format" in str(warned)


def test_an_index_of_an_older_format_is_built_anew_from_its_vectors(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.finish(BY_MEANING, LETTERS, prompt="dddd")
    engine.client.prepare("tested")  # notes what was built
    engine.redis.delete(*engine.redis.keys("sleipnir:vector:*"))
    server.requests.clear()
    monkeypatch.setattr("sleipnir.graphs.knowledge.address.INDEX_FORMAT", 99)
    monkeypatch.setattr("sleipnir.worker.knowledge.index.INDEX_FORMAT", 99)
    engine.configure()  # the worker after an upgrade

    run_id = engine.client.submit(engine.client.prepare("tested"), Request(prompt="dddd"))
    engine.drive()

    assert engine.state(run_id)["sources"] == ["./docs/d.md"]
    assert build_of(engine, run_id).status == "succeeded"
    assert texts_asked(server) == ["dddd"]  # the query alone
    [warned] = [event.warnings for event in engine.events(run_id, StepCommitted) if event.warnings]
    assert "or had an older format" in str(warned)


def test_a_rebuild_embeds_what_is_new_alone(engine: Engine, server: ModelServer) -> None:
    engine.finish(BY_MEANING, LETTERS, prompt="dddd")
    [address] = {key.split(":")[2] for key in engine.redis.keys("sleipnir:index:*")}
    engine.redis.delete(*engine.redis.keys("sleipnir:vector:*"))
    server.requests.clear()
    directory = engine.write("tested", BY_MEANING, {**LETTERS, "docs/new.md": "g ggg"})
    (directory / "docs" / "a.md").unlink()
    base = base_of(load_agent(directory), None, engine.store.settings)
    run_id = new_run_id()
    order = replace(base.order(run_id), previous=address)

    submit_build(engine.client, order, base.load(), run_id)
    engine.drive()

    built = result_of(engine.run(run_id))
    assert (built["files"], built["chunks"]) == (6, 6)
    assert texts_asked(server) == ["g ggg"]
