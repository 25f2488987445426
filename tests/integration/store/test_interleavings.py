"""Whatever order things happen in, and whatever gets lost: the same result, exactly once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
from redis.client import Pipeline

from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.snapshot import OpenVisit, WaitRow
from sleipnir.scheduler.store.keys import QUEUE, run_key
from sleipnir.scheduler.store.scripts import Transition
from sleipnir.worker.celery import strategy
from sleipnir.worker.delivery.handover import handover
from sleipnir.worker.delivery.run_visit import run_visit
from tests.support.engine import Engine
from tests.support.runs import begin

NOTHING = """
start: y
nodes:
  y: {type: set, values: {y: "'<' + initial_prompt + '>'"}, next: z}
  z: {type: end, output: "{{y}}"}
"""
ASKS = """
start: i
nodes:
  i: {type: input, question: "{{initial_prompt}}", state_updates: {said: "{{input}}"}, next: z}
  z: {type: end, output: "{{said}}"}
"""
BREAKS = """
start: i
nodes:
  i: {type: input, question: "{{gone}}", next: z}
  z: {type: end}
"""
BREAKING_B = "b: {type: agent, agent: breaks"
GRAPH = """
settings: {max_concurrency: WINDOW}
reducers: {log: append}
start: s
nodes:
  s: {type: agent, agent: nothing, prompt: s, next: [a, b, c, m]}
  a: {type: agent, agent: asks, prompt: a, state_updates: {log: "a {{output}}"}, next: qa}
  b: {type: agent, agent: nothing, prompt: b, state_updates: {log: "b {{output}}"}, next: qb}
  c: {type: agent, agent: asks, prompt: c, state_updates: {log: "c {{output}}"}, next: qb}
  m: {type: map, over: "{{items}}", as: item, branch: first, output_key: said,
      collect_into: found, next: n}
  first: {type: set, values: {asked: item}, next: each}
  each: {type: agent, agent: asks, prompt: "{{asked}}", state_updates: {said: "{{output}}"}}
  n: {type: agent, agent: nothing, prompt: n, state_updates: {log: "n {{output}}"}, next: z}
  qa: {type: input, question: qa, state_updates: {log: "qa {{input}}"}, next: z}
  qb: {type: input, question: qb, state_updates: {log: "qb {{input}}"}, next: z}
  z: {type: end, output: "{{log}} {{found}}"}
