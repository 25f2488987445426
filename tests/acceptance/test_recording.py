"""Recording what models reply, and replaying it: with no model, no key and no network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Sleipnir
from tests.support.model_server import ModelServer, fails, says

KEY = "sk-only-for-this-test"
PARENT = """
model: openai:m
variables:
  - {name: token, description: what nobody may see, secret: true, default: ""}
start: show
nodes:
  show: {type: script, script: show.sh, next: plan}
  plan: {type: llm, prompt: "Plan {{initial_prompt}} with {{seen}}.", next: each,
         state_updates: {plan: "{{output}}"}}
  each: {type: map, over: "{{list}}", as: item, branch: one, collect_into: found, next: child}
  one: {type: llm, prompt: "The same for all."}
  child: {type: agent, agent: writer, prompt: "{{plan}}", next: done,
          state_updates: {text: "{{output}}"}}
  done: {type: end, output: "{{plan}} {{found}} {{text}}"}
"""
SHOW = """\
#!/bin/bash
echo "{\\"seen\\": \\"$LLM_AGENT_VAR_TOKEN\\", \\"list\\": [1, 2]}"
"""
CHILD = """
model: openai:m
start: write
nodes:
  write: {type: llm, prompt: "Write: {{initial_prompt}}", max_attempts: 1, next: done,
          state_updates: {text: "{{output}}"}}
  done: {type: end, output: "{{text}}"}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when("Plan", says(f"the plan, by {KEY}"))
        server.when("The same", says("one"))
        server.when("Write", fails(500, "no ink"))
        yield server


