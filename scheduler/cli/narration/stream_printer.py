"""Shows what models say while they say it: dimmed text that grows, a beginning line a node."""

from __future__ import annotations

import click

from sleipnir.records import dataclass
from sleipnir.scheduler.cli.terminal_output import printable, style
from sleipnir.scheduler.runs.events import TextStreamed


@dataclass(slots=True)
class StreamPrinter:
    """One terminal's view of it; whoever prints anything else calls `end` first."""

    _speaker: tuple[str, int | None] | None = None  # whose line is open
    _at_line_start: bool = True

    def print(self, event: TextStreamed) -> None:
        """Go on with a node's text, on a line of its own if another one's was open."""
        node, index = event.node, event.index
        if self._speaker != (node, index):
            self.end()
            self._speaker = (node, index)
            self._print(f"▸   {node if index is None else f'{node}[{index}]'}: ")
        self._print(printable(event.text))

    def end(self) -> None:
        """Nothing is said for now: the next line is free."""
        if self._speaker is not None and not self._at_line_start:
            self._print("\n")
        self._speaker = None

    def _print(self, text: str) -> None:
        self._at_line_start = text.endswith("\n")
        click.echo(style(text, err=True, dim=True), err=True, nl=False)
