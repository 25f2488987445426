"""The case `figures`: what counting by the hour takes of the CPU time of Redis for a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

from sleipnir.scheduler.runs.ids import VisitId, new_run_id
from sleipnir.scheduler.runs.model import Lease, ModelCall, NewRun, RunContext, Usage
from sleipnir.scheduler.runs.plan import Plan
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.bench.agents import REPLIES
from sleipnir.worker.bench.arena import Arena, open_arena
from sleipnir.worker.bench.rows import Row, Sample, interleaved

_RUNS = 50  # in a round
_TIMES = 30  # that it is counted again: so little is not seen beside what else runs on a machine
_MOST_PERCENT = 3.0
# The functions of scripts that count by the hour.
_COUNTING = ("count_by_hour", "count_end", "note_cost")


def figures(_arena: Arena, rounds: int) -> Iterator[Row]:
    """Whole runs, and transitions of such that count once and many times, on an own arena."""
    with open_arena(1) as arena:
        telling = arena.prepare("telling")
        whole = interleaved(rounds, {"runs": partial(_used, arena, partial(arena.run, telling))})[
            "runs"
        ]
        arena.stop_workers()
        stores = [
            RunStore(arena.redis, arena.client.store.settings, DirectDispatcher()) for _ in range(2)
        ]
        for name in ("record_turn", "advance_step"):
            _count_often(stores[1], name)
        samples = interleaved(
            rounds,
            {
                name: partial(_used, arena, partial(_run, store))
                for name, store in zip(("once", "often"), stores, strict=True)
            },
        )
    once_s, often_s, run_s = map(_median_s, (samples["once"], samples["often"], whole))
    counting_s = (often_s - once_s) / _TIMES
    share = 100 * counting_s / run_s
    name = f"Redis, CPU of a run of {REPLIES} model calls"
    yield Row(name, "run", 1000 * run_s / _RUNS, 1000 * run_s / _RUNS)
    yield Row("of it, counting by the hour", "%", share, share).within(_MOST_PERCENT)


def _median_s(samples: list[Sample]) -> float:
    return median(sample.seconds for sample in samples)


def _used(arena: Arena, run: Callable[[], object]) -> Sample:
    """Measure the CPU time of Redis for some runs."""

    def spent_s() -> float:
        used = arena.redis.info("cpu")
        return float(used["used_cpu_user_main_thread"] + used["used_cpu_sys_main_thread"])

    before = spent_s()
    for _ in range(_RUNS):
        run()
    return Sample(spent_s() - before, 0.0)


def _count_often(store: RunStore, name: str) -> None:
    """Let a transition of a store count by the hour so many times more."""
    transition = store.transition(name)
    text = transition.text
    for function in _COUNTING:
        again = f"for _ = 1, {_TIMES} do {function}(\\2) end"
        text = re.sub(
            rf"(function {function}\((.*)\)\n)",
            rf"\1if not ARGV.again then ARGV.again = true {again} ARGV.again = false end\n",
            text,
        )
    vars(transition).update(text=text, _script=store.client.register_script(text))


def _run(store: RunStore) -> None:
    """Make the transitions of a run that count: of its model calls, and of its end."""
    run_id = new_run_id()
    context, state = RunContext(root=run_id), {"initial_prompt": '"hello"'}
    store.runs.submit(NewRun(run_id, "bench", "d" * 64, "n", "llm", state=state, context=context))
    lease = Lease(run_id, VisitId.of(1, "n"), run_id)
    store.visits.begin(lease, None)
    for position in range(REPLIES):
        call = ModelCall("n", "openai:gpt-5", 1_000 << position)
        usage = Usage(1_000, 100, 0.002, 500, call=call)
        store.visits.record_turn(lease, position, "{}", usage=usage)
    store.visits.advance(lease, 1, Plan({}, output="done"), cap=100, window=8)
