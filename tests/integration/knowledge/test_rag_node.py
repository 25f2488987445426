"""The rag node: what it finds, who builds what it searches, and what it says if that fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
import redis

from sleipnir.graphs.bundles.archive import Part, pack_into, unpack_from
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.scheduler.runs.events import VisitDelayed
from sleipnir.scheduler.runs.ids import new_run_id
from sleipnir.scheduler.runs.model import BUILD, Wait
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import build_claim_key
from sleipnir.scheduler.store.knowledge.build_claims import BuildClaims
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.scheduler.store.knowledge.packed import PackedIndex
from sleipnir.worker.delivery.run_visit import run_visit
from sleipnir.worker.knowledge import building
from sleipnir.worker.knowledge.agent_base import base_of
from sleipnir.worker.knowledge.manifest import digests_of
from sleipnir.worker.knowledge.root_build import submit_build
from tests.support.engine import Engine
from tests.support.keys import leaked_keys
from tests.support.runs import RUN, a_run, begin, messages, started

GRAPH = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: [docs]
    embedding_model: none
    query: "{{initial_prompt}}"
    top_k: 2
    state_updates: {context: "{{output.context}}", sources: "{{output.sources}}"}
    next: z
  z: {type: end, output: "{{context}}"}
"""
OTHER = "01bbbbbbbbbbbbbb"  # a run that builds
THIRD = "01cccccccccccccc"
DOCS = {
    "docs/cats.md": "Cats sleep all day.",
    "docs/dogs.md": "Dogs bark in the park.",
    "docs/fish.txt": "Fish swim.",
}


def state_of(engine: Engine, prompt: str, files: dict[str, str] = DOCS) -> dict[str, Any]:
    run = engine.finish(GRAPH, files, prompt=prompt)
    assert run.status == "succeeded", run.failure
    return engine.state(run.run_id)


def message_of(engine: Engine, files: dict[str, str], graph: str = GRAPH) -> str:
    run = engine.finish(graph, files, prompt="cats")
    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R020", "look_up")
    return failure.message


def test_a_node_finds_passages_and_their_sources(engine: Engine) -> None:
    state = state_of(engine, "which dog barks?")

    assert state["context"] == "[Source: ./docs/dogs.md]\nDogs bark in the park."
    assert state["sources"] == ["./docs/dogs.md"]


def test_what_is_in_no_document_is_not_found(engine: Engine) -> None:
    state = state_of(engine, "elephants")

    assert (state["context"], state["sources"]) == ("", [])


def test_a_query_without_a_value_fails_the_run_before_anything_is_built(engine: Engine) -> None:
    run = engine.finish(GRAPH.replace("initial_prompt", "nowhere"), DOCS)

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R001", "look_up")
    assert engine.queries.children(run.run_id) == []


def test_an_index_is_built_once_for_all_runs_and_workers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    build = building.build
    monkeypatch.setattr(
        building,
        "build",
        lambda *args: built.append(1) or build(*args),  # type: ignore[func-returns-value]
    )
    state_of(engine, "cats")
    engine.configure()  # another worker
    state_of(engine, "dogs")

    assert built == [1]


