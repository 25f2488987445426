"""Every error that this package raises on purpose is a `SleipnirError`; here are those by name.

    from sleipnir.errors import AgentNotFound, RunNotFound

The trees are drawn in `sleipnir.graphs.errors` (agents) and `sleipnir.scheduler.errors` (runs and
engines), where the classes are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sleipnir.graphs.errors import (
        AgentNotFound,
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
        SettingInvalid,
        StillRunning,
        SubmissionRefused,
    )

__all__ = [
    "ActionRefused",
    "AgentNotFound",
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
    "SettingInvalid",
    "SleipnirError",
    "StillRunning",
    "SubmissionRefused",
]


class SleipnirError(Exception):
    """Base of everything this package raises."""


def __getattr__(name: str) -> Any:
    # Both trees grow from here, so that they are imported when somebody asks for one of them.
    if name in __all__:
        for home in ("sleipnir.scheduler.errors", "sleipnir.graphs.errors"):
            if (found := getattr(importlib.import_module(home), name, None)) is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
