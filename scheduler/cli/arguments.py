"""Arguments shared by verbs: an agent, a run, `NAME=VALUE`; with their completion."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sleipnir.graphs.files import MIB
from sleipnir.graphs.state import decode, encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.directories import config_dir, data_dir
from sleipnir.scheduler.errors import SleipnirError

with lazy_imports():
    from sleipnir.graphs.expressions import errors as expression_errors
    from sleipnir.graphs.expressions import parser as expressions
    from sleipnir.scheduler.cli import connect, options
    from sleipnir.scheduler.embedded import place
    from sleipnir.scheduler.runs import time_bounds
    from sleipnir.scheduler.store import connection, queries
    from sleipnir.scheduler.store import errors as store_errors
    from sleipnir.scheduler.store.queries import filters

if TYPE_CHECKING:
    from datetime import date

    from redis import Redis

    from sleipnir.graphs.expressions.expression import Expression
    from sleipnir.scheduler.store.queries import RunQueries

T = TypeVar("T")

# More than a state may hold by default; the exact limit is checked at submission.
_PIPED_LIMIT_CHARS = 64 * MIB

# More than anybody reads.
_MOST_COMPLETIONS = 100
_AGENT_FILES = ("graph.yaml", "config.yaml")


def parse_day_option(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """Check an option's day or age."""
    try:
        if text is not None:
            time_bounds.parse_day(text, 0)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from error
    return text


def period(since: str | None, until: str | None, now_ms: int) -> tuple[date | None, date | None]:
    """Return the first and the last day of `--since` and `--until`.

    Raises:
        click.UsageError: it ends before it begins.
    """
    first, last = (
        None if text is None else time_bounds.parse_day(text, now_ms) for text in (since, until)
    )
    if first and last and first > last:
        raise click.UsageError(f"--since {since} is after --until {until}: give an earlier day")
    return first, last


