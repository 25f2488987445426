"""`sleipnir inbox`: list open questions."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents, complete_batches
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.cli.paging import cursor_option, limit_option

with lazy_imports():
    from sleipnir.scheduler.cli import paging, run_result
    from sleipnir.scheduler.views import questions
    from sleipnir.scheduler.views.text.tables import questions as question_table

_LIMIT = 100


@click.command
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_agents,
    help="Only questions of this agent's runs. Repeatable: of any of them.",
)
@click.option(
    "--batch",
    metavar="BATCH",
    shell_complete=complete_batches,
    help="Only questions of this batch's runs and their child runs.",
)
@limit_option(_LIMIT)
@cursor_option
@common_options(json=True)
def inbox(
    options: Options, agents: tuple[str, ...], batch: str | None, limit: int, cursor: str | None
) -> None:
    """List open questions, oldest first.

    The last line says how many there are, and how to see the next ones.
    """
    with open_client(options, workers=False) as client:
        user = client.store.settings.identity
        page = questions.inbox_page(
            client.queries, user, limit=limit, cursor=cursor, agents=agents, batch=batch
        )

    found = page["questions"]
    if options.json:
        for document in found:
            run_result.print_json(document)
    elif found:
        for line in question_table.lines_of(found):
            click.echo(line)
    if not found and page["next"] is None:
        options.say("no open questions" if cursor is None else "no more questions")
        return
    flags = {"agent": agents, "batch": batch, "limit": None if limit == _LIMIT else limit}
    options.say(paging.PageLine("inbox", flags, "question", "questions").of(page, len(found)))
    if not options.json:
        options.say("answer one with: sleipnir answer RUN TEXT")
