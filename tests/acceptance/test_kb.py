"""`sleipnir kb`: knowledge bases built, searched, shown and removed by hand."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.support.command_line import Sleipnir

GRAPH = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: ["*.md"]
    embedding_model: none
    query: "{{initial_prompt}}"
    state_updates: {context: "{{output.context}}"}
    next: z
  z: {type: end, output: "{{context}}"}
"""
DOCS = {"cats.md": "Cats sleep all day.", "dogs.md": "Dogs bark in the park."}


def test_a_knowledge_base_from_its_build_to_its_end(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    directory = sleipnir.write("pets", GRAPH, DOCS)
    pointer = directory / "look_up.yaml"

    missing = sleipnir("kb", "query", "pets", "look_up", "dogs")
    assert missing.returncode == 1
    assert "sleipnir kb build pets look_up" in missing.stderr

    built = sleipnir("kb", "build", "pets")
    assert built.returncode == 0, built.stderr
    assert "2 documents, 2 chunks, keyword only" in built.stderr
    assert yaml.safe_load(pointer.read_text())["embedding_model"] == "none"

    found = sleipnir.json("kb", "query", "pets", "look_up", "which dog barks?", "--top-k", "1")
    assert found["query"] == "which dog barks?"
    [hit] = found["hits"]
    assert (hit["source"], hit["position"], hit["keyword_rank"]) == ("./dogs.md", [1, 0], 1)
    assert hit["vector_rank"] is None

    # The documents change: the knowledge base is what it was, and people are told.
    (directory / "dogs.md").write_text("Hounds howl.")
    (directory / "cats.md").unlink()
    told = sleipnir.json("kb", "info", "pets")
    assert (told["changed"], told["missing"]) == (["./dogs.md"], ["./cats.md"])
    assert (told["files"], told["chunks"], told["dimension"]) == (2, 2, None)
    ran = sleipnir("run", "pets", "which dog barks?")
    assert ran.stdout == "[Source: ./dogs.md]\nDogs bark in the park.\n"
    assert "W601" in ran.stderr
    assert "W604" in ran.stderr

    removed = sleipnir("kb", "rm", "pets")
    assert removed.returncode == 0
    assert not pointer.exists()
    ran = sleipnir("run", "pets", "which hounds?")
    assert ran.stdout == "[Source: ./dogs.md]\nHounds howl.\n", ran.stderr
    # The run has built it anew, and that is noted too.
    assert yaml.safe_load(pointer.read_text())["files"] == 1
    assert sleipnir.json("kb", "info", "pets")["changed"] == []


def test_the_local_model_finds_other_words(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    local = "embedding_model: local\n    chunk_size: 200\n    chunk_overlap: 0"
    sleipnir.write("pets", GRAPH.replace("embedding_model: none", local), DOCS)

    built = sleipnir("kb", "build", "pets")
    found = sleipnir.json("kb", "query", "pets", "look_up", "kitten")

    assert "2 chunks, dimension 256" in built.stderr
    hit = found["hits"][0]
    assert (hit["source"], hit["vector_rank"], hit["keyword_rank"]) == ("./cats.md", 1, None)


def test_what_cannot_be_built_is_told_in_a_line(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    directory = sleipnir.write("pets", GRAPH)
    sleipnir.write("none", "start: z\nnodes: {z: {type: end}}")

    for arguments, words in (
        (("pets",), "documents cannot be read: *.md: no file matches"),
        (("pets", "z"), "'z' is not a knowledge base of agent 'pets': look_up"),
        (("none",), "agent 'none' has no knowledge base"),
    ):
        failed = sleipnir("kb", "build", *arguments)
        assert failed.returncode == 1
        assert words in failed.stderr
        assert "Traceback" not in failed.stderr
    assert not (directory / "look_up.yaml").exists()
