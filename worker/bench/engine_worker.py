"""A worker whose `script` nodes run in its own process, to measure the engine and not bash."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from sleipnir.graphs.schema import ScriptNode
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.bench.agents import (
    ASKING,
    AT_ONCE,
    DECIDES,
    FOLLOWER,
    LEADER,
    PAUSES_MS,
    TALKER,
    TELLING,
    english,
)
from sleipnir.worker.executors import EXECUTORS
from sleipnir.worker.executors.script import run_script
from sleipnir.worker.llm import models
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.chain import NO_FAILURES, Failures
from sleipnir.worker.llm.client import Message, ModelRequest, Reply
from sleipnir.worker.process.main import main
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote


def run_nothing(visit: Visit[ScriptNode]) -> Outcome:
    """Write one small value and go on; only the script that decides is run."""
    if visit.node.script == DECIDES:
        return run_script(visit)
    if pause_ms := PAUSES_MS.get(visit.node.script):
        pause(pause_ms / 1000)
    return Wrote({"output": visit.item_index})


_QUESTION = ("user__ask", {"question": "Which one?", "options": ["This one.", "That one."]})


class PlayedModels(models.Models):
    """The models, except that the benchmark's own reply at once, without a server."""

    def ask(
        self,
        request: ModelRequest,
        caller: Caller,
        timeout_s: float | None,
        failed: Failures = NO_FAILURES,
    ) -> Reply:
        if request.model.startswith(TALKER):
            last = int(request.model.removeprefix(TALKER))
            turn = len(request.messages) // 2  # each turn has added a call and its result
            return _calls(*(("todo__list", {"turn": turn}),) if turn < last else ())
        if request.model.startswith(ASKING):
            last = int(request.model.removeprefix(ASKING))
            turn = len(request.messages) // 2
            return _calls(("todo__list", {}) if turn < last else _QUESTION)
        if request.model.startswith(TELLING):
            start = crc32(request.messages[-1]["content"].encode()) % 400_000  # another text each
            text = english(start, int(request.model.removeprefix(TELLING)))
            return Reply({"role": "assistant", "content": text}, NO_USAGE)
        if request.model.startswith(LEADER):
            turn = 1 + sum(message["role"] == "assistant" for message in request.messages)
            return _led(request.messages, int(request.model.removeprefix(LEADER)), turn)
        return super().ask(request, caller, timeout_s, failed)


def _led(messages: Sequence[Message], count: int, turn: int) -> Reply:
    """Start agents, `AT_ONCE` per turn, collect them at the same pace, then stop."""
    starting = -(-count // AT_ONCE)
    first = (turn - 1) % starting * AT_ONCE
    if turn <= starting:
        numbers = range(first, min(first + AT_ONCE, count))
        orders = ({"agent": FOLLOWER, "prompt": str(number)} for number in numbers)
        return _calls(*(("agent__spawn", order) for order in orders))
    if turn > 2 * starting:
        return _calls()
    started = [message["content"] for message in messages if message["role"] == "tool"]
    ids = (json.loads(result)["id"] for result in started[first : first + AT_ONCE])
    return _calls(*(("agent__collect", {"id": name}) for name in ids))


def _calls(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """Return a reply that calls functions, or one that says it is done."""
    if not calls:
        return Reply({"role": "assistant", "content": "Done."}, NO_USAGE)
    made = [
        {
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    return Reply({"role": "assistant", "content": None, "tool_calls": made}, NO_USAGE)


if __name__ == "__main__":
    EXECUTORS["script"] = run_nothing
    models.Models = PlayedModels  # type: ignore[misc]
    sys.exit(main())
