"""The section `notify` of config.yaml: whom to tell of which events, by what Apprise knows."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

# Used only in annotations, which are evaluated when a value is checked.
with lazy_imports():
    import pydantic


@dataclass(frozen=True, kw_only=True)
class NotifyFilter:
    """Whose events are told; None or empty: those of all."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    agent: str | None = None
    batch: str | None = None
    label: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NotifySettings:
    """Who is told of which events."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    # As of Apprise; it usually has a password or token in it.
    url: pydantic.SecretStr
    events: tuple[str, ...] = ()  # names as of hooks; empty: the ends of runs
    filter: NotifyFilter = NotifyFilter()
