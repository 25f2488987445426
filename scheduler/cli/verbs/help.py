"""`sleipnir help`: show the help of a verb."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def _complete_verbs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    root = ctx.find_root()
    return root.command.shell_complete(root, incomplete) if not ctx.params.get("words") else []


@click.command("help")
@click.argument("words", metavar="[VERB]...", nargs=-1, shell_complete=_complete_verbs)
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of VERB, as `sleipnir VERB --help` does; without VERB, list all verbs."""
    context = ctx.find_root()
    for word in words:
        group = context.command
        if not isinstance(group, click.Group):
            raise click.UsageError(f"'{context.info_name}' has no subcommand '{word}'", context)
        _, command, _ = group.resolve_command(context, [word, "--help"])
        assert command is not None, "else it raises"
        context = click.Context(command, context, word)
    click.echo(context.get_help())
