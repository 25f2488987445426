"""What programs and commands do with runs: prepare an agent, submit, follow, answer, remove.

`Client` and `AsyncClient` are the doors; they are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sleipnir.scheduler.client.async_client import AsyncClient
    from sleipnir.scheduler.client.client import Client

__all__ = ["AsyncClient", "Client"]

_HOMES = {"AsyncClient": "async_client", "Client": "client"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
