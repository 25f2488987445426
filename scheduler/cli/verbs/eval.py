"""`sleipnir eval`: score an agent on rows with what is expected, and compare versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import agent_argument, pairs
from sleipnir.scheduler.cli.batch.economy import ECONOMY_OPTIONS, EconomyCommand
from sleipnir.scheduler.cli.connect import open_client, search_of
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.recording_flags import REPLAY_OPTION

with lazy_imports():
    from sleipnir.scheduler.cli import evaluation
    from sleipnir.scheduler.testing.evaluation import making


@click.command("eval", cls=EconomyCommand)
@agent_argument
@click.argument("evaluation", metavar="[EVAL]", required=False)
@click.option(
    "--baseline",
    metavar="REF",
    help="Compare with a path, a name, NAME@VERSION, git:REVISION or a DIR of -o.",
)
@click.option(
    "--variant",
    "variants",
    callback=pairs,
    metavar="NAME=REF",
    multiple=True,
    help="Another version to compare. Repeatable.",
)
@click.option("--repeat", type=click.IntRange(1, 100), metavar="K", help="Run each row K times.")
@click.option("--rows", type=click.IntRange(min=1), metavar="N", help="Only the first N rows.")
@click.option(
    "--no-fork",
    is_flag=True,
    help="Run all rows from the start, also where they could continue the baseline's runs.",
)
@click.option("--gate", is_flag=True, help="Exit with 1 if something is lost.")
@click.option("--accept", is_flag=True, help="Make this version the baseline from now on.")
@ECONOMY_OPTIONS[0]
@REPLAY_OPTION
@click.option(
    "-o",
    "target",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write summary.json, rows.jsonl and report.md to DIR.",
)
@click.option(
    "--init",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Make an evaluation of FILE, which has a column `expected`.",
)
@click.option("--add", "added", metavar="RUN", help="Make a run a row, with --expected TEXT.")
@click.option("--expected", metavar="TEXT", help="With --add: what the run should have given.")
@common_options(json=True)
def eval_(
    options: Options,
    source: Path | None,
    added: str | None,
    expected: str | None,
    **parameters: Any,
) -> ExitCode:
    """Run AGENT on the rows of an evaluation, score each row, and compare with a baseline.

    EVAL is a file in the agent's evals/, or a path. Rows that have been run of a version are not
    run again, and others continue the baseline's runs from the first node that has changed.
    """
    if (added is None) != (expected is None):
        raise click.UsageError("--add RUN and --expected TEXT belong together")
    if source is not None:
        directory = search_of(options).find(parameters["agent"])
        file = making.make_evaluation(directory, source)
        of = f"{parameters['agent']} {file.stem}"
        options.say(f"made {file}; run it with: sleipnir eval {of}")
        return ExitCode.SUCCEEDED
    with open_client(options, workers=added is None) as client:
        if added is not None:
            directory = client.search.find(parameters["agent"])
            rows = making.add_row(
                client, directory, parameters["evaluation"], added, expected or ""
            )
            options.say(f"added to {rows}")
            return ExitCode.SUCCEEDED
        call = evaluation.EvalCall(**parameters)
        return evaluation.EvalCommand(client, options, call).run()
