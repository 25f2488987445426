"""What starting costs: commands, workers, the embedded engine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.embedded.attach import attach
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.agents import BY_LITELLM, DIRECT
from sleipnir.worker.bench.arena import TICKS, Arena
from sleipnir.worker.bench.commands import COMMAND, command_rows
from sleipnir.worker.bench.llm import model_server
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row


def start(arena: Arena, rounds: int) -> Iterator[Row]:
    """`sleipnir run` with the engine down and up, and CPU time of commands and first visits."""
    rounds = rounds // 3 + 1
    cold = arena.home / "cold"
    environment = {**os.environ, "SLEIPNIR_DATA_DIR": str(cold)}
    # Measure what users have, compiled files included.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    agent = str(arena.home / "agents" / "ending")

    def once() -> Sample:
        began = perf_counter()
        subprocess.run(
            [*COMMAND, "run", agent, "-q"], env=environment, stdout=subprocess.DEVNULL, check=True
        )
        return Sample(perf_counter() - began, 0.0)

    once()
    yield row("run, cold", "command", 1, [once() for _ in range(rounds)], None)
    # Keeps the engine running between commands, as `sleipnir up` does.
    settings = arena.client.store.settings
    with attach(cold, settings, workers=True) as engine:
        once()
        yield row("run, engine up", "command", 1, [once() for _ in range(rounds)], None)
        ready = replace(settings, redis_url=engine.redis_url)
        client = Client.connect(ready, arena.client.search)
        yield from command_rows(client, environment, rounds)
    yield from _first_visits(arena, rounds)
    yield from _first_replies(arena, environment, rounds)


def _first_replies(arena: Arena, environment: Mapping[str, str], rounds: int) -> Iterator[Row]:
    """`sleipnir run` of one model call with the engine down, called directly and by litellm."""

    def once(provider: str, environment: Mapping[str, str]) -> Sample:
        agent = str(arena.home / "agents" / f"asking-{provider}")
        began = perf_counter()
        subprocess.run(
            [*COMMAND, "run", agent, "-q"], env=environment, stdout=subprocess.DEVNULL, check=True
        )
        return Sample(perf_counter() - began, 0.0)

    with model_server() as to_server:
        server = {"api_base": to_server["OPENAI_BASE_URL"], "api_key": "none"}
        models = {"providers": {DIRECT: server, BY_LITELLM: server}}
        environment = {**environment, **to_server, "SLEIPNIR_MODELS": json.dumps(models)}
        samples = interleaved(
            rounds, {name: partial(once, name, environment) for name in (DIRECT, BY_LITELLM)}
        )
    base = samples[BY_LITELLM]
    yield row("run of a model call, cold, directly", "command", 1, samples[DIRECT], base)
    yield row("run of a model call, cold, by litellm", "command", 1, base, base)


def _first_visits(arena: Arena, rounds: int) -> Iterator[Row]:
    """CPU time from the start of a process until it has done its work once."""
    agent = arena.prepare("ending")
    arena.stop_workers()
    samples = interleaved(
        rounds,
        {
            "bare": lambda: _until(arena.begin_baseline, partial(arena.publish, "bench.hop", 0)),
            "ours": lambda: _until(arena.begin_worker, partial(arena.run, agent)),
            "engine": lambda: _engine(arena),
        },
    )
    arena.start_worker()
    base = samples["bare"]
    yield row("bare Celery worker, first task", "process", 1, base, base)
    yield row("worker, first visit", "process", 1, samples["ours"], base)
    yield row("embedded engine, first visit", "engine", 1, samples["engine"], base)


def _until(begin: Callable[[], subprocess.Popen[bytes]], act: Callable[[], object]) -> Sample:
    process = begin()
    try:
        act()
        cpu = _cpu_of_tree(process.pid)
    finally:
        process.terminate()
        process.wait()
    return Sample(cpu, cpu)


def _engine(arena: Arena) -> Sample:
    """Measure an engine's processes: its own, Redis, a worker with the scheduler, watchdogs."""
    settings = arena.client.store.settings
    with attach(arena.home / "cold", settings, workers=True) as engine:
        ready = replace(settings, redis_url=engine.redis_url)
        client = Client.connect(ready, arena.client.search)
        client.wait(client.submit(client.prepare("ending"), Request()))
        cpu = _cpu_of_tree(engine.pid)
    return Sample(cpu, cpu)


def _cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants, including those that have exited."""
    processes = Path("/proc")
    ticks = 0
    waiting = [pid]
    while waiting:
        process = processes / str(waiting.pop())
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
        for task in (process / "task").iterdir():
            waiting += map(int, (task / "children").read_text().split())
    return ticks / TICKS
