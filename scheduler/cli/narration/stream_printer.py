"""Prints replies of models as they are generated: dimmed text, a new line per node."""

from __future__ import annotations

import click

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.events import TextStreamed
from sleipnir.scheduler.views.text.terminal_output import printable, style


@dataclass(slots=True)
class StreamPrinter:
    """The output to one terminal; call `end` before printing anything else."""

    _speaker: tuple[str, int | None] | None = None  # the node whose line is open
    _at_line_start: bool = True

    def print(self, event: TextStreamed) -> None:
        """Print a part of a node's text, on a new line if another node's was open."""
        node, index = event.node, event.index
        if self._speaker != (node, index):
            self.end()
            self._speaker = (node, index)
            self._print(f"▸   {node if index is None else f'{node}[{index}]'}: ")
        self._print(printable(event.text))

    def end(self) -> None:
        """End an unfinished line, so that others can print."""
        if self._speaker is not None and not self._at_line_start:
            self._print("\n")
        self._speaker = None

    def _print(self, text: str) -> None:
        self._at_line_start = text.endswith("\n")
        click.echo(style(text, err=True, dim=True), err=True, nl=False)
