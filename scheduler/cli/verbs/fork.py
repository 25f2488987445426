"""`sleipnir fork`: start a new run that continues from the middle of another one."""

from __future__ import annotations

from collections.abc import Sequence

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    agent_option,
    changes_option,
    json_or_text,
    run_argument,
)
from sleipnir.scheduler.cli.connect import hint_missing_process, open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit


@click.command
@run_argument
@click.option(
    "--step",
    type=click.IntRange(min=0),
    help="Continue after this super-step; 0: from the beginning. Default: the last one.",
)
@changes_option("Change a key of the state")
@click.option("--prompt", metavar="TEXT", help="Change the prompt.")
@agent_option(default="same", show_default=True)
@click.option("-n", "count", type=click.IntRange(1, 1000), default=1, help="Start several.")
@click.option("--wait", is_flag=True, help="Stay attached to the new run, as `run` does.")
@common_options(json=True)
def fork(
    options: Options,
    run_id: str,
    step: int | None,
    seeds: Sequence[tuple[str, str]],
    prompt: str | None,
    agent: str,
    count: int,
    wait: bool,
) -> ExitCode:
    """Start a new run with the state and the next nodes that RUN had after a step.

    RUN may be running or finished; it is not changed.
    """
    if wait and count > 1:
        raise click.UsageError("--wait follows one run; leave out -n or --wait")
    streams = wait and options.streams_replies
    with open_client(options, workers=wait) as client:
        run_id = client.queries.resolve(run_id)
        state = {key: json_or_text(text) for key, text in seeds}
        for _ in range(count):
            new = client.fork(
                run_id, step, state=state, prompt=prompt, agent=agent, streamed=streams
            )
            audit.note(client, "fork", [run_id], outcome=f"run {new.run_id}")
            if wait:
                return run_result.stay(client, new.run_id, options, streams=streams)
            if options.json:
                run_result.print_json(run_result.document_of(client, new))
            else:
                click.echo(new.run_id)
        hint_missing_process(client, options, new.run_id)
    return ExitCode.SUCCEEDED
