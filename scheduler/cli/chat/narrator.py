"""Shows a chat's run: the reply as it is generated, running tools, and errors."""

from __future__ import annotations

import shutil
import sys

import click

from sleipnir.scheduler.cli.chat.word_wrap import WordWrap
from sleipnir.scheduler.cli.narration.narrator import Narrator
from sleipnir.scheduler.cli.options import Options
from sleipnir.scheduler.runs.events import (
    ChildStarted,
    Event,
    ModelCalled,
    QuestionAsked,
    RunEnded,
    RunSubmitted,
    StepCommitted,
    TextStreamed,
    ToolCalled,
)
from sleipnir.scheduler.runs.narration import render
from sleipnir.scheduler.views.text.terminal_output import control, printable, shortened, style

_WARNING = "▸ warning "
_THINKING = "…"
_OF_EVERY_RUN = (RunSubmitted, ModelCalled, StepCommitted, RunEnded)
# Questions are asked at the terminal, or explained without one.
_TOLD_OTHERWISE = (*_OF_EVERY_RUN, QuestionAsked)


class ChatNarrator(Narrator):
    """Narrates a normal agent's run; the model's text goes to standard output."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._tells_all = options.verbosity > 0
        self._said = ""  # text of the current reply so far
        self._finished = ""  # the last reply before it that had a text
        self._wrap = WordWrap()
        self._waiting = False  # whether the line says that the model is thinking
        self.streams = sys.stdout.isatty()

    @property
    def said(self) -> str:
        """The text of the current reply so far."""
        return self._said

    def tell(self, event: Event, child: ChildStarted | None = None) -> None:
        if isinstance(event, TextStreamed) and child is None:
            self._stop_waiting()
            self._said += event.text
            click.echo(self._wrap.add(printable(event.text), _width()), nl=False)
            return
        self._end_line()
        if isinstance(event, ModelCalled):
            # Another call may follow the reply: the one that summarises the conversation.
            self._finished, self._said = self._said or self._finished, ""
        silent = _TOLD_OTHERWISE if child is None else QuestionAsked
        if self._tells_all or not isinstance(event, silent):
            super().tell(event, child)
        elif isinstance(event, StepCommitted):
            self._say([line for line in render(event) if line.startswith(_WARNING)], event)
        if isinstance(event, ToolCalled) and event.arguments not in ("", "{}"):
            self._say([shortened(f"    {event.arguments}", _width() - 1)], event)
        if isinstance(event, ModelCalled) and child is None:
            self.wait()

    def wait(self) -> None:
        """Say, until something else is shown, that the model is thinking."""
        if self.streams and not self._tells_all and sys.stderr.isatty():
            click.echo(style(_THINKING, err=True, dim=True), err=True, nl=False)
            self._waiting = True

    def _stop_waiting(self) -> None:
        if self._waiting:
            control("\r\x1b[K")
            self._waiting = False

    def end(self) -> None:
        self._end_line()
        super().end()

    def has_said(self, output: str | None) -> bool:
        """Return whether the last reply was already shown."""
        said = (self._said.strip(), self._finished.strip())
        return self.streams and output is not None and output.strip() in said

    def _end_line(self) -> None:
        self._stop_waiting()
        click.echo(self._wrap.rest(_width()), nl=False)
        if self.streams and self._said and not self._said.endswith("\n"):
            click.echo()
            self._said += "\n"
            self._wrap = WordWrap()


def _width() -> int:
    return shutil.get_terminal_size().columns
