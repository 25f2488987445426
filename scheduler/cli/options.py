"""The flags that all verbs share, and their parsing."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.views.text.terminal_output import PLAIN

with lazy_imports():
    from sleipnir.scheduler.cli import exit_codes


@dataclass(frozen=True, slots=True)
class Options:
    """The common flags of one call, given before or after the verb."""

    redis: str | None = None
    agents_dir: tuple[str, ...] = ()
    quiet: bool = False
    verbosity: int = 0  # 1: more output; 2: also tracebacks
    no_color: bool = False
    json: bool = False

    @property
    def color(self) -> bool:
        """Whether output on stderr may be coloured."""
        return not self.no_color and not os.environ.get("NO_COLOR") and sys.stderr.isatty()

    @property
    def streams_replies(self) -> bool:
        """Whether a person may be watching replies on stderr."""
        return not self.quiet and sys.stderr.isatty()

    def say(self, line: str) -> None:
        """Print a line to stderr, unless quiet."""
        if not self.quiet:
            click.echo(line, err=True)


_ENGINE_OPTIONS = (
    click.option("--redis", metavar="URL", help="Redis to use. Default: the embedded engine."),
    click.option(
        "--agents-dir",
        multiple=True,
        metavar="DIR",
        help="Additional directory of agents. Repeatable.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print neither narration nor hints."),
    click.option(
        "-v", "--verbose", "verbosity", count=True, help="Print more; -vv also prints tracebacks."
    ),
    click.option("--no-color", is_flag=True, help="Disable colours, as NO_COLOR does."),
    click.version_option(package_name="sleipnir", prog_name="sleipnir"),
)
_JSON_OPTION = click.option("--json", is_flag=True, help="Print JSON.")

Command = Callable[..., Any]


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Add options to a verb, whose help lists them in this order."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def engine_options(function: Command) -> Command:
    """Add the flags that may also stand before the verb."""
    return with_options(*_ENGINE_OPTIONS)(function)


def common_options(*, json: bool = False) -> Callable[[Command], Command]:
    """Add the common flags to a verb, which gets them as its first argument, `Options`.

    The verb returns its exit code, None for 0; its exceptions are reported by `exit_codes`.
    """

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def verb(**parameters: Any) -> None:
            context = click.get_current_context()
            options = _options(context, parameters)
            # Else click would strip escape sequences from results written to a pipe.
            context.color = True
            context.meta[PLAIN] = options.no_color or bool(os.environ.get("NO_COLOR"))
            try:
                code = function(options, **parameters)
            except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
                raise
            except (Exception, KeyboardInterrupt, click.Abort) as error:
                code = exit_codes.report(error, traceback=options.verbosity > 1, json=options.json)
            context.exit(int(code or 0))

        return engine_options(_JSON_OPTION(verb) if json else verb)

    return decorate


def _options(context: click.Context, parameters: dict[str, Any]) -> Options:
    """Remove the common flags from `parameters`, and merge them with those before the verb."""
    before = context.find_root().params
    return Options(
        redis=parameters.pop("redis") or before.get("redis"),
        agents_dir=(*before.get("agents_dir", ()), *parameters.pop("agents_dir")),
        quiet=parameters.pop("quiet") or before.get("quiet", False),
        verbosity=max(parameters.pop("verbosity"), before.get("verbosity", 0)),
        no_color=parameters.pop("no_color") or before.get("no_color", False),
        json=parameters.pop("json", False),
    )
