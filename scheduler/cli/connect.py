"""Provides verbs with settings, agent directories and a client of the engine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports, load
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.errors import RunNotFound

with lazy_imports():
    from concurrent import futures

    from sleipnir.scheduler.client import client as client_api
    from sleipnir.scheduler.client.hooks import notifications
    from sleipnir.scheduler.config import settings as configuration
    from sleipnir.scheduler.config import unknown_variables
    from sleipnir.scheduler.embedded import acceptances as acceptance_log
    from sleipnir.scheduler.embedded import attach as embedded
    from sleipnir.scheduler.store import connection, keys, machines
    from sleipnir.scheduler.store import errors as store_errors

if TYPE_CHECKING:
    from sleipnir.graphs.document.references import AgentSearch
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.config.settings import Settings

# Key of the context for "already warned".
_WARNED = "sleipnir.warned"


def settings_of(options: Options, **flags: object) -> Settings:
    """Return the effective settings; directories given by flags come before configured ones.

    The first call of a command warns of unknown `SLEIPNIR_` variables.

    Args:
        flags: additional settings given as flags of the verb; None: not given.

    Raises:
        SettingInvalid: a setting is invalid.
    """
    _warn_of_variables(options)
    settings = configuration.load_settings({"redis_url": options.redis, **flags}).values
    directories = (*options.agents_dir, *settings.agents_dir)
    return replace(settings, agents_dir=directories)


def search_of(options: Options) -> AgentSearch:
    """Return the directories in which agents are searched by name.

    Raises:
        SettingInvalid: a setting is invalid.
    """
    return agent_search(settings_of(options), options.agents_dir)


def _warn_of_variables(options: Options) -> None:
    context = click.get_current_context(silent=True)
    said = {} if context is None else context.meta
    if _WARNED not in said:
        said[_WARNED] = True
        for line in unknown_variables.unknown_variables(os.environ):
            options.say(f"warning: {line}")


@contextlib.contextmanager
def open_client(
    options: Options, *, workers: bool, processes: int | None = None
) -> Iterator[Client]:
    """Open a client of the configured Redis, or of the embedded engine, which is held meanwhile.

    Args:
        workers: whether runs should execute meanwhile; starts workers of the embedded engine,
            whereas a configured Redis has its own.

    Raises:
        SettingInvalid: a setting is invalid, or people cannot be notified as `notify` says.
        EngineUnreachable: there is no engine, and none can be started.
    """
    with contextlib.ExitStack() as stack:
        settings = settings_of(options)
        if settings.redis_url is not None:
            yield _connect(options, settings)
            return
        if workers and settings.notify:
            notifications.require_notifications(settings)
        engine = embedded.attach(data_dir(), settings, workers=workers, processes=processes)
        with futures.ThreadPoolExecutor(1) as starter:
            # It starts while we import the client.
            starting = starter.submit(stack.enter_context, engine)
            load(client_api)
        redis_url = starting.result().redis_url
        settings = replace(settings, redis_url=redis_url)
        client = _connect(options, settings, data_dir().resolve())
        with _reporting_lost_runs(client):
            yield client


def require_redis(settings: Settings) -> list[str]:
    """Check that a usable Redis is configured; return warnings.

    Raises:
        click.UsageError: none is configured.
        EngineUnreachable: it does not answer, or might lose runs.
    """
    if settings.redis_url is None:
        raise click.UsageError(
            "no Redis is configured: give one with --redis or SLEIPNIR_REDIS_URL; "
            "`sleipnir up` runs the embedded engine"
        )
    return connection.require_fit(
        connection.connect(settings.redis_url), allow_unsafe=settings.allow_unsafe_redis
    )


def hint_missing_process(client: Client, options: Options, run_id: str) -> None:
    """Say what to start for a run to continue, if nothing is running on this engine."""
    if client.queries.has_live_scheduler():
        return
    if settings_of(options).redis_url is None:
        options.say(
            f"no engine is running; start one with `sleipnir watch {run_id}` or `sleipnir up`"
        )
    elif lack := lacking_process(client, options):
        options.say(lack)


def hint_unserved_queues(client: Client, options: Options, names: Iterable[str]) -> None:
    """Say which queues of a run that was submitted have no worker."""
    if settings_of(options).redis_url is None:
        return
    queues = {keys.named_queue(name): name for name in names}
    for queue in sorted(machines.Machines(client.store.client).unserved(queues)):
        name = queues[queue]
        options.say(
            f"no worker of queue '{name}' is running on this Redis; start one with "
            f"`sleipnir worker --queues {name}`"
        )


def lacking_process(client: Client, options: Options) -> str | None:
    """Return which process is missing on a configured Redis, as found by `doctor`, or None.

    None for an embedded engine, whose workers are up to its user.
    """
    settings = settings_of(options)
    if settings.redis_url is None:
        return None
    try:
        has_worker = machines.Machines(client.store.client).any_work()
    except store_errors.RedisError:
        return None
    if not has_worker:
        return "no worker is running on this Redis; start one with `sleipnir worker --scheduler`"
    if not client.queries.has_live_scheduler():
        return (
            "no scheduler is running on this Redis; start one with `sleipnir scheduler`: "
            "timeouts, retries and lost workers are not handled without"
        )
    return None


def report_still_running(options: Options, left: str) -> None:
    """Say after Ctrl-C that running work continues, and when.

    Args:
        left: such as `run 0123456789abcdef continues`.
    """
    settings = settings_of(options)
    if settings.redis_url is not None:
        options.say(left)
        return
    options.say(
        f"{left} as soon as an engine runs. If this command started the engine, running nodes "
        f"have {settings.drain_s:g} s to finish; Ctrl-C again exits at once."
    )


def say_run_goes_on(options: Options, run_id: str) -> None:
    """Say after a termination signal what happens to the run."""
    when = "" if settings_of(options).redis_url is not None else " whenever an engine runs"
    with contextlib.suppress(OSError):  # the terminal may be gone
        options.say(
            f"terminated: run {run_id} continues{when}; `sleipnir watch {run_id}` follows it, "
            f"`sleipnir cancel {run_id}` ends it"
        )


def _connect(options: Options, settings: Settings, home: Path | None = None) -> Client:
    """Return a client; `home` is the data directory of an embedded engine."""
    acceptances = None
    if home is not None:
        assert settings.redis_url is not None
        acceptances = acceptance_log.Acceptances.of(home, settings.redis_url, settings.retention_s)
    search = agent_search(settings, options.agents_dir)
    return client_api.Client.connect(settings, search, acceptances)


@contextlib.contextmanager
def _reporting_lost_runs(client: Client) -> Iterator[None]:
    """Replace RunNotFound by RunLost for runs that this engine had accepted."""
    try:
        yield
    except RunNotFound as error:
        assert client.acceptances is not None
        if lost := client.acceptances.lost(error.run_id, client.queries.now_ms()):
            raise lost from error
        raise
