"""Another engine doing the same: LangGraph with its SQLite checkpointer.

`python -m sleipnir.worker.bench.peers DATABASE RUNS LENGTH THREADS` prints seconds and CPU seconds.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypedDict

from sleipnir.worker.bench.arena import LENGTH, THREADS, Arena
from sleipnir.worker.bench.cases import RUNS
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row

REMEDY = "LangGraph is not installed beside Sleipnir: pip install 'sleipnir[peers]'"


def is_installed() -> bool:
    """Return whether LangGraph is installed."""
    try:
        return importlib.util.find_spec("langgraph.checkpoint.sqlite") is not None
    except ModuleNotFoundError:
        return False


def peers(arena: Arena, rounds: int) -> Iterator[Row]:
    """A linear graph, and many small runs at once, on one process each."""
    linear, small = arena.prepare(f"linear-{LENGTH}"), arena.prepare("linear-4")
    samples = interleaved(
        rounds,
        {"ours": lambda: arena.run(linear), "peer": lambda: _measure(arena, 1, LENGTH + 1)},
    )
    ours = samples["ours"]
    yield row(f"linear graph, {LENGTH} nodes", "node", LENGTH + 1, ours, ours)
    yield row("LangGraph on SQLite, the same", "node", LENGTH + 1, samples["peer"], ours)

    turns = range(max(1, rounds // 5))
    ours = [arena.run_many(small, RUNS, f"peers-{turn}") for turn in turns]
    theirs = [_measure(arena, RUNS, 5) for _ in turns]
    yield row(f"{RUNS:,} runs of 5 nodes, one process", "run", RUNS, ours, ours)
    yield row("LangGraph on SQLite, the same", "run", RUNS, theirs, ours)


def _measure(arena: Arena, runs: int, length: int) -> Sample:
    """Measure the peer in a process of its own, as our workers are."""
    database = arena.home / "peer.db"
    arguments = map(str, (database, runs, length, THREADS))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "sleipnir.worker.bench.peers", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for file in arena.home.glob("peer.db*"):
        file.unlink()
    return Sample(*map(float, done.stdout.split()))


def _compile(length: int, saver: Any) -> Any:
    """Return a graph of `length` nodes in a row that only write a small value."""
    # Neither is installed unless the comparison is wanted.
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415

    # The functional syntax, as the keys are only known at run time.
    state = TypedDict("state", {f"result_{i}": list[int] for i in range(length)})  # type: ignore[misc]
    graph = StateGraph(state)
    names = [f"n{i}" for i in range(length)]
    for i, name in enumerate(names):
        graph.add_node(name, lambda _state, i=i: {f"result_{i}": []})
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def main() -> None:
    """Measure, without the start of the process and a first run."""
    from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: PLC0415 - as above

    database, *numbers = sys.argv[1:]
    runs, length, threads = map(int, numbers)
    with SqliteSaver.from_conn_string(str(Path(database))) as saver:
        graph = _compile(length, saver)

        def run(name: object) -> None:
            configuration = {"configurable": {"thread_id": str(name)}}
            graph.invoke({"result_0": []}, {**configuration, "recursion_limit": length + 10})

        run("first")
        began, cpu = perf_counter(), process_time()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(run, range(runs)))
        sys.stdout.write(f"{perf_counter() - began} {process_time() - cpu}\n")


if __name__ == "__main__":
    main()
