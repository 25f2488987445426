"""The how-tos of the manual, typed in as they stand; and blocks of other pages that are tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, calls, says
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
