"""Shows the progress of batches: a bar on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.cli.connect import lacking_process
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.views.text.formatting import age, cost, tokens, usd
from sleipnir.scheduler.views.text.terminal_output import printable, shortened

# Needed only on terminals.
with lazy_imports():
    from rich import console as rich_console
    from rich import progress as rich_progress

if TYPE_CHECKING:
    from sleipnir.scheduler.batch.options import Progress
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Usage
    from sleipnir.scheduler.runs.reasons import ReasonCount

_BETWEEN_LINES_S = 10.0
# Of so many finished lines, the mean cost is worth saying.
_TELLING = 30
_BETWEEN_LOOKS_S = 5.0
_REASONS_SHOWN = 20
_BAR_WIDTH = 20


class Display:
    """Progress on stderr, until `close`."""

    def __init__(self, options: Options, name: str) -> None:
        self._options = options
        self._name = name
        self._began_at = monotonic()
        self._line_at = self._began_at + _BETWEEN_LINES_S
        self._bar: Any = None

    def __enter__(self) -> Display:
        if sys.stderr.isatty() and not self._options.quiet:
            self._bar = _bar(self._name, color=self._options.color)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def update(self, progress: Progress) -> None:
        """Show the progress."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], line=self.line(progress))
        elif monotonic() > self._line_at:
            self._line_at = monotonic() + _BETWEEN_LINES_S
            parts = (f"{progress.finished}/{progress.total}", *self._counts(progress))
            self._options.say(f"batch {self._name}: {', '.join(parts)}")

    def line(self, progress: Progress) -> str:
        """Return the line that fits the terminal: the progress first, then what matters most."""
        share = progress.finished / progress.total if progress.total else 0.0
        done = int(share * _BAR_WIDTH)
        bar = "━" * done + "─" * (_BAR_WIDTH - done)
        counts = ", ".join(self._counts(progress))
        line = f"{progress.finished}/{progress.total} {bar} {counts}  {printable(self._name)}"
        return shortened(line, shutil.get_terminal_size().columns - 1)

    def print_result(self, line: str) -> None:
        """Print a line to stdout, which may be the terminal with the bar."""
        if self._bar is not None and sys.stdout.isatty():
            self._bar.console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
        else:
            click.echo(line)

    def _counts(self, progress: Progress) -> Iterator[str]:
        yield from _outcomes(progress)
        yield f"{progress.in_flight:,} in progress"
        yield from _held_up(progress)
        if progress.lacking is not None:
            yield from _spent(progress)
            return  # without that process, nothing ends
        done, took_s = progress.finished - progress.earlier, monotonic() - self._began_at
        if done > 0 and took_s > 1:
            rate = done / took_s
            yield f"{rate:.1f}/s"
            yield f"{age((progress.left + progress.in_flight) / rate)} left"
        yield from _spent(progress)


class WorkerWatch:
    """Notices between displays of the progress that no process is left that could go on."""

    def __init__(
        self, client: Client, options: Options, update: Callable[[Progress], None]
    ) -> None:
        self._client = client
        self._options = options
        self._update = update
        self._look_at = monotonic() + _BETWEEN_LOOKS_S

    def __call__(self, progress: Progress) -> None:
        if progress.in_flight and monotonic() > self._look_at:
            self._look_at = monotonic() + _BETWEEN_LOOKS_S
            before, progress.lacking = (
                progress.lacking,
                lacking_process(self._client, self._options),
            )
            if progress.lacking is not None and progress.lacking != before:
                self._options.say(f"{progress.in_flight:,} runs are queued: {progress.lacking}")
        self._update(progress)


class StepDisplay:
    """The progress of one task: an updated line on a terminal, occasional lines elsewhere."""

    def __init__(self, options: Options, name: str) -> None:
        self._options = options
        self._name = name
        self._line_at = monotonic() + _BETWEEN_LINES_S
        self._bar: Any = None
        self._noted = ""

    def __enter__(self) -> StepDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, what: str, done: int, total: int | None = None) -> None:
        """Show that `done` of `total`, if known, are done."""
        of = "" if total is None else f" of {total:,}"
        line = f"{printable(self._name)}: {done:,}{of} {what}"
        if sys.stderr.isatty() and not self._options.quiet:
            if self._bar is None:
                self._bar = _bar(self._name, color=self._options.color)
                self._bar.start()
            line = shortened(line, shutil.get_terminal_size().columns - 1)
            self._bar.update(self._bar.task_ids[0], line=line)
        elif monotonic() > self._line_at:
            self._line_at = monotonic() + _BETWEEN_LINES_S
            self._options.say(line)

    def note(self, reason: str) -> None:
        """Say, once per reason, what it waits for."""
        if reason != self._noted:
            self._noted = reason
            self._options.say(f"{printable(self._name)}: waiting: {printable(reason)}")


