"""The measurements, each a function from an arena to rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from time import perf_counter, process_time

from sleipnir.graphs.expressions.parser import parse
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.embedded.acceptances import Acceptances
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.agents import LED, MANY_LED, MANY_TURNS, PAUSE_MS, TURNS
from sleipnir.worker.bench.arena import CHAIN, ITEMS, LENGTH, WIDTH, Arena
from sleipnir.worker.bench.capacity.archived import archived_kinds
from sleipnir.worker.bench.capacity.case import capacity
from sleipnir.worker.bench.capacity.cluster import cluster
from sleipnir.worker.bench.capacity.fleet import fleet
from sleipnir.worker.bench.capacity.schedules import schedules
from sleipnir.worker.bench.capacity.stored import stored_kinds
from sleipnir.worker.bench.capacity.traces import traces
from sleipnir.worker.bench.fair import fair
from sleipnir.worker.bench.figures import figures
from sleipnir.worker.bench.lists import lists
from sleipnir.worker.bench.llm import llm, llm_many, tool
from sleipnir.worker.bench.monitor import monitor
from sleipnir.worker.bench.parked import commands_of, parked
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row
from sleipnir.worker.bench.start import start

RUNS = 1_000  # small runs, all submitted at once
GATES = 200  # runs with one choice
CONDITION = "score >= 0.8 && has(sources)"
SUBMISSIONS = 20


def hop(arena: Arena, rounds: int) -> Iterator[Row]:
    """A linear graph, compared with a Celery task that enqueues its successor, and with a chain."""
    agent = arena.prepare(f"linear-{LENGTH}")
    arena.start_baseline(results=False)
    arena.start_baseline(results=True)
    samples = interleaved(
        rounds,
        {
            "ours": lambda: arena.run(agent),
            "bare": lambda: arena.run_baseline("bench.hop", LENGTH, results=False),
            "chain": lambda: arena.run_baseline("bench.chain_of", LENGTH, results=True),
        },
    )
    commands = commands_of(arena, lambda: arena.run(agent)) / (LENGTH + 1)
    base = samples["bare"]
    yield row(f"linear graph, {LENGTH} nodes", "node", LENGTH + 1, samples["ours"], base, commands)
    yield row("bare Celery self-enqueue", "hop", LENGTH + 1, base, base)
    yield row(f"Celery chain of {LENGTH}", "task", LENGTH + 1, samples["chain"], base)


def agent_turns(arena: Arena, rounds: int) -> Iterator[Row]:
    """Turns of normal agents whose model replies at once, compared with a graph's nodes."""
    graph = arena.prepare(f"linear-{LENGTH}")
    few, many = (arena.prepare(f"talker-{turns}") for turns in (TURNS, MANY_TURNS))
    leading, leading_many = (arena.prepare(f"leader-{count}") for count in (LED, MANY_LED))
    wide = arena.prepare(f"fan-out-{WIDTH}")
    samples = interleaved(
        rounds,
        {
            "graph": lambda: arena.run(graph),
            "few": lambda: arena.run(few),
            "many": lambda: arena.run(many),
            "leading": lambda: arena.run(leading),
            "leading many": lambda: arena.run(leading_many),
            "wide": lambda: arena.run(wide),
        },
    )
    commands = commands_of(arena, lambda: arena.run(few)) / TURNS
    nodes = _each(samples["graph"], LENGTH + 1)
    yield row(f"linear graph, {LENGTH} nodes", "node", 1, nodes, nodes)
    turns = _each(samples["few"], TURNS)
    yield row(f"normal agent, {TURNS} turns", "turn", 1, turns, nodes, commands)
    yield row(
        f"normal agent, {MANY_TURNS} turns", "turn", 1, _each(samples["many"], MANY_TURNS), nodes
    )
    children = _each(samples["leading"], LED)
    yield row(f"{LED} agents started and collected", "agent", 1, children, nodes)
    yield row(f"fan-out and join, {WIDTH} branches", "run", 1, samples["wide"], samples["wide"])
    many_led = f"{MANY_LED} agents started and collected"
    yield row(many_led, "run", 1, samples["leading many"], samples["wide"])


def _each(samples: Sequence[Sample], units: int) -> list[Sample]:
    """Return samples per unit, for contenders that do different numbers of units."""
    return [Sample(each.seconds / units, each.cpu_seconds / units) for each in samples]


def fan(arena: Arena, rounds: int) -> Iterator[Row]:
    """Fan-out and join, compared with a Celery chord of the same size."""
    agent = arena.prepare(f"fan-out-{WIDTH}")
    arena.start_baseline(results=True)
    samples = interleaved(
        rounds,
        {
            "ours": lambda: arena.run(agent),
            "chord": lambda: arena.run_baseline("bench.chord_of", WIDTH, results=True),
        },
    )
    base = samples["chord"]
    yield row(f"fan-out and join, {WIDTH} branches", "run", 1, samples["ours"], base)
    yield row(f"Celery chord of {WIDTH}", "chord", 1, base, base)