def complete_agents(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete names of agents; paths once a slash is typed."""
    if "/" in incomplete or incomplete.startswith("."):
        return [CompletionItem(incomplete, type="file")]
    before = ctx.find_root().params.get("agents_dir") or ()
    names = set(_agent_names((*before, *(ctx.params.get("agents_dir") or ()))))
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def complete_runs(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the ids of the newest runs."""
    page = ask_engine(ctx, lambda found: found.list_runs(filters.RunFilter(), _MOST_COMPLETIONS))
    return [
        CompletionItem(row.run_id, help=f"{row.agent}, {row.status}")
        for row in (page.entries if page else ())
        if row.run_id.startswith(incomplete)
    ]


def complete_batches(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the names of the most recently active batches."""
    page = ask_engine(ctx, lambda found: found.list_batches(_MOST_COMPLETIONS))
    return [
        CompletionItem(row.name, help=f"{row.ended} of {row.runs} runs are over")
        for row in (page.entries if page else ())
        if row.name.startswith(incomplete)
    ]


def name_argument(names_of: Callable[[RunQueries], Iterable[str]]) -> Callable[..., Any]:
    """Return the argument NAME of a hook, a schedule and the like.

    Args:
        names_of: queries the names to complete.
    """

    def complete(
        ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        names = ask_engine(ctx, names_of) or ()
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return click.argument("name", shell_complete=complete)


def complete_logged_nodes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete nodes with log entries in the typed run."""
    run_id = _typed_run(ctx)
    entries = ask_engine(ctx, lambda found: found.logs(found.resolve(run_id))) or ()
    nodes = dict.fromkeys(str(entry["node"]) for entry in entries)
    return [CompletionItem(node) for node in nodes if node.startswith(incomplete)]


def complete_asking_nodes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete places of open questions of the typed run."""
    run_id = _typed_run(ctx)
    asked = ask_engine(ctx, lambda found: found.questions_of_tree(found.resolve(run_id))) or ()
    return [
        CompletionItem(question.place, help=question.text)
        for question in asked
        if question.place.startswith(incomplete)
    ]


def _typed_run(ctx: click.Context) -> str:
    # After an option without its value, click leaves the arguments in ctx.args.
    return str(ctx.params.get("run_id") or next(iter(ctx.args), ""))


# An agent for `AgentSearch`: a name or a path.
agent_argument = click.argument("agent", shell_complete=complete_agents)
# A run id, or a unique prefix.
run_argument = click.argument("run_id", metavar="RUN", shell_complete=complete_runs)


def pairs(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> list[tuple[str, str]]:
    """Parse the values of a repeatable `NAME=VALUE` option; values stay texts."""
    split = [value.partition("=") for value in values]
    for name, equals, _ in split:
        if not name or not equals:
            raise click.BadParameter(f"'{name}' is not of the form {param.metavar}", ctx, param)
    return [(name, text) for name, _, text in split]


def pairs_or_none(
    ctx: click.Context, param: click.Parameter, values: Sequence[str]
) -> dict[str, str] | None:
    """Parse as `pairs`, for changes: one empty value takes away all there are, no value nothing."""
    if not values:
        return None
    return {} if tuple(values) == ("",) else dict(pairs(ctx, param, values))


def changes_option(help_text: str) -> Callable[..., Any]:
    """Return the option `--set`: new values of state keys, for `json_or_text`."""
    return click.option(
        "--set",
        "seeds",
        callback=pairs,
        metavar="KEY=VALUE",
        multiple=True,
        help=f"{help_text}; VALUE is JSON if it parses; a number like 1.10 stays a text.",
    )


variables_option = click.option(
    "--var",
    "variables",
    callback=pairs,
    metavar="NAME=VALUE",
    multiple=True,
    help="Agent variable.",
)
# Where findings are written for code hosts and editors.
sarif_option = click.option(
    "--sarif",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write errors and warnings to FILE too, as SARIF 2.1.0.",
)


def agent_option(also: str = "", **attributes: Any) -> Callable[..., Any]:
    """Return the option `--agent`: what a run continues with."""
    return click.option(
        "--agent",
        metavar="AGENT",
        help=f"`same`: as the run started; `current`, or a path: as it is now.{also}",
        **attributes,
    )


def machine_option(help_: str, **attributes: Any) -> Callable[..., Any]:
    """Return the option `--machine`: whose workers take a run; `any` is every machine."""
    return click.option(
        "--machine", metavar="NAME", help=f"{help_}; `any`: of every one.", **attributes
    )


class ExistingDirectory(click.Path):
    """An existing directory; click would also accept a pipe or a device."""

    def __init__(self) -> None:
        super().__init__(exists=True, path_type=Path)
        self.name = "directory"  # in help

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.is_dir():
            self.fail(f"'{path}' is not a directory.", param, ctx)
        return path


class PositiveNumber(click.FloatRange):
    """A number of seconds or dollars above 0; click's own range accepts `nan` and `inf`."""

    MOST = 1_000_000_000  # what is stored of larger ones could not be read

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)
        self.name = "number"  # in messages

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if number > self.MOST:
            self.fail(f"{value} is more than {self.MOST:,}.", param, ctx)
        return number


class ExpressionType(click.ParamType[Any]):
    """An expression of the graph language.

    Args:
        all_is_true: whether `all` stands for `true`.
    """

    name = "expression"

    def __init__(self, *, all_is_true: bool = False) -> None:
        self._all_is_true = all_is_true

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Expression:
        if self._all_is_true and value.strip() == "all":
            value = "true"
        try:
            return expressions.parse(value)
        except expression_errors.BadExpression as error:
            hint = f" ({error.hint})" if error.hint else ""
            self.fail(f"{error}{hint}", param, ctx)


def piped_text() -> str:
    """Return all of standard input.

    Raises:
        click.UsageError: it is more than anybody could use, or is not text.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="strict")
    try:
        text = sys.stdin.read(_PIPED_LIMIT_CHARS + 1)
    except UnicodeDecodeError as error:
        raise click.UsageError(f"standard input is not {error.encoding.upper()} text") from error
    if len(text) > _PIPED_LIMIT_CHARS:
        limit = _PIPED_LIMIT_CHARS // MIB
        raise click.UsageError(f"standard input is larger than {limit} MiB")
    return text.removeprefix("\ufeff")


def json_or_text(text: str) -> Any:
    """Return a text parsed as JSON, or else the text itself.

    A number that is not written as JSON would write it, as the version 1.10, is a text.
    """
    try:
        value = decode(text)
    except ValueError:
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return text if is_number and encode(value) != text.strip() else value


def _agent_names(flagged: tuple[str, ...]) -> Iterator[str]:
    """Yield the names that `AgentSearch` would find, without importing the loader."""
    configured = os.environ.get("SLEIPNIR_AGENTS_DIR", "").split(":")
    shipped = Path(__file__).parents[2] / "graphs" / "agents"
    listed = (Path(directory) for directory in (*flagged, *configured) if directory)
    for directory in (Path("agents"), *listed, config_dir() / "agents", shipped):
        for file in _AGENT_FILES:
            yield from (found.parent.name for found in directory.glob(f"*/{file}"))


def ask_engine(ctx: click.Context, question: Callable[[RunQueries], T]) -> T | None:
    """Query a running engine, for completion."""
    return ask_redis(ctx, lambda client: question(queries.RunQueries(client)))


def ask_redis(ctx: click.Context, question: Callable[[Redis], T]) -> T | None:
    """Ask a running engine's Redis; completion starts none, and reports no errors."""
    redis_url = ctx.params.get("redis") or ctx.find_root().params.get("redis")
    try:
        found = connect.settings_of(options.Options(redis=redis_url, quiet=True)).redis_url
        embedded = place.Place(data_dir()).recorded_engine()
        if found is None and embedded is not None:
            found = embedded[0].redis_url
        return question(connection.connect(found)) if found else None
    except (SleipnirError, store_errors.RedisError):
        return None
