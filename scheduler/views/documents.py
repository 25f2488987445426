"""Records as JSON documents for `--json`. Fields may be added here, never renamed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.references import SHIPPED_AGENTS, is_shipped
from sleipnir.scheduler.runs.failures import NodeFailure
from sleipnir.scheduler.runs.history import NodeTimes, RouteTaken
from sleipnir.scheduler.runs.model import SHIPPED, Question, Run, RunRow, Status
from sleipnir.scheduler.store.clock import to_rfc3339

if TYPE_CHECKING:
    from sleipnir.graphs.schema import FormField
    from sleipnir.scheduler.runs.documents import NodeFailureDocument
    from sleipnir.scheduler.store.queries.lists import ChildRows
    from sleipnir.scheduler.views.types import records as record_types
    from sleipnir.scheduler.views.types import run as run_types
    from sleipnir.scheduler.views.types.questions import QuestionDocument
    from sleipnir.scheduler.views.types.records import FormFieldDocument

Document = Mapping[str, Any]


def run_document(
    run: Run,
    state: Mapping[str, Any],
    *,
    steps: int,
    now_ms: int,
    failures: Sequence[NodeFailure] = (),
) -> run_types.RunResultDocument:
    """Return the document of a run.

    Args:
        failures: node failures that did not end it, oldest first, handled ones included.
    """
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "directory": directory_of(run.agent, run.context.agent_path),
        **ended_document(run, failures, now_ms),
        "failed_nodes": run.failed_nodes,
        "state": {} if run.context.converses else dict(state),
        "steps": steps,
        "forked_from": _fork_document(run),
        "labels": dict(run.labels),
        "session": run.context.session,
    }


def directory_of(agent: str, path: str | None) -> str | None:
    """Return the directory that an agent came from, on the machine that submitted it, if known.

    Args:
        path: its `agent_path`.
    """
    return str(SHIPPED_AGENTS / agent) if path == SHIPPED else path


def origin(directory: Path | str) -> str:
    """Return an agent's directory for a person to read."""
    return f"{directory}{' (shipped)' if is_shipped(Path(directory)) else ''}"


def show_document(
    document: run_types.RunResultDocument,
    questions: Sequence[Question],
    waits_for: str | None,
    times: Sequence[NodeTimes],
    types: Mapping[str, str],
    children: ChildRows,
    decisions: Sequence[RouteTaken] = (),
    archived: record_types.ArchivedDocument | None = None,
) -> run_types.ShownRunDocument:
    """Return a run's `document` with its wait, nodes, their decisions, and children added."""
    return {
        **document,
        "question": question_document(questions[0]) if questions else None,
        "waits_for": waits_for,
        "nodes": [_node_document(row, types.get(row.node)) for row in times],
        "routes": list(map(_decision_document, decisions)),
        "children": [
            {"run_id": child.run_id, "agent": child.agent, "status": str(child.status)}
            for child in children.rows
        ],
        "more_children": left_out(children),
        "archived": archived,
    }


def _decision_document(taken: RouteTaken) -> run_types.DecisionDocument:
    return {
        "node": taken.node,
        "step": taken.step,
        "visit": taken.visit,
        "route": {"index": taken.index, "label": taken.label},
        "to": list(taken.to),
    }


def left_out(children: ChildRows) -> dict[str, int]:
    """Return the numbers of omitted child runs, by status or `uncounted` if it was not read."""
    counts = dict(sorted(children.folded.items()))
    return {**counts, "uncounted": children.uncounted} if children.uncounted else counts


def row_document(
    run: RunRow, *, now_ms: int, waits_for: str | None = None
) -> record_types.RunRowDocument:
    """Return a run as a row of a list; `waits_for`: open calls, or what a person has to do."""
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "status": str(run.status),
        "node": place_of(run),
        "waits_for": waits_for,
        "batch": run.batch,
        "item": run.item,
        "labels": dict(run.labels),
        "parent": run.parent,
        "root": run.root,
        "created_at": to_rfc3339(run.created_at),
        "age_s": (now_ms - run.created_at) / 1000,
        "elapsed_s": elapsed_s(run, now_ms),
        "usage": run.usage.to_json(),
        "failed_nodes": run.failed_nodes,
        "try": run.tries,
        "step": run.step,
    }


def excerpt(value: Any, most: int) -> record_types.ExcerptDocument:
    """Return the first characters of a value, JSON unless it is a text, and how many are left."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return {"text": text[:most], "left_out": max(0, len(text) - most)}


def error_document(
    run: Run, failures: Sequence[NodeFailure]
) -> record_types.RunFailureDocument | None:
    """Return why a run ended; if it failed, with the failures before, oldest first."""
    if run.failure is None:
        return None
    earlier = failures if run.status == Status.FAILED else ()
    caused_by = [*(each.to_json() for each in earlier), *run.failure.caused_by]
    return {**run.failure.to_json(), "caused_by": caused_by}


def failure_documents(failures: Sequence[NodeFailure]) -> list[NodeFailureDocument]:
    """Return the node failures that did not end the run, without handled ones."""
    return [each.to_json() for each in failures if not each.handled]


def ended_document(
    run: Run, failures: Sequence[NodeFailure], now_ms: int
) -> run_types.EndedRunDocument:
    """Return what the results of a batch say of a run, which is as it was at `now_ms`."""
    return {
        "run_id": run.run_id,
        "status": str(run.status),
        "output": run.output,
        "value": run.value,
        "error": error_document(run, failures),
        "failures": failure_documents(failures),
        "usage": run.usage.to_json(),
        "elapsed_s": elapsed_s(run, now_ms),
        "try": run.tries,
    }


def form_field_document(form: FormField) -> FormFieldDocument:
    """Return the document of an `x-form`."""
    return {
        "title": form.title,
        "enum": form.enum,
        "min": form.min,
        "max": form.max,
        "format": form.format,
    }


def question_document(question: Question) -> QuestionDocument:
    """Return the document of an open question."""
    return {
        "question_id": question.question_id,
        "run_id": question.run_id,
        "root_run_id": question.root_run_id,
        "agent": question.agent,
        "node": question.node,
        "place": question.place,
        "kind": question.kind,
        "text": question.text,
        "options": list(question.options),
        "default": question.default,
        "validation": question.validation,
        "guarded_call": None if question.guarded_call is None else question.guarded_call.to_json(),
        "user": question.user or None,
        "asked_at": to_rfc3339(question.asked_at),
    }


def elapsed_s(run: Run | RunRow, now_ms: int) -> float:
    """Return the seconds from each try's first node to its end, or until now; 0 if none began."""
    latest_ms = 0 if run.started_at is None else (run.ended_at or now_ms) - run.started_at
    return (run.earlier_ms + latest_ms) / 1000


def place_of(run: Run | RunRow) -> str | None:
    """Return the nodes a run is at; None if it has ended."""
    return None if run.is_final else ", ".join(run.frontier)


def _fork_document(run: Run) -> run_types.ForkDocument | None:
    if run.forked_from is None:
        return None
    run_id, step = run.forked_from
    return {"run_id": run_id, "step": step}


def _node_document(row: NodeTimes, node_type: str | None) -> run_types.RunNodeDocument:
    return {
        "id": row.node,
        "type": node_type,
        "visits": row.visits,
        "failed": row.failed,
        "total_s": row.total_ms / 1000,
        "avg_s": row.avg_ms / 1000,
        "max_s": row.max_ms / 1000,
        "waited_s": row.wait_ms / 1000,
        "parked_s": row.parked_ms / 1000,
        "cut": row.counts.cut,
        "usage": row.usage.to_json(),
    }
