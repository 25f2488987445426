"""`sleipnir sessions`: list or remove conversations of normal agents that runs can continue."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.views import runs as run_views
    from sleipnir.scheduler.views.text import formatting

_HEAD = ("AGENT", "SESSION", "LAST RUN", "STATUS", "AGE")


@click.command
@click.argument("agent", required=False)
@click.option("--remove", metavar="NAME", help="Remove this session of AGENT; its runs are kept.")
@common_options(json=True)
def sessions(options: Options, agent: str | None, remove: str | None) -> None:
    """List sessions, or those of AGENT: conversations that runs can continue.

    A session is kept as long as its last run is.
    """
    with open_client(options, workers=False) as client:
        if remove is not None:
            if agent is None:
                raise click.UsageError("--remove needs the agent that the session belongs to")
            client.remove_session(agent, remove)
            options.say(f"removed session '{remove}' of '{agent}'")
            return
        now_ms = client.queries.now_ms()
        found = [run_views.session_document(row, now_ms) for row in client.sessions(agent)]
    if options.json:
        for document in found:
            run_result.print_json(document)
    elif found:
        rows = [
            (
                *(formatting.first_line(each[key]) for key in ("agent", "session")),
                each["run_id"],
                each["status"],
                formatting.age(each["age_s"]),
            )
            for each in found
        ]
        for line in formatting.columns(_HEAD, rows):
            click.echo(line)
    else:
        options.say("no sessions; start one with: sleipnir run AGENT PROMPT --session NAME")
