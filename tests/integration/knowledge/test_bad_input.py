"""Knowledge bases on bad days: damaged indexes, a full disk, documents and pages that mislead."""

from __future__ import annotations

import re
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import IO, Any

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.files import MIB
from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.knowledge.packed import PackedIndex
from sleipnir.worker.bench.rag.texts import in_turn
from sleipnir.worker.knowledge import building
from sleipnir.worker.knowledge import search as searching
from sleipnir.worker.knowledge.agent_base import base_of
from sleipnir.worker.knowledge.building import build
from sleipnir.worker.knowledge.cache import IndexCache
from sleipnir.worker.knowledge.errors import BuildFailed, KnowledgeFailed
from sleipnir.worker.knowledge.index import chunks_of
from sleipnir.worker.knowledge.reading import documents
from sleipnir.worker.knowledge.reading.documents import Loaded, SourceText
from sleipnir.worker.knowledge.reading.loading import load_local
from sleipnir.worker.knowledge.reading.reach import reach_here
from sleipnir.worker.knowledge.vectors import normalised
from tests.support import full_disk
from tests.support.engine import Engine
from tests.support.knowledge import BY_WORDS, PETS
from tests.support.model_server import ModelServer, says
from tests.support.web_server import Page, WebServer, redirect

SETTINGS = BuildSettings("test:letters", 1000, 0)
DOCUMENTS = [SourceText(f"{n}", "txt", f"text {n}") for n in range(60)]
ADDRESS = "a" * 64


class OneIndex:
    """Where indexes are kept, as far as a machine that fetches one can see."""

    def __init__(self, packed: PackedIndex) -> None:
        self._packed = packed

    def fetch(self, _address: str, into: IO[bytes]) -> str:
        self._packed.content.seek(0)
        shutil.copyfileobj(self._packed.content, into)
        return self._packed.digest


@pytest.fixture
def site() -> Iterator[WebServer]:
    with WebServer({}) as server:
        yield server


def packed() -> PackedIndex:
    chunks = list(chunks_of(DOCUMENTS, SETTINGS))
    vectors = normalised([[float(n + m) for m in range(2000)] for n in range(len(chunks))])
    return build(SETTINGS, [each.hash for each in DOCUMENTS], chunks, in_turn(vectors), 10**8)


def read(directory: Path, entry: str, **settings: Any) -> Loaded:
    return load_local(directory, [entry], reach_here(Settings(**settings)), lambda: False)


def message_of(engine: Engine, graph: str = BY_WORDS, prompt: str = "cats") -> str:
    failure = engine.failure(engine.finish(graph, prompt=prompt).run_id)
    assert (failure.code, failure.node) == ("R020", "look_up")
    return failure.message


@pytest.mark.parametrize("part", ["chunks.jsonl", "keywords/positions.u32"])
def test_an_index_that_was_damaged_on_this_disk_is_fetched_anew(engine: Engine, part: str) -> None:
    assert engine.finish(BY_WORDS, PETS, prompt="cats").status == "succeeded"
    [index] = (engine._directory / "kb-cache").glob("*/index")
    file = index / part
    file.chmod(0o600)
    file.write_bytes(re.sub(rb"[^\n]", b"x", file.read_bytes()))
    engine.configure()  # another worker on the same machine

    run = engine.finish(BY_WORDS, PETS, prompt="cats")

    assert run.status == "succeeded", run.failure
    assert engine.state(run.run_id)["sources"] == ["./docs/cats.md"]
    assert engine.queries.children(run.run_id) == []


@pytest.mark.parametrize("room", [1, 300_000])
def test_a_disk_without_room_ends_a_build(room: int) -> None:
    with full_disk.here(room), pytest.raises(BuildFailed, match="the index cannot be written to /"):
        packed()


def test_an_index_that_no_machine_would_unpack_is_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "UNPACKED_LIMIT_BYTES", MIB // 4)

    with pytest.raises(BuildFailed, match=r"takes more than 0.25 MiB before it is packed: make"):
        packed()


def test_more_documents_than_an_index_can_name_end_a_build(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "MANIFEST_LIMIT_BYTES", 100)

    with pytest.raises(BuildFailed, match="too many for one index: make several knowledge bases"):
        packed()


def test_a_disk_without_room_for_documents_ends_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_IN_MEMORY_BYTES", 100)
    (tmp_path / "long.md").write_text("x" * 5000)

    with full_disk.here(1000), pytest.raises(BuildFailed, match="documents cannot be kept in /"):
        read(tmp_path, "long.md")


def test_more_text_than_an_index_can_have_ends_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "UNPACKED_LIMIT_BYTES", 5)
    (tmp_path / "a.md").write_text("a" * 3)
    (tmp_path / "b.md").write_text("b" * 3)

    with pytest.raises(BuildFailed, match="make several knowledge bases"):
        read(tmp_path, "*.md")


