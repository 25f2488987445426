"""Checks everything that runs need: Redis, workers, a scheduler, models, tools."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from statistics import median
from time import perf_counter

from sleipnir.graphs.document.references import AgentSearch
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.client.scaling import unserved_queues
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.config.unknown_variables import unknown_variables
from sleipnir.scheduler.doctor.agents import agent_checks
from sleipnir.scheduler.doctor.check import Check
from sleipnir.scheduler.doctor.mcp_servers import mcp_checks
from sleipnir.scheduler.doctor.models import model_checks
from sleipnir.scheduler.doctor.permissions import permission_check
from sleipnir.scheduler.embedded.attach import attach
from sleipnir.scheduler.embedded.redis_server import find_server
from sleipnir.scheduler.errors import ArchiveFailed, EngineUnreachable, SettingInvalid
from sleipnir.scheduler.process.cgroups import memory_limit_bytes
from sleipnir.scheduler.store.clients.tls import tls_options
from sleipnir.scheduler.store.cluster.groups import is_grouped, nodes_of
from sleipnir.scheduler.store.connection import (
    RedisClient,
    connect,
    describe,
    kombu_url,
    masked,
    require_fit,
    require_ready,
    transport_options,
)
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.machines import Machines, QueueNames, WorkerState
from sleipnir.scheduler.store.queries import RunQueries

# Only needed if the broker is another server, people are notified, or there is an archive.
with lazy_imports():
    import kombu

    from sleipnir.scheduler.client.hooks import notifications
    from sleipnir.scheduler.store.archive import archive, objects, sealing

_PINGS = 20
_THREAD_BYTES = 8 * 2**20
_BROKER_S = 5.0
_INTERPRETER_TIMEOUT_S = 20.0

# Interpreters of scripts and tools: the command that prints a version, and what needs it.
_INTERPRETERS = (
    ("bash", ("bash", "--version"), ".sh scripts and tools"),
    ("python3", ("python3", "--version"), ".py scripts and tools"),
    ("node", ("node", "--version"), ".ts scripts and tools"),
    # Without --no-install it would download a missing package.
    ("tsx", ("npx", "--no-install", "tsx", "--version"), ".ts scripts and tools"),
)


def diagnose(settings: Settings, search: AgentSearch) -> Iterator[Check]:
    """Yield all checks one after the other; starts no workers.

    Args:
        search: finds the agents whose programs are checked.
    """
    with ExitStack() as stack:
        try:
            if settings.redis_url is None:
                yield from _embedded(settings, stack)
            else:
                yield from _configured(settings, settings.redis_url)
        except EngineUnreachable as error:
            yield Check("Redis", "error", str(error))
        except RedisError as error:
            yield Check("Redis", "error", describe(error))
    for line in unknown_variables(os.environ):
        yield Check("environment", "warning", line)
    yield from model_checks(settings)
    yield from mcp_checks(settings)
    yield from _notifications(settings)
    yield from archive_check(settings)
    yield from _program_limits(settings)
    yield from thread_memory(settings.concurrency, memory_limit_bytes())
    for name, command, needed_for in _INTERPRETERS:
        yield _interpreter(name, command, needed_for)
    yield from agent_checks(settings, search)


def archive_check(settings: Settings) -> Iterator[Check]:
    """Check that what is archived could be written and read from here."""
    if settings.archive is None:
        return
    try:
        archive.Archive(
            objects.Objects(settings.archive), sealing.ArchiveKey(settings.archive_key_file)
        ).probe()
    except (ArchiveFailed, SettingInvalid) as error:
        yield Check("archive", "error", str(error), "finished runs stay in Redis until it works")
    else:
        yield Check("archive", "ok", settings.archive)


def _notifications(settings: Settings) -> Iterator[Check]:
    if settings.notify:
        try:
            notifications.require_notifications(settings)
        except SettingInvalid as error:
            yield Check("notify", "error", str(error))
        else:
            yield Check("notify", "ok", ", ".join(notifications.notification_urls(settings)))


def thread_memory(concurrency: int, limit_bytes: int | None) -> Iterator[Check]:
    """Warn if the memory limit of this container or unit is too small for a worker's threads."""
    if limit_bytes is not None and concurrency * _THREAD_BYTES > limit_bytes:
        yield Check(
            "memory",
            "warning",
            f"a worker of {concurrency} nodes at a time may need {concurrency * 8} MiB, and "
            f"{limit_bytes // 2**20} MiB are allowed here",
            "raise the limit, or lower `concurrency`",
        )


def _embedded(settings: Settings, stack: ExitStack) -> Iterator[Check]:
    """Check the engine of the data directory; starts its Redis if necessary."""
    server = find_server()
    engine = stack.enter_context(attach(data_dir(), settings, workers=False))
    where = f"embedded {server.version} ({server.path}), data in {data_dir()}"
    yield from _redis(connect(engine.redis_url), where, settings)
    found = Machines(connect(engine.redis_url)).workers()
    text = _count(found) if found else "started by commands as needed"
    yield Check("workers", "ok", text)


