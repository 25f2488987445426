"""Records what commands do to runs in the audit log, as the monitor does."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from sleipnir.scheduler.store import errors
    from sleipnir.scheduler.store.audit import log

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Question

# Of many runs, only the first ones are named.
_MOST_NAMED = 10


def note(
    client: Client,
    act: str,
    targets: list[str],
    *,
    outcome: str = "done",
    detail: str = "",
    waited_s: float | None = None,
    question: Question | None = None,
) -> None:
    """Record an action of this machine's user; a full Redis must not prevent the action.

    Args:
        question: what the user has answered.
    """
    more = len(targets) - _MOST_NAMED
    named = " ".join(targets[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
    done = log.Act(
        client.store.settings.identity,
        "operate",
        "cli",
        act,
        named,
        outcome,
        detail=detail,
        waited_s=waited_s,
    )
    if question is not None:
        done = done.to_question(question)
    with suppress(errors.RedisError):
        log.AuditLog(client.store.client).add(done)
