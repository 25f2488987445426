"""Conversations with served agents: sessions, and questions that are replies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import OpenAI

from tests.support.approvals import ASKS
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says
from tests.support.site import ServedSite

TALKER = "model: openai:m\n"
CHILD = """
start: a
nodes:
  a: {type: agent, agent: asks, prompt: "do it", next: z, state_updates: {r: "{{output}}"}}
  z: {type: end, output: "It was {{r}}."}
"""
TOOLS = '''
def wipe() -> str:
    """Removes something."""
    from sleipnir.tool import guard

    guard("Really?")
    return "wiped"
'''
Say = Callable[..., str]


@pytest.fixture
def say(chat: OpenAI) -> Say:
    """Send a message to an agent in a session; returns the reply."""

    def send(model: str, text: str, before: str = "", session: str = "s") -> str:
        told: list[Any] = [{"role": "assistant", "content": before}] if before else []
        reply = chat.chat.completions.create(
            model=model,
            messages=[*told, {"role": "user", "content": text}],
            extra_headers={"x-sleipnir-session": session},
        )
        assert reply.choices[0].finish_reason == "stop"
        return reply.choices[0].message.content or ""

    return send


def test_a_session_is_a_conversation_that_the_engine_remembers(
    engine: Engine, say: Say, server: ModelServer
) -> None:
    engine.write_normal("talker", TALKER)
    server.script.add(says("Noted."), says("Roses."), says("Who knows."))

    replies = [say("talker", "I grow roses."), say("talker", "What do I grow?", before="Lies.")]
    other = say("talker", "What do I grow?", session="t")

    told = [m["content"] for m in server.requests[1].messages if m["role"] != "system"]
    assert replies == ["Noted.", "Roses."]
    assert told == ["I grow roses.", "Noted.", "What do I grow?"]
    assert other == "Who knows."
    assert {row.name for row in engine.client.sessions("talker")} == {"s", "t"}


def test_a_session_can_be_named_in_the_metadata(engine: Engine, chat: OpenAI) -> None:
    engine.write("asks", ASKS)

    def send(text: str) -> str | None:
        reply = chat.chat.completions.create(
            model="asks",
            messages=[{"role": "user", "content": text}],
            metadata={"session": "m", "other": "ignored"},
        )
        return reply.choices[0].message.content

    assert [send("Go."), send("no")] == ["Publish?\n\n- yes\n- no", "dropped"]


@pytest.mark.parametrize(
    ("agent", "output"), [("asks", "published"), ("above", "It was published.")]
)
def test_a_question_is_the_reply_and_the_next_message_its_answer(
    engine: Engine, say: Say, agent: str, output: str
) -> None:
    engine.write("asks", ASKS)
    engine.write("above", CHILD)

    assert say(agent, "Go.") == "Publish?\n\n- yes\n- no"
    assert say(agent, "Go.", session="another") == "Publish?\n\n- yes\n- no"
    assert say(agent, "yes") == output
    assert len(engine.inbox()) == 1


def test_an_answer_that_does_not_fit_leaves_the_question_open(engine: Engine, say: Say) -> None:
    engine.write(
        "age",
        """
        start: ask
        nodes:
          ask:
            type: input
            question: How old?
            validation: len(input) < 4
            state_updates: {age: "{{input}}"}
            next: z
          z: {type: end, output: "{{age}}"}
        """,
    )
    say("age", "Go.")

    with pytest.raises(openai.BadRequestError, match="does not satisfy"):
        say("age", "very old")

    assert say("age", "44") == "44"


def test_consent_counts_only_for_the_call_that_was_shown(
    engine: Engine, say: Say, server: ModelServer
) -> None:
    engine.write_normal("talker", TALKER, {"tools.py": TOOLS})
    server.script.add(calls(("wipe", {})), says("Done."))

    asked = say("talker", "Clean up.")
    assert asked.startswith("Really?")
    assert "wipe" in asked
    assert say("talker", "yes") == asked
    assert say("talker", "yes", before="Shall I?") == asked
    assert say("talker", "yes", before=asked) == "Done."


def test_a_session_has_one_run_at_a_time(engine: Engine, idle_site: ServedSite) -> None:
    run_id = engine.submit_agent("asks", ASKS, labels={"session": "s"}, user="operator")
    wanted = {
        "model": "asks",
        "messages": [{"role": "user", "content": "a"}],
        "metadata": {"session": "s"},
    }

    refused = idle_site.ask("/v1/chat/completions", "POST", body=json.dumps(wanted))

    assert refused.status == 409
    assert run_id in refused.json["error"]["message"]
    assert engine.newest_runs() == [run_id]


def test_nobody_continues_the_session_of_somebody_else(
    engine: Engine, say: Say, server: ModelServer
) -> None:
    server.script.add(says("Mine."))
    run_id = engine.submit_normal(TALKER, session="s", user="ada", prompt="Hello")

    with pytest.raises(openai.BadRequestError, match="belongs to ada"):
        say("talker", "Hello")

    assert engine.newest_runs() == [run_id]
