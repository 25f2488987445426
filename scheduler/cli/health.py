"""The flag of long-running verbs that answer health checks."""

from __future__ import annotations

from collections.abc import Callable

import click

health_option = click.option(
    "--health",
    "health_address",
    metavar="HOST:PORT",
    help="Answer health checks there: /livez, /readyz, /metrics. Default: the setting "
    "`health_address`.",
)


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
