"""Sleipnir: a distributed orchestrator for graph agents. These are the names that programs use.

    from sleipnir import AsyncClient, Client, Request, SleipnirError
    from sleipnir import RetryRequest, RunFilter, Status

`graphs`, `scheduler` and `worker` are the folders of those names in the source tree.
`sleipnir.tool` is what tools written in Python import; the engine provides it to them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sleipnir.errors import SleipnirError
    from sleipnir.graphs.functions.lib.sleipnir import tool
    from sleipnir.scheduler.client import AsyncClient, Client
    from sleipnir.scheduler.client.rerun.retry import RetryRequest
    from sleipnir.scheduler.runs.model import Status
    from sleipnir.scheduler.runs.submit import Request
    from sleipnir.scheduler.store.queries.filters import RunFilter

__all__ = [
    "AsyncClient",
    "Client",
    "Request",
    "RetryRequest",
    "RunFilter",
    "SleipnirError",
    "Status",
    "tool",
]

# Imported when first used: a command that needs none of them starts without them.
_HOMES: Final[Mapping[str, tuple[str, str | None]]] = {
    "AsyncClient": ("sleipnir.scheduler.client.async_client", "AsyncClient"),
    "Client": ("sleipnir.scheduler.client.client", "Client"),
    "Request": ("sleipnir.scheduler.runs.submit", "Request"),
    "RetryRequest": ("sleipnir.scheduler.client.rerun.retry", "RetryRequest"),
    "RunFilter": ("sleipnir.scheduler.store.queries.filters", "RunFilter"),
    "SleipnirError": ("sleipnir.errors", "SleipnirError"),
    "Status": ("sleipnir.scheduler.runs.model", "Status"),
    "tool": ("sleipnir.graphs.functions.lib.sleipnir.tool", None),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    found = importlib.import_module(module)
    return found if attribute is None else getattr(found, attribute)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