"""
EXPECTED = (
    '["a re: a","b <b>","c re: c","n <n>","qa re: qa","qb re: qb"] '
    '["re: 0","re: 1","re: 2","re: 3","re: 4"]'
)


@contextmanager
def lost_replies(chance: random.Random) -> Iterator[None]:
    """Send scripts again by chance, as clients do whose first reply was lost."""
    call = Transition.__call__

    def again(self: Transition, *arguments: Any, **options: Any) -> Any:
        if chance.random() < 0.1 and not isinstance(options.get("client"), Pipeline):
            with suppress(TransitionRefused):
                call(self, *arguments, **options)
        return call(self, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transition, "__call__", again)
        yield


class World:
    """An engine to which things happen by chance."""

    def __init__(self, engine: Engine, run_id: str, chance: random.Random) -> None:
        self._engine = engine
        self._run_id = run_id
        self._chance = chance
        self._last: tuple[str, str, str] | None = None

    def work(self) -> None:
        """Run a visit, and those that are handed to this thread, until it dies."""
        self._last = self._engine.pop(newest=self._chance.random() < 0.5) or self._last
        if self._last is not None:
            # The same message once more, where the queue was empty.
            with lost_replies(self._chance):
                strategy._run(self._visit, list(self._last), lambda: None, self._queues)

    def _visit(self, run_id: str, visit: str, digest: str) -> None:
        run_visit(self._engine.services, run_id, visit, digest)
        if self._chance.random() < 0.2:
            handover.message = handover.begun = None

    def _queues(self) -> str:
        return QUEUE if self._chance.random() < 0.7 else ""

    def lose_a_message(self) -> None:
        self._engine.pop()

    def lose_a_worker(self) -> None:
        message = self._engine.pop()
        if message is not None and self._is_ready(message[0], message[1]):
            begin(self._engine, message[1], f"lost{self._chance.random()}", message[0])

    def _is_ready(self, run_id: str, visit: str) -> bool:
        found = self._engine.redis.hget(run_key("visits", run_id), visit)
        return found is not None and cast(str, found).startswith("ready ")

    def answer(self) -> None:
        questions = self._engine.inbox()
        if questions:
            question = self._chance.choice(questions)
            self._engine.store.parking.answer(
                question.run_id, question.visit, f"re: {question.text}"
            )

    def let_time_pass(self) -> None:
        self._engine.clock.move(self._chance.choice([1, 6, 16]))
        self._engine.tick()

    def is_waiting_truly(self, run_id: str) -> bool:
        """Whether nothing of the run could go on without a person."""
        visits = cast(dict[str, str], self._engine.redis.hgetall(run_key("visits", run_id)))
        for name, packed in visits.items():
            visit = OpenVisit.parse(packed)
            if visit.status != "waiting":
                return False
            for row in self._rows(run_id, name):
                if row.kind == "child" and not self.is_waiting_truly(row.detail):
                    return False
                if row.kind not in ("question", "child", "map"):
                    return False
        return not self._engine.redis.exists(run_key("pending", run_id))

    def _rows(self, run_id: str, visit: str) -> list[WaitRow]:
        found = self._engine.redis.hgetall(run_key("waits", f"{run_id} {visit}"))
        rows = [WaitRow.parse(call, text) for call, text in cast(dict[str, str], found).items()]
        return [row for row in rows if row.is_open]

    def check(self) -> None:
        """The status says what the visits do."""
        for run_id in (
            self._run_id,
            *(r.run_id for r in self._engine.queries.children(self._run_id)),
        ):
            status = self._engine.run(run_id).status
            if status in (Status.RUNNING, Status.WAITING):
                assert (status == Status.WAITING) == self.is_waiting_truly(run_id)


def let_happen(engine: Engine, seed: int, graph: str) -> Run:
    """Run an agent under events and faults by chance, to its end."""
    engine.configure(max_deliveries=1_000)
    for name, text in (("nothing", NOTHING), ("asks", ASKS), ("breaks", BREAKS)):
        engine.write(name, text)
    graph = graph.replace("WINDOW", str(1 + seed % 3))
    run_id = engine.submit(graph, state={"items": [0, 1, 2, 3, 4]})
    chance = random.Random(seed)
    world = World(engine, run_id, chance)
    faults: list[Callable[[], None]] = [world.lose_a_message, world.lose_a_worker]
    events = [world.work] * 6 + [world.answer, world.let_time_pass, *faults]
    for _ in range(1_000):
        chance.choice(events)()
        world.check()
        if engine.run(run_id).is_final:
            break
    return engine.run(run_id)


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_events_gives_the_same_result(engine: Engine, seed: int) -> None:
    run = let_happen(engine, seed, GRAPH)

    assert (run.status, run.output) == ("succeeded", EXPECTED)
    assert all(count == 1 for count in run.visits.values())
    assert len(engine.queries.children(run.run_id)) == 10
    assert engine.inbox() == []


@pytest.mark.parametrize("seed", range(8))
def test_a_failure_ends_everything_whenever_it_comes(engine: Engine, seed: int) -> None:
    run = let_happen(engine, seed, GRAPH.replace("b: {type: agent, agent: nothing", BREAKING_B))

    assert run.failure is not None
    assert (run.failure.code, run.failure.node) == ("R015", "b")
    assert all(child.is_final for child in engine.queries.children(run.run_id))
    assert engine.inbox() == []
    assert set(engine.state(run.run_id)) == {"initial_prompt", "items"}
