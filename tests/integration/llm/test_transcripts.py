"""What models were sent and replied is kept with the run, masked and within its limit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.store.keys import run_key
from tests.support.engine import Clock, Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, says
from tests.support.noise import noise

TOOLS = '''
def look(at: str) -> str:
    """Looks."""
    return f"{at} is red"
'''
GRAPH = """
model: openai:m
variables: [{name: pin, description: A secret., secret: true}]
start: ask
nodes:
  ask:
    type: llm
    instructions: Be brief.
    prompt: "Do {{initial_prompt}}."
    tools: [look]
    max_attempts: 2
    fallback: done
    next: done
  done: {type: end}
"""

MAP = """
model: openai:m
start: each
nodes:
  each: {type: map, over: "{{places}}", as: place, branch: look, collect_into: seen, on_error: skip,
         next: done}
  look: {type: llm, prompt: "Look at {{place}}.", max_attempts: 1}
  done: {type: end}
"""


def finished(engine: Engine, prompt: str = "it") -> str:
    variables = {"pin": "hush-4711"}
    return engine.finish(GRAPH, {"tools.py": TOOLS}, prompt=prompt, variables=variables).run_id


def said(exchange: dict[str, Any]) -> list[tuple[str, Any]]:
    messages = (*exchange["messages"], exchange["reply"])
    return [(message["role"], message.get("content")) for message in messages]


def test_each_message_is_kept_once_in_its_order(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("look", {"at": "the door"})), says("Red."))

    run_id = finished(engine)

    (entry,) = engine.queries.transcripts(run_id)
    assert (entry["step"], entry["node"], entry["index"], entry["attempt"]) == (1, "ask", None, 1)
    assert not entry["failed"]
    first, second = entry["exchanges"]
    assert said(first) == [("system", "Be brief."), ("user", "Do it."), ("assistant", None)]
    assert first["reply"]["tool_calls"][0]["function"]["name"] == "look"
    assert said(second) == [("tool", '{"output":"the door is red"}'), ("assistant", "Red.")]
    assert [each["model"] for each in (first, second)] == ["openai:m"] * 2
    assert second["usage"][:2] == [10, 5]
    assert second["seconds"] >= 0
    assert second["source"] == "model"
    assert_consistent(engine.redis, runs=1)


def test_secrets_are_masked(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("It is hush-4711."))

    run_id = finished(engine, "what hush-4711 opens")

    (entry,) = engine.queries.transcripts(run_id)
    assert "hush-4711" not in json.dumps(entry)
    assert said(entry["exchanges"][0])[1:] == [
        ("user", "Do what *** opens."),
        ("assistant", "It is ***."),
    ]


@pytest.mark.parametrize(
    ("wanted", "attempts"),
    [("all", [(1, True), (2, False)]), ("failed", [(1, True)]), ("none", [])],
)
def test_a_setting_says_which_are_kept(
    engine: Engine, clock: Clock, server: ModelServer, wanted: str, attempts: list[tuple[int, bool]]
) -> None:
    engine.configure(transcripts=wanted)
    server.script.add(calls(("look", {"at": "it"})), says(""), says("Red."))

    run_id = finished(engine)
    clock.move(60)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    kept = [(each["attempt"], each["failed"]) for each in engine.queries.transcripts(run_id)]
    assert kept == attempts


def test_they_take_so_much_and_the_newest_stay(engine: Engine, server: ModelServer) -> None:
    engine.configure(transcript_limit_bytes=64 * 1024)
    server.script.add(says("x" * 500_000))

    run_id = finished(engine)

    (entry,) = engine.queries.transcripts(run_id)
    assert len(json.dumps(entry)) < 64 * 1024
    assert "bytes left out" in entry["exchanges"][0]["reply"]["content"]
    assert engine.redis.pttl(run_key("transcripts", run_id)) > 0


def test_what_failed_stays_however_much_succeeds_later(engine: Engine, server: ModelServer) -> None:
    engine.configure(transcript_limit_bytes=64 * 1024)
    server.script.add(says(""), *(says(noise(20_000, n)) for n in range(11)))

    run = engine.finish(MAP, state={"places": list(range(12))})

    kept = {each["index"]: each["failed"] for each in engine.queries.transcripts(run.run_id)}
    assert kept[0] is True
    assert kept[11] is False
    assert 1 not in kept  # it had to make room
    for kind in ("transcripts", "failed_transcripts"):
        assert engine.redis.pttl(run_key(kind, run.run_id)) > 0
    assert_consistent(engine.redis, runs=1)


LONG = """
model: openai:m
start: ask
nodes:
  ask: {type: llm, prompt: Tell me., state_updates: {said: "{{output}}"}, next: done}
  done: {type: end}
"""


def stored(engine: Engine, kind: str, run_id: str) -> bytes:
    """Return what Redis holds of a part of a run."""
    execute: Any = engine.redis.execute_command
    return b"\n".join(execute("LRANGE", run_key(kind, run_id), 0, -1, NEVER_DECODE=True))


def test_a_long_reply_is_packed_and_in_the_log_by_its_place_in_the_transcript(
    engine: Engine, server: ModelServer
) -> None:
    text = "A long story. " * 200
    server.script.add(says(text))

    run_id = engine.finish(LONG).run_id

    (entry,) = engine.queries.transcripts(run_id)
    (reply,) = [each for each in engine.queries.logs(run_id) if each["stream"] == "llm"]
    assert entry["exchanges"][0]["reply"]["content"] == text
    assert (reply["text"], "reply" in reply) == (text, False)
    assert engine.queries.history(run_id)[1].writes["said"] == text
    assert all(
        len(stored(engine, kind, run_id)) < 1_000 for kind in ("history", "logs", "transcripts")
    )
    assert_consistent(engine.redis, runs=1)


@pytest.mark.parametrize("transcripts", ["failed", "none"])
def test_a_reply_that_no_transcript_has_is_in_the_log_itself(
    engine: Engine, server: ModelServer, transcripts: str
) -> None:
    engine.configure(transcripts=transcripts)
    server.script.add(says("A long story. " * 200))

    run_id = engine.finish(LONG).run_id

    assert engine.queries.transcripts(run_id) == []
    assert engine.queries.logs(run_id)[0]["text"] == "A long story. " * 200


def test_the_log_says_so_of_a_reply_whose_transcript_was_dropped(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("A long story. " * 200))
    run_id = engine.finish(LONG).run_id

    engine.redis.delete(run_key("transcripts", run_id))

    assert engine.queries.logs(run_id)[0]["text"] == "[no longer kept (transcript_limit_bytes)]"
