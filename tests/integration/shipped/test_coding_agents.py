"""`coder`, `explore` and `oracle` in a project that the test makes, their models scripted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.conversations import converses
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says
from tests.support.shipped import Shipped, told

GREETING = 'def greet(name):\n    return "Hello " + name\n'
TEST = """\
import unittest

from greeting import greet


class Greeting(unittest.TestCase):
    def test_it_ends_with_a_stop(self):
        self.assertEqual(greet("Ann"), "Hello Ann.")
"""
PATCH = """\
@@ -1,2 +1,2 @@
 def greet(name):
-    return "Hello " + name
+    return "Hello " + name + "."
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A Python project under git, one of whose tests fails."""
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "requirements.txt").touch()
    (directory / "greeting.py").write_text(GREETING)
    (directory / "test_greeting.py").write_text(TEST)
    (directory / "farewell.py").write_text('def part(name):\n    return "Bye " + name\n')
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-qm", "Begin")):
        subprocess.run(["git", *command], cwd=directory, check=True)
    return directory


@pytest.fixture
def shipped(engine: Engine, server: ModelServer) -> Shipped:
    return Shipped(engine)


def test_the_coder_changes_a_file_and_runs_the_tests(
    shipped: Shipped, server: ModelServer, project: Path
) -> None:
    done = "Greetings end with a stop.\nCODER_COMPLETE: greeting.py; tests pass"
    converses(
        server,
        "End greetings with a stop",
        calls(
            ("project_structure", {}),
            ("search_code", {"pattern": "def greet", "include": "*.py"}),
            ("find_similar", {"path": "greeting.py"}),
            ("read_file", {"path": "greeting.py"}),
            ("run_tests", {}),
        ),
        calls(
            ("fs_patch", {"path": "greeting.py", "content": PATCH}),
            ("write_file", {"path": "notes/stop.md", "content": "Stops.\n"}),
            ("write_file", {"path": "../outside.md", "content": ""}),
            ("verify_build", {}),
            ("run_tests", {}),
        ),
        says(done),
    )

    run = shipped.finish("coder", "End greetings with a stop.", workdir=str(project))

    assert (run.status, run.output) == ("succeeded", done)
    tree, hits, similar, text, failing, *after = told(server, "End greetings")
    assert tree == "project/\n  farewell.py\n  greeting.py\n  requirements.txt\n  test_greeting.py"
    assert hits == "greeting.py:1:def greet(name):"
    assert similar == "farewell.py\ntest_greeting.py"
    assert text.startswith("1: def greet(name):")
    assert failing.startswith("$ python3 -m unittest discover\n")
    assert "AssertionError" in failing
    assert failing.endswith("\nFAILED with exit status 1")
    patched, wrote, refused, verified, passing = after
    assert (patched, wrote) == (
        "Changed greeting.py: 1 hunk applied",
        "Wrote 7 bytes to notes/stop.md",
    )
    assert "outside the project" in refused
    assert verified.endswith("\nOK")
    assert passing.endswith("\nOK")
    assert 'name + "."' in (project / "greeting.py").read_text()
    assert (project / "notes" / "stop.md").read_text() == "Stops.\n"


def test_the_coder_asks_before_it_overwrites_where_somebody_wants_that(
    shipped: Shipped, server: ModelServer, project: Path
) -> None:
    write = calls(("write_file", {"path": "greeting.py", "content": "x"}))
    converses(server, "Empty it", write, says("CODER_FAILED: declined"))

    run_id = shipped.submit(
        "coder", "Empty it.", workdir=str(project), variables={"auto_confirm": ""}
    )
    shipped.go_on(run_id)
    assert shipped.question() == f"overwrite {project}/greeting.py?"
    run = shipped.answer(run_id, "no")

    assert run.output == "CODER_FAILED: declined"
    assert (project / "greeting.py").read_text() == GREETING


def test_the_explorer_only_looks(shipped: Shipped, server: ModelServer, project: Path) -> None:
    found = "FINDINGS:\n- Greetings (`greeting.py:1`)\nFILES:\n- `greeting.py`\nEXPLORE_COMPLETE"
    converses(
        server,
        "Where are greetings made?",
        calls(
            ("search_files", {"pattern": "*greet*"}),
            ("search_content", {"pattern": "Hello"}),
            ("read_file", {"path": "greeting.py", "offset": 2}),
            ("read_file", {"path": "/etc/hostname"}),
        ),
        says(found),
    )

    run = shipped.finish("explore", "Where are greetings made?", workdir=str(project))

    assert run.output == found
    files, hits, text, refused = told(server, "Where are greetings made?")
    assert files == "greeting.py\ntest_greeting.py"
    assert hits.splitlines()[0] == 'greeting.py:2:return "Hello " + name'
    assert text == '2:     return "Hello " + name'
    assert "outside the project" in refused
    offered = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
    assert not {name for name in offered if "write" in name or "command" in name}


def test_the_oracle_looks_at_history_and_runs_nothing_that_writes(
    shipped: Shipped, server: ModelServer, project: Path
) -> None:
    advice = "## Analysis\n…\n## Recommendation\n…\n## Reasoning\n…\n## Risks\n…\nORACLE_COMPLETE"
    converses(
        server,
        "Should greetings be a class?",
        calls(
            ("project_info", {}),
            ("list_directory", {}),
            ("run_analysis", {"command": "git log --format='%s' | head -3"}),
            ("run_analysis", {"command": "rm greeting.py"}),
            ("run_analysis", {"command": "ls > greeting.py"}),
        ),
        says(advice),
    )

    run = shipped.finish("oracle", "Should greetings be a class?", workdir=str(project))

    assert run.output == advice
    info, listed, history, *refused = told(server, "Should greetings be a class?")
    assert info["type"] == "python"
    assert "greeting.py" in listed
    assert history == "$ git log --format='%s' | head -3\nBegin\nOK"
    assert all("refused, nothing was run" in each for each in refused)
    assert (project / "greeting.py").read_text() == GREETING
