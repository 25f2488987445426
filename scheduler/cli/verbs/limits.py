"""`sleipnir limits`: show what delays model calls, and change it for all workers."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import ask_redis
from sleipnir.scheduler.cli.connect import open_client, settings_of
from sleipnir.scheduler.cli.options import Options, common_options
from sleipnir.scheduler.errors import SleipnirError

with lazy_imports():
    from sleipnir.scheduler.cli import run_result
    from sleipnir.scheduler.cli.many import audit
    from sleipnir.scheduler.client.limits import batches as batch_commands
    from sleipnir.scheduler.client.limits import commands as limit_commands
    from sleipnir.scheduler.client.limits import report
    from sleipnir.scheduler.limits import money, rules
    from sleipnir.scheduler.store import rate_limiter
    from sleipnir.scheduler.views import economy
    from sleipnir.scheduler.views.text.tables import economy as economy_table
    from sleipnir.scheduler.views.text.tables import limits as limit_table

if TYPE_CHECKING:
    from sleipnir.scheduler.client.limits.commands import LimitCommands
    from sleipnir.scheduler.client.limits.report import Report
    from sleipnir.scheduler.views.types.economy import EconomyDocument


def _complete_names(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of limits, pauses and budgets."""
    return [CompletionItem(name) for name in _names(ctx) if name.startswith(incomplete)]


def _complete_settings(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete `NAME.SETTING` for these names."""
    known = (
        f"{name}.{setting}"
        for name in _names(ctx)
        for setting in (rules.BUDGET_SETTINGS if name in rules.SCOPES else rules.LIMIT_SETTINGS)
    )
    return [CompletionItem(place) for place in known if place.startswith(incomplete)]


def _names(ctx: click.Context) -> list[str]:
    changes = ask_redis(ctx, lambda client: rate_limiter.RateLimiter(client).notices().changes)
    names = {*rules.SCOPES, *(place.rpartition(".")[0] for place in changes or ())}
    with suppress(SleipnirError):  # invalid settings are reported by the verb itself
        configured = settings_of(Options(quiet=True)).models
        names.update(configured.providers, configured.limits)
    return sorted(names)


@click.command
@click.option(
    "--set",
    "changes",
    multiple=True,
    shell_complete=_complete_settings,
    metavar="NAME.SETTING=VALUE",
    help="Change a limit or budget for all workers; `none` removes it. Repeatable.",
)
@click.option(
    "--unset",
    "unset",
    multiple=True,
    shell_complete=_complete_settings,
    metavar="NAME.SETTING",
    help="Revert to the configured value. Repeatable.",
)
@click.option(
    "--pause",
    metavar="NAME",
    shell_complete=_complete_names,
    help="Block all calls until --resume.",
)
@click.option("--reason", default="manual", show_default=True, help="Reason for --pause.")
@click.option(
    "--resume",
    metavar="NAME",
    shell_complete=_complete_names,
    help="End a pause, or renew a used-up budget.",
)
@click.option(
    "--send",
    metavar="PROVIDER",
    help="Send the requests now that wait for the next batch of PROVIDER.",
)
@click.option(
    "--live",
    metavar="GROUP",
    help="Make the calls live that wait for this group of requests.",
)
@common_options(json=True)
def limits(
    options: Options,
    changes: tuple[str, ...],
    unset: tuple[str, ...],
    pause: str | None,
    reason: str,
    resume: str | None,
    send: str | None,
    live: str | None,
) -> None:
    """Show limits, pauses and budgets of model calls, or change them while workers run.

    NAME is a provider or provider:model. Budgets are named run, batch and day; --resume takes
    run:ID, batch:NAME and day.
    """
    with open_client(options, workers=False) as client:
        commands = limit_commands.LimitCommands(client.store)
        for text in changes:
            commands.set(text)
            audit.note(client, "limits", [text])
        for text in unset:
            commands.unset(text)
            audit.note(client, "limits", [f"{text} as configured"])
        if pause is not None:
            commands.pause(pause, reason)
            audit.note(client, "limits", [f"{pause} paused: {reason}"])
        if resume is not None:
            _resume(commands, resume, options)
            audit.note(client, "limits", [f"{resume} resumed"])
        if send is not None:
            batch_commands.send_now(client.store, send)
            audit.note(client, "limits", [f"requests of {send} sent"])
        if live is not None:
            group_id = batch_commands.make_live(client.store, live)
            audit.note(client, "limits", [f"calls of group {group_id} made live"])
        rules_now = commands.rules()
        found = report.report(commands.limiter.queries, rules_now)
        _print(found, economy.economy_document(client.store, rules_now), options)


def _resume(commands: LimitCommands, name: str, options: Options) -> None:
    waiting = commands.resume(name)
    options.say(f"{name}: {waiting} call{'' if waiting == 1 else 's'} resumed")


def _print(found: Report, batches: EconomyDocument, options: Options) -> None:
    if options.json:
        run_result.print_json({**found.to_json(), **batches})
        return
    lines = list(limit_table.lines_of(found))
    if more := list(economy_table.lines_of(batches)):
        lines += [""] * bool(lines) + more
    if not lines:
        options.say("model calls have no limits; set some in config.yaml or with --set")
    for line in lines:
        click.echo(line)
    if found.today.usd is None and found.today.tokens is None:
        cost, tokens = money.dollars(found.today.spent_usd), found.today.spent_tokens
        options.say(f"spent today, without a budget: {cost}, {tokens:,} tokens")
