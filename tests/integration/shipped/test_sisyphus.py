"""`sisyphus` leads a job: two agents look at once, a third writes, and a failed build is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.conversations import converses
from tests.support.engine import Engine
from tests.support.git_repository import GitRepository
from tests.support.model_server import ModelServer, calls, says
from tests.support.shipped import Shipped, told
from tests.support.supervising import collects_all, replies

REQUEST = "Greetings and farewells should end with a stop."
TEST = """\
import unittest

from farewell import part
from greeting import greet


class Stops(unittest.TestCase):
    def test_both_end_with_a_stop(self):
        self.assertEqual((greet("Ann"), part("Ann")), ("Hello Ann.", "Bye Ann."))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    repository = GitRepository(tmp_path / "project")
    repository.commit(
        {
            "requirements.txt": "",
            "greeting.py": 'def greet(name):\n    return "Hello " + name\n',
            "farewell.py": 'def part(name):\n    return "Bye " + name\n',
            "test_stops.py": TEST,
        }
    )
    return repository.directory


def spawn(agent: str, prompt: str) -> tuple[str, dict[str, str]]:
    return "agent__spawn", {"agent": agent, "prompt": prompt}


def write(path: str, content: str) -> tuple[str, dict[str, str]]:
    return "write_file", {"path": path, "content": content}


def leads(server: ModelServer) -> None:
    """The lead's side: it believes nobody, and has what fails mended."""
    converses(
        server,
        REQUEST,
        calls(("todo__init", {"goal": "stops"}), ("todo__add", {"task": "verify"})),
        calls(spawn("explore", "Find both."), spawn("oracle", "Stop or exclamation mark?")),
        collects_all,
        replies("A person's name comes last."),
        calls(("agent__list", {})),
        collects_all,
        calls(spawn("coder", "GOAL: both end with a stop.")),
        collects_all,
        calls(("run_build", {}), ("run_tests", {})),
        calls(spawn("coder", "GOAL: farewell.py compiles.")),
        collects_all,
        calls(("run_build", {}), ("run_tests", {}), ("todo__done", {"id": 1})),
        says("Both end with a stop; 1 test passes."),
    )


def look(server: ModelServer) -> None:
    """Those who only read: one of them has a question."""
    converses(
        server,
        "Find both.",
        calls(("search_content", {"pattern": "def "})),
        calls(("read_file", {"path": "greeting.py"})),
        calls(("read_file", {"path": "farewell.py"})),
        says("EXPLORE_COMPLETE"),
    )
    converses(
        server,
        "Stop or exclamation",
        calls(("user__input", {"question": "What comes last?"})),
        calls(("project_info", {})),
        says("A stop.\nORACLE_COMPLETE"),
    )


def change(server: ModelServer) -> None:
    """Two coders: what the first one leaves does not compile."""
    converses(
        server,
        "both end with a stop.",
        calls(
            write("greeting.py", 'def greet(name):\n    return "Hello " + name + "."\n'),
            write("farewell.py", 'def part(name):\n    return "Bye " + name + "."" \n'),
        ),
        says("CODER_COMPLETE: two files; not built"),
    )
    converses(
        server,
        "farewell.py compiles.",
        calls(
            write("farewell.py", 'def part(name):\n    return "Bye " + name + "."\n'),
            ("verify_build", {}),
            ("run_tests", {}),
        ),
        says("CODER_COMPLETE: farewell.py; tests pass"),
    )


def test_a_job_is_explored_thought_over_written_and_verified(
    engine: Engine, server: ModelServer, project: Path
) -> None:
    shipped = Shipped(engine)
    leads(server)
    look(server)
    change(server)

    run_id = shipped.submit("sisyphus", REQUEST, workdir=str(project))
    run = shipped.go_on(run_id)

    assert (run.status, run.output) == ("succeeded", "Both end with a stop; 1 test passes.")
    children = engine.queries.children(run_id)
    assert sorted(child.agent for child in children) == ["coder", "coder", "explore", "oracle"]
    built = [text for text in told(server, REQUEST) if str(text).startswith("$ python")]
    endings = [text.splitlines()[-1].partition(" with")[0] for text in built]
    assert endings == ["FAILED", "FAILED", "OK", "OK"]
    assert "SyntaxError" in built[0]
    assert_was_asked(server)


def assert_was_asked(server: ModelServer) -> None:
    """The oracle's question went up and was answered while both agents were at work."""
    asked = next(each for each in told(server, REQUEST) if "pending_escalations" in each)
    (question,) = asked["pending_escalations"]
    listed = next(each for each in told(server, REQUEST) if "active_count" in each)
    assert question["question"] == "[input] What comes last?"
    assert question["from_agent_name"] == "oracle"
    assert [each["status"] for each in listed["agents"]] == ["running", "running"]
    assert told(server, "Stop or exclamation")[0] == {"answer": "A person's name comes last."}
