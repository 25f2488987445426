"""A worker whose `script` nodes run in its own process, to measure the engine and not bash."""

from __future__ import annotations

import sys
from threading import Event

from graphs.schema import ScriptNode
from worker.__main__ import main
from worker.bench.agents import PAUSES_MS
from worker.executors import EXECUTORS
from worker.outcome import Outcome, Wrote
from worker.visit import Visit


def run_nothing(visit: Visit[ScriptNode]) -> Outcome:
    """Write one small value, go on."""
    if pause_ms := PAUSES_MS.get(visit.node.script):
        Event().wait(pause_ms / 1000)
    return Wrote({"output": visit.index}, visit.node.targets)


if __name__ == "__main__":
    EXECUTORS["script"] = run_nothing
    sys.exit(main())
