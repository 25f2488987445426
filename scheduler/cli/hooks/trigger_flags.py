"""The flags of `trigger create` and `trigger edit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from sleipnir.scheduler.cli.arguments import complete_batches, name_argument, pairs_or_none
from sleipnir.scheduler.cli.options import Command, with_options

trigger_argument = name_argument(lambda found: found.trigger_names())

_OPTIONS = (
    click.option(
        "--prompt",
        metavar="TEMPLATE",
        help="The prompt of runs: a text in which {{body.…}}, {{headers.…}} and {{query.…}} stand "
        "for parts of the request.",
    ),
    click.option(
        "--set",
        "set",
        callback=pairs_or_none,
        multiple=True,
        metavar="KEY=TEMPLATE",
        help="A key of the state of runs. A template that is one {{…}} alone keeps the type of its "
        "value. Repeatable.",
    ),
    click.option(
        "--key",
        metavar="TEMPLATE",
        help="Requests with equal keys start one run. Default: webhook-id or X-GitHub-Delivery.",
    ),
    click.option(
        "--header",
        multiple=True,
        metavar="NAME",
        help="A header that templates see besides the usual ones, as {{headers.x_name}}. "
        "Repeatable.",
    ),
    click.option(
        "--batch",
        metavar="BATCH",
        shell_complete=complete_batches,
        help="The batch that runs belong to: they count for its budget, and workers take them when "
        "nothing that is of no batch waits. Default: none.",
    ),
)
_FOR_NEW_ONES = (
    click.option(
        "--verify",
        type=click.Choice(("standard", "github", "bearer", "none")),
        default="standard",
        show_default=True,
        help="How a request proves who sends it: by the signature of Standard Webhooks or of "
        "GitHub, by a token in the header Authorization, or not at all.",
    ),
    click.option(
        "--allow-anonymous",
        is_flag=True,
        default=None,
        help="With --verify none: whoever reaches the monitor may start runs.",
    ),
)


def trigger_options(*, is_new: bool) -> Callable[[Command], Command]:
    """Add the flags that say what a trigger is made of."""
    return with_options(*_OPTIONS, *(_FOR_NEW_ONES if is_new else ()))


def given_fields(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a trigger that flags were given for, by their names."""
    given = {name: value for name, value in flags.items() if value not in (None, (), [])}
    if "header" in given:
        given["header"] = [each for each in given["header"] if each]
    # Without it again.
    return {
        name: None if value == "" and name != "prompt" else value for name, value in given.items()
    }
