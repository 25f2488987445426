"""`sleipnir plan`: what runs of an agent will do and cost, without running them."""

from __future__ import annotations

from typing import Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    PositiveNumber,
    agent_argument,
    changes_option,
    sarif_option,
    variables_option,
)
from sleipnir.scheduler.cli.batch.economy import ECONOMY_OPTIONS, EconomyCommand
from sleipnir.scheduler.cli.batch.input_options import INPUT_OPTIONS, SOURCE
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options, with_options

with lazy_imports():
    from sleipnir.worker.cli import plan_command, plan_lines


_SAMPLE = "--sample"
_LINES = 30


class _PlanVerb(EconomyCommand):
    """A command in which only a number after `--sample` is its value; else INPUT follows."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        following = [*args[1:], ""]
        given = [
            f"{_SAMPLE}={_LINES}" if each == _SAMPLE and not after.isdecimal() else each
            for each, after in zip(args, following, strict=True)
        ]
        return super().parse_args(ctx, given)


@click.command(cls=_PlanVerb)
@agent_argument
@with_options(SOURCE, *INPUT_OPTIONS)
@changes_option("Set a key of the initial state")
@variables_option
@click.option(
    _SAMPLE,
    type=click.IntRange(min=1),
    metavar="[N]",
    help=f"Run N lines, by default {_LINES}, as lines of the batch, and estimate from them.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="S",
    help="With --sample: another number draws other lines. Default: 0.",
)
@click.option("--name", help="Name of the batch. Default: from INPUT's path and AGENT.")
@click.option(
    "--budget",
    type=PositiveNumber(),
    metavar="USD",
    help="Exit with 1 if it may not be enough, or if a price is not known.",
)
@ECONOMY_OPTIONS[0]
@sarif_option
@common_options(json=True)
def plan(options: Options, **parameters: Any) -> ExitCode:
    """Say what a run of AGENT, or one for each line of INPUT, will do at least and at most.

    Without --sample it calls no model and starts no run. Bounds are for runs that succeed without a
    failed node. Exits with 3 if the agent has errors.
    """
    call = plan_lines.PlanCall(**parameters)
    if call.sample is None:
        return plan_command.PlanCommand(options, call, None).print()
    if call.source is None:
        raise click.UsageError("--sample takes lines of an INPUT; name a file")
    with open_client(options, workers=True) as client:
        return plan_command.PlanCommand(options, call, client).print()
