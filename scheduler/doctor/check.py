"""One thing that `sleipnir doctor` looked at."""

from __future__ import annotations

from typing import Literal

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """What was found; only an `error` keeps runs from working."""

    name: str
    state: Literal["ok", "warning", "error"]
    text: str
    remedy: str | None = None
