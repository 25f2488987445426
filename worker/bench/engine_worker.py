"""A worker whose `script` nodes run in its own process, to measure the engine and not bash."""

from __future__ import annotations

import sys

from sleipnir.graphs.schema import ScriptNode
from sleipnir.scheduler.periodic import pause
from sleipnir.worker.bench.agents import PAUSES_MS
from sleipnir.worker.executors import EXECUTORS
from sleipnir.worker.process import main
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote


def run_nothing(visit: Visit[ScriptNode]) -> Outcome:
    """Write one small value, go on."""
    if pause_ms := PAUSES_MS.get(visit.node.script):
        pause(pause_ms / 1000)
    return Wrote({"output": visit.item_index}, visit.node.targets)


if __name__ == "__main__":
    EXECUTORS["script"] = run_nothing
    sys.exit(main())
