"""One worker process: creates its parts and connects them, and drains it on a signal."""

from __future__ import annotations

import gc
import logging
import os
import resource
import signal
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import gethostname
from time import monotonic
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from sleipnir.lazy import is_made, lazy_imports, lazy_object, load
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.watchdog import Watched
from sleipnir.scheduler.errors import SettingInvalid, TransitionRefused
from sleipnir.scheduler.process.health.pulse import Pulse
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.process.temporary import OwnDirectory, keep_temporary_files
from sleipnir.scheduler.store import scripts
from sleipnir.scheduler.store.connection import connect, is_private, require_fit
from sleipnir.scheduler.store.dispatch import make_dispatcher
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.keys import machine_queue, named_queue
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.scheduler.store.telemetry.run_spans import figures_of
from sleipnir.worker.celery.app import make_app, register_visits
from sleipnir.worker.celery.broker import in_hand, stop_receiving
from sleipnir.worker.delivery.bundle_cache import BundleCache
from sleipnir.worker.delivery.isolation import Isolation
from sleipnir.worker.delivery.run_visit import run_visit
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.executors import EXECUTORS, import_executors
from sleipnir.worker.process.carriage import Carriage
from sleipnir.worker.process.draining import Draining
from sleipnir.worker.process.eviction import evict_unused
from sleipnir.worker.process.heartbeat import Heartbeat
from sleipnir.worker.process.reporting import Reporting
from sleipnir.worker.sandbox.child_process import GRACE_S
from sleipnir.worker.sandbox.programs import adopt_orphans, end_all, marks
from sleipnir.worker.telemetry.visit_spans import VisitSpans
from sleipnir.worker.visit.context import VisitLimits
from sleipnir.worker.visit.lease import Leases

# Lazy: one worker per machine has the scheduler, and the others import what they need later.
with lazy_imports():
    from sleipnir.scheduler.hooks import delivering
    from sleipnir.scheduler.service import archiving
    from sleipnir.scheduler.service import scheduler as scheduling
    from sleipnir.scheduler.store import recordings
    from sleipnir.worker.conversation import tool_recording, tool_resolver
    from sleipnir.worker.knowledge import bases
    from sleipnir.worker.llm import models as model_calls
    from sleipnir.worker.llm.limits import gate as gates
    from sleipnir.worker.mcp import pool as mcp_pool

if TYPE_CHECKING:
    from sleipnir.scheduler.service.scheduler import Scheduler
    from sleipnir.worker.conversation.tool_resolver import ToolResolver
    from sleipnir.worker.llm.models import Models

logger = logging.getLogger("sleipnir.worker")

# One small pipeline a second; a cancellation reaches scripts as fast.
_HEARTBEAT_S = 1.0

_CELERY_HEARTBEAT_S = 20

# If the system allows it: most start processes with 1,024, which 300 threads use up.
_FILES = 65_536

# Directories that must belong to this user, as code and data are read from them.
_OWN = ("bundles", "scratch", "cache", "kb-cache")


def make_services(settings: Settings) -> Services:
    """Connect, and create what visits need.

    Raises:
        EngineUnreachable: no Redis, or one that may lose runs.
        SettingInvalid: the data directory cannot be used.
    """
    assert settings.redis_url is not None
    home = _writable_home()
    client = connect(settings.redis_url, retry_outage=True)
    for warning in require_fit(client, allow_unsafe=settings.allow_unsafe_redis):
        logger.warning("%s", warning)
    dispatcher = make_dispatcher(settings.redis_url, settings.broker_url)
    store = RunStore(client, settings, dispatcher)
    scripts.read_all()
    models = lazy_object(lambda: _make_models(store))
    for cache in (home / "bundles", home / "scratch"):
        evict_unused(cache, settings.retention_s)
    return Services(
        store=store,
        agents=BundleCache(
            store.bundles, home / "bundles", lambda expected: models.prepare(expected)
        ),
        leases=Leases(store.visits.renew, min(_HEARTBEAT_S, settings.lease_s / 3)),
        models=models,
        tools=lazy_object(lambda: _make_tools(store, home / "cache")),
        knowledge=lazy_object(lambda: bases.KnowledgeBases(store, models, home / "kb-cache")),
        secrets=settings.secrets,
        settings=settings,
        limits=VisitLimits.of(settings),
        scratch=home / "scratch",
        figures=figures_of(store.run_spans),
        spans=VisitSpans.of_process(store, models),
    )


