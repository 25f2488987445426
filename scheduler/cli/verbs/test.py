"""`sleipnir test`: run an agent's test cases with predefined replies."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import agent_argument
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import test_command


@click.command
@agent_argument
@click.argument("names", metavar="[CASE]...", nargs=-1)
@click.option("-k", "part", metavar="TEXT", help="Only cases with TEXT in their names.")
@click.option("-x", "--exitfirst", is_flag=True, help="Stop at the first case that fails.")
@click.option("--record", is_flag=True, help="Call real models and update the recordings.")
@common_options(json=True)
def test(
    options: Options,
    agent: str,
    names: tuple[str, ...],
    part: str | None,
    exitfirst: bool,
    record: bool,
) -> int:
    """Run the cases in AGENT's tests/*.yaml; all of them, or those of a file or name.

    Models are not called: a case gives their replies, or names a recording.
    """
    with open_client(options, workers=True) as client:
        selection = test_command.Selection(names, part)
        return test_command.run_tests(
            client, options, agent, selection, exitfirst=exitfirst, record=record
        )
