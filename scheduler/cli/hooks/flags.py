"""The flags of `hook create`, `edit` and `rotate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import (
    complete_agents,
    complete_batches,
    name_argument,
    pairs_or_none,
)
from sleipnir.scheduler.cli.options import Command, with_options

with lazy_imports():
    from sleipnir.scheduler.runs import time_bounds


_FILTER = ("agent", "batch", "label")

hook_argument = name_argument(lambda found: found.hook_names())

_OPTIONS = (
    click.option(
        "--event",
        "events",
        metavar="EVENT",
        multiple=True,
        help="Event to send, such as run.failed, run.* or question.asked. Repeatable. Default: all "
        "ends of runs.",
    ),
    click.option(
        "--agent",
        metavar="AGENT",
        shell_complete=complete_agents,
        help="Only events of this agent's runs.",
    ),
    click.option(
        "--batch",
        metavar="BATCH",
        shell_complete=complete_batches,
        help="Only events of this batch and its runs.",
    ),
    click.option(
        "--label",
        "label",
        callback=pairs_or_none,
        metavar="NAME=VALUE",
        multiple=True,
        help="Only events of runs with this label. Repeatable.",
    ),
)


def hook_options(function: Command) -> Command:
    """Add the flags that say which events a hook is told of."""
    return with_options(*_OPTIONS)(function)


def keep_option(help_text: str) -> Callable[[Command], Command]:
    """Return the option `--keep`: for how many s an earlier secret is good beside a new one."""
    return click.option(
        "--keep",
        "keep_s",
        callback=_parse_duration,
        default="1d",
        metavar="DURATION",
        show_default=True,
        help=help_text,
    )


def _parse_duration(ctx: click.Context, param: click.Parameter, text: str) -> int:
    try:
        return time_bounds.duration_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


def given_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a hook that flags were given for, by their names."""
    given = {name: value for name, value in flags.items() if value not in (None, (), [])}
    if "events" in given:
        given["events"] = list(given["events"])
    chosen = {name: given.pop(name) for name in _FILTER if name in given}
    if chosen:
        # An empty value ends a filter.
        given["filter"] = {name: None if value == "" else value for name, value in chosen.items()}
    return given
