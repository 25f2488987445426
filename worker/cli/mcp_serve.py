"""`sleipnir mcp`: agents as tools for MCP clients that start their servers themselves."""

from __future__ import annotations

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import complete_agents
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.worker.monitor.serving.mcp import stdio


@click.group
def mcp() -> None:
    """Serve agents as tools by the Model Context Protocol.

    `sleipnir monitor` serves them by HTTP, with its users and their roles.
    """


@mcp.command
@click.option(
    "--agent",
    "agents",
    metavar="NAME",
    multiple=True,
    required=True,
    shell_complete=complete_agents,
    help="An agent, or a pattern of names as in 'support-*'; may be repeated.",
)
@common_options()
def serve(options: Options, agents: tuple[str, ...]) -> None:
    """Serve agents on standard input and output, until the client closes its end.

    For the configuration of an MCP client, which starts this command itself. Runs that go on then
    are not cancelled.
    """
    with open_client(options, workers=True) as client:
        stdio.serve(client, agents)
