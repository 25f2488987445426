"""The case `monitor`: what its pages take with many stored runs, and what watching them costs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final

import click

from sleipnir.scheduler.process.packing import unpack
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import run_key
from sleipnir.worker.bench import monitor_browser
from sleipnir.worker.bench.arena import LENGTH, MANY_ITEMS, MANY_NODES, Arena
from sleipnir.worker.bench.lists import submit_asking
from sleipnir.worker.bench.loader import load
from sleipnir.worker.bench.monitor_client import MeasuredMonitor
from sleipnir.worker.bench.monitor_weights import weights
from sleipnir.worker.bench.rows import Row, Sample, row
from sleipnir.worker.bench.watchers import Watchers

_MIB: Final = 1024 * 1024
_STEPS: Final = 500  # of the run whose graph is drawn
_WATCHERS: Final = 200
_TIMES: Final = 3  # how often watchers see a run end
_ROWS: Final = 200  # of the list that a browser shows
_CHANGES_S: Final = 20  # in which each of them changes
_ASKED: Final = 40  # times that a page is asked for, at least
# Goals, in ms or MiB.
_LIST: Final = 60
_GRAPH: Final = 80
_MAP: Final = 150
_SHOWN: Final = 400
_MEMORY: Final = 120
_BROWSER_CPU: Final = 400
_LONG_TASK: Final = 100
# Each is opened often, however many runs are stored.
_LISTS: Final = {
    "runs, newest": "/runs",
    "runs, failed": "/runs?status=failed",
    "runs, of a rare agent": "/runs?agent=rare",
    "runs, of a batch": "/runs?batch=batch-0",
    "runs, until 1 h ago": "/runs?until=1h",
    "runs as JSON": "/api/v1/runs",
    "inbox": "/inbox",
    "batches": "/batches",
    "agents": "/agents",
    "audit": "/audit",
}
_OTHERS: Final = {
    "now": "/now",
    "costs": "/costs",
    "an agent": f"/agents/linear-{LENGTH}",
    "a batch": "/batches/batch-0",
    "limits": "/limits",
    "workers": "/fleet",
}


def monitor(arena: Arena, rounds: int) -> Iterator[Row]:
    """Time to the first byte of each page: median, minimum and 95th percentile; then weights."""
    now_ms = arena.client.queries.now_ms()
    load(arena.redis, 0, arena.stored, now_ms)
    began = perf_counter()
    server = MeasuredMonitor.start(arena)
    yield row("monitor, from its start to its first page", "start", 1, [_since(began)], None)
    yield from _watched(arena, server, rounds)
    mapped = arena.client.submit(arena.prepare(f"map-{MANY_ITEMS}"), Request())
    yield from _watched_map(arena, server, mapped)
    large = _large(arena)
    of_large = f"run of {MANY_NODES} nodes, {_STEPS} steps"
    graph, items = f"/runs/{large}/graph", f"/runs/{mapped}/items/1/map"
    first = [server.get(graph)]
    yield row(f"run of {MANY_NODES} nodes, first drawing", "page", 1, first, None)
    lists = {**_LISTS, "runs, next page": f"/runs?cursor={server.cursor()}"}
    drawn = {f"{of_large}, graph": graph, f"{of_large}, state": f"/runs/{large}/state"}
    mapped_items = {f"items of a map of {MANY_ITEMS:,}": items}
    yield from _first_bytes(server, rounds, lists, _LIST)
    yield from _first_bytes(server, rounds, _OTHERS, None)
    yield from _first_bytes(server, rounds, drawn, _GRAPH)
    yield from _first_bytes(server, rounds, mapped_items, _MAP)
    pages = {**lists, **_OTHERS, **drawn, **mapped_items}
    pages.pop("runs as JSON")
    yield from weights(server, pages, f"{of_large}, graph")
    yield from _shown(arena, server)
    memory = server.memory_bytes() / _MIB
    yield Row("monitor, memory", "MiB", memory, memory)


def _first_bytes(
    server: MeasuredMonitor, rounds: int, pages: Mapping[str, str], goal: float | None
) -> Iterator[Row]:
    for name, path in pages.items():
        samples = [server.get(path) for _ in range(max(_ASKED, rounds))][
            1:
        ]  # the first one is cold
        yield row(name, "page", 1, samples, None)
        slowest = _slowest(name, "page", samples)
        yield slowest if goal is None else slowest.within(goal)


def _shown(arena: Arena, server: MeasuredMonitor) -> Iterator[Row]:
    """What a list whose rows all change costs the browser that shows it."""
    if not monitor_browser.is_installed():
        click.echo(monitor_browser.REMEDY, err=True)
        return
    run_ids = submit_asking(arena, _ROWS)

    def answer_all(page: Any) -> None:
        began = perf_counter()
        for number, run_id in enumerate(run_ids, start=1):
            arena.client.answer(run_id, "now")
            pause(max(0.0, began + number * _CHANGES_S / _ROWS - perf_counter()))
        page.locator("[data-row] .pill.state-waiting").first.wait_for(state="detached")

    with monitor_browser.open_page(server, f"/runs?limit={_ROWS}") as shown:
        cpu_ms = 1000 * shown.cpu_seconds(answer_all)
        longest_ms = shown.longest_task_ms()
    name = f"browser, CPU of {_ROWS} changes in {_CHANGES_S} s"
    yield Row(name, "ms", cpu_ms, cpu_ms).within(_BROWSER_CPU)
    yield Row("browser, the longest task then", "ms", longest_ms, longest_ms).within(_LONG_TASK)


def _watched(arena: Arena, server: MeasuredMonitor, rounds: int) -> Iterator[Row]:
    """What people watching lists cost workers, and when watchers of a run see it end."""
    agent = arena.prepare(f"linear-{LENGTH}")
    arena.run(agent)
    unseen = [arena.run(agent) for _ in range(rounds)]
    yield row("node, nobody watching", "node", LENGTH, unseen, None)
    with Watchers(server.port, server.key, "runs,inbox").watching(_WATCHERS):
        seen = [arena.run(agent) for _ in range(rounds)]
    yield row(f"node, {_WATCHERS} watching lists", "node", LENGTH, seen, unseen)
    delays: list[Sample] = []
    for _ in range(_TIMES):
        (run_id,) = submit_asking(arena, 1)
        watchers = Watchers(server.port, server.key, f"run:{run_id}")
        with watchers.watching(_WATCHERS):
            answered = perf_counter()
            arena.client.answer(run_id, "now")
            arena.client.wait(run_id)
            watchers.await_all("final", _WATCHERS)
        delays += [
            Sample(each.at - answered, 0.0) for each in watchers.told if each.event == "final"
        ]
    name = f"from an answer to the end that {_WATCHERS} see"
    yield row(name, "frame", 1, delays, None)
    yield _slowest(name, "frame", delays).within(_SHOWN)


def _watched_map(arena: Arena, server: MeasuredMonitor, run_id: str) -> Iterator[Row]:
    """What the monitor uses while people watch a busy run."""
    with Watchers(server.port, server.key, f"run:{run_id}").watching(_WATCHERS):
        seconds = [arena.measured(partial(pause, 1), [server.process]) for _ in range(5)]
        yield row(f"monitor, a second, {_WATCHERS} watching a busy run", "second", 1, seconds, None)
        alive = [server.get("/healthz") for _ in range(100)]
        yield _slowest("monitor, alive meanwhile", "answer", alive)
        memory = server.memory_bytes() / _MIB
        name = f"monitor, memory, {_WATCHERS} watching"
        yield Row(name, "MiB", memory, memory).within(_MEMORY)
    arena.client.wait(run_id)
    quiet = [arena.measured(partial(pause, 1), [server.process]) for _ in range(5)]
    yield row("monitor, a second, nobody watching", "second", 1, quiet, None)


def _slowest(name: str, unit: str, samples: Sequence[Sample]) -> Row:
    """Return the 95th percentile."""
    slow = sorted(sample.seconds for sample in samples)[int(0.95 * len(samples))]
    return Row(f"{name}, 95 in 100", unit, 1000 * slow, 1000 * slow)


def _large(arena: Arena) -> str:
    """Create a run that visited many nodes more than once; its later steps are made up."""
    run_id = arena.client.submit(arena.prepare(f"linear-{MANY_NODES}"), Request())
    arena.client.wait(run_id)
    key = run_key("history", run_id)
    known = [json.loads(unpack(text)) for text in arena.redis.lrange(key, 0, -1)]
    later = ({**known[step % MANY_NODES], "step": step} for step in range(len(known), _STEPS))
    arena.redis.rpush(key, *map(json.dumps, later))
    return run_id


def _since(began: float) -> Sample:
    return Sample(perf_counter() - began, 0.0)
