"""The section `serve` of config.yaml: which agents the monitor serves to programs, and how."""

from __future__ import annotations

from typing import ClassVar

from sleipnir.records import dataclass


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """What is served; nothing unless it is named."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    agents: tuple[str, ...] = ()  # patterns of names, as in `support-*`
    mcp: bool = False  # as tools, at /mcp
    openai: bool = False  # as models of an OpenAI-compatible server, below /v1
