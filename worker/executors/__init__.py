"""Node type → the function that executes it: takes a visit, returns an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from sleipnir.lazy import lazy_imports
from sleipnir.worker.visit.outcome import Outcome

# Lazy: a worker imports the executors of its agents' node types before their first visits.
with lazy_imports():
    from sleipnir.worker.executors import agent as agents
    from sleipnir.worker.executors import approval as approvals
    from sleipnir.worker.executors import build as builds
    from sleipnir.worker.executors import end as ends
    from sleipnir.worker.executors import input as inputs
    from sleipnir.worker.executors import llm as llms
    from sleipnir.worker.executors import map as maps
    from sleipnir.worker.executors import rag as rags
    from sleipnir.worker.executors import script as scripts
    from sleipnir.worker.executors import set as sets
    from sleipnir.worker.executors import turn as turns

EXECUTORS: dict[str, Callable[[Any], Outcome]] = {
    "agent": lambda visit: agents.run_agent(visit),
    "approval": lambda visit: approvals.run_approval(visit),
    "build": lambda visit: builds.run_build(visit),
    "end": lambda visit: ends.run_end(visit),
    "input": lambda visit: inputs.run_input(visit),
    "llm": lambda visit: llms.run_llm(visit),
    "map": lambda visit: maps.run_map(visit),
    "rag": lambda visit: rags.run_rag(visit),
    "script": lambda visit: scripts.run_script(visit),
    "set": lambda visit: sets.run_set(visit),
    "turn": lambda visit: turns.run_turn(visit),  # not in the language: the node of normal agents
}


def import_executors(types: Iterable[str]) -> None:
    """Import the executors of these node types now, rather than during a visit."""
    for node_type in types:
        import_module(f"{__name__}.{node_type}")
