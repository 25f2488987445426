"""What a `rag` node with an open knowledge base costs, compared with a node that does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import yaml

from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.worker.bench.arena import LENGTH, Arena, open_arena
from sleipnir.worker.bench.rag.corpus import Corpus, corpus
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row
from sleipnir.worker.knowledge.index import Index, chunks_of, write_index
from sleipnir.worker.knowledge.search import search

_PACKAGES = ("click",)
_NODES = 20  # in a row, all searching the same texts
_ROUNDS = 10
_TOP_K = 5
_QUERY = "add a switch to my command"
_AGENT = "searching"
_SETTINGS = BuildSettings("none", 1000, 50)


def warm_nodes() -> Iterator[Row]:
    """Measure a node that searches, one that does nothing, and the search alone.

    Raises:
        NoCorpus: the corpus is not installed.
    """
    searched = corpus(_PACKAGES)
    with open_arena() as arena:
        _write_agent(arena.home / "agents" / _AGENT, searched)
        searching, idle = arena.prepare(_AGENT), arena.prepare(f"linear-{LENGTH}")
        samples = interleaved(
            _ROUNDS, {"idle": lambda: arena.run(idle), "searching": lambda: arena.run(searching)}
        )
        alone = _searches(arena, searched)
    nothing = _each(samples["idle"], LENGTH + 1)
    yield row("rag node, warm", "node", 1, _each(samples["searching"], _NODES + 1), nothing)
    yield row("node that does nothing", "node", 1, nothing, nothing)
    yield row("the search of the rag node alone", "query", 1, alone, nothing)


def _write_agent(directory: Path, searched: Corpus) -> None:
    nodes: dict[str, Any] = {
        f"n{i}": {
            "type": "rag",
            "documents": ["docs"],
            "embedding_model": _SETTINGS.embedding_model,
            "query": _QUERY,
            "state_updates": {"sources": "{{output.sources}}"},
            "next": f"n{i + 1}" if i + 1 < _NODES else "done",
        }
        for i in range(_NODES)
    }
    graph = {"name": _AGENT, "start": "n0", "nodes": {**nodes, "done": {"type": "end"}}}
    (directory / "docs").mkdir(parents=True)
    (directory / "graph.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    for number, document in enumerate(searched.documents):
        (directory / "docs" / f"{number}.{document.ext}").write_text(document.text)


def _searches(arena: Arena, searched: Corpus) -> list[Sample]:
    """Measure the same search in this process."""
    directory = arena.home / "index"
    directory.mkdir()
    chunks = list(chunks_of(searched.documents, _SETTINGS))
    hashes = [document.hash for document in searched.documents]
    write_index(directory, _SETTINGS, hashes, chunks, None)
    index, samples = Index(directory), []
    for _ in range(_ROUNDS * _NODES):
        began = perf_counter()
        search(index, _QUERY, _TOP_K)
        samples.append(Sample(perf_counter() - began, 0.0))
    return samples


def _each(samples: Sequence[Sample], units: int) -> list[Sample]:
    return [Sample(each.seconds / units, each.cpu_seconds / units) for each in samples]
