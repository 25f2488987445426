"""`sleipnir init`: what it makes is valid, runs, and replaces nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sleipnir.graphs.document.document import read_document
from tests.support.command_line import Sleipnir

MODELINE = "# yaml-language-server: $schema="
TEMPLATES = (
    *("agent", "approval", "classify", "extract", "judge", "llm", "map", "rag", "research"),
    *("script", "tools"),
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_agent_is_valid_without_a_warning(template: str, tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)

    made = sleipnir("init", "mine", "--template", template)

    assert (made.returncode, made.stdout) == (0, "agents/mine\n")
    files = (sleipnir.project / "agents" / "mine").glob("*.yaml")
    graph = "".join(file.read_text() for file in files)
    assert ("type: llm" in graph) == ("llm_attempts: 3" in graph)
    assert sleipnir("validate", "mine", "--strict").returncode == 0


@pytest.mark.parametrize(
    ("template", "arguments", "expected"),
    [
        ("script", ("one fine example",), "3 words, the longest is 'example'\n"),
        ("script", (), "There was no text. Give one as the prompt.\n"),
        ("llm", ("a wrong invoice, urgent",), "topic: billing, urgent: true\n"),
        ("map", ("one\ntwo words",), '[{"line":"one","words":1},{"line":"two words","words":2}]\n'),
        ("tools", ("How long is it?",), "No model could be asked.\n"),
        ("classify", ("a wrong invoice",), "No model could be asked.\n"),
        ("extract", (), "The receipt could not be read.\n"),
        ("judge", ("{}",), "No model could be asked.\n"),
        ("research", ("Are heat pumps loud?",), "No model could be asked.\n"),
        (
            "approval",
            ("Cake!", "--answer", "review=louder", "--answer", "review=publish"),
            "Published: Announcement: Cake! (louder)\n",
        ),
    ],
)
def test_a_new_agent_runs_without_a_model(
    shared_engine: Sleipnir,
    tmp_path: Path,
    template: str,
    arguments: tuple[str, ...],
    expected: str,
) -> None:
    directory = str(tmp_path / "mine")
    shared_engine("init", directory, "--template", template)

    done = shared_engine("run", directory, *arguments)

    assert (done.returncode, done.stdout) == (0, expected)


def test_the_template_with_an_evaluation_runs_it_on_recorded_replies(
    shared_engine: Sleipnir, tmp_path: Path
) -> None:
    directory = str(tmp_path / "sorter")
    shared_engine("init", directory, "--template", "classify")

    found = shared_engine.json("eval", directory, "--replay")
    accepted = shared_engine("eval", directory, "--accept", "--replay")

    (version,) = found["versions"]
    assert (version["rows"], version["failed"]) == (8, 0)
    assert version["checks"]["topic"]["mean"] == 0.875  # it was unsure of one
    assert (accepted.returncode, "leave out --replay" in accepted.stderr) == (2, True)


def test_what_there_is_to_start_from_is_listed(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)

    listed = sleipnir("init", "--list")
    nameless = sleipnir("init")

    assert {line.split()[0] for line in listed.stdout.splitlines()[1:]} == set(TEMPLATES)
    assert (nameless.returncode, "name the new agent" in nameless.stderr) == (2, True)


def test_editors_find_the_schema_beside_the_graph(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir("init", "mine")
    agent = sleipnir.project / "agents" / "mine"

    first_line = (agent / "graph.yaml").read_text().splitlines()[0]

    assert first_line == "# yaml-language-server: $schema=graph.schema.json"
    assert json.loads((agent / "graph.schema.json").read_text())["title"] == "Graph agent"


@pytest.mark.parametrize("template", TEMPLATES)
def test_files_of_templates_conform_to_the_schemas_beside_them(
    tmp_path: Path, template: str
) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir("init", "mine", "--template", template)
    agent = sleipnir.project / "agents" / "mine"
    files = [*agent.glob("*.yaml"), *agent.glob("tests/*.yaml"), *agent.glob("evals/*.yaml")]

    assert files
    for file in files:
        text = file.read_text()
        schema = file.parent / text.partition("\n")[0].removeprefix(MODELINE)
        validator = Draft202012Validator(json.loads(schema.read_text()))
        document, _ = read_document(file)
        assert document is not None
        given = dict(document.data)
        assert [error.message for error in validator.iter_errors(given)] == []
        assert list(validator.iter_errors({**given, "misspelt": 1}))


def test_nothing_that_is_there_is_replaced(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir("init", "mine")
    graph = sleipnir.project / "agents" / "mine" / "graph.yaml"
    graph.write_text("mine alone")

    again = sleipnir("init", "mine")

    assert again.returncode == 2
    assert "already exists" in again.stderr
    assert graph.read_text() == "mine alone"


@pytest.mark.parametrize("name", ["two words", ".hidden", "../"])
def test_a_name_that_no_agent_can_have_is_refused(tmp_path: Path, name: str) -> None:
    assert Sleipnir(tmp_path)("init", name).returncode == 2


def test_a_copy_of_a_shipped_agent_is_valid_and_has_the_new_name(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)

    made = sleipnir("init", "mine", "--from", "log-digest")

    assert (made.returncode, made.stdout) == (0, "agents/mine\n"), made.stderr
    assert sleipnir("validate", "mine", "--strict").returncode == 0
    copy = sleipnir.project / "agents" / "mine"
    assert "\nname: mine\n" in (copy / "graph.yaml").read_text()
    assert (copy / "scripts" / "find_log.py").exists()
    assert not list(copy.rglob("__pycache__"))
    assert sleipnir("init", "agents/sql", "--from", "sql").returncode == 0
    readme = (sleipnir.project / "agents" / "sql" / "README.md").read_text()
    assert "put it into the secrets." in readme
    assert "[SQLAlchemy](https://" in readme
    assert "](../" not in readme
    again = sleipnir("init", "mine", "--from", "log-digest")
    both = sleipnir("init", "other", "--from", "log-digest", "--template", "llm")
    nobody = sleipnir("init", "other", "--from", "nobody")
    assert [done.returncode for done in (again, both, nobody)] == [2, 2, 2]
    assert "no agent named 'nobody'" in nobody.stderr
    assert not (sleipnir.project / "agents" / "other").exists()