def test_a_disk_without_room_for_its_note_is_told(tmp_path: Path) -> None:
    (tmp_path / "graph.yaml").write_text(f"name: pets\n{BY_WORDS}")
    base = base_of(load_agent(tmp_path), None, Settings())
    built = {"address": ADDRESS, "files": 1, "chunks": 1, "dimension": None}
    indexes: Any = None  # it does not come to them

    with full_disk.here(10), pytest.raises(KnowledgeFailed, match=f"cannot write {tmp_path}/.*: "):
        base.note(base.order("a"), built, indexes)

    assert base.pointer() is None


def test_a_disk_without_room_leaves_nothing_of_an_index_that_is_fetched(tmp_path: Path) -> None:
    made = packed()
    indexes: Any = OneIndex(made)
    cache = IndexCache(indexes, tmp_path, 10**8)

    with full_disk.here(300_000), pytest.raises(KnowledgeFailed, match=f"to {tmp_path}: "):
        cache.get(ADDRESS)

    assert list(tmp_path.iterdir()) == []
    found = cache.get(ADDRESS)
    made.content.close()
    assert found is not None
    assert found.keywords.count == len(DOCUMENTS)


def test_a_model_that_changes_its_dimension_is_an_error(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.when(lambda _request: True, says(""))
    graph = BY_WORDS.replace(
        "embedding_model: none",
        "embedding_model: openai:text-embedding-3-small\n    chunk_size: 200\n    chunk_overlap: 0",
    )
    assert engine.finish(graph, PETS, prompt="cats").status == "succeeded"
    reply = {
        "data": [{"index": 0, "embedding": [1.0, 2.0, 3.0]}],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    monkeypatch.setattr("tests.support.model_server._embeddings", lambda _request: reply)

    message = message_of(engine, graph, "dogs")

    assert "openai:text-embedding-3-small: the vectors have dimension 3, not 26" in message


def test_a_search_that_takes_too_long_fails_the_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = Event()
    monkeypatch.setattr(searching, "search", lambda *_args: over.wait(60))
    graph = BY_WORDS.replace("documents:", "timeout: 0.2\n    documents:")
    engine.write("tested", graph, PETS)

    message = message_of(engine, graph)
    over.set()

    assert "the search took longer than 0.2 s" in message


@pytest.mark.parametrize("entry", ["docs", "docs/*.md"])
def test_a_link_to_itself_is_told_by_name(tmp_path: Path, entry: str) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "cats.md").write_text("Cats sleep all day.")
    (tmp_path / "docs" / "round.md").symlink_to("round.md")

    loaded = read(tmp_path, entry)

    assert [document.source for document in loaded.documents] == ["./docs/cats.md"]
    assert loaded.failures == [("./docs/round.md", "Too many levels of symbolic links")]


@pytest.mark.parametrize("entry", [".", "**/*.md"])
def test_a_link_that_leaves_the_agent_directory_is_told_by_name(tmp_path: Path, entry: str) -> None:
    agent, beside = tmp_path / "agent", tmp_path / "beside"
    for directory in (agent, beside):
        directory.mkdir()
        (directory / "cats.md").write_text("Cats sleep all day.")
    (agent / "all").symlink_to(beside)
    (agent / "one.md").symlink_to(beside / "cats.md")

    loaded = read(agent, entry)

    assert [document.source for document in loaded.documents] == ["./cats.md"]
    why = "the symlink leads outside the agent directory"
    assert loaded.failures == [("./all", why), ("./one.md", why)]


def test_a_document_over_its_size_is_not_even_read(tmp_path: Path) -> None:
    with (tmp_path / "long.md").open("wb") as file:
        file.truncate(17 * MIB)

    tracemalloc.start()
    loaded = read(tmp_path, "long.md", rag_document_max_bytes=16 * MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert loaded.failures == [("./long.md", "it is larger than 16 MiB")]
    assert peak < MIB


@pytest.mark.parametrize("place", ["http://169.254.169.254/meta", "http://127.0.0.1:1/"])
@pytest.mark.parametrize("documents", ["http://8.8.8.8/", "http://8.8.8.8/**"])
def test_a_public_page_cannot_lead_to_a_private_address(
    engine: Engine, site: WebServer, monkeypatch: pytest.MonkeyPatch, documents: str, place: str
) -> None:
    monkeypatch.setenv("http_proxy", site.url())  # where the public address is served
    site.pages["http://8.8.8.8/"] = redirect(place)
    site.pages["http://8.8.8.8/robots.txt"] = Page(status=404)

    message = message_of(engine, BY_WORDS.replace("[docs]", f'["{documents}"]'))

    assert f"{documents}: " in message
    assert "is not a public address" in message
    assert {visit.target for visit in site.visits} <= site.pages.keys()
