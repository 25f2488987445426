"""`sleipnir watch`: attach to a run that somebody submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import run_argument
from sleipnir.scheduler.cli.connect import open_client, say_run_goes_on, say_what_is_left
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import Terminated

with lazy_imports():
    from sleipnir.scheduler.cli import attach, run_result

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


@click.command
@run_argument
@common_options(json=True)
def watch(options: Options, run_id: str) -> ExitCode:
    """Follow RUN from its beginning to its end and print its result.

    Stays attached while the run waits for an answer. Ctrl-C detaches; the run continues.
    """
    with open_client(options, workers=False) as client:
        run_id = client.queries.resolve(run_id)
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
        say_what_is_left(options, f"detached: run {run_id} continues")
        raise
    except Terminated:
        say_run_goes_on(options, run_id)
        raise
    return run_result.print_result(client, run, options, ())
