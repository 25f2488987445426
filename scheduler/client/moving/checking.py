"""Checks runs of files before they are stored: whoever wrote them may have meant harm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from sleipnir.scheduler.errors import RunFileInvalid, SubmissionRefused
from sleipnir.scheduler.runs import events
from sleipnir.scheduler.runs.failures import read_failure
from sleipnir.scheduler.runs.ids import partition_of, partition_of_session
from sleipnir.scheduler.runs.labels import require_labels, require_name
from sleipnir.scheduler.runs.model import Run, RunContext
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.store.archive.summary import OF_ARCHIVED
from sleipnir.scheduler.store.queries.histories import parse_checkpoint
from sleipnir.scheduler.store.queries.records import parse_run

_RUN_ID = re.compile(r"[0-9a-f]{16}")
# More would not be exact in scripts.
_MOST = 2**53
# The sums of all runs of an agent, costs in billionths of a dollar, have to fit into 64 bits.
_MOST_TOKENS = 10**11
_MOST_USD = 100_000
# Fields of the record that tell how much is stored of a part.
_SIZE = re.compile(r"bytes|\w+_(?:bytes|end|dropped)")
_WHOLE = re.compile(r"[0-9]{1,15}")
_AHEAD_MS = 86_400_000


def require_sound(run: WholeRun, now_ms: int) -> Run:
    """Check that a run can be read, listed and counted as ours can, and return it.

    Raises:
        RunFileInvalid: it cannot.
    """
    try:
        parsed = parse_run(run.run_id, run.record)
        _read_parts(run.parts)
        _require_texts(parsed)
        _require_names(parsed)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RunFileInvalid(f"it cannot be read: {type(error).__name__}: {error}") from error
    except SubmissionRefused as error:
        raise RunFileInvalid(str(error)) from error
    _require_place(run)
    _require_order(run.parts)
    _require_numbers(parsed, now_ms)
    _require_sizes(run.record)
    return parsed


def _read_parts(parts: Mapping[str, Any]) -> None:
    for kind in ("history", "superseded"):
        for checkpoint in parts.get(kind, ()):
            parse_checkpoint(checkpoint)
    for _, event in parts.get("events", ()):
        events.from_json(event)
    for failure in parts.get("failures", ()):
        read_failure(failure)


def _require_texts(run: Run) -> None:
    """Check what is searched, masked and grouped beside that of other runs."""
    if not all(isinstance(text, str) for text in _texts(run.context)):
        raise RunFileInvalid('"context" of its "record" has what is not a text')
    failure = run.failure
    if failure is not None and not (
        isinstance(failure.code, str)
        and isinstance(failure.message, str)
        and isinstance(failure.node, str | None)
    ):
        raise RunFileInvalid('"error" of its "record" has what is not a text')


def _texts(context: RunContext) -> Iterator[object]:
    yield from context.secrets
    for named in (context.agents, context.variables, context.submitted_vars):
        yield from named.values()


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
    if run.run_id in (*run.parts.get("children", ()), run.record.get("parent", "")[:16]):
        raise RunFileInvalid("it names itself as its parent or child run")
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


def _require_order(parts: Mapping[str, Any]) -> None:
    """Check that the ids of events can be those of a stream."""
    ids = [(0, 0), *(tuple(map(int, key.split("-"))) for key, _ in parts.get("events", ()))]
    if not all(earlier < later for earlier, later in pairwise(ids)):
        raise RunFileInvalid('the ids of its "events" do not grow')


def _require_numbers(run: Run, now_ms: int) -> None:
    usage = run.usage
    tokens = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
    money = usage.cost_usd or 0, usage.economy_usd
    others = (
        *(usage.cache_written_tokens, run.step, run.started_at or 0, run.tries, run.earlier_ms),
        *(run.failed_nodes, run.handled_failures, run.line or 0, *run.visits.values()),
    )
    if not (
        all(0 <= number <= _MOST_TOKENS for number in tokens)
        and all(0 <= number <= _MOST_USD for number in money)  # nor NaN
        and all(0 <= number < _MOST for number in others)
    ):
        raise RunFileInvalid("it has a number that no run can have")
    if not run.created_at <= (run.ended_at or 0) <= now_ms + _AHEAD_MS:
        raise RunFileInvalid("it ended before it was created, or has not ended yet")


def _require_sizes(record: Mapping[str, str]) -> None:
    for name, value in record.items():
        if _SIZE.fullmatch(name) and not _WHOLE.fullmatch(value):
            raise RunFileInvalid(f'"{name}" of its "record" is not a whole number')
