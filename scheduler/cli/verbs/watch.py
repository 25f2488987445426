"""`sleipnir watch`: attach to a submitted run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import PositiveNumber, run_argument
from sleipnir.scheduler.cli.connect import open_client, report_still_running, say_run_goes_on
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import Terminated

with lazy_imports():
    from sleipnir.scheduler.cli import attach, run_result

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


@click.command
@run_argument
@click.option(
    "--replay", is_flag=True, help="Replay what has happened so far, at its original speed."
)
@click.option(
    "--speed",
    type=PositiveNumber(),
    metavar="X",
    help="With --replay: how many times faster. Default: 1.",
)
@common_options(json=True)
def watch(options: Options, run_id: str, replay: bool, speed: float | None) -> ExitCode:
    """Follow RUN from its beginning to its end and print its result.

    Stays attached while the run waits for an answer. Ctrl-C detaches; the run continues.
    """
    if speed is not None and not replay:
        raise click.UsageError("--speed needs --replay")
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
        if replay:
            run = attach.replay(client, run_id, options, speed or 1.0)
            return run_result.print_result(client, run, options, client.open_questions(run_id))
        if client.queries.run(run_id).is_final:
            return _follow(client, run_id, options)
        with open_client(options, workers=True) as at_work:
            return _follow(at_work, run_id, options)


def _follow(client: Client, run_id: str, options: Options) -> ExitCode:
    attachment = attach.Attachment(
        client, run_id, options, asks=False, stays=True, streams=options.streams_replies
    )
    try:
        run = attachment.follow()
    except KeyboardInterrupt:
        report_still_running(options, f"detached: run {run_id} continues")
        raise
    except Terminated:
        say_run_goes_on(options, run_id)
        raise
    return run_result.print_result(client, run, options, ())
