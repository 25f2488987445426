"""`sleipnir batch`: one run per line of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    ExpressionType,
    PositiveNumber,
    complete_agents,
    complete_batches,
)
from sleipnir.scheduler.cli.batch.economy import (
    ECONOMY_OPTIONS,
    EconomyCommand,
    require_economy,
)
from sleipnir.scheduler.cli.batch.input_options import INPUT_OPTIONS, SOURCE
from sleipnir.scheduler.cli.connect import open_client, settings_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.recording_flags import require_place
from sleipnir.scheduler.cli.submission import REQUEST_OPTIONS

with lazy_imports():
    from sleipnir.scheduler.cli.batch import command as batch_command
    from sleipnir.scheduler.cli.batch import planned
    from sleipnir.scheduler.cli.batch import status as batch_status

if TYPE_CHECKING:
    from sleipnir.graphs.expressions.expression import Expression


_PARAMETERS = (
    click.argument("agent", required=False, shell_complete=complete_agents),
    SOURCE,
    click.option(
        "-o",
        "target",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write results to FILE instead of stdout; as a table if it ends in .csv.",
    ),
    *INPUT_OPTIONS,
    click.option("--name", help="Name of the batch. Default: from INPUT's path and AGENT."),
    click.option("--with-input", is_flag=True, help="Add each line's input to its result."),
    click.option(
        "--with-state",
        multiple=True,
        metavar="KEY",
        help="Add a key of the final state to each result. Repeatable.",
    ),
    click.option("--ordered", is_flag=True, help="Write results in input order."),
    click.option("--retry-failed", is_flag=True, help="Continue failed lines where they stopped."),
    click.option(
        "--retry-incomplete",
        is_flag=True,
        help="As --retry-failed; lines with failed nodes continue from the first of these.",
    ),
    click.option(
        "--mixed",
        is_flag=True,
        help="Run unfinished lines although the agent has changed since others were run.",
    ),
    click.option(
        "--redo",
        type=ExpressionType(all_is_true=True),
        metavar="EXPR",
        help="Run finished lines whose result fulfils EXPR from the start again; `all` for all.",
    ),
    click.option(
        "--from-start",
        is_flag=True,
        help="With --retry-failed or --retry-incomplete: run these lines from the beginning.",
    ),
    click.option(
        "--max-in-flight",
        type=click.IntRange(min=1),
        metavar="N",
        help="Runs in progress at a time. Default: enough to keep the workers busy.",
    ),
    click.option(
        "--budget",
        type=PositiveNumber(),
        metavar="USD",
        help="What the batch may cost at most, over all starts; every model needs a price.",
    ),
    click.option(
        "--plan",
        "planned",
        is_flag=True,
        help="Say first what it will do and cost, and ask before it starts; --yes goes on.",
    ),
    click.option(
        "--detach", is_flag=True, help="Submit all lines, print the batch's name and exit."
    ),
    click.option(
        "--record",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Record model and tool calls in FILE, for --replay.",
    ),
    *ECONOMY_OPTIONS,
    click.option(
        "--economy-window",
        type=click.IntRange(min=1),
        default=20_000,
        metavar="N",
        help="With --economy: runs in progress at a time, most of which wait for a batch.",
    ),
    *REQUEST_OPTIONS,
)


def _parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    for parameter in reversed(_PARAMETERS):
        function = parameter(function)
    return function


@click.command(cls=EconomyCommand)
@_parameters
@click.option(
    "--status",
    metavar="BATCH",
    shell_complete=complete_batches,
    help="Show the progress of a batch; takes no arguments.",
)
@click.option(
    "--where",
    type=ExpressionType(),
    metavar="EXPR",
    help="With --status: print the results that fulfil EXPR, one JSON document a line.",
)
@click.option(
    "--count",
    type=ExpressionType(),
    metavar="EXPR",
    help="With --status: print how many results have each value of EXPR.",
)
@common_options(json=True)
def batch(
    options: Options,
    status: str | None,
    where: Expression | None,
    count: Expression | None,
    **parameters: Any,
) -> int:
    """Run AGENT once per line of INPUT: JSON lines, CSV or plain text, `-` for stdin.

    A JSON line is a prompt, or an object with any of "id", "prompt", "state", "vars", "answers"
    and "labels". CSV has a header; columns other than id and prompt go into the state.

    Run the same command again to resume: finished lines are skipped, running ones are picked up.
    """
    if status is not None:
        _require_none_of(parameters)
        wanted = batch_status.WantedResults(status, where, count, parameters["with_state"])
        with open_client(options, workers=False) as client:
            return batch_status.print_status(client, options, wanted)
    if where is not None or count is not None:
        raise click.UsageError("--where and --count need --status BATCH")
    _require(parameters)
    require_place(parameters["record"], parameters["detach"], parameters["replay"])
    if parameters.pop("planned") and not planned.may_start(options, parameters):
        return ExitCode.SUCCEEDED
    processes = settings_of(options).workers or os.cpu_count() or 1
    with open_client(options, workers=not parameters["detach"], processes=processes) as client:
        return batch_command.run_batch(
            client, options, batch_command.BatchCall(**parameters), processes
        )


def _require_none_of(parameters: dict[str, Any]) -> None:
    """Refuse, beside --status, what it does not heed."""
    context = click.get_current_context()
    for each in context.command.params:
        if (
            each.name in parameters.keys() - {"with_state"}
            and context.get_parameter_source(each.name) == click.core.ParameterSource.COMMANDLINE
        ):
            is_option = isinstance(each, click.Option)
            name = each.opts[0] if is_option else each.make_metavar(context).strip("[]")
            raise click.UsageError(f"--status only shows a batch, and takes no {name}")


def _require(parameters: dict[str, Any]) -> None:
    if parameters["agent"] is None or parameters["source"] is None:
        raise click.UsageError("give AGENT and INPUT, or --status BATCH")
    if parameters["from_start"] and not (
        parameters["retry_failed"] or parameters["retry_incomplete"]
    ):
        raise click.UsageError("--from-start needs --retry-failed or --retry-incomplete")
    require_economy(parameters["economy"], only=parameters["economy_only"])
    if parameters["detach"] and parameters["target"] is not None:
        raise click.UsageError(
            "--detach exits before there are results to write with -o; "
            "run the same command without --detach later to collect them"
        )
