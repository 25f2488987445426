"""`sleipnir up`: run the whole engine in the foreground."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import require_redis, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.processes import MonitorFlags, monitor_child, worker_children
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.embedded.attach import Engine, run_foreground
from sleipnir.scheduler.embedded.process import DRAIN_MARGIN_S
from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor

with lazy_imports():
    from sleipnir.scheduler.client.hooks import notifications
    from sleipnir.scheduler.config import monitor_key
    from sleipnir.scheduler.store import connection

if TYPE_CHECKING:
    from sleipnir.scheduler.config.settings import Settings


@click.command
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Worker processes. Default: the setting `workers`, else 1.",
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Nodes that one process executes at a time."
)
@click.option("--monitor/--no-monitor", default=True, help="Start the monitor.  [default: yes]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=5555,
    show_default=True,
    help="Port of the monitor; 0: any that is free.",
)
@click.option(
    "--url-prefix",
    metavar="PATH",
    default="",
    help="Path that the monitor's URLs start with, behind a proxy that forwards them unchanged.",
)
@click.option("--open", "opens", is_flag=True, help="Open the monitor in a browser.")
@common_options()
def up(
    options: Options,
    processes: int | None,
    concurrency: int | None,
    monitor: bool,
    port: int,
    url_prefix: str,
    opens: bool,
) -> int:
    """Run Redis (unless one is configured), workers, scheduler and monitor.

    Ctrl-C drains and stops all of them; a second one does not wait.
    """
    settings = settings_of(options, concurrency=concurrency)
    if settings.notify:
        notifications.require_notifications(settings)
    count = processes or settings.workers or 1
    if not monitor and (url_prefix or opens):
        raise click.UsageError("--url-prefix and --open need the monitor; leave out --no-monitor")
    prefix = monitor_key.checked_prefix(url_prefix)
    pages = MonitorFlags(port, prefix, opens, options.agents_dir) if monitor else None
    if settings.redis_url is not None:
        return _on_configured_redis(settings, options, count, pages)

    def companions(engine: Engine) -> Sequence[ChildProcess]:
        ready = replace(settings, redis_url=engine.redis_url)
        _tell(options, settings, count, f"data:    {data_dir()}", pages)
        return [] if pages is None else [monitor_child(ready, pages)]

    run_foreground(
        data_dir(),
        settings,
        processes=processes,
        verbosity=options.verbosity,
        companions=companions,
    )
    return ExitCode.SUCCEEDED


def _on_configured_redis(
    settings: Settings, options: Options, processes: int, pages: MonitorFlags | None
) -> int:
    require_redis(settings)
    supervisor = Supervisor(grace_s=settings.drain_s + DRAIN_MARGIN_S, adopts=True)
    children = worker_children(
        settings,
        processes,
        with_scheduler=True,
        verbosity=options.verbosity,
        quiet=options.verbosity == 0,
    )
    redis_url = connection.masked(settings.redis_url or "")
    _tell(options, settings, processes, f"Redis:   {redis_url}", pages)
    for child in (*children, *([] if pages is None else [monitor_child(settings, pages)])):
        supervisor.start(child)
    supervisor.run()
    return supervisor.exit_code


def _tell(
    options: Options, settings: Settings, processes: int, place: str, pages: MonitorFlags | None
) -> None:
    """Say what was started, and what to do with it; `pages` is None without a monitor."""
    workers = "1 worker process" if processes == 1 else f"{processes} worker processes"
    same = " with the same --redis" if options.redis is not None else ""
    for line in (
        f"engine is up (pid {os.getpid()}): {workers}, {settings.concurrency} nodes at a time each",
        place,
        f"monitor: {_pages(settings, pages)}",
        f"try:     sleipnir run log-digest sample{same} (in another terminal)",
        f"stop:    Ctrl-C; running nodes have {settings.drain_s:g} s to finish",
    ):
        options.say(line)


def _pages(settings: Settings, pages: MonitorFlags | None) -> str:
    """Return the monitor's URL, with the key unless users are authenticated in another way."""
    if pages is None:
        return "none"
    if pages.port == 0:
        return "its address follows"
    has_users = bool(os.environ.get("SLEIPNIR_MONITOR_AUTH") or settings.monitor_user_header)
    key = None if has_users else monitor_key.monitor_key(data_dir())
    return monitor_key.link("127.0.0.1", pages.port, key, prefix=pages.prefix)
