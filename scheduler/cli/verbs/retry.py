"""`sleipnir retry`: runs that are over go on in place."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import PositiveNumber, complete_runs, json_or_text, pairs
from sleipnir.scheduler.cli.connect import open_client, say_who_goes_on
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import ActionRefused

with lazy_imports():
    from sleipnir.scheduler.cli import run_result

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


@click.command
@click.argument("run_ids", metavar="RUN...", nargs=-1, required=True, shell_complete=complete_runs)
@click.option(
    "--from",
    "from_step",
    type=click.IntRange(min=1),
    metavar="STEP",
    help="Begin with this super-step anew. Default: go on in the one that was not completed.",
)
@click.option(
    "--set",
    "seeds",
    callback=pairs,
    metavar="KEY=VALUE",
    multiple=True,
    help="Change a key of the state first; VALUE is JSON if it parses.",
)
@click.option(
    "--agent",
    metavar="AGENT",
    default="same",
    show_default=True,
    help="`same`: as the run began; `current`, or a path: as it is now.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=PositiveNumber(),
    metavar="SECONDS",
    help="Another time limit. Default: the whole limit anew.",
)
@click.option(
    "--shallow", is_flag=True, help="Start new child runs in place of those that did not succeed."
)
@click.option("--wait", is_flag=True, help="Stay attached to the run, as `run` does.")
@common_options(json=True)
def retry(
    options: Options,
    run_ids: Sequence[str],
    seeds: Sequence[tuple[str, str]],
    wait: bool,
    **wishes: Any,
) -> ExitCode:
    """Let each RUN that failed, was cancelled or timed out go on where it stopped.

    What it had finished is not done again: branches, items of maps, child runs, answers, and
    replies of models to nodes that broke off. It keeps its id, and its place in its batch.
    """
    if wait and len(run_ids) > 1:
        raise click.UsageError("--wait stays with one run; name one, or leave out --wait")
    wishes["state"] = {key: json_or_text(text) for key, text in seeds}
    with open_client(options, workers=wait) as client:
        found = [client.queries.resolve(prefix) for prefix in run_ids]
        if wait:
            streams = options.streams_replies
            go_on = partial(client.retry, found[0], **wishes, streamed=streams)
            return run_result.stay(client, found[0], options, streams=streams, start=go_on)
        code = ExitCode.SUCCEEDED
        for run_id in found:
            code = max(code, _retry(client, options, run_id, wishes))
        if code == ExitCode.SUCCEEDED:
            say_who_goes_on(client, options, found[0])
    return code


def _retry(client: Client, options: Options, run_id: str, wishes: dict[str, Any]) -> ExitCode:
    """Retry one of several runs; one that cannot be does not keep the others back."""
    try:
        run = client.retry(run_id, **wishes)
    except ActionRefused as error:
        click.echo(f"error: {error}", err=True)
        return ExitCode.FAILED
    if options.json:
        run_result.print_json(run_result.document_of(client, run, ()))
    else:
        click.echo(run.run_id)
    return ExitCode.SUCCEEDED
