"""`sleipnir worker`: execute nodes for a shared Redis."""

from __future__ import annotations

import os
from typing import Any

import click

from sleipnir.scheduler.cli.connect import require_redis, settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.processes import worker_children
from sleipnir.scheduler.cli.serving import open_health, serving_options
from sleipnir.scheduler.embedded.process import DRAIN_MARGIN_S
from sleipnir.scheduler.embedded.renewal import Renewal
from sleipnir.scheduler.embedded.supervisor import Supervisor
from sleipnir.scheduler.embedded.worker_health import WorkerHealth
from sleipnir.scheduler.process import cgroups
from sleipnir.scheduler.process.log_lines import FORMAT_VARIABLE


class ProcessCount(click.IntRange):
    """A number of processes, or `auto`."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number of cores for `auto`."""
        return cgroups.cores() if value == "auto" else super().convert(value, param, ctx)


@click.command
@click.option(
    "--processes",
    type=ProcessCount(),
    metavar="N",
    help="Worker processes; `auto`: one for each core that this machine or container lets us use. "
    "Default: the setting `workers`, else 1.",
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Nodes that one process executes at a time."
)
@click.option(
    "-Q",
    "--queues",
    metavar="NAME,NAME",
    help="Queues whose nodes it executes, and no others. Default: `default`.",
)
@click.option(
    "--max-visits",
    type=click.IntRange(min=0),
    metavar="N",
    help="Visits after which a process is replaced; the next one takes messages before it stops.",
)
@click.option(
    "--max-memory-mb",
    type=click.IntRange(min=0),
    metavar="N",
    help="Memory in MiB beyond which a process is replaced in the same way.",
)
@click.option("--scheduler", "with_scheduler", is_flag=True, help="Run a scheduler as well.")
@serving_options
@common_options()
def worker(
    options: Options,
    processes: int | None,
    concurrency: int | None,
    queues: str | None,
    max_visits: int | None,
    max_memory_mb: int | None,
    with_scheduler: bool,
    served: dict[str, str | None],
) -> int:
    """Run worker processes until Ctrl-C or SIGTERM, which let running nodes finish.

    A process that dies is restarted; one that cannot start ends the command with 7. At least one
    scheduler must be running somewhere.
    """
    settings = settings_of(
        options,
        concurrency=concurrency,
        queues=queues,
        max_visits=max_visits,
        max_memory_mb=max_memory_mb,
        **served,
    )
    os.environ[FORMAT_VARIABLE] = settings.log_format
    require_redis(settings)
    supervisor = Supervisor(grace_s=settings.drain_s + DRAIN_MARGIN_S, adopts=True)
    health = WorkerHealth(supervisor, settings.lease_s)
    open_health(health.open, settings.health_address)
    children = worker_children(
        settings,
        processes or settings.workers or 1,
        with_scheduler=with_scheduler,
        verbosity=options.verbosity,
    )
    for child in children:
        health.start(child)
    Renewal(supervisor, health, children).start()
    supervisor.run(on_stopping=health.stopping)
    return supervisor.exit_code
