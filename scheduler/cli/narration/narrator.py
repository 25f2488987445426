"""Narrates a run on standard error."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import click

from sleipnir.scheduler.cli.narration.stream_printer import StreamPrinter
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Event,
    ItemCommitted,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    TextStreamed,
)
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.narration import render, render_end_of_child
from sleipnir.scheduler.views.text.terminal_output import control, printable, shortened, style

if TYPE_CHECKING:
    from sleipnir.scheduler.cli.options import Options

_DETAIL = "▸  "  # details of the node above
_WARNING = "▸ warning "
_END_COLORS = {
    Status.SUCCEEDED: "green",
    Status.FAILED: "red",
    Status.TIMED_OUT: "red",
    Status.CANCELLED: "yellow",
}


class Narrator:
    """A command's narration of a run; call `end` before printing anything else."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._streams = StreamPrinter()
        # On a terminal, a map's items are counted in one updated line.
        self._counts = (
            not options.quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        )
        self._counting = False  # whether that line is open

    def tell(self, event: Event, child: ChildStarted | None = None) -> None:
        """Show an event of the run, or an event of a child run that matters to its watchers.

        Args:
            child: the child run whose event it is; None: it is the run's own.
        """
        if isinstance(event, TextStreamed):
            self._end_count()
            self._streams.print(event)
            return
        if child is not None and not _concerns_parent(event):
            if self._counts and child.is_build and isinstance(event, ItemCommitted):
                self._streams.end()
                name = printable(child.agent)
                self._count(f"{_DETAIL}{name}: {event.done} of {event.total} batches")
            return
        self._streams.end()
        if child is not None and isinstance(event, RunEnded):
            lines = [render_end_of_child(child, event)]
        else:
            lines = render(event)
        if self._counts and isinstance(event, ItemCommitted):
            *lines, count = lines
            self._say(lines, event)
            self._count(count)
        else:
            self._say(lines, event)

    def end(self) -> None:
        """End an unfinished line, so that others can print."""
        self._streams.end()
        self._end_count()

    def _say(self, lines: list[str], event: Event) -> None:
        if lines:
            self._end_count()
        for line in lines:
            self._options.say(_styled(line, event))

    def _count(self, line: str) -> None:
        """Print the line of a map in place of the previous one."""
        width = shutil.get_terminal_size().columns
        control("\r\x1b[K")
        click.echo(style(shortened(line, width - 1), err=True, dim=True), err=True, nl=False)
        self._counting = True

    def _end_count(self) -> None:
        if self._counting:
            click.echo(err=True)
            self._counting = False


def _styled(line: str, event: Event) -> str:
    """Style a line: the run's progress stands out from node details, and failures from both."""
    if isinstance(event, RunEnded) and not line.startswith(_DETAIL):
        return style(line, err=True, bold=True, fg=_END_COLORS.get(Status(event.status)))
    if (
        isinstance(event, RunEnded)
        or line.startswith(_WARNING)
        or " failed: " in line
        or " failed, " in line
    ):
        return style(line, err=True, fg="yellow")
    if line.startswith(_DETAIL):
        return style(line, err=True, dim=True)
    if isinstance(event, QuestionAsked):
        return style(line, err=True, fg="magenta")
    return line


def _concerns_parent(event: Event) -> bool:
    """Return whether an event of a child run is shown to watchers of its parent."""
    if isinstance(event, RunEnded):
        return event.status in (Status.FAILED, Status.TIMED_OUT)
    return isinstance(event, QuestionAsked | QuestionAnswered)
