"""What models say, while they say it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, says

GRAPH = """
description: Asks a model.
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: hello, next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
TEXT = "first line\nsecond line"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when("hello", says(TEXT, pause_s=0.15))
        yield server


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[Sleipnir]:
    command = Sleipnir(
        tmp_path_factory.mktemp("stream"),
        OPENAI_BASE_URL=server.base_url,
        OPENAI_API_KEY="sk-only-for-this-test",
    )
    command.write("asking", GRAPH)
    with command.up():
        yield command


def test_a_reply_is_shown_as_it_comes_and_then_counts_as_any(
    sleipnir: Sleipnir, server: ModelServer
) -> None:
    ran = sleipnir("run", "asking", "--stream")

    assert ran.stdout == f"{TEXT}\n"
    lines = ran.stderr.splitlines()
    call = lines.index("▸   llm call: model=openai:m tools=<none>")
    assert lines[call + 1 : call + 3] == ["▸   ask: first line", "second line"]
    assert lines[call + 3] == "▸ ask -> done"
    assert server.requests[-1].body["stream"] is True


def test_nobody_is_told_again(sleipnir: Sleipnir) -> None:
    sleipnir("run", "asking", "--stream")
    run_id = sleipnir.json("ps", "--limit", "1")["run_id"]

    watched = sleipnir("watch", run_id)

    assert "second line" not in watched.stderr
    assert watched.stdout == f"{TEXT}\n"


def test_without_a_terminal_replies_come_whole(sleipnir: Sleipnir, server: ModelServer) -> None:
    ran = sleipnir("run", "asking")

    assert "second line" not in ran.stderr
    assert "stream" not in server.requests[-1].body


def test_on_a_terminal_replies_are_shown_as_they_come(sleipnir: Sleipnir) -> None:
    terminal = sleipnir.on_terminal("run", "asking")

    terminal.wait_for("ask: ")
    # Each piece is dimmed by itself.
    terminal.wait_for("second ")
    terminal.wait_for("ask -> done")

    assert terminal.end() == (0, f"{TEXT}\n")


def test_somebody_else_may_watch_it_come(sleipnir: Sleipnir, server: ModelServer) -> None:
    # It would take minutes; the end of the run breaks it off.
    server.when("slowly", says("on and " * 1_000, pause_s=0.3))
    sleipnir.write("slow", GRAPH.replace("hello", "slowly"))
    runner = sleipnir.start("run", "slow", "--stream")
    assert runner.stderr is not None
    while "llm call" not in runner.stderr.readline():
        pass
    run_id = sleipnir.json("ps", "--agent", "slow", "--limit", "1")["run_id"]

    watcher = sleipnir.on_terminal("watch", run_id)
    watcher.wait_for("ask: ")
    watcher.wait_for("and ")

    sleipnir("cancel", run_id)
    assert watcher.end() == (5, "")
    runner.communicate()
