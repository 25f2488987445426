"""What the examples in the READMEs of the shipped agents need: files, a database, scripted models.

Each agent's example is executed as written, below one directory that `make_world` fills. The
models' replies are scripted here; the expected output is in the README.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from sleipnir.graphs.document.references import SHIPPED_AGENTS
from tests.support.conversations import converses
from tests.support.git_repository import GitRepository
from tests.support.mcp import ROOT
from tests.support.model_server import ModelServer, Reply, calls, says
from tests.support.supervising import collects_all

_EXAMPLE = re.compile(r"^```sh\n([^`]+)^```\n\n```text\n(.+?)^```$", re.MULTILINE | re.DOTALL)
GREETING = 'def greet(name):\n    return "Hello " + name\n'
TEST = """\
import unittest

from farewell import part
from greeting import greet


class Names(unittest.TestCase):
    def test_a_greeting_names_somebody(self):
        self.assertIn("Ann", greet("Ann"))

    def test_a_farewell_names_somebody(self):
        self.assertIn("Ann", part("Ann"))
"""
FINDINGS = "Turbines need currents above 2 m/s (https://sea.gov.example/tides).\n"
STOPS = {
    "greeting.py": 'def greet(name):\n    return "Hello " + name + "."\n',
    "farewell.py": 'def part(name):\n    return "Bye " + name + "."\n',
}


def readme(agent: str) -> str:
    return (SHIPPED_AGENTS / agent / "README.md").read_text(encoding="utf-8")


def example(agent: str) -> tuple[str, str]:
    """Return the commands of an agent's example, and what they print."""
    found: list[tuple[str, str]] = _EXAMPLE.findall(readme(agent))
    return found[0]


