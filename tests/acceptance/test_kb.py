"""`sleipnir kb`: knowledge bases built, searched, shown and removed by hand."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import yaml

from tests.support.command_line import Sleipnir
from tests.support.knowledge import embedding
from tests.support.model_server import ModelServer
from tests.support.proxy import Proxy
from tests.support.services import Fleet
from tests.support.wait import wait_until

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


def address_in(pointer: Path) -> str:
    address: str = yaml.safe_load(pointer.read_text())["address"]
    return address


def test_a_knowledge_base_from_its_build_to_its_end(own_project: Sleipnir) -> None:
    sleipnir = own_project
    directory = sleipnir.write("pets", GRAPH, DOCS)
    pointer = directory / "look_up.yaml"

    missing = sleipnir("kb", "query", "pets", "look_up", "dogs")
    assert missing.returncode == 1
    assert "sleipnir kb build pets look_up" in missing.stderr
    told = sleipnir("kb", "info", "pets")
    assert (told.returncode, "sleipnir kb build pets look_up" in told.stderr) == (1, True)

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
    assert "chunk_size" not in sleipnir("kb", "info", "pets").stderr
    warned = sleipnir("kb", "info", "pets", SLEIPNIR_RAG_CHUNK_SIZE="300").stderr
    assert "was built with chunk_size 1000, now it is 300 (W605)" in warned
    ran = sleipnir("run", "pets", "which dog barks?")
    assert ran.stdout == "[Source: ./dogs.md]\nDogs bark in the park.\n"
    assert "W601" in ran.stderr
    assert "W604" not in ran.stderr  # the graph itself says so

    removed = sleipnir("kb", "rm", "pets")
    assert removed.returncode == 0
    assert not pointer.exists()
    ran = sleipnir("run", "pets", "which hounds?")
    assert ran.stdout == "[Source: ./dogs.md]\nHounds howl.\n", ran.stderr
    # The run has built it anew, and that is noted too.
    assert yaml.safe_load(pointer.read_text())["files"] == 1
    assert sleipnir.json("kb", "info", "pets")["changed"] == []

    # Its index is gone: what is known is still shown, with the remedy.
    pointer.write_text(pointer.read_text().replace(address_in(pointer), "ab" * 32))
    told = sleipnir("kb", "info", "pets")
    assert (told.returncode, "built_at: 20" in told.stdout) == (0, True), told.stderr
    assert "changed: unknown\nmissing: unknown\n" in told.stdout
    assert "or has an older format: `sleipnir kb build pets look_up`" in told.stderr
    assert sleipnir.json("kb", "info", "pets")["missing"] is None


def test_the_local_model_finds_other_words(own_project: Sleipnir) -> None:
    sleipnir = own_project
    local = "embedding_model: local\n    chunk_size: 200\n    chunk_overlap: 0"
    sleipnir.write("pets", GRAPH.replace("embedding_model: none", local), DOCS)

    built = sleipnir("kb", "build", "pets")
    unsaid = sleipnir("kb", "query", "pets")
    assert unsaid.returncode == 2
    assert "missing argument 'TEXT'" in unsaid.stderr
    found = sleipnir.json("kb", "query", "pets", "kitten")

    assert "2 chunks, dimension 256" in built.stderr
    hit = found["hits"][0]
    assert (hit["source"], hit["vector_rank"], hit["keyword_rank"]) == ("./cats.md", 1, None)


def test_what_one_machine_built_answers_on_others_that_share_redis_alone(tmp_path: Path) -> None:
    local = "embedding_model: local\n    chunk_size: 200\n    chunk_overlap: 0"
    graph = GRAPH.replace("embedding_model: none", local).replace('"*.md"', "docs")
    with Fleet(tmp_path) as fleet, Proxy(fleet.redis.socket_file) as network:
        fleet.sleipnir.environment["SLEIPNIR_REDIS_URL"] = network.url
        fleet.start_scheduler()
        directory = fleet.sleipnir.write("pets", graph)
        (directory / "docs").mkdir()
        for name, text in DOCS.items():
            (directory / "docs" / name).write_text(text)
        builder = fleet.start_worker(SLEIPNIR_DATA_DIR=str(tmp_path / "one"))
        built = fleet.sleipnir("kb", "build", "pets")
        assert "2 chunks, dimension 256" in built.stderr, built.stderr
        builder.kill()
        shutil.rmtree(tmp_path / "one")

        # Of the agent, another desk has the graph and the note, and no document.
        desk = Sleipnir(tmp_path / "desk", SLEIPNIR_REDIS_URL=network.url)
        shutil.copytree(directory, desk.project / "pets", ignore=lambda *_: ["docs"])
        fleet.start_worker(SLEIPNIR_DATA_DIR=str(tmp_path / "two"))
        ran = desk("run", "./pets", "kitten")
        found = desk.json("kb", "query", "./pets", "kitten")

        address = address_in(directory / "look_up.yaml")
        assert ran.stdout.startswith("[Source: ./docs/cats.md]\nCats sleep all day."), ran.stderr
        assert found["hits"][0]["source"] == "./docs/cats.md"
        assert [file.name for file in (tmp_path / "two" / "kb-cache").iterdir()] == [address]


def test_a_build_says_what_it_used(tmp_path: Path) -> None:
    with ModelServer() as server:
        embedding(server)
        sleipnir = Sleipnir(tmp_path, OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="k")
        model = "embedding_model: openai:e\n    chunk_size: 200\n    chunk_overlap: 0"
        sleipnir.write("pets", GRAPH.replace("embedding_model: none", model), DOCS)

        built = sleipnir("kb", "build", "pets")

    assert "2 documents, 2 chunks, dimension 26" in built.stderr
    assert ", 20 tokens" in built.stderr


def test_what_cannot_be_built_is_told_in_a_line(own_project: Sleipnir) -> None:
    sleipnir = own_project
    directory = sleipnir.write("pets", GRAPH)
    sleipnir.write("none", "start: z\nnodes: {z: {type: end}}")

    for arguments, words in (
        (
            ("pets",),
            "agent 'pets', knowledge base 'look_up': documents cannot be read: *.md: ",
        ),
        (("pets", "z"), "'z' is not a knowledge base of agent 'pets': look_up"),
        (("none",), "agent 'none' has no knowledge base"),
    ):
        failed = sleipnir("kb", "build", *arguments)
        assert failed.returncode == 1
        assert words in failed.stderr
        assert "Traceback" not in failed.stderr
    assert not (directory / "look_up.yaml").exists()
    sleipnir.write("pets", GRAPH.replace("none", "none\n    chunk_size: big"))
    refused = sleipnir("kb", "build", "pets")
    assert (refused.returncode, "E008" in refused.stderr) == (3, True)


def test_a_knowledge_base_of_a_normal_agent_is_built_anew_while_its_files_change(
    tmp_path: Path,
) -> None:
    sleipnir = Sleipnir(tmp_path)
    directory = sleipnir.project / "agents" / "talker"
    directory.mkdir(parents=True)
    (directory / "config.yaml").write_text("documents: ['*.md']\n")
    (directory / "cats.md").write_text("Cats sleep all day.")
    sleipnir.environment["SLEIPNIR_RAG_EMBEDDING_MODEL"] = "none"
    pointer = directory / "rag.yaml"

    watching = sleipnir.start("kb", "build", "talker", "--watch")
    try:
        wait_until(pointer.exists, "it is built", 60)
        first = pointer.read_text()
        (directory / "dogs.md").write_text("Dogs bark.")
        wait_until(lambda: pointer.read_text() != first, "it is built anew", 60)
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=60)

    assert yaml.safe_load(pointer.read_text())["files"] == 2
    assert "Dogs bark." in sleipnir("kb", "query", "talker", "rag", "dogs").stdout


def test_on_a_terminal_a_run_asks_what_to_build_with(own_project: Sleipnir) -> None:
    sleipnir = own_project
    unsaid = GRAPH.replace("    embedding_model: none\n", "")
    pointer = sleipnir.write("pets", unsaid, DOCS) / "look_up.yaml"

    refused = sleipnir("run", "pets", "dogs?")
    assert refused.returncode == 3
    assert "E208" in refused.stderr

    declining = sleipnir.on_terminal("run", "pets", "dogs?")
    declining.wait_for("'look_up' of agent 'pets' is not built; build it now?")
    declining.type("n\n")
    declining.wait_for("E208")
    assert declining.end() == (3, "")
    (pointer.parent / "bad.md").write_text("nul \0 byte")

    asking = sleipnir.on_terminal("run", "pets", "dogs?")
    asking.wait_for("[Y/n] > ")
    asking.type("\n")
    asking.wait_for("embedding model")
    asking.type("nobody:knows\n")
    asking.wait_for("unknown model 'nobody:knows'")
    asking.type("local\n")
    asking.wait_for("[default: 1000] > ")
    asking.type("200\n")
    asking.wait_for("[default: 10] > ")
    asking.type("200\n")
    asking.wait_for("less than a chunk")
    asking.type("\n")
    asking.wait_for("./bad.md: it is not text: it has NUL bytes")
    asking.wait_for("Build without these documents? [y/N] > ")
    asking.type("y\n")
    code, output = asking.end()
    assert code == 0
    assert output.startswith("[Source: ./dogs.md]\nDogs bark in the park.\n")
    built = yaml.safe_load(pointer.read_text())
    assert [built[name] for name in ("embedding_model", "chunk_size", "chunk_overlap")] == [
        *("local", 200, 10)
    ]

    # It is built again as it was, though neither the node nor a setting says how.
    (pointer.parent / "dogs.md").write_text("Hounds howl.")
    (pointer.parent / "bad.md").unlink()
    rebuilt = sleipnir("kb", "build", "pets")
    assert "2 chunks, dimension 256" in rebuilt.stderr, rebuilt.stderr
    assert "Hounds howl." in sleipnir("run", "pets", "hounds").stdout
