"""`sleipnir up`: the whole engine in the foreground."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from sleipnir.scheduler.cli.connect import require_redis, settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.processes import monitor_child, worker_children
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.embedded.attach import Engine, run_foreground
from sleipnir.scheduler.embedded.process import DRAIN_MARGIN_S
from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor

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
@common_options()
def up(options: Options, processes: int | None, concurrency: int | None, monitor: bool) -> None:
    """Run Redis (unless one is configured), workers, scheduler and monitor.

    Ctrl-C drains and stops all of them; a second one does not wait.
    """
    settings = settings_of(options, concurrency=concurrency)
    if settings.redis_url is not None:
        _on_configured_redis(settings, options, processes, monitor=monitor)
        return

    def companions(engine: Engine) -> Sequence[ChildProcess]:
        ready = replace(settings, redis_url=engine.redis_url)
        options.say(f"engine is up (pid {engine.pid}, data in {data_dir()}); Ctrl-C stops it")
        return [monitor_child(ready)] if monitor else []

    run_foreground(data_dir(), settings, processes=processes, companions=companions)


def _on_configured_redis(
    settings: Settings, options: Options, processes: int | None, *, monitor: bool
) -> None:
    require_redis(settings)
    supervisor = Supervisor(grace_s=settings.drain_s + DRAIN_MARGIN_S, adopts=True)
    children = worker_children(
        settings,
        processes or settings.workers or 1,
        with_scheduler=True,
        verbosity=options.verbosity,
    )
    for child in (*children, *([monitor_child(settings)] if monitor else ())):
        supervisor.start(child)
    options.say("engine is up; Ctrl-C stops it")
    supervisor.run()
