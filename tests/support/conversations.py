"""Conversations of several turns with the scripted model server, any number of them concurrently.

converses(server, "Water the plants", calls(("water", {"litres": 2})), says("Done."))
...
assert results(server, "Water the plants") == ["DONE"]
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.support.model_server import Answer, ModelServer, Request


def converses(server: ModelServer, text: str, *replies: Answer) -> None:
    """Script the turns of every conversation whose messages contain a text."""
    for turn, reply in enumerate(replies, 1):
        server.when(partial(_is_turn, text, turn), reply)


def turn_of(request: Request) -> int:
    """Return the number of the turn that a request asks for, from 1."""
    return 1 + sum(message["role"] == "assistant" for message in request.messages)


def results(server: ModelServer, text: str) -> list[Any]:
    """Return the results of calls, as the model gets them, in the latest matching conversation."""
    request = next(each for each in reversed(server.requests) if text in each.text)
    return [message["content"] for message in request.messages if message["role"] == "tool"]


def _is_turn(text: str, turn: int, request: Request) -> bool:
    return turn_of(request) == turn and text in request.text
