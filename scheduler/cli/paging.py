"""Shared by lists on the command line: paging flags, and the line below a page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

with lazy_imports():
    from sleipnir.scheduler.runs import time_bounds

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.time_bounds import TimeBound

Page = Mapping[str, Any]


def limit_option(default: int) -> Callable[..., Any]:
    """Return the option `--limit`, the length of a page."""
    return click.option("--limit", type=click.IntRange(min=1), default=default, show_default=True)


# The beginning of a page.
cursor_option = click.option(
    "--cursor", metavar="CURSOR", help="Continue where the previous page ended."
)


def time_bound(ctx: click.Context, param: click.Parameter, text: str | None) -> TimeBound | None:
    """Parse an option's `15m`, `4h`, `7d` or RFC 3339 instant."""
    try:
        return None if text is None else time_bounds.parse_time_bound(text)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error


@dataclass(frozen=True, slots=True)
class PageLine:
    """The line below a page: how much of the list it is, and how to continue.

    Args:
        verb: the verb of the command.
        flags: the flags of the call, by name.
        one, many: the name of the entries, singular and plural.
    """

    verb: str
    flags: Mapping[str, Any]
    one: str
    many: str

    def of(self, page: Page, shown: int) -> str:
        """Return the line below a page with this many printed entries."""
        parts = [self._how_many(page, shown)]
        searched = page["searched"]
        if not searched["complete"]:
            looked = f"{searched[self.many]:,} {self.many}"
            parts.append(f"looked back to {_clock(searched['back_to'])} over {looked}")
        if page["next"] is not None:
            again = ["sleipnir", self.verb, *_words({**self.flags, "cursor": page["next"]})]
            parts.append(f"continue with: {shlex.join(again)}")
        return "; ".join(parts)

    def _how_many(self, page: Page, shown: int) -> str:
        total, at_most = page["total"], page["at_most"]
        if total is not None and total > shown:
            return f"{shown:,} of {total:,} {self.many}"
        if total is None and at_most is not None and at_most > shown:
            return f"{shown:,} of at most {at_most:,} {self.many}"
        return f"1 {self.one}" if shown == 1 else f"{shown:,} {self.many}"


def _words(flags: Mapping[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in flags.items():
        flag = f"--{name}"
        match value:
            case None | False:
                pass
            case True:
                words.append(flag)
            case list() | tuple():
                words += [word for each in value for word in (flag, str(each))]
            case _:
                words += [flag, str(value)]
    return words


def _clock(instant: str) -> str:
    """Return the local time of day, with the date if it is not today."""
    then = datetime.fromisoformat(instant).astimezone()
    today = datetime.now(tz=then.tzinfo).date()
    return then.strftime("%H:%M" if then.date() == today else "%Y-%m-%d %H:%M")
