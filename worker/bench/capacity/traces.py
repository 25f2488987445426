"""The case `traces`: what exporting spans to a collector costs a worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from itertools import count

import click

from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.rows import Row, Sample, interleaved, row

RUNS = 400  # for a sample, as CPU times come in steps of 10 ms
NODES = 5
WARM_UP = 20
_LOADED_S = 60.0
_EXPORTED_S = 2.0  # spans leave a process once a second
# How much more CPU a visit may take.
_MOST = 1.15
_REMEDY = "it takes the extra `otel`: pip install 'sleipnir[otel]'"


def traces(arena: Arena, rounds: int) -> Iterator[Row]:
    """CPU of a worker for a visit: without traces, and with a collector that takes all of them.

    Raises:
        click.ClickException: the exporter is not installed.
    """
    if find_spec("opentelemetry") is None:
        raise click.ClickException(_REMEDY)
    agent, batches = arena.prepare(f"linear-{NODES - 1}"), count()
    with _Collector() as collector:
        samples = interleaved(
            max(1, rounds // 3),
            {
                "plain": partial(_ran, arena, agent, batches),
                "traced": partial(_ran, arena, agent, batches, collector),
            },
        )
    visits, base = RUNS * NODES, samples["plain"]
    plain = row("a visit, worker CPU", "visit", visits, base, base)
    yield plain
    traced = row("the same with traces", "visit", visits, samples["traced"], base)
    yield traced.within(_MOST * plain.median)


def _ran(
    arena: Arena, agent: PreparedAgent, batches: Iterator[int], collector: _Collector | None = None
) -> Sample:
    """Measure the CPU of a worker for many runs, and for what it exports of them."""
    arena.stop_workers()
    module, threads = "sleipnir.worker.bench.engine_worker", str(arena.threads)
    flags = ("--redis", arena.redis_url, "--concurrency", threads, "--scheduler")
    worker = arena.start(module, *flags, **({} if collector is None else collector.variables))

    def run(runs: int) -> None:
        arena.submit_many(agent, runs, Request(batch=f"traces-{next(batches)}"))
        pause(_EXPORTED_S)

    run(WARM_UP)
    if collector is not None:
        collector.await_spans()
    cpu_s = arena.measured(partial(run, RUNS), [worker]).cpu_seconds
    return Sample(cpu_s, cpu_s)


class _Collector(ThreadingHTTPServer):
    """A collector that forgets everything."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taker)
        self.has_spans = threading.Event()

    @property
    def variables(self) -> dict[str, str]:
        """What makes a process export to it."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.server_port}"}

    def await_spans(self) -> None:
        """Wait until a new process exports spans: it loads its exporter before that."""
        if not self.has_spans.wait(_LOADED_S):
            raise RuntimeError("the worker exports no spans")
        self.has_spans.clear()

    def __enter__(self) -> _Collector:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.shutdown()
        self.server_close()


class _Taker(BaseHTTPRequestHandler):
    """Takes whatever is posted."""

    server: _Collector
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()
        if self.path.endswith("/traces"):
            self.server.has_spans.set()

    def log_message(self, *_: object) -> None:
        """Print nothing."""
