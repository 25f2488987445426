"""Checks runs of files before they are stored: whoever wrote them may have meant harm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sleipnir.scheduler.errors import RunFileInvalid, SubmissionRefused
from sleipnir.scheduler.runs import events
from sleipnir.scheduler.runs.ids import partition_of, partition_of_session
from sleipnir.scheduler.runs.labels import require_labels, require_name
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.store.archive.summary import OF_ARCHIVED
from sleipnir.scheduler.store.queries.histories import parse_checkpoint
from sleipnir.scheduler.store.queries.records import parse_run

_RUN_ID = re.compile(r"[0-9a-f]{16}")
# More would not be exact in scripts.
_MOST = 2**53
_AHEAD_MS = 86_400_000


def require_sound(run: WholeRun, now_ms: int) -> Run:
    """Check that a run can be read, listed and counted as ours can, and return it.

    Raises:
        RunFileInvalid: it cannot.
    """
    try:
        parsed = parse_run(run.run_id, run.record)
        _read_parts(run.parts)
        _require_names(parsed)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunFileInvalid(f"it cannot be read: {type(error).__name__}: {error}") from error
    except SubmissionRefused as error:
        raise RunFileInvalid(str(error)) from error
    _require_place(run)
    _require_numbers(parsed, now_ms)
    return parsed


def _read_parts(parts: Mapping[str, Any]) -> None:
    for kind in ("history", "superseded"):
        for checkpoint in parts.get(kind, ()):
            parse_checkpoint(checkpoint)
    for _, event in parts.get("events", ()):
        events.from_json(event)


def _require_names(run: Run) -> None:
    require_name("agent", run.agent)
    if run.batch is not None:
        require_name("batch", run.batch)
    require_labels(run.labels)


def _require_place(run: WholeRun) -> None:
    """Check that it names only runs, and a session, that are where it is."""
    partition = partition_of(run.run_id)
    for other in _related(run):
        if not _RUN_ID.fullmatch(other) or partition_of(other) != partition:
            raise RunFileInvalid("it names a parent or child run that cannot be one of it")
    session = run.record.get("session")
    if session is not None and partition_of_session(session) != partition:
        raise RunFileInvalid("it names a session that cannot be its own")
    if any(name in run.record for name in OF_ARCHIVED):
        raise RunFileInvalid("it says that the rest of it is in an archive")


def _related(run: WholeRun) -> Iterator[str]:
    yield run.record.get("parent", run.run_id).partition(" ")[0]
    yield run.record.get("root", run.run_id)
    children: Any = run.parts.get("children", ())
    yield from children


def _require_numbers(run: Run, now_ms: int) -> None:
    usage = run.usage
    numbers = (
        *(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens),
        *(usage.cost_usd or 0, run.step, run.started_at or 0),
    )
    if not all(0 <= number < _MOST for number in numbers):  # nor NaN
        raise RunFileInvalid("it has a number that no run can have")
    if not run.created_at <= (run.ended_at or 0) <= now_ms + _AHEAD_MS:
        raise RunFileInvalid("it ended before it was created, or has not ended yet")