def test_another_machine_fetches_what_this_one_built(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state_of(engine, "cats")
    engine._directory = tmp_path / "another machine"  # nothing is shared but Redis
    engine.configure()
    monkeypatch.setattr(building, "build", None)

    assert state_of(engine, "cats")["sources"] == ["./docs/cats.md"]


def test_changed_documents_are_another_index(engine: Engine) -> None:
    state_of(engine, "cats")

    state = state_of(engine, "cats", {**DOCS, "docs/cats.md": "Cats hunt at night."})

    assert state["context"].endswith("Cats hunt at night.")


def test_runs_that_need_the_same_index_wait_for_one_build(engine: Engine) -> None:
    runs = [engine.submit(GRAPH, DOCS, prompt=prompt) for prompt in ("cats", "dogs")]
    engine.work_once()
    build = engine.pop()
    assert build is not None
    engine.work_once()  # the second one while the first one's build goes on
    run_visit(engine.services, *build)
    engine.drive()

    assert [engine.run(run_id).status for run_id in runs] == ["succeeded", "succeeded"]
    assert [e.reason for e in engine.events(runs[1], VisitDelayed)] == [
        "its knowledge base is being built"
    ]
    assert [len(engine.queries.children(run_id)) for run_id in runs] == [1, 0]
    assert leaked_keys(engine.redis) == []


def test_a_build_that_ends_before_a_visit_can_wait_for_it_resumes_it(engine: Engine) -> None:
    claims = BuildClaims(engine.store)
    lease = started(engine)
    messages(engine)
    assert claims.take("c", OTHER)
    assert not claims.take("c", RUN)

    claims.release("c", OTHER)
    engine.store.parking.park(lease, [Wait(BUILD, "build", 30, "c")])

    assert messages(engine) == ["1/s"]
    assert claims.take("c", RUN)
    claims.release("c", RUN)


def meanwhile(monkeypatch: pytest.MonkeyPatch, command: str, act: Callable[[], object]) -> None:
    """Let something happen once, right after the next command of this name."""
    original = getattr(redis.Redis, command)

    def intercepted(*arguments: Any) -> Any:
        answer = original(*arguments)
        monkeypatch.setattr(redis.Redis, command, original)
        act()
        return answer

    monkeypatch.setattr(redis.Redis, command, intercepted)


def test_of_two_that_take_over_a_claim_at_once_one_gets_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = BuildClaims(engine.store)
    for run_id in (RUN, OTHER, THIRD):
        engine.store.runs.submit(a_run(run_id))
    assert claims.take("c", RUN)
    engine.client.cancel(RUN)  # it ends without a release
    taken = []
    meanwhile(monkeypatch, "hget", lambda: taken.append(claims.take("c", OTHER)))

    taken.append(claims.take("c", THIRD))

    assert taken == [True, False]


def test_a_release_leaves_a_claim_that_another_run_has_taken_meanwhile(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = BuildClaims(engine.store)
    assert claims.take("c", RUN)

    def take_over() -> None:
        engine.redis.delete(build_claim_key("c"))  # it expires
        assert claims.take("c", OTHER)

    meanwhile(monkeypatch, "get", take_over)

    claims.release("c", RUN)

    assert not claims.take("c", THIRD)
    claims.release("c", OTHER)


def test_all_who_wait_for_a_build_are_resumed_when_it_ends(engine: Engine) -> None:
    claims = BuildClaims(engine.store)
    assert claims.take("c", OTHER)
    for number in range(102):  # more than are resumed at once
        run_id = f"01{number:014x}"
        engine.store.runs.submit(a_run(run_id))
        lease = begin(engine, "1/s", run_id=run_id)
        engine.store.parking.park(lease, [Wait(BUILD, "build", 30, "c")])
    messages(engine)

    claims.release("c", OTHER)

    assert len(messages(engine)) == 102
    assert engine.redis.keys("{p*}:builds") == []


def test_what_waits_for_a_build_no_more_leaves_its_index(engine: Engine) -> None:
    engine.redis.zadd("{p01}:builds", {f"c {RUN} 1/s {BUILD}": 0, f"d {RUN} 1/s {BUILD}": 0})

    engine.store.partitions.close_builds("c")

    assert engine.redis.zrange("{p01}:builds", 0, -1) == [f"d {RUN} 1/s {BUILD}"]
    engine.redis.flushall()


def test_who_waits_for_a_build_that_is_killed_builds_it(engine: Engine) -> None:
    runs = [engine.submit(GRAPH, DOCS, prompt=prompt) for prompt in ("cats", "dogs")]
    engine.work_once()
    engine.pop()
    engine.work_once()
    engine.client.cancel(runs[0])
    engine.clock.move(31)
    engine.tick()
    engine.drive()

    assert engine.run(runs[1]).status == "succeeded"
    assert len(engine.queries.children(runs[1])) == 1


def test_a_branch_of_a_map_gives_what_it_found(engine: Engine) -> None:
    graph = GRAPH.replace("start: look_up", "start: each").replace("    next: z\n", "")
    graph = graph.replace('"{{initial_prompt}}"', '"{{animal}}"')
    graph += """
  each:
    {type: map, over: "{{animals}}", as: animal, branch: look_up, collect_into: found, next: z}
"""
    graph = graph.replace("state_updates: {context", "#")
    run = engine.finish(graph, DOCS, state={"animals": ["cats", "fish"]})

    assert run.status == "succeeded", run.failure
    found = engine.state(run.run_id)["found"]
    assert [passage["sources"] for passage in found] == [["./docs/cats.md"], ["./docs/fish.txt"]]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "'docs': no file matches"),
        ({"docs/a.md": "nul \0 byte"}, "./docs/a.md: it is not text"),
    ],
)
def test_documents_that_cannot_be_read_are_refused_before_anything_runs(
    engine: Engine, files: dict[str, str], words: str
) -> None:
    with pytest.raises(InvalidAgent, match=f"E223 .*{words}"):
        engine.submit(GRAPH, files, prompt="cats")

    assert engine.newest_runs() == []


def test_documents_without_text_fail_the_run(engine: Engine) -> None:
    message = message_of(engine, {"docs/a.md": "  \n"})

    assert message.startswith("agent 'tested', rag node 'look_up': no document")


def test_hidden_files_are_no_documents(engine: Engine) -> None:
    assert state_of(engine, "cats", {**DOCS, "docs/.x": ""})["sources"]


def test_a_binary_file_and_one_that_is_too_large_are_told_together(engine: Engine) -> None:
    engine.configure(rag_document_max_bytes=30)
    directory = engine.write("tested", GRAPH, DOCS)
    (directory / "docs" / "image.png").write_bytes(b"\x89PNG\xff\xfe")

    with pytest.raises(InvalidAgent) as refused:
        engine.submit(GRAPH, {"docs/long.md": "x" * 31}, prompt="cats")

    assert "./docs/image.png: it is not text in UTF-8" in str(refused.value)
    assert "./docs/long.md: it is larger than" in str(refused.value)


