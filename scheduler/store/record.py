"""Encodes new runs, checkpoints and usage as the texts that transitions take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.process.packing import pack
from sleipnir.scheduler.runs.model import NewRun, Usage

with lazy_imports():
    from sleipnir.scheduler.runs import events

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import RunSubmitted


def flat(pairs: Mapping[str, str]) -> list[str]:
    return [text for pair in pairs.items() for text in pair]


def usage_text(usage: Usage | None) -> str:
    return usage.to_text() if usage else ""


def checkpoint(
    step: int, writes: Mapping[str, str], frontier: Sequence[str], nodes: Mapping[str, Any]
) -> bytes | str:
    """Return a checkpoint as it is stored, but for the time: the transition adds it in front."""
    changed = ",".join(f"{encode(key)}:{text}" for key, text in writes.items())
    return pack(
        f'{{"step":{step},"frontier":{encode(list(frontier))},'
        f'"nodes":{encode(nodes)},"writes":{{{changed}}}}}'
    )


def first_checkpoint(run: NewRun) -> bytes | str:
    return checkpoint(0, run.state, (run.start,), {})


def submitted(run: NewRun) -> RunSubmitted:
    return events.RunSubmitted(run.agent, (run.start, run.start_type), run.warnings)


def record_fields(run: NewRun, *, has_queues: bool) -> list[str]:
    """Return the record's fields; the queues of its nodes only if workers differ in theirs."""
    fields = {
        "agent": run.agent,
        "digest": run.digest,
        "context": run.context.to_json(),
        "timeout_ms": None if run.timeout_s is None else str(int(run.timeout_s * 1000)),
        "machine": run.context.machine,
        "queues": encode(dict(run.queues)) if run.queues and has_queues else None,
        "parent": run.parent,
        "root": None if run.parent is None else run.context.root,
        "member": "1" if run.context.member else None,
        "batch": run.batch,
        "of_batch": None if run.context.batch is None else "1",
        "item": run.item,
        "line": None if run.line is None else str(run.line),
        "labels": encode(dict(run.labels)) if run.labels else None,
        "session": run.session and run.session[0],
        "continues": None if run.session is None else run.continues,
        "schedule": run.schedule,
        "webhook": run.webhook,
        "forked_from": run.forked_from and f"{run.forked_from[0]} {run.forked_from[1]}",
        "inherited": None if run.inherited is None else run.inherited.to_text(),
    }
    return flat({name: value for name, value in fields.items() if value is not None})