def _configured(settings: Settings, redis_url: str) -> Iterator[Check]:
    client = connect(redis_url)
    with suppress(RedisError):  # such as a missing permission, which the next check names
        require_fit(client, allow_unsafe=settings.allow_unsafe_redis)
    permissions = permission_check(client)
    yield permissions
    if permissions.state == "error":
        return
    version = client.info("server")["redis_version"]
    if is_grouped(client):
        version = f"{version}, {len(nodes_of(client))} primaries"
    yield from _redis(client, f"{version} at {masked(redis_url)}", settings)
    if settings.broker_url not in (None, redis_url):
        yield _broker(settings.broker_url or "")
    found = Machines(client).workers()
    if found:
        yield Check("workers", "ok", _count(found))
    else:
        yield Check(
            "workers", "error", "no worker is running", "start one: sleipnir worker --scheduler"
        )
    yield from _queues(client, found, settings)
    if RunQueries(client).has_live_scheduler():
        yield Check("scheduler", "ok", "running")
    else:
        yield Check(
            "scheduler",
            "error",
            "no scheduler is running; timeouts, retries and lost workers are not handled",
            "start one: sleipnir scheduler, or sleipnir worker --scheduler",
        )


def _queues(
    client: RedisClient, workers: Sequence[WorkerState], settings: Settings
) -> Iterator[Check]:
    """Name the queues in which runs wait, but that no worker serves."""
    names = QueueNames(client, settings.retention_s).known()
    queries = RunQueries(client)
    machines = {worker.machine for worker in workers}
    states = queries.queues(machines, names, queries.now_ms())
    for name in unserved_queues(queries, workers, states) if workers else ():
        yield Check(
            "queues",
            "error",
            f"runs wait for a worker of queue '{name}'; none is running",
            f"start one: sleipnir worker --queues {name}",
        )


def _broker(url: str) -> Check:
    """Check a broker that is another server than the Redis of the runs."""
    options = transport_options(url)
    try:
        with kombu.Connection(
            kombu_url(url),
            connect_timeout=_BROKER_S,
            transport_options=options,
            ssl=tls_options(url) or False,
        ) as connection:
            connection.ensure_connection(max_retries=1, timeout=_BROKER_S)
    except (OSError, kombu.exceptions.KombuError) as error:
        return Check("broker", "error", f"cannot reach {masked(url)}: {error}")
    return Check("broker", "ok", masked(url))


def _redis(client: RedisClient, where: str, settings: Settings) -> Iterator[Check]:
    warnings = require_ready(client, allow_unsafe=settings.allow_unsafe_redis)
    infos = [node.info() for node in nodes_of(client)]
    policies = ", ".join(sorted({info.get("maxmemory_policy", "noeviction") for info in infos}))
    is_kept = all(info.get("aof_enabled") for info in infos)
    kept = "append-only file" if is_kept else "no append-only file"
    text = f"{where}; {policies}, {kept}, answers in {_latency_ms(client):.2f} ms"
    yield Check("Redis", "warning" if warnings else "ok", text, "; ".join(warnings) or None)


def _latency_ms(client: RedisClient) -> float:
    def ping() -> float:
        began_at = perf_counter()
        client.time()  # of a cluster, one node answers
        return (perf_counter() - began_at) * 1000

    return median(ping() for _ in range(_PINGS))


def _count(workers: Sequence[WorkerState]) -> str:
    slots, busy = (sum(getattr(each, name) for each in workers) for name in ("slots", "busy"))
    return f"{len(workers)} running, {slots} nodes at a time, {busy} now"


def _program_limits(settings: Settings) -> Iterator[Check]:
    wanted = settings.program_memory_mb or settings.program_cpu_s
    if wanted and not hasattr(resource, "prlimit"):
        yield Check(
            "program limits",
            "warning",
            "not enforced here: program_memory_mb and program_cpu_s need Linux",
            "run workers on Linux, or in containers that have limits",
        )


def _interpreter(name: str, command: tuple[str, ...], needed_for: str) -> Check:
    version = _version(command)
    if version is None:
        return Check(name, "warning", f"not found; {needed_for} fail here", f"install {name}")
    return Check(name, "ok", version)


def _version(command: tuple[str, ...]) -> str | None:
    """Return the first line of a program's version; None if it cannot be run."""
    program = shutil.which(command[0])
    if program is None:
        return None
    try:
        told = subprocess.run(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INTERPRETER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = told.stdout.split("\n")
    return f"{lines[0]} ({program})" if told.returncode == 0 and lines[0] else None