def test_a_knowledge_base_over_its_limit_is_an_error(engine: Engine) -> None:
    engine.configure(kb_max_bytes=100)

    assert "(kb_max_bytes)" in message_of(engine, DOCS)


def test_what_only_one_machine_has_is_built_anew_there(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "cats.md").write_text("Cats sleep all day.")
    engine.configure(rag_absolute_paths=True)
    graph = GRAPH.replace("[docs]", f"['{tmp_path}/*.md']")
    assert engine.finish(graph, prompt="cats").status == "succeeded"
    engine.client.prepare("tested")  # notes what was built
    for key in engine.redis.keys("sleipnir:index*"):
        engine.redis.delete(key)
    prepared = engine.client.prepare("tested")
    engine._directory = engine._directory / "another machine"
    engine.configure(rag_absolute_paths=True)

    run_id = engine.client.submit(prepared, Request(prompt="cats"))
    engine.drive()

    assert "sleipnir kb build tested look_up" in engine.failure(run_id).message


def test_a_damaged_archive_is_an_error_and_a_lost_part_is_built_anew(engine: Engine) -> None:
    state_of(engine, "cats")
    [part] = engine.redis.keys("sleipnir:index:*:0")
    content = engine.redis.execute_command("GET", part, NEVER_DECODE=True)
    engine._directory = engine._directory / "another"
    engine.configure()
    engine.redis.set(part, content[:-9], ex=100)
    assert "the stored index is damaged" in message_of(engine, DOCS)

    engine.redis.delete(part)

    assert state_of(engine, "cats")["sources"] == ["./docs/cats.md"]


def test_a_damaged_archive_is_mended_by_building_again(engine: Engine) -> None:
    state_of(engine, "cats")
    [part] = engine.redis.keys("sleipnir:index:*:0")
    engine.redis.set(part, "damaged", ex=100)
    engine._directory = engine._directory / "another"
    engine.configure()
    base = base_of(load_agent(engine.write("tested", GRAPH, DOCS)), None, engine.store.settings)
    order = replace(base.order(run_id := new_run_id()), previous=part.split(":")[2])

    submit_build(engine.client, order, base.load(), run_id)
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert state_of(engine, "cats")["sources"] == ["./docs/cats.md"]


def test_a_forged_chunk_is_an_error_and_is_mended_by_building_again(
    engine: Engine, tmp_path: Path
) -> None:
    state_of(engine, "cats")
    [address] = {key.split(":")[2] for key in engine.redis.keys("sleipnir:index:*")}
    forge(Indexes(engine.redis, engine.store.settings), address, tmp_path / "forged")
    engine._directory = engine._directory / "another"
    engine.configure()

    assert message_of(engine, DOCS).endswith(
        "the stored index is damaged: a chunk is not as it was written; build it again with "
        "`sleipnir kb build`"
    )

    base = base_of(load_agent(engine.write("tested", GRAPH, DOCS)), None, engine.store.settings)
    order = replace(base.order(run_id := new_run_id()), previous=address)
    submit_build(engine.client, order, base.load(), run_id)
    engine.drive()
    assert engine.run(run_id).status == "succeeded"
    assert state_of(engine, "cats")["sources"] == ["./docs/cats.md"]


def forge(indexes: Indexes, address: str, directory: Path) -> None:
    """Replace the texts of a stored index by what is none, with hashes to match."""
    with TemporaryFile() as content:
        info, digest = indexes.info(address), indexes.fetch(address, content)
        assert info is not None
        assert digest is not None
        unpack_from(content, digest, directory)
    index = directory / "index"
    index.chmod(0o700)
    for file in (index / "chunks.jsonl", index / "manifest.json"):
        file.chmod(0o600)
    (index / "chunks.jsonl").write_bytes(b'["a",0,0,[]]\n' * 3)
    manifest = json.loads((index / "manifest.json").read_text())
    manifest["digests"] = digests_of(index)
    (index / "manifest.json").write_text(json.dumps(manifest))
    with TemporaryFile() as content:
        digest = pack_into(content, [Part("index", index)], 10**8)
        indexes.put(address, PackedIndex(digest, content, info))


def test_a_run_without_a_knowledge_base_is_refused_before_it_begins(engine: Engine) -> None:
    with pytest.raises(InvalidAgent, match="E208"):
        engine.finish(GRAPH.replace("    embedding_model: none\n", ""), DOCS)


def test_the_least_recently_used_index_leaves_the_disk(engine: Engine) -> None:
    engine.configure(kb_cache_bytes=1)
    state_of(engine, "cats")

    state_of(engine, "cats", {**DOCS, "docs/cats.md": "Cats hunt at night."})

    assert len(list((engine._directory / "kb-cache").iterdir())) == 1
    engine.configure()
    assert state_of(engine, "cats")["sources"] == ["./docs/cats.md"]
