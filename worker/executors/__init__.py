"""Node type → the function that executes it: a visit in, an outcome out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sleipnir.worker.executors.agent import run_agent
from sleipnir.worker.executors.approval import run_approval
from sleipnir.worker.executors.build import run_build
from sleipnir.worker.executors.end import run_end
from sleipnir.worker.executors.input import run_input
from sleipnir.worker.executors.llm import run_llm
from sleipnir.worker.executors.map import run_map
from sleipnir.worker.executors.rag import run_rag
from sleipnir.worker.executors.script import run_script
from sleipnir.worker.executors.turn import run_turn
from sleipnir.worker.visit.outcome import Outcome

EXECUTORS: dict[str, Callable[[Any], Outcome]] = {
    "agent": run_agent,
    "approval": run_approval,
    "build": run_build,
    "end": run_end,
    "input": run_input,
    "llm": run_llm,
    "map": run_map,
    "rag": run_rag,
    "script": run_script,
    "turn": run_turn,  # no node of the language: what normal agents consist of
}
