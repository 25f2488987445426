"""`sleipnir completion`: print the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_SLEIPNIR_COMPLETE"


@click.command
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes verbs, flags, agents, runs, batches and nodes in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None, "click has these three"
    click.echo(kind(ctx.find_root().command, {}, "sleipnir", _VARIABLE).source())
