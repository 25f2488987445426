"""All errors that this package raises on purpose, by name; each is a `SleipnirError`.

    from sleipnir.errors import AgentNotFound, RunNotFound

The classes, and trees of them, are in `sleipnir.graphs.errors` (agents) and
`sleipnir.scheduler.errors` (runs and engines).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sleipnir.graphs.errors import (
        AgentNotFound,
        AmbiguousAgent,
        BundleError,
        GraphError,
        InvalidAgent,
        MissingVariables,
    )
    from sleipnir.scheduler.errors import (
        ActionRefused,
        AmbiguousRun,
        AnswerInvalid,
        AnswerRefused,
        BadCursor,
        BudgetUsedUp,
        EngineUnfit,
        EngineUnreachable,
        NotKept,
        RunLost,
        RunNotFound,
        RunRemoved,
        SettingInvalid,
        StillRunning,
        SubmissionRefused,
    )

__all__ = [
    "ActionRefused",
    "AgentNotFound",
    "AmbiguousAgent",
    "AmbiguousRun",
    "AnswerInvalid",
    "AnswerRefused",
    "BadCursor",
    "BudgetUsedUp",
    "BundleError",
    "EngineUnfit",
    "EngineUnreachable",
    "GraphError",
    "InvalidAgent",
    "MissingVariables",
    "NotKept",
    "RunLost",
    "RunNotFound",
    "RunRemoved",
    "SettingInvalid",
    "SleipnirError",
    "StillRunning",
    "SubmissionRefused",
]


class SleipnirError(Exception):
    """Base of all errors of this package."""


def __getattr__(name: str) -> Any:
    # Both trees are based on this module, so they are imported only when a name is used.
    if name in __all__:
        for home in ("sleipnir.scheduler.errors", "sleipnir.graphs.errors"):
            if (found := getattr(importlib.import_module(home), name, None)) is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
