"""Every operation of the API: its address, what it takes and what it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from pydantic import BaseModel

from sleipnir.records import dataclass
from sleipnir.worker.monitor import bodies
from sleipnir.worker.monitor.api import engine, records, runs
from sleipnir.worker.monitor.conditions import RunConditions

_RUN = "/api/v1/runs/{run_id}"
_PAGE = {"limit": "entries of the page", "cursor": "`next` of the page before"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One address and method."""

    method: str
    path: str
    about: str
    gives: type[records.AnswerDocument] | str  # a model, or the type of a body that is not JSON
    query: Mapping[str, str] = field(default_factory=dict)  # parameters, each with what it is
    takes: type[BaseModel] | None = None
    statuses: tuple[int, ...] = (200,)


def _conditions() -> dict[str, str]:
    return {name: each.description or "" for name, each in RunConditions.model_fields.items()}


OPERATIONS = (
    Operation(
        "GET", "/api/v1/runs", "Runs, newest first.", runs.RunListDocument, _conditions() | _PAGE
    ),
    Operation(
        "POST",
        "/api/v1/runs",
        "Submit an agent; 200 instead of 201 for a `key` that is known.",
        engine.SubmittedDocument,
        takes=bodies.SubmitBody,
        statuses=(201, 200),
    ),
    Operation("GET", _RUN, "What stands above a run's page.", runs.RunDocument),
    Operation("GET", f"{_RUN}/why", "Why it does not move.", runs.WhyDocument),
    Operation(
        "GET",
        f"{_RUN}/graph",
        "Nodes and arrows with what was done.",
        runs.GraphDocument,
        {"step": "as after it"},
    ),
    Operation("GET", f"{_RUN}/graph.svg", "The drawing.", "image/svg+xml"),
    Operation(
        "GET",
        f"{_RUN}/timeline",
        "A row for each visit.",
        runs.TimelineDocument,
        {"from": "the first step", "limit": "rows"},
    ),
    Operation(
        "GET",
        f"{_RUN}/state",
        "Values, who wrote them, what changed.",
        runs.StateDocument,
        {"step": "as after it"},
    ),
    Operation(
        "GET", f"{_RUN}/history", "Super-steps.", runs.HistoryDocument, {"from": "the first one"}
    ),
    Operation(
        "GET", f"{_RUN}/events", "What was told of it.", runs.EventsDocument, {"after": "an id"}
    ),
    Operation(
        "GET",
        f"{_RUN}/logs",
        "What its nodes printed, the newest last.",
        runs.LogsDocument,
        {"node": "only its", "item": "of a map", "before": "a number", "limit": "entries"},
    ),
    Operation(
        "GET",
        f"{_RUN}/model",
        "Model calls, and what each node spent on which model.",
        runs.ModelCallsDocument,
        {"node": "only its", "item": "of a map", "limit": "visits"},
    ),
    Operation(
        "GET",
        f"{_RUN}/items",
        "Items of a map.",
        runs.ItemsDocument,
        {"map": "a node", "state": "only these", "after": "an index", "limit": "items"},
    ),
    Operation("GET", f"{_RUN}/children", "Child runs.", runs.ChildrenDocument),
    Operation("GET", f"{_RUN}/agent", "Its agent as it was submitted.", runs.RunVersionDocument),
    Operation(
        "GET",
        f"{_RUN}/submitted",
        "What it was submitted with, as a command too.",
        runs.SubmittedWithDocument,
    ),
    Operation(
        "POST",
        f"{_RUN}/cancel",
        "Cancel it, for the `reason` of a form.",
        engine.SteeredDocument,
        statuses=(202,),
    ),
    Operation(
        "POST", f"{_RUN}/retry", "Let it go on in place.", engine.SteeredDocument, statuses=(202,)
    ),
    Operation(
        "POST",
        f"{_RUN}/fork",
        "Start a new run with what it had after a step.",
        engine.SubmittedDocument,
        takes=bodies.ForkBody,
        statuses=(201,),
    ),
    Operation(
        "POST",
        "/api/v1/bulk",
        "Cancel or retry many runs, one after the other.",
        engine.BulkDocument,
        takes=bodies.BulkBody,
        statuses=(202,),
    ),
    Operation("GET", "/api/v1/bulk/{bulk_id}", "How far that is.", engine.BulkDocument),
    Operation(
        "GET",
        "/api/v1/compare",
        "Two runs beside each other.",
        runs.ComparisonDocument,
        {"a": "a run", "b": "another one", "step": "as after it"},
    ),
    Operation(
        "GET",
        "/api/v1/questions",
        "Open questions, oldest first.",
        runs.QuestionListDocument,
        {
            "agent": "of its runs",
            "batch": "of its runs",
            "node": "only what it asks",
            "text": "that contain it",
            "until": "asked before",
            **_PAGE,
        },
    ),
    Operation(
        "POST",
        "/api/v1/questions/{run_id}/{visit}/answer",
        "Answer a question.",
        engine.AnsweredQuestionDocument,
        takes=bodies.AnswerBody,
    ),
    Operation(
        "GET",
        "/api/v1/answers",
        "Answers that counted, newest first.",
        runs.AnswerListDocument,
        {"who": "only theirs", "run": "only of this one", **_PAGE},
    ),
    Operation("GET", "/api/v1/now", "Everything in short.", engine.NowDocument),
    Operation(
        "GET", "/api/v1/batches", "Batches by last activity.", engine.BatchListDocument, _PAGE
    ),
    Operation("GET", "/api/v1/batches/{name}", "A batch.", engine.BatchReportDocument),
    Operation("GET", "/api/v1/agents", "Agents with their use.", engine.AgentListDocument),
    Operation(
        "GET",
        "/api/v1/agents/{name}",
        "An agent, or a version of it as `NAME@VERSION`.",
        engine.AgentDocument,
        {"against": "a version, to give `compared`"},
    ),
    Operation("GET", "/api/v1/limits", "Limits, pauses and budgets.", engine.LimitsDocument),
    Operation(
        "POST",
        "/api/v1/limits",
        "Change them; gives them as they are then.",
        engine.LimitsDocument,
        takes=bodies.LimitsBody,
    ),
    Operation(
        "GET", "/api/v1/tally", "Sums over runs that are over, by agent.", engine.TallyDocument
    ),
    Operation("GET", "/api/v1/fleet", "Workers, queues, schedulers, Redis.", engine.FleetDocument),
    Operation(
        "GET",
        "/api/v1/audit",
        "Acts, newest first.",
        engine.ActListDocument,
        {
            "who": "only theirs",
            "act": "its name",
            "target": "its beginning",
            "outcome": "this",
            **_PAGE,
        },
    ),
    Operation(
        "GET",
        "/api/v1/stream",
        "Events `change`, `final` and `resync` (load again).",
        "text/event-stream",
        {"topics": "`run:ID`, `bulk:ID`, `runs`, `inbox`: up to 20 with commas between"},
    ),
    Operation("GET", "/api/v1/me", "Who is asking.", engine.MeDocument),
    Operation("GET", "/api/v1/openapi.json", "All of this for programs.", "application/json"),
)
