"""A worker whose `script` nodes run in its own process, to measure the engine and not bash."""

from __future__ import annotations

import sys

from sleipnir.graphs.schema import ScriptNode
from sleipnir.scheduler.periodic import pause
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.worker.bench.agents import PAUSES_MS, TALKER
from sleipnir.worker.executors import EXECUTORS
from sleipnir.worker.llm import models
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import ModelRequest, Reply
from sleipnir.worker.process import main
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote


def run_nothing(visit: Visit[ScriptNode]) -> Outcome:
    """Write one small value, go on."""
    if pause_ms := PAUSES_MS.get(visit.node.script):
        pause(pause_ms / 1000)
    return Wrote({"output": visit.item_index}, visit.node.targets)


class PlayedModels(models.Models):
    """Models as they are, but for those of talkers: these reply at once, here."""

    def ask(self, request: ModelRequest, caller: Caller, timeout_s: float | None) -> Reply:
        if not request.model.startswith(TALKER):
            return super().ask(request, caller, timeout_s)
        turn = 1 + sum(message["role"] == "assistant" for message in request.messages)
        if turn == int(request.model.removeprefix(TALKER)):
            return Reply({"role": "assistant", "content": "Done."}, NO_USAGE)
        function = {"name": "todo__list", "arguments": f'{{"turn": {turn}}}'}
        call = {"id": f"call-{turn}", "type": "function", "function": function}
        return Reply({"role": "assistant", "content": None, "tool_calls": [call]}, NO_USAGE)


if __name__ == "__main__":
    EXECUTORS["script"] = run_nothing
    models.Models = PlayedModels  # type: ignore[misc]
    sys.exit(main())
