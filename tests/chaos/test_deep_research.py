"""`deep-research` loses its only worker in the map, in its child run, and while it waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import deep_research
from tests.support.deep_research import QUESTIONS, REPORT, TOPIC
from tests.support.model_server import HANGS, ModelServer, calls, says
from tests.support.services import Fleet
from tests.support.wait import wait_until
from tests.support.web_server import WebServer

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Hangs once over the second question, and once over the report."""
    asked = QUESTIONS[1]
    with ModelServer() as server:
        opened = calls(("fetch_url_via_curl", {"url": asked.source.url}))
        found = says(asked.source.finding)
        server.when(f"Question: {asked.text}", opened, HANGS, found)
        server.when("You are a research editor", HANGS, says(REPORT))
        deep_research.play(server)
        yield server


def test_a_run_ends_as_if_no_worker_had_been_lost(server: ModelServer, tmp_path: Path) -> None:
    with WebServer(deep_research.pages()) as web, Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment |= {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "sk-12345",
            "SLEIPNIR_MODEL": "openai:m",
            "SLEIPNIR_RAG_EMBEDDING_MODEL": "none",
            **deep_research.environment(web),
        }
        fleet.start_scheduler()
        worker = fleet.start_worker()
        run_id = fleet.sleipnir("submit", "deep-research", TOPIC).stdout.strip()

        for role, requests in ((f"Question: {QUESTIONS[1].text}", 2), ("a research editor", 1)):
            wait_until(lambda role=role, n=requests: _asked(server, role) == n, f"asked: {role}")
            worker.kill()
            worker = fleet.start_worker()
        wait_until(lambda: fleet.sleipnir.json("show", run_id)["status"] == "waiting", "a question")
        worker.kill()
        fleet.sleipnir("answer", run_id, "accept")
        fleet.start_worker()
        wait_until(lambda: fleet.sleipnir.json("show", run_id)["status"] == "succeeded", "the end")

        shown = fleet.sleipnir.json("show", run_id)
        state = fleet.sleipnir.json("state", run_id)
    assert shown["output"] == REPORT
    assert state["question_findings"] == [each.source.finding for each in QUESTIONS]
    assert state["research_attempts"] == 0
    # What was asked for again is what was under way, and nothing else.
    repeated = [_asked(server, f"Question: {each.text}") - 2 for each in QUESTIONS]
    assert repeated[1] == 1
    assert max(repeated) == 1
    assert _asked(server, "a research editor") == 2


def _asked(server: ModelServer, role: str) -> int:
    return sum(role in request.text for request in server.requests)
