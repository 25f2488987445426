"""Replies of a model that leads other agents; it takes their ids from the results it got.

converses(server, "Lead", spawns("Dig.", "Plant."), collects_all, says("Done."))
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.model_server import Reply, Request, calls


def spawns(*prompts: str, agent: str = "worker") -> Reply:
    """Return a reply that starts an agent for each prompt."""
    return calls(*(("agent__spawn", {"agent": agent, "prompt": text}) for text in prompts))


def collects_all(request: Request) -> Reply:
    """Return a reply that collects every agent that was started and is still listed."""
    return calls(*(("agent__collect", {"id": name}) for name in agents_in(request)))


def does(function: str, place: int = 0) -> Callable[[Request], Reply]:
    """Make a reply that calls a function on one of the listed agents."""
    return lambda request: calls((function, {"id": agents_in(request)[place]}))


def replies(text: str, function: str = "agent__reply_escalation") -> Callable[[Request], Reply]:
    """Make a reply that answers the only question in the latest result."""

    def reply(request: Request) -> Reply:
        (escalation,) = _pending(request)
        name = escalation["escalation_id"]
        return calls((function, {"escalation_id": name, "reply": text}))

    return reply


def _pending(request: Request) -> list[dict[str, Any]]:
    """Return the open questions in the latest result."""
    found: list[dict[str, Any]] = []
    for message in request.messages:
        if message["role"] == "tool" and message["content"].startswith("{"):
            found = json.loads(message["content"]).get("pending_escalations", found)
    return found


def agents_in(request: Request) -> list[str]:
    """Return the ids of agents that the conversation has started and that are still listed."""
    names: dict[str, None] = {}
    asked = {
        call["id"]: call["function"]
        for message in request.messages
        for call in message.get("tool_calls") or ()
    }
    for message in request.messages:
        if message["role"] != "tool" or not message["content"].startswith("{"):
            continue
        result, function = json.loads(message["content"]), asked[message["tool_call_id"]]
        if function["name"] == "agent__spawn" and result.get("status") == "ok":
            names[result["id"]] = None
        elif _takes_off(function["name"], result):
            names.pop(json.loads(function["arguments"])["id"], None)
        for started in result.get("auto_dispatched", ()):
            if started["status"] == "ok":
                names[started["id"]] = None
    return list(names)


def _takes_off(function: str, result: dict[str, Any]) -> bool:
    return result.get("status") == "completed" or (
        function == "agent__cancel" and result.get("status") == "ok"
    )
