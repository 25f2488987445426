"""What a verb works with: settings, the places where agents are, and a client of the engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli.options import Options
from scheduler.embedded import attach

if TYPE_CHECKING:
    from graphs.references import AgentSearch
    from scheduler.client import Client
    from scheduler.settings import Settings


def settings_of(options: Options, **flags: object) -> Settings:
    """The effective settings; directories given as flags come before the configured ones.

    Args:
        flags: more settings that the verb takes as flags; None: not given.

    Raises:
        SettingInvalid: one of them cannot be used.
    """
    # pydantic, which help and completion do without.
    from scheduler.settings import load_settings  # noqa: PLC0415

    settings = load_settings({"redis_url": options.redis, **flags}).values
    directories = (*options.agents_dir, *settings.agents_dir)
    return settings.model_copy(update={"agents_dir": directories})


def agent_search(settings: Settings) -> AgentSearch:
    """Where agents are looked for by name, in order."""
    # The loader of agents comes with it.
    from graphs.references import SHIPPED_AGENTS, AgentSearch  # noqa: PLC0415
    from scheduler.settings import config_dir  # noqa: PLC0415

    return AgentSearch(
        (
            Path("agents").absolute(),
            *(Path(directory).expanduser() for directory in settings.agents_dir),
            config_dir() / "agents",
            SHIPPED_AGENTS,
        )
    )


@contextlib.contextmanager
def open_client(
    options: Options, *, workers: bool, processes: int | None = None
) -> Iterator[Client]:
    """A client of the configured Redis, or of the embedded engine, held while it is used.

    Args:
        workers: whether runs are to go on meanwhile; only the embedded engine is started
            for it, a configured Redis has its workers elsewhere.

    Raises:
        EngineUnreachable: there is none, and none can be started.
    """
    settings = settings_of(options)
    if settings.redis_url is not None:
        yield _connect(settings)
        return
    from scheduler.settings import data_dir  # noqa: PLC0415 - pydantic, as above

    embedded = attach(data_dir(), settings, workers=workers, processes=processes)
    with contextlib.ExitStack() as stack:
        with ThreadPoolExecutor(1) as starter:
            # It starts while we import what talks to it.
            starting = starter.submit(stack.enter_context, embedded)
            import scheduler.client  # noqa: F401, PLC0415 - redis and the validator
        redis_url = starting.result().redis_url
        yield _connect(settings.model_copy(update={"redis_url": redis_url}))


def require_redis(settings: Settings) -> None:
    """Check that there is a configured Redis that can be worked with.

    Raises:
        click.UsageError: none is configured.
        EngineUnreachable: it does not answer, or would lose runs.
    """
    if settings.redis_url is None:
        raise click.UsageError(
            "no Redis is configured: give one with --redis or SLEIPNIR_REDIS_URL; "
            "`sleipnir up` runs the embedded engine"
        )
    from scheduler.connection import connect, require_fit  # noqa: PLC0415 - redis

    require_fit(connect(settings.redis_url), allow_unsafe=settings.allow_unsafe_redis)


def say_who_goes_on(client: Client, options: Options, run_id: str) -> None:
    """Say what it takes for a run to go on, if nothing is at work on this engine."""
    if client.records.is_looked_after():
        return
    if settings_of(options).redis_url is None:
        options.say(f"no engine is running: `sleipnir watch {run_id}` or `sleipnir up` goes on")
    else:
        options.say("no worker is running on this Redis: `sleipnir worker --scheduler` goes on")


def _connect(settings: Settings) -> Client:
    from scheduler.client import Client  # noqa: PLC0415 - redis and the validator

    return Client.connect(settings, agent_search(settings))
