"""`sleipnir chat`: talk to an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    ExistingDirectory,
    agent_argument,
    variables_option,
)
from sleipnir.scheduler.cli.connect import open_client
from sleipnir.scheduler.cli.exit_codes import ExitCode
from sleipnir.scheduler.cli.options import Options, common_options

with lazy_imports():
    from sleipnir.scheduler.cli.chat import chat as chats
    from sleipnir.scheduler.cli.chat import reader


@click.command
@agent_argument
@click.option(
    "--session",
    metavar="NAME",
    help="Continue this session of a normal agent; a new name starts one, `temp` uses none.",
)
@variables_option
@click.option(
    "--workdir",
    type=ExistingDirectory(),
    help="Working directory of scripts and tools. Default: the current directory.",
)
@click.option(
    "--yes",
    "confirmed",
    is_flag=True,
    help="Run guarded tools without asking for confirmation.",
)
@common_options()
def chat(
    options: Options,
    agent: str,
    session: str | None,
    variables: Sequence[tuple[str, str]],
    workdir: Path | None,
    confirmed: bool,
) -> ExitCode:
    """Talk to AGENT: each message is a run, and its reply is printed.

    A normal agent remembers the conversation, a graph agent does not. Ctrl-C cancels a reply. At a
    question of the agent it leaves the chat, as Ctrl-D does, and the next chat asks the question
    again. `.help` lists commands. Without a terminal, each line of standard input is a message.
    """
    if options.streams_replies:
        options.say(f"starting '{agent}' …")
    with open_client(options, workers=True) as client:
        wishes = chats.Wishes(agent, session, variables, workdir, confirmed)
        found = chats.Chat(client, options, wishes)
        if options.streams_replies:
            options.say(f"talking to '{found.agent}'; .help lists commands, .exit leaves")
        return found.stay(reader.reader_for(found.agent))
