"""`sleipnir diff`: compare two runs."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_runs
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.comparison import layout


@click.command
@click.argument("run_a", metavar="RUN_A", shell_complete=complete_runs)
@click.argument("run_b", metavar="RUN_B", shell_complete=complete_runs)
@click.option(
    "--step",
    type=click.IntRange(min=0),
    help="Compare them after this super-step. Default: as they are now.",
)
@common_options(json=True)
def diff(options: Options, run_a: str, run_b: str, step: int | None) -> ExitCode:
    """Compare two runs: their routes, their nodes, their final states.

    Exits with 0 if route, output and final state are the same, else with 1.
    """
    with open_client(options, workers=False) as client:
        run_a, run_b = client.queries.resolve(run_a), client.queries.resolve(run_b)
        found = client.diff(run_a, run_b, step)
    if options.json:
        run_result.print_json(found.to_json())
    else:
        for line in layout.lines_of(found, (run_a, run_b), layout.terminal_width()):
            click.echo(line)
    return ExitCode.SUCCEEDED if found.equal else ExitCode.FAILED
