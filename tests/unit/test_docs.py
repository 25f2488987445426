"""The documentation: its examples are valid, its links lead somewhere, its tables are complete."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from docs.error_trees import TREES, renewed_tree
from docs.reference import renewed
from sleipnir.graphs.codes import CODES
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.schema import (
    NODE_TYPES,
    AgentNode,
    FormField,
    Graph,
    GraphSettings,
    Route,
    ScriptNode,
    Section,
    Switch,
    Variable,
)
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.validator import Resources, validate
from sleipnir.scheduler.cli.app import GROUPS, VERBS, cli
from sleipnir.scheduler.cli.exit_codes import MEANINGS, ExitCode
from sleipnir.scheduler.cli.help.examples import EXAMPLES
from sleipnir.scheduler.config.settings import FIELDS as ENGINE_SETTINGS
from sleipnir.scheduler.runs.history import NodeTimes
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import NO_USAGE, Question, Run, RunContext, RunRow, Status
from sleipnir.scheduler.store.queries.batches import BatchRow
from sleipnir.scheduler.store.queries.lists import ChildRows
from sleipnir.scheduler.views.batches import batch_document
from sleipnir.scheduler.views.documents import (
    question_document,
    row_document,
    run_document,
    show_document,
)
from sleipnir.worker.bench.cases import CASES
from tests.support.command_line import take
from tests.support.pages import PAGES, ROOT, TEXTS, blocks

SOURCES = {
    file: file.read_text(encoding="utf-8")
    for package in ("graphs", "scheduler", "worker")
    for file in (ROOT / package).rglob("*")
    if file.suffix in (".py", ".lua")
}

LINK = re.compile(r"\[[^\]\[]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# What else looks like a path is an example's.
SOURCE_PATH = re.compile(r"(?<![\w/.-])(?:graphs|scheduler|worker|tests|deploy|docs)/[\w./-]*\w")
COMMAND = re.compile(r"sleipnir (?:-[\w-]+ )*([a-z]+)\b")
VARIABLE = re.compile(r"\bSLEIPNIR_[A-Z_]*[A-Z]\b")
CODE_ROW = re.compile(r"^\| ([EWR]\d{3}) \| (.*?) \| (.*?) \|$", re.MULTILINE)
RAISED_CODE = re.compile(r"""["']([EWR]\d{3})["']""")
EXIT_ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
FIGURE_ROW = re.compile(
    r"^\| [^|]+ \| (?:`([^`]+)` )?\| .*?\d.* \| (2\d{3}-\d\d-\d\d) \|$", re.MULTILINE
)
SHAPE = re.compile(r"<!-- shape: (\w+) -->\n```json\n(.*?)```", re.DOTALL)

pages = pytest.mark.parametrize("page", PAGES)


def graphs_in_pages() -> Iterator[Any]:
    for page in PAGES:
        for text in blocks(page, "yaml"):
            if re.search(r"^nodes:", text, re.MULTILINE):
                yield pytest.param(text, id=f"{page}: {yaml.safe_load(text).get('name')}")


# ---- examples


@pytest.mark.parametrize("verb", dict.fromkeys([*VERBS, *EXAMPLES]))
def test_a_verb_has_two_examples_that_it_takes(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("lines.jsonl", "people.csv"):  # what the examples name
        (tmp_path / file).touch()
    for directory in ("theirs", "moved"):
        (tmp_path / directory).mkdir()

    context = click.Context(cli, info_name="sleipnir", **cli.context_settings)

    calls = [shlex.split(call) for _, call in EXAMPLES[verb] if not call.startswith("eval ")]
    for name, *words in calls:
        assert [name, *words][: len(verb.split())] == verb.split()
        take(context, cli.get_command(context, name), words)

    assert len(EXAMPLES[verb]) >= 2


def test_the_parts_of_verbs_have_examples() -> None:
    context = click.Context(cli, info_name="sleipnir", **cli.context_settings)
    for verb in VERBS:
        command = cli.get_command(context, verb)
        for part in command.commands if isinstance(command, click.Group) else ():
            assert f"{verb} {part}" in EXAMPLES


def test_a_verb_stands_in_one_group() -> None:
    assert sorted(verb for verbs in GROUPS.values() for verb in verbs) == sorted(VERBS)


@pytest.mark.parametrize("text", list(graphs_in_pages()))
def test_a_graph_in_the_documentation_has_no_findings(text: str, tmp_path: Path) -> None:
    directory = tmp_path / yaml.safe_load(text)["name"]
    directory.mkdir()
    (directory / "graph.yaml").write_text(text)
    add_what_it_names(directory)

    resources = Resources(AgentSearch((tmp_path,)), tool_directories=(SHIPPED_TOOLS,))
    found = validate(load_agent(directory), resources)

    assert [str(finding) for finding in found] == []


def add_what_it_names(directory: Path) -> None:
    """The scripts of an example, and the agents it runs."""
    graph = load_agent(directory).graph
    assert graph is not None
    for _, node in graph.nodes_of(ScriptNode):
        (directory / node.script).parent.mkdir(exist_ok=True)
        (directory / node.script).touch()
    for _, node in graph.nodes_of(AgentNode):
        other = directory.parent / node.agent
        other.mkdir()
        (other / "graph.yaml").write_text(
            f"name: {node.agent}\nstart: done\nnodes: {{done: {{type: end}}}}"
        )


def test_the_language_has_an_example_of_every_node_type() -> None:
    shown = {
        node["type"]
        for text in blocks("language.md", "yaml")
        for node in yaml.safe_load(text)["nodes"].values()
    }

    assert shown == set(NODE_TYPES)


@pages
def test_commands_in_the_documentation_are_verbs(page: str) -> None:
    code = [*blocks(page, "", "sh", "bash", "text"), *re.findall(r"`([^`\n]+)`", TEXTS[page])]

    named = {verb for text in code for verb in COMMAND.findall(text)}

    assert named - VERBS.keys() == set()


# ---- links and names


@pages
def test_relative_links_lead_to_files_and_headings(page: str) -> None:
    links = [link for link in LINK.findall(TEXTS[page]) if not link.startswith("http")]

    broken = [link for link in links if not leads_somewhere(PAGES[page], link)]

    assert broken == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    if not anchor or target.suffix != ".md":
        return target.exists()
    return target.exists() and anchor in {
        slug(heading) for heading in HEADING.findall(target.read_text(encoding="utf-8"))
    }


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pages
def test_source_files_that_are_named_exist(page: str) -> None:
    named = set(SOURCE_PATH.findall(TEXTS[page]))

    assert {path for path in named if not (ROOT / path).exists()} == set()


@pages
def test_environment_variables_that_are_named_are_read(page: str) -> None:
    settings = {name.upper() for name in re.findall(r"`SLEIPNIR_(\w+)`", TEXTS["cli.md"])}
    sources = "\n".join(SOURCES.values())

    named = set(VARIABLE.findall(TEXTS[page]))

    assert {
        name
        for name in named
        if name not in sources and name.removeprefix("SLEIPNIR_") not in settings
    } == set()


# ---- tables


@pages
def test_generated_parts_are_current(page: str) -> None:
    assert renewed(TEXTS[page]) == TEXTS[page], "run `make docs`"


@pytest.mark.parametrize("file", TREES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_tree_of_errors_is_that_of_the_classes(file: Path) -> None:
    assert file.read_text(encoding="utf-8") == renewed_tree(file), "run `make docs`"


def test_every_package_with_errors_draws_their_tree() -> None:
    drawn = {str(file.relative_to(ROOT)): root for file, root in TREES.items()}

    assert drawn["graphs/errors.py"] == "GraphError"
    assert drawn["scheduler/errors.py"] == "SleipnirError"
    assert drawn["worker/knowledge/errors.py"] == "KnowledgeFailed"


def test_every_code_that_is_raised_is_explained_once_and_no_other() -> None:
    elsewhere = (text for file, text in SOURCES.items() if file != ROOT / "graphs/codes.py")
    raised = {code for text in elsewhere for code in RAISED_CODE.findall(text)}

    explained = [code for codes in CODES.values() for code in codes]

    assert sorted(explained) == sorted(raised)


def test_every_code_stands_in_the_manual_with_its_cause_and_what_to_do() -> None:
    rows = CODE_ROW.findall(TEXTS["language.md"])

    explained = {code: text for codes in CODES.values() for code, text in codes.items()}
    assert {code: (cause, cure) for code, cause, cure in rows} == explained
    assert [code for code, text in explained.items() if not all(text)] == []


def test_every_exit_code_is_explained() -> None:
    assert MEANINGS.keys() == set(ExitCode)
    assert EXIT_ROW.findall(TEXTS["cli.md"]) == [str(int(code)) for code in ExitCode]


@pytest.mark.parametrize(("name", "text"), SHAPE.findall(TEXTS["cli.md"]))
def test_json_in_the_documentation_has_the_fields_of_the_real_one(name: str, text: str) -> None:
    real = documents()[name]

    assert list(json.loads(text)) == list(real)


def documents() -> dict[str, dict[str, Any]]:
    """One of each document that `--json` prints."""
    run = Run(
        run_id="0f3d204d69d03101",
        agent="ask",
        digest="",
        status=Status.WAITING,
        step=1,
        frontier=("review",),
        created_at=0,
        started_at=0,
        ended_at=None,
        deadline=None,
        output=None,
        failure=None,
        usage=NO_USAGE,
        context=RunContext(),
        parent=None,
        batch=None,
        item=None,
        visits={},
    )
    row = RunRow("r", "ask", Status.WAITING, ("review",), 0, NO_USAGE, None, None, "r", None, {})
    batch = BatchRow("b", "ask", 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0.0)
    of_run = run_document(run, {}, steps=0, now_ms=0)
    times = NodeTimes("draft", 1, 1, 1, NO_USAGE)
    question = Question("r", "r", "ask", VisitId("1/q"), "q", 1, "input", "?", (), None, None)
    return {
        "run": of_run,
        "node": show_document(of_run, [], None, [times], {}, ChildRows((), {}, 0))["nodes"][0],
        "row": row_document(row, now_ms=0),
        "batch": batch_document(batch, now_ms=0),
        "question": question_document(question),
        "finding": Finding("E101", "").to_json(),
    }


def test_a_figure_names_the_benchmark_that_measures_it_and_its_day() -> None:
    rows = FIGURE_ROW.findall(TEXTS["performance.md"])
    section = TEXTS["performance.md"].split("\n## ")[1]
    context = click.Context(cli, info_name="sleipnir", **cli.context_settings)

    commands = {words for words, _ in rows if words}
    for words in commands:
        take(context, cli.get_command(context, "bench"), shlex.split(words))

    # Besides them, the table has its head, and a row for the name of each group.
    assert len(rows) == section.count("\n|") - 2 - section.count("\n| **")
    measured = {words.removeprefix("--only ") for words in commands}
    assert CASES.keys() - measured == set()


def test_the_language_has_a_table_for_every_mapping() -> None:
    sections = set(re.findall(r"<!-- generated: fields (\w+) -->", TEXTS["language.md"]))

    parts: list[type[Section]] = [Graph, GraphSettings, Variable, FormField, Route, Switch]
    mappings = [*parts, *NODE_TYPES.values()]
    assert sections == {mapping.__name__ for mapping in mappings}


def test_every_shipped_tool_is_explained() -> None:
    shipped = {file.stem for file in SHIPPED_TOOLS.glob("*.*")}

    listed = set(re.findall(r"^\| `(\w+)` \|", TEXTS["global-tools.md"], re.MULTILINE))

    assert {name for name in shipped - listed if not name.startswith("demo_")} == set()


def test_every_wall_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    walls = [contract["name"] for contract in project["tool"]["importlinter"]["contracts"]]

    assert [name for name in walls if f"| {name} |" not in TEXTS["architecture.md"]] == []


def test_every_room_is_explained() -> None:
    rooms = {str(file.parent.relative_to(ROOT)) for file in SOURCES if file.suffix == ".py"}

    listed = set(re.findall(r"^\| `([\w/]+)/` \|", TEXTS["architecture.md"], re.MULTILINE))

    programs = ("graphs/agents/", "graphs/functions/", "scheduler/cli/templates/", "worker/tools/")
    assert {room for room in rooms - listed if not room.startswith(programs)} == set()
    assert {room for room in listed if not (ROOT / room).is_dir()} == set()


# ---- promises

NOTE = re.compile(r"(?<=.)\[\^([\w-]+)\]")
NOTE_TEXT = re.compile(r"^\[\^([\w-]+)\]: (.+)$", re.MULTILINE)
NAMED_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
PROMISE = re.compile(
    r"\bnever\b|\bat most\b|\bat least\b|\bup to\b|\bwithin\b|\bin any case\b|refused"
    r"|\d (?:s|minutes|MiB|levels|values|entries|events|days)\b"
)
# Advice, not promises.
NO_PROMISES = (
    "`--processes` up to the number of cores is sensible",
    "| `state_limit_bytes` (16 MiB), `value_limit_bytes` (8 MiB) | rarely",
    "| `retention_s` (7 days) | people ask about old runs",
)
promising = pytest.mark.parametrize("page", ["operating.md", "security.md"])
noted = pytest.mark.parametrize(
    "page", ["installing.md", "operating.md", "security.md", "performance.md"]
)


def named_tests(text: str) -> list[tuple[str, str]]:
    return NAMED_TEST.findall(text)


@noted
def test_every_note_is_there_and_names_tests(page: str) -> None:
    used, notes = NOTE.findall(TEXTS[page]), dict(NOTE_TEXT.findall(TEXTS[page]))

    assert set(used) == set(notes)
    for text in notes.values():
        assert ", ".join(f"`{file}::{test}`" for file, test in named_tests(text)) == text


@noted
def test_every_test_that_a_page_names_is_there(page: str) -> None:
    named = named_tests(TEXTS[page])

    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"\ndef {test}(" not in (ROOT / "tests" / file).read_text()
    ]

    assert named
    assert missing == []


@promising
def test_what_promises_a_bound_names_its_test(page: str) -> None:
    text = NOTE_TEXT.sub("", TEXTS[page])
    parts = [part for part in re.split(r"\n\n|\n(?=\||- |\d\. )", text) if PROMISE.search(part)]

    unnamed = [
        part
        for part in parts
        if not NOTE.search(part) and not named_tests(part)
        if not any(words in " ".join(part.split()) for words in NO_PROMISES)
    ]

    assert unnamed == []


# ---- bounds

# What bounds something under another kind of name.
BOUNDS_BY_NAME = {
    "max_agent_depth",
    "max_deliveries",
    "max_memory_mb",
    "max_visits",
    "call_threads",
    "concurrency",
    "program_memory_mb",
    "tool_timeout",
    "mcp_timeout",
    "rag_crawl_max_pages",
}
BOUND_ROW = re.compile(r"^\| (.+?) \| .+ \| .+ \| `(.+?)::(\w+)` \|$", re.MULTILINE)


def bounds() -> list[tuple[str, str, str]]:
    """Settings, test file and test of each row of the table of bounds."""
    (section,) = re.findall(r"^## Bounds\n(.*?)^## ", TEXTS["operating.md"], re.M | re.S)
    rows: list[tuple[str, str, str]] = BOUND_ROW.findall(section)
    assert len(rows) == section.count("\n|") - 2, "a row is not of the table's form"
    return rows


def test_the_table_of_bounds_has_every_setting_that_is_one() -> None:
    listed = [name for settings, _, _ in bounds() for name in re.findall(r"`(\w+)`", settings)]

    ends = ("_limit", "_bytes", "_s")
    expected = {name for name in ENGINE_SETTINGS if name.endswith(ends)}
    assert sorted(listed) == sorted(expected | BOUNDS_BY_NAME)


@pytest.mark.parametrize("bound", bounds(), ids=lambda bound: bound[0])
def test_a_bound_is_held_by_the_test_it_names(bound: tuple[str, str, str]) -> None:
    _, file, test = bound

    assert f"\ndef {test}(" in (ROOT / "tests" / file).read_text()
