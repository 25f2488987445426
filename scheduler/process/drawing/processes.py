"""Processes that lay out and render drawings, and are stopped if that takes too long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from sleipnir.errors import SleipnirError
from sleipnir.scheduler.process.helper_pool import HelperDied, HelperHangs, HelperPool


class DrawingTooLarge(SleipnirError):
    """A drawing was given up; the message says after how long, or why."""


class DrawingProcesses:
    """Does what `graphs.drawing.native` does, in up to `size` processes.

    Args:
        limit_s: CPU time per layout or picture.
    """

    def __init__(self, limit_s: float, size: int = 1) -> None:
        self._limit_s = limit_s
        self._pool = HelperPool("sleipnir.scheduler.process.drawing.helper", size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lay_out(self, graph: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
        """Return a layout.

        Raises:
            DrawingTooLarge: it takes too much time or memory.
        """
        what = f"laying out {len(graph['nodes']):,} boxes and {len(graph['edges']):,} arrows"
        return json.loads(self._ask({"graph": graph, "options": options}, what))

    def render(self, svg: str, zoom: float) -> bytes:
        """Return an SVG document as PNG data.

        Raises:
            DrawingTooLarge: it takes too much time or memory.
        """
        return self._ask({"svg": svg, "zoom": zoom}, "rendering the picture")

    def close(self) -> None:
        """End all processes at once."""
        self._pool.close()

    def _ask(self, question: Mapping[str, Any], what: str) -> bytes:
        text = json.dumps({**question, "limit_s": self._limit_s})
        try:
            return self._pool.ask(text.encode(), self._limit_s)
        except HelperDied as error:
            if error.was_late:
                raise DrawingTooLarge(f"{what} takes more than {self._limit_s:g} s") from error
            raise DrawingTooLarge(f"{what} failed: {error}") from error
        except HelperHangs as error:
            raise DrawingTooLarge(f"{what} failed: its process does not answer") from error
        except OSError as error:
            raise DrawingTooLarge(f"{what} failed: no process can be started: {error}") from error
