"""Calls that wait for batches in a test's own engine, and a courier that carries them."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.economy.groups import Group, Groups
from sleipnir.scheduler.store.economy.keys import lease_key
from sleipnir.scheduler.views.economy import economy_document
from sleipnir.worker.llm.economy.courier import Courier
from tests.support.engine import Engine
from tests.support.model_server import Request, says

DAY_S = 86_400.0

ASKS = """
    start: ask
    model: openai:m
    initial_state: {n: 0}
    nodes:
      ask:
        type: llm
        prompt: "question {{n}}"
        max_tokens: 10
        state_updates: {answer: "{{output}}"}
        next: done
      done: {type: end, output: "{{answer}}"}
"""


def answer(request: Request) -> Any:
    """Answer a request so that it is known which."""
    return says(f"answer to {request.prompt}")


def courier(engine: Engine, provider: str = "openai") -> Courier:
    """Return the courier of another worker, after the lease of the one before has ended."""
    engine.redis.delete(lease_key(provider), lease_key("budgets"))
    return engine.services.models.courier(engine.store)


def submit(engine: Engine, count: int, graph: str = ASKS, **request: Any) -> list[str]:
    """Submit runs whose calls wait for batches, and let them join."""
    request = {"economy_s": DAY_S, **request}
    runs = [engine.submit(graph, state={"n": n}, **request) for n in range(count)]
    engine.drive()
    return runs


def carry(engine: Engine, turns: int = 8, every_s: float = 61.0, provider: str = "openai") -> None:
    """Let time pass, a courier at work, and the visits that go on."""
    carrier = courier(engine, provider)
    for _ in range(turns):
        engine.clock.move(every_s)
        carrier.turn()
        engine.tick()
        engine.drive()


def groups(engine: Engine) -> list[Group]:
    """Return all groups, the oldest first."""
    return Groups(engine.store).all()


def listed(engine: Engine) -> Any:
    """Return what `limits` lists of collections and groups."""
    return economy_document(engine.store, LimitCommands(engine.store).rules())


def assert_answered(engine: Engine, runs: list[str]) -> None:
    """Check that each run has its answer, and that nothing is left of batches."""
    for n, run_id in enumerate(runs):
        run = engine.run(run_id)
        assert (run.status, run.output) == (Status.SUCCEEDED, f"answer to question {n}")
    assert groups(engine) == []
    assert not engine.redis.keys("*:request:*")