def mapping(arena: Arena, rounds: int) -> Iterator[Row]:
    """A map over many items, with one node and with a chain, compared with nodes of a graph."""
    agents = {
        "one": arena.prepare(f"map-{ITEMS}"),
        "chain": arena.prepare(f"map-{ITEMS}-of-{CHAIN}"),
        "linear": arena.prepare(f"linear-{LENGTH}"),
    }
    runs = {name: partial(arena.run, agent) for name, agent in agents.items()}
    samples = interleaved(max(1, rounds // 3), runs)
    linear = _each(samples["linear"], LENGTH + 1)
    yield row(f"map of {ITEMS} items", "item", ITEMS, samples["one"], None)
    yield row(f"the same with {CHAIN} nodes each", "item", ITEMS, samples["chain"], None)
    further = [
        Sample(chain.seconds - one.seconds, chain.cpu_seconds - one.cpu_seconds)
        for one, chain in zip(samples["one"], samples["chain"], strict=True)
    ]
    visits = ITEMS * (CHAIN - 1)
    yield row("a further node of an item", "node", 1, _each(further, visits), linear)
    yield row(f"linear graph, {LENGTH} nodes", "node", 1, linear, linear)


def runs(arena: Arena, rounds: int) -> Iterator[Row]:
    """Many runs at once, small ones and slow ones, on one worker process and on two."""
    small, slow = arena.prepare("linear-4"), arena.prepare("pausing")
    one: list[Sample] = []
    for processes in (1, 2):
        if processes > len(arena.ours):
            arena.start_worker()
            arena.run(small)
        turns = [f"{processes}-{turn}" for turn in range(max(1, rounds // 5))]
        workers = f"{processes} worker process{'es' if processes > 1 else ''}"
        samples = [arena.run_many(small, RUNS, turn) for turn in turns]
        yield row(f"{RUNS:,} runs of 5 nodes, {workers}", "run", RUNS, samples, None)
        samples = [arena.run_many(slow, RUNS, f"slow-{turn}") for turn in turns]
        one = one or samples
        yield row(f"{RUNS:,} runs of {PAUSE_MS} ms, {workers}", "run", RUNS, samples, one)


def routes(arena: Arena, rounds: int) -> Iterator[Row]:
    """CPU of workers and Redis for runs of two nodes: by how the first says what comes next."""
    turns = count()

    def cpu_of(agent: PreparedAgent, runs: int) -> Sample:
        request = Request(batch=f"{agent.name}-{next(turns)}")
        act = partial(arena.submit_many, agent, runs, request)
        cpu_s = arena.measured(act, [*arena.ours, arena.server]).cpu_seconds / runs
        return Sample(cpu_s, cpu_s)

    # So many runs that the clock, which counts hundredths of a second, is precise enough.
    runs = {"plain": GATES, "threshold": GATES, "script": GATES // 5}
    agents = {name: arena.prepare(f"gate-{name}") for name in runs}
    samples = interleaved(
        rounds, {name: partial(cpu_of, agents[name], runs[name]) for name in runs}
    )
    plain = samples["plain"]
    yield row("set node with a plain next, then an end", "run", 1, plain, plain)
    yield row("the same with a threshold in next", "run", 1, samples["threshold"], plain)
    yield row("a script that decides, then an end", "run", 1, samples["script"], plain)
    yield row(f"{CONDITION}, parsed anew", "time", 1, [_decided() for _ in range(rounds)], None)


def _decided() -> Sample:
    """Measure the CPU of reading and evaluating a condition; a worker reads each one once."""
    names, times = {"score": 0.9, "sources": ["a"]}, 1_000
    began = process_time()
    for _ in range(times):
        parse.__wrapped__(CONDITION).evaluate(names)
    cpu_s = (process_time() - began) / times
    return Sample(cpu_s, cpu_s)


def submit(arena: Arena, rounds: int) -> Iterator[Row]:
    """Submissions one by one: accepted by Redis, and persisted as by the embedded engine."""
    agent = arena.prepare("linear-4")
    keep = Acceptances.of(arena.home, arena.redis_url, arena.client.store.settings.retention_s).keep

    def accept(*, kept: bool) -> Sample:
        began = perf_counter()
        for _ in range(SUBMISSIONS):
            run_id = arena.client.submit(agent, Request())
            if kept:
                keep([run_id], arena.client.queries.now_ms)
        return Sample(perf_counter() - began, 0.0)

    samples = interleaved(
        rounds, {"accepted": lambda: accept(kept=False), "kept": lambda: accept(kept=True)}
    )
    base = samples["accepted"]
    yield row("submit", "run", SUBMISSIONS, base, base)
    yield row("submit, on disk", "run", SUBMISSIONS, samples["kept"], base)


def memory(arena: Arena, rounds: int) -> Iterator[Row]:
    """Bytes of Redis that a parked run and finished ones take, in KiB instead of ms.

    And what archived ones take, and how long archiving one does.
    """
    for name, kib in stored_kinds(arena):
        yield Row(f"Redis memory, {name}", "KiB/run", kib, kib)
    yield from archived_kinds(arena)


CASES: Mapping[str, Callable[[Arena, int], Iterator[Row]]] = {
    "hop": hop,
    "agents": agent_turns,
    "fan": fan,
    "map": mapping,
    "routes": routes,
    "runs": runs,
    "fair": fair,
    "submit": submit,
    "memory": memory,
    "figures": figures,
    "capacity": capacity,
    "cluster": cluster,
    "fleet": fleet,
    "traces": traces,
    "schedules": schedules,
    "parked": parked,
    "lists": lists,
    "monitor": monitor,
    "start": start,
    "llm": llm,
    "llm-many": llm_many,
    "tool": tool,
}


# Run only on request: they fill a gigabyte of memory, or take minutes.
LARGE = frozenset({"capacity", "fleet", "lists", "monitor", "parked", "schedules", "traces"})