def final_lines(
    name: str, progress: Progress, reasons: Iterable[ReasonCount] = ()
) -> Iterator[str]:
    """Yield the final lines: the outcome, why lines failed, and what can be done about it."""
    parts = [
        f"{progress.finished:,} of {progress.total:,} lines finished",
        *_outcomes(progress),
    ]
    if progress.earlier:
        parts.append(f"{progress.earlier:,} by earlier commands")
    yield f"batch {name}: {', '.join((*parts, *_spent(progress)))}"
    yield from _reasons(list(reasons))
    if progress.over_budget:
        yield (
            f"the budget is spent: {progress.left:,} lines were not started; the same command with "
            "a higher --budget goes on with them"
        )
    if progress.waiting:
        waiting = progress.waiting
        wait, them = ("1 run waits", "it") if waiting == 1 else (f"{waiting} runs wait", "them")
        yield (
            f"{wait} for a person: answer {them} (sleipnir inbox), then run the same command again"
        )
    if progress.failed:
        yield "--retry-failed continues the runs of failed lines where they stopped"
    if progress.incomplete:
        yield (
            "lines with failed nodes are not complete: --retry-incomplete continues their runs "
            "from the first failed node; --strict makes such lines fail, in a new batch (--name)"
        )
    if progress.failed_again:
        yield (
            f"{_lines(progress.failed_again)} failed again for the same reason; if an earlier node "
            "caused it, --retry-failed --from-start runs such lines from the beginning"
        )
    if progress.refused:
        yield (
            f"{len(progress.refused)} runs could not continue where they stopped, such as "
            f"{printable(progress.refused[0])}; --retry-failed --from-start restarts their lines"
        )
    if progress.total and progress.earlier == progress.total:
        yield (
            "all lines are already finished; --redo EXPR runs some of them again, --name NAME "
            "starts a new batch"
        )


def _reasons(found: list[ReasonCount]) -> Iterator[str]:
    for lines, first_line, reason in found[:_REASONS_SHOWN]:
        place = f" at '{reason.node}'" if reason.node else ""
        how = ", the run continued" if reason.outlived else ""
        count = f"{_lines(lines)}, first {first_line}"
        yield f"  {count}: {reason.code}{place}{how}: {printable(reason.message)}"
    if len(found) > _REASONS_SHOWN:
        yield f"and {len(found) - _REASONS_SHOWN} more reasons"


def _outcomes(progress: Progress) -> Iterator[str]:
    if progress.failed:
        yield f"{progress.failed:,} failed"
    if progress.incomplete:
        yield f"{progress.incomplete:,} with failed nodes"
    if progress.waiting:
        yield f"{progress.waiting:,} waiting"


def _held_up(progress: Progress) -> Iterator[str]:
    if progress.lacking is not None:
        yield progress.lacking
    elif progress.limit_wait is not None:
        name, until_ms = progress.limit_wait
        until = datetime.fromtimestamp(until_ms / 1000).astimezone()
        yield f"waits for limit {printable(name)} until {until:%H:%M:%S}"


def _spent(progress: Progress) -> Iterator[str]:
    usage = progress.spent.total()
    if usage:
        yield f"{tokens(usage)} tokens"
        yield f"{cost(usage)}{_of_expected(progress, usage)}"


def _of_expected(progress: Progress, usage: Usage) -> str:
    """Return what all lines cost if the others cost as much as those that have finished."""
    if usage.cost_usd is None or not _TELLING <= progress.finished < progress.total:
        return ""
    return f" of about {usd(usage.cost_usd / progress.finished * progress.total)}"


def _lines(count: int) -> str:
    return f"{count:,} {'line' if count == 1 else 'lines'}"


def _bar(name: str, *, color: bool) -> Any:
    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.fields[line]}", markup=False),
        # The unwrapped stream, as its control sequences must not be escaped.
        console=rich_console.Console(file=sys.__stderr__, no_color=not color, highlight=False),
        transient=True,
        redirect_stdout=False,
    )
    bar.add_task("", line=printable(name))
    return bar
