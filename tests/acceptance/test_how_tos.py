"""The how-tos of the manual, typed in as they stand; and blocks of other pages that are tried."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, Reply, calls, says
from tests.support.pages import blocks_in_order
from tests.support.record_deep_research import REPLAYED_WITH
from tests.support.wait import wait_until


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def sleipnir(tmp_path: Path, model_server: ModelServer) -> Iterator[Sleipnir]:
    """An engine that is up, or each of the commands would start one."""
    command = Sleipnir(
        tmp_path,
        OPENAI_BASE_URL=model_server.base_url,
        OPENAI_API_KEY="sk-only-for-this-test",
        **REPLAYED_WITH,
    )
    with command.up():
        yield command


def typed_in(page: str) -> str:
    """A page as one script."""
    return as_script(blocks_in_order(page))


def as_script(blocks_of_page: Sequence[tuple[str, str]]) -> str:
    """Blocks as one script: commands are typed, differences are applied."""
    texts = [
        f"git apply <<'EOF'\n{text}EOF\n" if language == "diff" else text
        for language, text in blocks_of_page
        if language in ("bash", "diff")
    ]
    return "\n".join(texts)


def test_people_are_asked_as_written(sleipnir: Sleipnir) -> None:
    done = sleipnir.type_in(typed_in("people.md"), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert "does not satisfy len(input) >= 10; the question stays open" in done.stdout
    assert "\nRefused: Four others are away in May.\n" in done.stdout
    assert "\nGranted, but: two weeks of it\n" in done.stdout
    assert '"output":"Refused: There is an audit on Tuesday."' in done.stdout


def test_agents_are_given_knowledge_as_written(
    sleipnir: Sleipnir, model_server: ModelServer
) -> None:
    model_server.when("thirty days of holiday", says("Thirty."))

    done = sleipnir.type_in(typed_in("knowledge.md"), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert "Everybody has thirty days" in done.stdout
    assert re.search(r"^1 .*\./pages/expenses\.md", done.stdout, re.MULTILINE)
    stale, built = done.stdout.split("files have changed since the knowledge base was built")
    assert "expire in March" not in stale
    assert "expire in March" in built
    assert "\nThirty.\n" in done.stdout
    assert "./pages/leave.md" in done.stdout.rpartition("Thirty.")[2]


def test_schedules_are_made_as_the_page_says(sleipnir: Sleipnir) -> None:
    done = sleipnir.type_in(typed_in("schedules.md"), sleipnir.project)

    assert done.returncode == 0, done.stderr
    assert "when       0 9 * * 1-5 Europe/Berlin" in done.stdout
    assert sleipnir("schedule", "list").stdout == ""


def test_hooks_are_made_as_the_page_says(sleipnir: Sleipnir) -> None:
    done = sleipnir.type_in(typed_in("webhooks.md"), sleipnir.project)

    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^whsec_\S{44}$", done.stdout, re.MULTILINE)) == 2
    assert "labels    team=payments" in done.stdout


def test_triggers_are_made_as_the_page_says(sleipnir: Sleipnir) -> None:
    done = sleipnir.type_in(typed_in("triggers.md"), sleipnir.project)

    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^\S{43}$", done.stdout, re.MULTILINE)) == 2
    assert "secrets  two, while one is rotated" in done.stdout
    assert "POST /hooks/issues on the monitor" in done.stdout
    assert sleipnir("trigger", "list").stdout == ""


def test_an_agent_is_used_by_another_as_written(tmp_path: Path, model_server: ModelServer) -> None:
    sleipnir = Sleipnir(
        tmp_path, OPENAI_BASE_URL=model_server.base_url, OPENAI_API_KEY="sk-only-for-this-test"
    )
    arguments = {"prompt": "Dear all", "language": "da"}
    model_server.when("to the Danes", calls(("translate", arguments)), says("Done: Kære alle"))

    with sleipnir.up():
        done = sleipnir.type_in(typed_in("serving.md"), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert "\nDone: Kære alle\n" in done.stdout
    assert re.search(r"^[0-9a-f]{16} +translate ", done.stdout, re.MULTILINE)
    (result,) = (m for m in model_server.requests[1].messages if m["role"] == "tool")
    assert "Dear all, in da" in result["content"]


def test_calls_are_made_at_half_price_as_written(
    sleipnir: Sleipnir, model_server: ModelServer
) -> None:
    done = sleipnir.type_in(typed_in("economy.md"), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert re.search(r"^openai:gpt-4o-mini +3 ", done.stdout, re.MULTILINE)
    wait_until(lambda: model_server.batches.batches, "the batch is sent")
    (batch,) = model_server.batches.batches.values()
    assert len(batch.lines) == 3
    assert not model_server.requests


def sorted_by(request: Any) -> Reply:
    """A model that takes refunds for something else, unless it is told about them."""
    number = int(re.findall(r"(?:order|shop|Order) (\d+)", request.text)[-1])
    kind = number % 8
    topic = "billing" if kind < 3 else "technical" if kind < 6 else "other"
    if kind == 2 and "payments and refunds" not in request.text:
        topic = "other"
    if "payments and refunds" in request.text and number % 50 == 43:
        topic = "other"
    text = json.dumps({"topic": topic, "confidence": 0.9})
    return says(text, prompt_tokens=170 + number % 40, completion_tokens=12)


def test_two_prompts_are_compared_as_written(sleipnir: Sleipnir, model_server: ModelServer) -> None:
    model_server.script.when(lambda request: "Sort this message" in request.text, sorted_by)

    done = sleipnir.type_in(typed_in("better-prompts.md"), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert len(model_server.requests) == 400
    assert told("better-prompts.md", done.stdout) == []
    assert "passed" in (sleipnir.project / "report" / "report.md").read_text()


def test_a_batch_is_planned_and_paid_as_written(
    sleipnir: Sleipnir, model_server: ModelServer
) -> None:
    model_server.script.when(lambda request: "Sort this message" in request.text, sorted_by)

    done = sleipnir.type_in(typed_in("what-it-costs.md"), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert len(model_server.requests) == 200
    assert told("what-it-costs.md", done.stdout) == []


def told(page: str, printed: str) -> list[str]:
    """The lines that a page says were printed, and were not; versions, ids and times differ."""
    lines = {_alike(line) for line in printed.splitlines()}
    shown = (text for language, text in blocks_in_order(page) if language == "text")
    return [line for text in shown for line in text.splitlines() if _alike(line) not in lines]


def _alike(line: str) -> str:
    return re.sub(r"\b[0-9a-f]{8,16}\b|\b[\d.]+ ?s\b", "…", " ".join(line.split()))


def test_a_shipped_agent_is_changed_as_written(sleipnir: Sleipnir) -> None:
    page = blocks_in_order("changing-agents.md")
    (at_terminal,) = (number for number, (language, _) in enumerate(page) if language == "sh")
    done = sleipnir.type_in(as_script(page[:at_terminal]), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert "\nreflexion_gate -> research_each_question (revise)\n" in done.stdout.replace("▸ ", "")
    assert "\n3 passed in " in done.stdout
    assert "weak" in (sleipnir.project / "after.svg").read_text()

    gate = sleipnir.project / "agents" / "my-research" / "scripts" / "reflexion_gate.py"
    once = gate.read_text()
    session = sleipnir.on_terminal_as_written(page[at_terminal][1], TERM="xterm")
    session.wait_for("watching")
    gate.write_text(once.replace("REVISIONS = 1", "REVISIONS = 0"))
    session.wait_for("changed: reflexion_gate; running again")
    session.wait_for("are still weak")
    session.wait_for("2) stop")  # what the keys are typed at
    session.type("\x1b[B\n")
    session.wait_for("watching")
    session.interrupt()
    code, printed = session.end()

    assert code == 0
    assert "was rejected and dropped." in printed

    gate.write_text(once)
    (difference,) = (text for language, text in page if language == "text")
    done = sleipnir.type_in(as_script(page[at_terminal:]), sleipnir.project)

    assert done.returncode == 0, done.stdout
    assert "\n3 passed in " in done.stdout
    assert f"\n{difference}" in done.stdout
