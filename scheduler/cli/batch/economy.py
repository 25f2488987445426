"""`--economy` and what goes with it: calls in batches of providers, at half price."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

_FLAG = "--economy"
_DEFAULT = "24h"
_UNITS_S = {"m": 60, "h": 3600}
_LEAST_S, _MOST_S = 30 * 60, 24 * 3600


class EconomyTime(click.ParamType[float]):
    """A time from 30m to 24h, in seconds."""

    name = "deadline"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds that a text like `90m` or `6h` means."""
        found = re.fullmatch(r"(\d{1,6})([mh])", str(value))
        seconds = int(found[1]) * _UNITS_S[found[2]] if found else 0
        if not _LEAST_S <= seconds <= _MOST_S:
            self.fail(f"'{value}' is not a time from 30m to 24h, such as 90m or 6h.", param, ctx)
        return float(seconds)


class EconomyCommand(click.Command):
    """A command with `--economy[=DEADLINE]`: a value only counts after `=`.

    Click would take the next word, the agent, for the deadline.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        given = [f"{_FLAG}={_DEFAULT}" if each == _FLAG else each for each in args[:end]]
        return super().parse_args(ctx, [*given, *args[end:]])


ECONOMY_OPTIONS = (
    click.option(
        _FLAG,
        "economy",
        type=EconomyTime(),
        metavar="[=DEADLINE]",
        help="Have models called in batches of their providers, at half price: within DEADLINE, "
        f"30m to 24h, else live. Default: {_DEFAULT}.",
    ),
    click.option(
        "--economy-only",
        is_flag=True,
        help="With --economy: never make these calls live, however long it takes.",
    ),
)


def economy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a verb."""
    for option in reversed(ECONOMY_OPTIONS):
        function = option(function)
    return function


def require_economy(economy: float | None, *, only: bool) -> None:
    """Refuse `--economy-only` without `--economy`.

    Raises:
        click.UsageError: it is given alone.
    """
    if only and economy is None:
        raise click.UsageError("--economy-only needs --economy")
