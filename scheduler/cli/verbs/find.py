"""`sleipnir find`: what has a name like a text."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.batch import identity
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.views.finding import name_search
    from sleipnir.scheduler.views.text import formatting


@click.command
@click.argument("text")
@common_options(json=True)
def find(options: Options, text: str) -> int:
    """List what has TEXT in its name, the likeliest first.

    Agents, batches, items of batches by their exact names, labels, limits, and runs whose ids begin
    with TEXT, as in the box at the top of the monitor's pages.
    """
    with open_client(options, workers=False) as client:
        found = name_search.NameSearch(client, identity.run_id_of).find(text)
    if options.json:
        for document in found:
            run_result.print_json(document)
    elif found:
        rows = [
            (each["kind"], formatting.first_line(each["name"]), each["about"] or "-")
            for each in found
        ]
        for line in formatting.columns(("KIND", "NAME", "ABOUT"), rows):
            click.echo(line)
    if not found:
        options.say("nothing has a name like that; `sleipnir ps` lists runs")
        return ExitCode.FAILED
    return ExitCode.SUCCEEDED
