"""The language by example: a graph in, findings out.

`cases/*.yaml` hold the cases. A case:

    name     what it shows
    graph    the text of graph.yaml; left out: there is none
    many     so many nodes the graph has where it says $NODES, with their ids where it says $IDS
    files    more files by path, from the agent's directory `agent`
    links    symbolic links by path
    skills   the text of `SKILL.md` of each skill that there is, by name
    engine   what the engine around it offers; a field of `Resources`, `tool_files`, the text of
             its `mcp_json`, `mcp_servers` with `mcp_programs`, `mcp_aliases`, the filter
             `mcp_tools` of the settings, or the `programs` of this machine
    environment  of whoever submits it
    given    values of variables, as at submission
    finds    all findings as `line:column: CODE [node] message`; a second line is the hint,
             which may be left out. `$DIR` is the agent's directory.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sleipnir.graphs.bundles.parsed import PARSED, parsed_graph, parsed_text
from sleipnir.graphs.codes import CODES
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.errors import InvalidAgent, MissingVariables
from sleipnir.graphs.mcp.config import McpConfig, McpServer
from sleipnir.graphs.mcp.reading import read_mcp_config
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.validator import Resources, validate
from sleipnir.graphs.variables import resolve_variables

HERE = Path(__file__).parent
CASES = [
    pytest.param(case, id=f"{file.stem}: {case['name']}")
    for file in sorted((HERE / "cases").glob("*.yaml"))
    for case in yaml.safe_load(file.read_text(encoding="utf-8"))
]
# Found only when a run is submitted, with other agents beside this one, or planned for its input.
OF_SUBMISSIONS = {"W607", "W028", "W029", "W030", "W031", "W033"}
FINDINGS = [code for codes in CODES.values() for code in codes if code[0] in "EW"]


@pytest.mark.parametrize("case", CASES)
def test_a_graph_has_exactly_these_findings(case: dict[str, Any], tmp_path: Path) -> None:
    directory = build(case, tmp_path)

    found = find(directory, case)

    expected = case["finds"]
    with_hint = {line.partition("\n")[0] for line in expected if "\n" in line}
    shown = [text(finding, directory, with_hint) for finding in found]
    assert shown == expected


@pytest.mark.parametrize("cases", [CASES[start::8] for start in range(8)])
def test_graphs_come_back_from_their_bundles(cases: list[Any], tmp_path: Path) -> None:
    compared = 0
    for number, param in enumerate(cases):
        directory = build(param.values[0], tmp_path / str(number))
        try:
            graph = load_agent(directory).runnable
        except InvalidAgent:
            continue
        if graph is not None:
            (directory / PARSED).write_bytes(parsed_text(graph))
            # Nobody equals what is not a number.
            assert repr(parsed_graph(directory)) == repr(graph)
            compared += 1

    assert compared > len(cases) / 2


@pytest.mark.parametrize("code", sorted({*FINDINGS} - OF_SUBMISSIONS))
def test_every_code_has_a_case_that_raises_it(code: str) -> None:
    expected = [line for param in CASES for line in param.values[0]["finds"]]

    assert any(f": {code} " in line for line in expected), f"no case raises {code}"


def build(case: dict[str, Any], tmp_path: Path) -> Path:
    """The case's files on disk; returns the agent's directory."""
    directory = tmp_path / "agents" / "agent"
    directory.mkdir(parents=True)
    texts = dict(case.get("files", {}))
    if "graph" in case:
        texts["graph.yaml"] = with_nodes(case["graph"], case.get("many", 0))
    for path, content in texts.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, content in case.get("skills", {}).items():
        file = tmp_path / "skills" / name / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(content)
    for path, target in case.get("links", {}).items():
        (directory / path).symlink_to(target)
    return directory


def with_nodes(graph: str, many: int) -> str:
    """The graph with many more nodes, scripts that write nothing and lead to `z`."""
    ids = [f"n{i}" for i in range(many)]
    script = "{type: script, script: s.py, next: z, state_updates: {}}"
    nodes = "\n  ".join(f"{node_id}: {script}" for node_id in ids)
    return graph.replace("$NODES", nodes).replace("$IDS", ", ".join(ids))


def find(directory: Path, case: dict[str, Any]) -> tuple[Finding, ...]:
    """What loading, validation and, if values are given, submission find."""
    try:
        agent = load_agent(directory, case.get("environment"))
        if "given" in case and agent.graph is not None:
            resolve_variables(agent.graph, case["given"])
    except (InvalidAgent, MissingVariables) as error:
        return error.findings
    return validate(agent, resources(directory, **case.get("engine", {})))


def resources(directory: Path, **offers: Any) -> Resources:
    """The engine around the agent; answers of MCP servers are given as a mapping."""
    tools = directory.parent.parent / "tools"
    for name, content in offers.pop("tool_files", {}).items():
        tools.mkdir(exist_ok=True)
        (tools / name).write_text(content, encoding="utf-8")
    offers |= servers(directory.parent.parent, offers)
    if "programs" in offers:
        programs = {name: f"/bin/{name}" for name in offers.pop("programs")}
        offers["find_program"] = programs.get
    if "list_mcp_functions" in offers:
        offers["list_mcp_functions"] = offers["list_mcp_functions"].get
    for fact in ("lacks_reasoning", "lacks_functions"):
        if fact in offers:
            offers[fact] = frozenset(offers[fact]).__contains__
    if "lacks_attachments" in offers:
        offers["lacks_attachments"] = {
            model: frozenset(lacking) for model, lacking in offers["lacks_attachments"].items()
        }.__getitem__
    search = AgentSearch((directory.parent,))
    skills = directory.parent.parent / "skills"
    return Resources(
        search, tool_directories=(tools, SHIPPED_TOOLS), skill_directories=(skills,), **offers
    )


def servers(place: Path, offers: dict[str, Any]) -> dict[str, Any]:
    """The MCP servers around the agent, and what is wrong with their file."""
    names, programs = offers.pop("mcp_servers", ()), offers.pop("mcp_programs", {})
    config = McpConfig(
        {
            name: McpServer(name, "stdio", command=programs[name])
            if name in programs
            else McpServer(name, "http")
            for name in names
        }
    )
    findings: tuple[Finding, ...] = ()
    if "mcp_json" in offers:
        (place / "mcp.json").write_text(offers.pop("mcp_json"), encoding="utf-8")
        config, findings = read_mcp_config(place)
    config = replace(config, filter=offers.pop("mcp_tools", {}))
    aliases = offers.pop("mcp_aliases", {})
    return {"mcp": config.with_aliases(aliases), "mcp_findings": findings}


def text(finding: Finding, directory: Path, with_hint: set[str]) -> str:
    """A finding as it is printed, without its file, and without a hint nobody asked for."""
    printed = str(finding).removeprefix(f"{finding.file}:")
    printed = printed.replace(str(directory), "$DIR").replace(str(directory.parent), "$DIR/..")
    printed = printed.replace(str(directory.parent.parent), "$DIR/../..")
    first = printed.partition("\n")[0]
    return printed if first in with_hint else first