def _make_models(store: RunStore) -> Models:
    gate = gates.Gate.of(store)
    gate.start()
    return model_calls.Models(store, gate)


def _make_tools(store: RunStore, cache: Path) -> ToolResolver:
    settings = store.settings
    kept = recordings.Recordings(store.client, settings.retention_s)
    return tool_resolver.ToolResolver(
        settings,
        settings.secrets,
        mcp_pool.McpPool(mcp_pool.McpLimits.of(settings), settings.tool_env),
        cache,
        tool_recording.ToolRecording(kept),
    )


def _end_models(services: Services) -> None:
    """Settle with limits and budgets what models were called for, if any was."""
    if is_made(services.models):
        with suppress(RedisError):  # otherwise what is reserved is free again within a lease
            services.models.end()


def close_servers(services: Services) -> None:
    """End a worker's MCP servers, if any of its nodes has used tools."""
    if is_made(services.tools):
        services.tools.mcp.close()


def import_all() -> None:
    """Import what services and nodes would import on first use, for a process that forks later."""
    for module in (recordings, tool_recording, tool_resolver, bases, model_calls, gates, mcp_pool):
        load(module)
    import_executors(EXECUTORS)


def _writable_home() -> Path:
    """Return the data directory, after creating the directories that workers need in it.

    Raises:
        SettingInvalid: it cannot be used, or one of these belongs to another user.
    """
    home = data_dir()
    for directory in (home, *(home / name for name in _OWN)):
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            owner = directory.stat().st_uid
        except OSError as error:
            raise _unusable(directory, error.strerror or str(error)) from error
        # Code is executed from these; the volume itself may well belong to another user.
        if owner != os.geteuid() and directory != home:
            raise _unusable(directory, f"it belongs to user id {owner}, not to {os.geteuid()}")
    return home


def _unusable(directory: Path, reason: str) -> SettingInvalid:
    return SettingInvalid(
        f"cannot use {directory}: {reason}; set SLEIPNIR_DATA_DIR to a directory of your own"
    )


def serve(settings: Settings, *, with_scheduler: bool, reports_to: int | None = None) -> None:
    """Run a worker until it is told to stop.

    Args:
        reports_to: the descriptor of the socket on which its supervisor hears of its health.
    """
    _allow_many_files()
    adopt_orphans()
    temporary = _own_temporary_files()
    services = make_services(settings)
    services = replace(services, isolation=Isolation(services.store, services.leases))
    if settings.model is not None:
        services.models.prepare([None])
    reporting = Reporting(services)
    if reports_to is not None:
        reporting.start(reports_to)
    draining = Draining(settings, services.leases)
    heartbeat = _heartbeat(services, reporting.pulse, draining)
    Carriage(services).start()
    # A worker that hangs is ended, so that its visits are redelivered as if it had died.
    Watched(2 * settings.lease_s, marks())
    scheduler = _start_scheduler(services.store) if with_scheduler else None

    endings: list[threading.Thread] = []

    @worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]  # no stubs
    def drain(**_: Any) -> None:
        endings.append(threading.Thread(target=end, name="drain", daemon=True))
        endings[-1].start()

    def end() -> None:
        _drain(services, scheduler, temporary, heartbeat, draining)
        reporting.tell()
        logging.shutdown()
        # Celery's own shutdown is slow; nothing is lost, as everything that matters is in Redis.
        os._exit(draining.exit_code)

    # Celery hears it only once it has begun: a worker that is announced must not end unheard.
    signal.signal(signal.SIGTERM, lambda *_: drain())
    heartbeat.start()
    _start(_make_app(services), heartbeat.name)
    # Nor must it come first, if it is quick for once.
    for ending in endings:
        ending.join()