@pytest.fixture(scope="module")
def sleipnir(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[Sleipnir]:
    """An engine whose workers have a key, and a recording of one run in `calls.jsonl`."""
    command = Sleipnir(
        tmp_path_factory.mktemp("recording"), OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY=KEY
    )
    command.write("planner", PARENT, {"show.sh": SHOW})
    command.write("writer", CHILD)
    with command.up():
        yield command


@pytest.fixture(scope="module")
def recorded(sleipnir: Sleipnir) -> str:
    """What the recorded run printed."""
    secret = "swordfish-and-chips"
    done = sleipnir("run", "planner", "it", "--var", f"token={secret}", "--record", "calls.jsonl")
    assert done.returncode == 0, done.stderr
    assert "4 model calls recorded in calls.jsonl" in done.stderr
    return done.stdout


@pytest.fixture
def without_key(tmp_path: Path, sleipnir: Sleipnir) -> Sleipnir:
    """An engine of its own that has no key, and whose models would be nowhere."""
    command = Sleipnir(tmp_path, OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    command.environment.pop("OPENAI_API_KEY", None)
    command.project = sleipnir.project
    return command


def lines(sleipnir: Sleipnir) -> list[dict[str, Any]]:
    text = (sleipnir.project / "calls.jsonl").read_text()
    _, *calls = text.splitlines()  # the first line says what it was made with
    return [json.loads(line) for line in calls]


def test_a_recording_holds_every_call_of_a_run_and_its_children(
    sleipnir: Sleipnir, recorded: str
) -> None:
    calls = lines(sleipnir)

    assert [call["node"] for call in calls] == ["plan", "one", "one", "write"]
    assert calls[0]["reply"]["content"] == "the plan, by ***"
    assert calls[3]["error"] == "HTTP 500: no ink"


def test_no_secret_is_in_a_recording(sleipnir: Sleipnir, recorded: str) -> None:
    text = (sleipnir.project / "calls.jsonl").read_text()

    assert "Plan it with ***." in text
    assert ("swordfish" in text, KEY in text) == (False, False)


def test_a_replayed_run_goes_the_same_way_without_asking_a_model(
    without_key: Sleipnir, server: ModelServer, recorded: str
) -> None:
    asked = len(server.requests)

    replayed = without_key(
        "run", "planner", "it", "--var", "token=another one", "--replay", "calls.jsonl", "--json"
    )

    document = json.loads(replayed.stdout)
    assert replayed.returncode == 0, replayed.stderr
    assert document["output"] == recorded.rstrip("\n").replace(KEY, "***")
    assert document["usage"]["total_tokens"] == document["usage"]["cost_usd"] == 0
    assert len(server.requests) == asked
    assert "(replayed)" in replayed.stderr


def test_a_request_that_was_not_recorded_fails_and_shows_the_nearest_one(
    without_key: Sleipnir, recorded: str
) -> None:
    missed = without_key("run", "planner", "that", "--replay", "calls.jsonl")

    # Its graph goes on, as after any failure of a model; the run was not the recorded one.
    assert missed.returncode == 1
    assert (
        "no recorded reply: node 'plan': this request is not in the recording; the nearest one "
        "differs:\n--- recorded\n+++ asked\n"
    ) in missed.stderr
    assert "\n-Plan it with ***.\n+Plan that with .\n" in missed.stderr


def test_a_batch_is_recorded_and_replayed(
    sleipnir: Sleipnir, without_key: Sleipnir, server: ModelServer
) -> None:
    (sleipnir.project / "prompts.txt").write_text("a\nb\n")
    command = ("batch", "writer", "prompts.txt", "--ordered")

    real = sleipnir(*command, "--record", "batch.jsonl")
    asked = len(server.requests)
    replayed = without_key(*command, "--replay", "batch.jsonl")

    assert "2 model calls recorded in batch.jsonl" in real.stderr
    outputs = [
        [json.loads(line)["output"] for line in done.stdout.splitlines()]
        for done in (real, replayed)
    ]
    assert outputs[0] == outputs[1] == ["LLM node failed: HTTP 500: no ink"] * 2
    assert len(server.requests) == asked


def test_a_batch_that_asks_what_was_not_recorded_exits_with_1(
    sleipnir: Sleipnir, without_key: Sleipnir, recorded: str
) -> None:
    (sleipnir.project / "others.txt").write_text("c\nd\n")

    missed = without_key("batch", "writer", "others.txt", "--replay", "calls.jsonl")

    assert missed.returncode == 1
    assert "no recorded reply in 2 runs, such as: node '" in missed.stderr


def test_a_submitted_run_replays_too(
    sleipnir: Sleipnir, recorded: str, server: ModelServer
) -> None:
    asked = len(server.requests)

    run_id = sleipnir(
        "submit", "planner", "it", "--var", "token=whatever it is", "--replay", "calls.jsonl"
    )

    assert sleipnir("watch", run_id.stdout.strip()).stdout == recorded.replace(KEY, "***")
    assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--replay", "no.jsonl"), 2, "there is no file 'no.jsonl'"),
        (
            ("--replay", "bad.jsonl"),
            2,
            "bad.jsonl:2: this is not a valid recorded call: Expecting",
        ),
        (("--replay", "other.jsonl"), 2, "it has neither a 'reply' nor an 'error'"),
        (("--record", "nowhere/calls.jsonl"), 2, "the directory nowhere does not exist"),
        (
            ("--record", "c.jsonl", "--replay", "bad.jsonl"),
            2,
            "--record cannot be combined with --replay or --detach",
        ),
        (
            ("--record", "c.jsonl", "--detach"),
            2,
            "--record cannot be combined with --replay or --detach",
        ),
    ],
)
def test_what_cannot_be_recorded_or_replayed_is_refused(
    sleipnir: Sleipnir, options: tuple[str, ...], code: int, says: str
) -> None:
    (sleipnir.project / "bad.jsonl").write_text('{"error": "x"}\n{"reply"')
    (sleipnir.project / "other.jsonl").write_text('{"prompt": "x"}\n')

    refused = sleipnir("run", "writer", "x", *options)

    assert (refused.returncode, refused.stdout) == (code, "")
    assert says in " ".join(refused.stderr.split())