def make_world(directory: Path) -> None:
    """Create what the examples work on: a git project, a database, findings."""
    project = GitRepository(directory / "my-project")
    files = {"requirements.txt": "", "test_endings.py": TEST, "greeting.py": ""}
    project.commit({**files, "farewell.py": 'def part(name):\n    return "Bye " + name\n'})
    project.commit({"greeting.py": GREETING})
    (directory / "findings.md").write_text(FINDINGS)
    with sqlite3.connect(directory / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (customer TEXT, amount INT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [("Ann", 5), ("Bob", 7)])
    shop.close()


def write_mcp_servers(config: Path) -> None:
    """Configure the server that `jira-helper` needs."""
    program = {
        "command": sys.executable,
        "args": ["-m", "tests.support.jira_mcp_server"],
        "env": {"PYTHONPATH": str(ROOT)},
    }
    (config / "functions").mkdir(parents=True)
    servers = {"mcpServers": {"atlassian": program}}
    (config / "functions" / "mcp.json").write_text(json.dumps(servers))


def matches(pattern: str, printed: str) -> bool:
    """Return whether a text is what was printed.

    `…` stands for anything, lines included; as a line of its own, for any lines or none.
    """
    lines = re.escape(pattern.strip()).replace("\\\n", "\n").replace("\n…\n", "\n(?:.*?\n)?")
    return re.fullmatch(lines.replace("…", ".*?"), printed.strip(), re.DOTALL) is not None


def _coder(server: ModelServer) -> None:
    converses(
        server,
        "End greetings with a stop.",
        calls(("search_code", {"pattern": "def greet"})),
        calls(("write_file", {"path": "greeting.py", "content": STOPS["greeting.py"]})),
        calls(("verify_build", {}), ("run_tests", {})),
        says("Greetings end with a stop.\nCODER_COMPLETE: greeting.py; build and tests pass"),
    )


def _code_reviewer(server: ModelServer) -> None:
    finding = "[warning] lines 1-2\nA name of None ends in an error.\nSay what happens then."
    converses(
        server,
        "Review the last commit.",
        calls(("changed_files", {})),
        calls(("get_diff", {"paths": ["greeting.py"]})),
        _spawn("file-reviewer", "Review `greeting.py`."),
        collects_all,
        says(
            "# Review\n## Walkthrough\nA function makes greetings.\n## Files\n"
            "| file | added | removed | what | findings |\n|---|---|---|---|---|\n"
            "| `greeting.py` | 2 | 0 | greet() is new | 1 warning |\n"
            f"## Findings\n`greeting.py` {finding}\n"
            "## Cross-file concerns\nnone\n## Totals\n1 file; 1 warning"
        ),
    )
    converses(
        server,
        "Review `greeting.py`.",
        calls(("fs_grep", {"pattern": "greet", "path": "."})),
        says(f"## File\n`greeting.py`\n## Findings\n{finding}\nREVIEW_COMPLETE"),
    )


def _demo(server: ModelServer) -> None:
    converses(
        server,
        "What time is it?",
        calls(("get_current_time", {})),
        lambda request: says(f"It is {json.loads(request.prompt)['output']}, Ann."),
    )


def _explore(server: ModelServer) -> None:
    converses(
        server,
        "Where are greetings made?",
        calls(("search_content", {"pattern": "Hello"})),
        calls(("read_file", {"path": "greeting.py"})),
        says(
            "FINDINGS:\n- greet() joins the word and the name (`greeting.py:2`)\n"
            "FILES:\n- `greeting.py`: the only place\nEXPLORE_COMPLETE"
        ),
    )


def _file_reviewer(server: ModelServer) -> None:
    converses(
        server,
        "+++ b/greeting.py",
        calls(("fs_grep", {"pattern": "greet", "path": "."})),
        says(
            "## File\n`greeting.py`\n## Summary\nA function makes greetings.\n## Findings\n"
            "[warning] lines 1-2\nA name of None ends in an error.\nSay what happens then.\n"
            "## Cross-file concerns\nnone\nREVIEW_COMPLETE"
        ),
    )


def _jira_helper(server: ModelServer) -> None:
    issue = {"project": "SHOP", "type": "Bug", "title": "Export is empty with a filter"}
    shown = 'Create the bug "Export is empty with a filter" in SHOP, assigned to you?'
    converses(
        server,
        "Create a bug: the export is empty",
        calls(_jira("list_projects")),
        calls(("user__ask", {"question": "Which project?", "options": ["SHOP"]})),
        calls(_jira("search_issues", jql="project = SHOP AND text ~ export"), _jira("who_am_i")),
        calls(("user__confirm", {"question": shown})),
        calls(_jira("create_issue", **issue, assignee="ann")),
        says("Created SHOP-3: Export is empty with a filter"),
    )


def _oracle(server: ModelServer) -> None:
    converses(
        server,
        "Should greetings be a class?",
        calls(("search_code", {"pattern": "greet"})),
        calls(("run_analysis", {"command": "git log --oneline -- greeting.py"})),
        says(
            "## Analysis\nThere is one function of two lines (`greeting.py:1`), and one commit.\n"
            "## Recommendation\nLeave it a function.\n"
            "## Reasoning\nA class would hold no state.\n"
            "## Risks\nNone; a class can be made of it when there is a second kind of greeting.\n"
            "ORACLE_COMPLETE"
        ),
    )


def _report_writer(server: ModelServer) -> None:
    report = (
        "# Tidal power at small harbours\n\n## Summary\nSmall turbines work where currents exceed "
        "2 m/s (https://sea.gov.example/tides).\n\n## Open questions and disagreements\n"
        "What it costs to keep them."
    )
    converses(server, FINDINGS.strip(), says(report))


def _sisyphus(server: ModelServer) -> None:
    converses(
        server,
        "Greetings and farewells should end with a stop.",
        calls(
            _agent("explore", "Find both endings."), _agent("oracle", "Stop or exclamation mark?")
        ),
        collects_all,
        calls(_agent("coder", "GOAL: both end with a stop.")),
        collects_all,
        calls(("run_build", {}), ("run_tests", {})),
        says(
            "Asked: a stop at the end of both. Done: greeting.py, farewell.py (coder).\n"
            "Build: OK. Tests: 2 pass. Decided: a stop, not an exclamation mark (oracle). "
            "Open: nothing."
        ),
    )
    converses(
        server,
        "Find both endings.",
        calls(("search_content", {"pattern": "def "})),
        says("FINDINGS:\n- `greeting.py:2`, `farewell.py:2`\nEXPLORE_COMPLETE"),
    )
    converses(server, "Stop or exclamation mark?", says("A stop.\nORACLE_COMPLETE"))
    converses(
        server,
        "GOAL: both end with a stop.",
        calls(*(("write_file", {"path": name, "content": text}) for name, text in STOPS.items())),
        calls(("verify_build", {}), ("run_tests", {})),
        says("CODER_COMPLETE: greeting.py, farewell.py; build and tests pass"),
    )


def _sql(server: ModelServer) -> None:
    query = "SELECT customer, sum(amount) FROM main.orders GROUP BY customer"
    converses(
        server,
        "Which customers have orders",
        calls(("list_tables", {}), ("describe_table", {"table": "main.orders"})),
        calls(("read_query", {"query": query})),
        says(f"Ann and Bob, for 12 in all.\n\n{query}"),
    )


def _agent(agent: str, prompt: str) -> tuple[str, dict[str, str]]:
    return "agent__spawn", {"agent": agent, "prompt": prompt}


def _spawn(agent: str, prompt: str) -> Reply:
    return calls(_agent(agent, prompt))


def _jira(tool: str, **arguments: str) -> tuple[str, dict[str, object]]:
    return "mcp_invoke_atlassian", {"tool": tool, "arguments": arguments}


# Functions that script the models of an agent's example.
MODELS: Mapping[str, Callable[[ModelServer], None]] = {
    "code-reviewer": _code_reviewer,
    "coder": _coder,
    "demo": _demo,
    "explore": _explore,
    "file-reviewer": _file_reviewer,
    "jira-helper": _jira_helper,
    "oracle": _oracle,
    "report-writer": _report_writer,
    "sisyphus": _sisyphus,
    "sql": _sql,
}