def _start_scheduler(store: RunStore) -> Scheduler:
    delivery, archiver = delivering.event_delivery(store), archiving.archiver_of(store)
    started = scheduling.Scheduler(store, deliverer=delivery, archiver=archiver)
    started.start()
    return started


def _heartbeat(services: Services, pulse: Pulse, draining: Draining) -> Heartbeat:
    settings = services.settings
    machines = Machines(services.store.client)
    pinned = _takes_pinned(settings)
    return Heartbeat(machines, settings, services.leases, pulse, draining, with_queue=pinned)


def _takes_pinned(settings: Settings) -> bool:
    """Return whether runs may be pinned: with a private Redis all workers are on one machine."""
    assert settings.redis_url is not None
    return not is_private(settings.redis_url)


def _make_app(services: Services) -> Celery:
    """Return this worker's app, which runs visits."""
    settings = services.settings
    assert settings.redis_url is not None
    queues = list[str]()
    for each in dict.fromkeys(settings.queues):
        queues.append(named_queue(each))
        if _takes_pinned(settings):
            queues.append(machine_queue(settings.machine_name, each))
    app = make_app(settings.broker_url or settings.redis_url, settings.concurrency, queues)
    register_visits(app, partial(run_visit, services))
    return app


def _start(app: Celery, name: str) -> None:
    """Take messages until the worker is told to stop."""
    # A log line per message would cost more than many a node.
    for chatty in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    worker = app.Worker(
        # Its random part tells workers in containers apart, whose host names may be equal as well.
        hostname=f"sleipnir-{'-'.join(name.split('/')[-2:])}@{gethostname()}",
        loglevel=logging.getLogger().level,
        # For Flower, which counts a worker as away after two of them.
        heartbeat_interval=_CELERY_HEARTBEAT_S,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    worker.start()


@worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]  # no stubs
def _collect_garbage(**_: Any) -> None:
    """Enable collection now, for everything but what the start has created, which stays."""
    gc.freeze()
    gc.enable()


def _allow_many_files() -> None:
    """Raise the limit: a thread may hold connections to Redis and models, and a program's pipes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _own_temporary_files() -> OwnDirectory:
    try:
        return keep_temporary_files()
    except OSError as error:
        raise SettingInvalid(
            f"cannot make temporary files: {error.strerror or error}; "
            "set TMPDIR to a directory with room"
        ) from error


def _drain(
    services: Services,
    scheduler: Scheduler | None,
    temporary: OwnDirectory,
    heartbeat: Heartbeat,
    draining: Draining,
) -> None:
    """Give running visits time to finish, requeue the others, and leave nothing behind."""
    draining.begin_to_end()
    stop_receiving()
    if not services.leases.wait_until_idle(draining.left_s()):
        for lease, cancellation in services.leases.held():
            try:
                services.store.visits.requeue(lease)
            except TransitionRefused:
                continue
            finally:
                cancellation.set()
        # Wait for programs that ignore SIGTERM to be killed: they must not outlive the worker.
        services.leases.wait_until_idle(2 * GRACE_S)
    # Visits that have not begun are requeued once they have.
    deadline = monotonic() + GRACE_S
    while in_hand() and monotonic() < deadline:
        pause(0.01)
    if scheduler is not None:
        scheduler.stop()
    _end_models(services)
    close_servers(services)
    end_all()
    temporary.close()
    if services.spans is not None:
        services.spans.close()
    # Last: until then it is at work; if it fails, the worker is taken for lost within seconds.
    with suppress(RedisError):
        heartbeat.end()
