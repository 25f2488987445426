"""Shows a chat's run: the reply as it is generated, running tools, and errors."""

from __future__ import annotations

import sys

import click

from sleipnir.scheduler.cli.narration.narrator import Narrator
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.cli.terminal_output import printable
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Event,
    ModelCalled,
    QuestionAsked,
    RunEnded,
    RunSubmitted,
    StepCommitted,
    TextStreamed,
)
from sleipnir.scheduler.runs.narration import render

_WARNING = "▸ warning "
_OF_EVERY_RUN = (RunSubmitted, ModelCalled, StepCommitted, RunEnded)
# Questions are asked at the terminal, or explained without one.
_TOLD_OTHERWISE = (*_OF_EVERY_RUN, QuestionAsked)


class ChatNarrator(Narrator):
    """Narrates a normal agent's run; the model's text goes to standard output."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._tells_all = options.verbosity > 0
        self._said = ""  # text of the current reply so far
        self.streams = sys.stdout.isatty()

    def tell(self, event: Event, child: ChildStarted | None = None) -> None:
        if isinstance(event, TextStreamed) and child is None:
            self._said += event.text
            click.echo(printable(event.text), nl=False)
            return
        self._end_line()
        if isinstance(event, ModelCalled):
            self._said = ""
        silent = _TOLD_OTHERWISE if child is None else QuestionAsked
        if self._tells_all or not isinstance(event, silent):
            super().tell(event, child)
        elif isinstance(event, StepCommitted):
            self._say([line for line in render(event) if line.startswith(_WARNING)], event)

    def end(self) -> None:
        self._end_line()
        super().end()

    def has_said(self, output: str | None) -> bool:
        """Return whether the last reply was already shown."""
        return self.streams and output is not None and self._said.strip() == output.strip()

    def _end_line(self) -> None:
        if self.streams and self._said and not self._said.endswith("\n"):
            click.echo()
            self._said += "\n"
