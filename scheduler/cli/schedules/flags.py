"""The flags of `schedule create`, `edit` and `backfill`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.arguments import json_or_text, name_argument, pairs_or_none
from sleipnir.scheduler.cli.options import Command, with_options

with lazy_imports():
    from sleipnir.scheduler.runs import time_bounds

OVERLAPS = ("skip", "buffer-one", "buffer-all", "cancel-other", "allow-all")


schedule_argument = name_argument(lambda found: found.schedule_names())

_OPTIONS = (
    click.option(
        "--cron",
        multiple=True,
        metavar="LINE",
        help="Cron line of five fields, or @hourly, @daily, @weekly … Repeatable.",
    ),
    click.option(
        "--timezone", metavar="ZONE", help="Of the cron lines: Europe/Berlin. Default: UTC."
    ),
    click.option("--every", metavar="DURATION", help="An interval instead: 30s, 15m, 2h, 1d."),
    click.option(
        "--offset", metavar="DURATION", help="With --every: how long after whole multiples of it."
    ),
    click.option("--prompt", metavar="TEXT", help="Prompt of the runs."),
    click.option(
        "--set",
        "set",
        callback=pairs_or_none,
        metavar="KEY=VALUE",
        multiple=True,
        help="Set a key of the initial state; VALUE is JSON if it parses.",
    ),
    click.option(
        "--var",
        "var",
        callback=pairs_or_none,
        metavar="NAME=VALUE",
        multiple=True,
        help="Agent variable.",
    ),
    click.option(
        "--label",
        "label",
        callback=pairs_or_none,
        metavar="NAME=VALUE",
        multiple=True,
        help="Label to find the runs by; up to 14.",
    ),
    click.option("--queue", metavar="NAME", help="Queue of the nodes that name none."),
    click.option("--webhook", metavar="URL", help="Also send events of the runs there."),
    click.option(
        "--overlap",
        type=click.Choice(OVERLAPS),
        help="What to do at an instant while an earlier run is open. Default: skip.",
    ),
    click.option(
        "--catchup",
        metavar="DURATION",
        help="Instants that are missed by no more than this fire late. Default: 10m.",
    ),
    click.option("--jitter", metavar="DURATION", help="Fire each instant up to so much later."),
    click.option("--start", metavar="TIME", help="No instant before this RFC 3339 time."),
    click.option("--end", metavar="TIME", help="No instant at or after this one."),
    click.option(
        "--pause-on-failure/--no-pause-on-failure",
        default=None,
        help="Pause when a run fails or times out.",
    ),
)
_ENDED = ("start", "end", "queue", "webhook")
_FOR_NEW_ONES = (
    click.option(
        "--session", metavar="NAME", help="Session of a normal agent that all runs continue."
    ),
    click.option("--paused", is_flag=True, default=None, help="Do not fire until it is resumed."),
)


def schedule_options(*, is_new: bool) -> Callable[[Command], Command]:
    """Add the flags that say what a schedule is made of."""
    return with_options(*_OPTIONS, *(_FOR_NEW_ONES if is_new else ()))


def given_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a schedule that flags were given for, by their names."""
    given = {name: value for name, value in flags.items() if value not in (None, (), [])}
    if "set" in given:
        given["set"] = {key: json_or_text(text) for key, text in given["set"].items()}
    if "cron" in given:
        given["cron"] = list(given["cron"])
    # Without it again.
    return {
        name: None if value == "" and name in _ENDED else value for name, value in given.items()
    }


def instant_option(flag: str, name: str, help_: str) -> Callable[[Command], Command]:
    """Return a required option with an instant or an age, which is given in ms since 1970."""
    return click.option(
        flag, name, callback=_parse_instant, required=True, metavar="WHEN", help=help_
    )


def _parse_instant(ctx: click.Context, param: click.Parameter, text: str) -> Any:
    try:
        return time_bounds.parse_time_bound(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
