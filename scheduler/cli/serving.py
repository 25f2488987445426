"""Flags of verbs that run until they are told to stop."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

_HEALTH = click.option(
    "--health",
    "health_address",
    metavar="HOST:PORT",
    help="Answer health checks there: /livez, /readyz, /metrics. Default: the setting "
    "`health_address`.",
)
_LOG_FORMAT = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="Lines of the log: text, or one JSON object each. Default: the setting `log_format`.",
)

Command = Callable[..., Any]


def serving_options(function: Command) -> Command:
    """Add these flags; the verb gets them as the settings `served`, by name."""

    @functools.wraps(function)
    def verb(
        *arguments: Any, health_address: str | None, log_format: str | None, **others: Any
    ) -> Any:
        served = {"health_address": health_address, "log_format": log_format}
        return function(*arguments, served=served, **others)

    return _HEALTH(_LOG_FORMAT(verb))


def open_health(opening: Callable[[str | None], None], address: str | None) -> None:
    """Begin to answer at an address.

    Raises:
        click.UsageError: it cannot be used.
    """
    try:
        opening(address)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot answer health checks at {address}: {reason}") from error
