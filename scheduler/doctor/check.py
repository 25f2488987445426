"""The result of one check of `sleipnir doctor`."""

from __future__ import annotations

from typing import Literal

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """A finding; only an `error` keeps runs from working."""

    name: str
    state: Literal["ok", "warning", "error"]
    text: str
    remedy: str | None = None
