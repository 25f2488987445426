"""What the way from a node to a model costs, and what a tool call costs."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from sleipnir.graphs.tools.reader import read_tool_file
from sleipnir.scheduler.process.periodic import pause
from sleipnir.worker.bench.arena import CALL_MS, CALLERS, Arena, open_arena
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row
from sleipnir.worker.tools.call import call_function
from sleipnir.worker.tools.context import ToolContext

_CALLS = 100
_SPAWNS = 20
_MAX_WAIT_S = 30.0

_TOOL = """# @describe Does nothing
main() { :; }
eval "$(argc --argc-eval "$0" "$@")"
"""


def llm(arena: Arena, rounds: int) -> Iterator[Row]:
    """The same call by the library alone and by a node, each in a process of its own."""
    with (
        model_server() as environment,
        _Caller("bare", arena.redis_url, environment) as bare,
        _Caller("node", arena.redis_url, environment) as node,
    ):
        samples = interleaved(rounds, {"node": node.sample, "bare": bare.sample})
    yield row("model call of a node", "call", _CALLS, samples["node"], samples["bare"])
    yield row("bare litellm", "call", _CALLS, samples["bare"], samples["bare"])


def llm_many(_arena: Arena, _rounds: int) -> Iterator[Row]:
    """Hundreds of slow calls in one worker process, on an arena of its own."""
    with (
        model_server() as environment,
        _in_environment(environment),
        open_arena(CALLERS) as arena,
    ):
        # The first call loads the library.
        arena.run(arena.prepare("waiting-1"))
        sample = arena.run(arena.prepare(f"waiting-{CALLERS}"))
        seconds = CALL_MS // 1000
        if sample.seconds < seconds:
            raise RuntimeError("calls failed instead of taking their time")
        name = f"{CALLERS} calls of {seconds} s at once, one worker"
        yield row(name, "run", 1, [sample], None)
        peak = _peak_mib(arena.ours[0].pid)
        if peak is not None:
            yield Row("its peak memory", "MiB", peak, peak)


def tool(_arena: Arena, rounds: int) -> Iterator[Row]:
    """A bash tool that does nothing, compared with the shell it needs."""
    with tempfile.TemporaryDirectory(prefix="sleipnir-bench-") as directory:
        samples = interleaved(rounds, {"tool": _tool(Path(directory)), "shell": _shell})
    yield row("call of a bash tool", "call", _SPAWNS, samples["tool"], samples["shell"])
    yield row("bash -c true", "call", _SPAWNS, samples["shell"], samples["shell"])


@contextlib.contextmanager
def model_server() -> Iterator[dict[str, str]]:
    """Start a model server; yield the variables that make litellm call it, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="sleipnir-bench-") as directory:
        port_file = Path(directory) / "port"
        command = [sys.executable, "-P", "-m", "sleipnir.worker.bench.model_server", str(port_file)]
        server = subprocess.Popen(command)
        try:
            yield {
                "OPENAI_BASE_URL": f"http://127.0.0.1:{_written(port_file, server)}/v1",
                "OPENAI_API_KEY": "none",
                # Otherwise the bare library would fetch its price list from the network.
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            }
        finally:
            server.terminate()
            server.wait()


def _written(file: Path, by: subprocess.Popen[bytes]) -> str:
    """Return what a process writes to a file once it is ready."""
    ends_at = perf_counter() + _MAX_WAIT_S
    while not file.exists():
        if by.poll() is not None or perf_counter() > ends_at:
            raise RuntimeError("the model server did not start")
        pause(0.02)
    return file.read_text()


class _Caller:
    """A process that calls a model when told to."""

    def __init__(self, contender: str, redis_url: str, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "sleipnir.worker.bench.model_caller",
                contender,
                redis_url,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
        )

    def __enter__(self) -> _Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def sample(self) -> Sample:
        """Measure a hundred calls, one after the other."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{_CALLS}\n")
        self._process.stdin.flush()
        return Sample(**json.loads(self._process.stdout.readline()))


@contextlib.contextmanager
def _in_environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables, for processes started in the block."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _peak_mib(pid: int) -> float | None:
    """Return a process's peak memory; None if unknown."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(peaks[0]) / 1024 if peaks else None


def _tool(directory: Path) -> Callable[[], Sample]:
    """Write a tool, and return a function that measures a call of it."""
    file = directory / "functions" / "tools" / "nothing.sh"
    file.parent.mkdir(parents=True)
    file.write_text(_TOOL)
    (function,) = read_tool_file(file, own=False).functions
    context = ToolContext(
        run_id="00",
        agent="",
        agent_directory=directory,
        root=directory,
        workdir=directory,
        cache=directory / "cache",
    )

    def sample() -> Sample:
        began = perf_counter()
        for number in range(_SPAWNS):
            call_function(function, {}, context, idempotency_key=str(number))
        return Sample(perf_counter() - began, 0.0)

    return sample


def _shell() -> Sample:
    began = perf_counter()
    for _ in range(_SPAWNS):
        subprocess.run(["bash", "-c", "true"], check=True)
    return Sample(perf_counter() - began, 0.0)
