"""Every operation of the API: its path, parameters and response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from functools import cache

from pydantic import BaseModel

from sleipnir.records import dataclass
from sleipnir.scheduler.client.hooks.wanted import WantedHook
from sleipnir.scheduler.client.inbound.wanted import WantedTrigger
from sleipnir.scheduler.client.schedules.wanted import WantedSchedule
from sleipnir.scheduler.runs import documents
from sleipnir.scheduler.views.types import (
    agents,
    batches,
    comparison,
    engine,
    evaluations,
    hooks,
    plans,
    questions,
    records,
    run,
    schedules,
    trends,
)
from sleipnir.worker.monitor import bodies
from sleipnir.worker.monitor.api import answers
from sleipnir.worker.monitor.conditions import RunConditions

_RUN = "/api/v1/runs/{run_id}"
_QUESTIONS = {
    "agent": "of runs",
    "batch": "of runs",
    "node": "asked by this node",
    "text": "containing this text",
    "until": "asked before",
}
_PAGE = {"limit": "entries per page", "cursor": "`next` of the previous page"}


@dataclass(frozen=True, slots=True)
class Operation:
    """One path and method."""

    method: str
    path: str
    about: str
    # a typed document, or the content type of a body that is not JSON
    gives: type | str
    query: Mapping[str, str] = field(default_factory=dict)  # parameters with their descriptions
    takes: type[BaseModel] | None = None
    statuses: tuple[int, ...] = (200,)


def _conditions() -> dict[str, str]:
    return {name: each.description or "" for name, each in RunConditions.model_fields.items()}


_LINKS = "/api/v1/questions/{run_id}/{visit}/links"
_HOOKS = "/api/v1/hooks"
_HOOK = f"{_HOOKS}/{{name}}"
_TRIGGERS = "/api/v1/triggers"
_TRIGGER = f"{_TRIGGERS}/{{name}}"
_SCHEDULES = "/api/v1/schedules"
_SCHEDULE = f"{_SCHEDULES}/{{name}}"

OPERATIONS = (
    Operation(
        "GET", "/api/v1/runs", "Runs, newest first.", records.RunListDocument, _conditions() | _PAGE
    ),
    Operation(
        "POST",
        "/api/v1/runs",
        "Submit an agent; 200 instead of 201 for a `key` that is known.",
        answers.SubmittedDocument,
        takes=bodies.SubmitBody,
        statuses=(201, 200),
    ),
    Operation("GET", _RUN, "Summary of a run, as at the top of its page.", run.RunDocument),
    Operation("GET", f"{_RUN}/why", "Why the run is not moving.", run.WhyDocument),
    Operation(
        "GET",
        f"{_RUN}/graph",
        "Nodes and edges with their progress.",
        run.ComparedGraphDocument,
        {"step": "as it was after this step"},
    ),
    Operation("GET", f"{_RUN}/graph.svg", "The drawing.", "image/svg+xml"),
    Operation(
        "GET",
        f"{_RUN}/playback",
        "Which nodes each step ran, and the routes that it took.",
        run.PlaybackDocument,
        {"from": "first step"},
    ),
    Operation(
        "GET",
        f"{_RUN}/timeline",
        "One row per visit.",
        run.TimelineDocument,
        {"from": "first step", "limit": "rows"},
    ),
    Operation(
        "GET",
        f"{_RUN}/state",
        "Values, the nodes that wrote them, and changes.",
        run.StateDocument,
        {
            "step": "as it was after this step",
            "key": "only this one, whole",
            "q": "only keys whose names contain it",
            "from": "`next` of the previous page",
        },
    ),
    Operation(
        "GET", f"{_RUN}/answers", "Answers to its questions.", questions.AnswerListDocument, _PAGE
    ),
    Operation(
        "GET", f"{_RUN}/history", "Super-steps.", run.HistoryDocument, {"from": "first step"}
    ),
    Operation("GET", f"{_RUN}/events", "Narration events.", run.EventsDocument, {"after": "an id"}),
    Operation(
        "GET",
        f"{_RUN}/logs",
        "Output of its nodes, newest last.",
        run.LogsDocument,
        {
            "node": "only of this node",
            "item": "of a map item",
            "step": "only in this step",
            "stream": "only of this stream",
            "q": "only entries that contain it",
            "before": "a number",
            "limit": "entries",
        },
    ),
    Operation(
        "GET",
        f"{_RUN}/model",
        "Model calls, and spending by node and model.",
        run.ModelCallsDocument,
        {
            "node": "only of this node",
            "item": "of a map item",
            "step": "only in this step",
            "call": "only this one of each visit, counted from 1",
            "failed": "1: only of visits that failed",
            "limit": "visits",
        },
    ),
    Operation(
        "GET",
        f"{_RUN}/items/{{step}}/{{map}}",
        "Items of a map, of its visit in a step.",
        run.ItemsDocument,
        {
            "state": "only in this state",
            "cause": "only those that failed for it",
            "item": "an index, of the one that `chosen` is about",
            "after": "an index",
            "limit": "items",
        },
    ),
    Operation("GET", f"{_RUN}/children", "Child runs.", run.ChildrenDocument),
    Operation("GET", f"{_RUN}/agent", "The agent as it was submitted.", agents.RunVersionDocument),
    Operation(
        "GET",
        f"{_RUN}/submitted",
        "The submission's inputs, and the equivalent command.",
        run.SubmittedWithDocument,
    ),
    Operation(
        "GET",
        f"{_RUN}/again",
        "What a retry would repeat, what that cost before, and how the agent has changed.",
        run.AgainDocument,
    ),
    Operation(
        "POST",
        f"{_RUN}/cancel",
        "Cancel the run.",
        answers.SteeredDocument,
        takes=bodies.CancelBody,
        statuses=(202,),
    ),
    Operation(
        "POST",
        f"{_RUN}/retry",
        "Retry the run in place.",
        answers.SteeredDocument,
        takes=bodies.RetryBody,
        statuses=(202,),
    ),
    Operation(
        "POST",
        f"{_RUN}/move",
        "Take the run, open or ended, with its child runs to another machine.",
        answers.SteeredDocument,
        takes=bodies.MoveBody,
        statuses=(202,),
    ),
    Operation(
        "POST",
        f"{_RUN}/fork",
        "Start a new run from its state after a step.",
        answers.SubmittedDocument,
        takes=bodies.ForkBody,
        statuses=(201,),
    ),
    Operation(
        "POST",
        "/api/v1/bulk",
        "Cancel or retry many runs, one after the other.",
        answers.BulkDocument,
        takes=bodies.BulkBody,
        statuses=(202,),
    ),
    Operation(
        "GET",
        "/api/v1/bulk/again",
        "What retries of all runs that match would repeat, and what that cost before.",
        run.ManyAgainDocument,
        _conditions(),
    ),
    Operation(
        "GET", "/api/v1/bulk/{bulk_id}", "Progress of a bulk operation.", answers.BulkDocument
    ),
    Operation(
        "GET",
        "/api/v1/compare",
        "Compare two runs. Values of more than 1,000 characters are `{text, left_out}`.",
        comparison.ComparisonPageDocument,
        {
            "a": "a run",
            "b": "another one",
            "step": "as it was after this step",
            "from": "`next` of the previous page",
            "limit": "rows of each table",
            "download": "1: everything, without `next` and `more`",
        },
    ),
    Operation(
        "GET",
        "/api/v1/questions",
        "Open questions, oldest first.",
        questions.QuestionListDocument,
        {**_QUESTIONS, **_PAGE},
    ),
    Operation(
        "GET",
        "/api/v1/questions/groups",
        "The oldest 1,000 open questions by agent and node.",
        questions.QuestionGroupsDocument,
        _QUESTIONS,
    ),
    Operation(
        "POST",
        "/api/v1/questions/{run_id}/{visit}/answer",
        "Answer a question.",
        answers.AnsweredQuestionDocument,
        takes=bodies.AnswerBody,
    ),
    Operation("GET", _LINKS, "For whom there are answer links.", questions.LinkListDocument),
    Operation(
        "DELETE",
        _LINKS,
        "Have a link open nothing any more.",
        questions.RevokedLinkDocument,
        {"recipient": "whose it is"},
    ),
    Operation(
        "POST",
        _LINKS,
        "Make a link with which somebody answers a question without an account.",
        questions.AnswerLinkDocument,
        takes=bodies.AnswerLinkBody,
        statuses=(201,),
    ),
    Operation(
        "GET",
        "/api/v1/answers",
        "Accepted answers, newest first.",
        questions.AnswerListDocument,
        {"who": "by this user", "run": "of this run", **_PAGE},
    ),
    Operation("GET", "/api/v1/now", "Overview of the engine.", trends.NowDocument),
    Operation(
        "GET", "/api/v1/batches", "Batches by last activity.", batches.BatchListDocument, _PAGE
    ),
    Operation(
        "POST",
        "/api/v1/batches",
        "Start a batch, or go on with it; lines are submitted in the background.",
        answers.StartedBatchDocument,
        takes=bodies.BatchBody,
        statuses=(202,),
    ),
    Operation("GET", "/api/v1/batches/{name}", "A batch.", batches.BatchReportDocument),
    Operation(
        "GET",
        "/api/v1/batches/{name}/errors",
        "Why its newest failed runs failed, by kind.",
        batches.BatchErrorsDocument,
    ),
    Operation(
        "GET",
        "/api/v1/batches/{name}/results",
        "Its finished runs, newest first, one JSON object per line.",
        "text/plain",
    ),
    Operation(
        "GET",
        "/api/v1/agents",
        "Agents with usage figures.",
        agents.AgentListDocument,
        {
            "period": "of all figures, in days (UTC): `today`, `7d` or `30d`; default `7d`",
            "sort": "by `name`, `spent`, `runs`, `failed`, `took` or `cost`",
        },
    ),
    Operation(
        "GET",
        "/api/v1/agents/{name}",
        "An agent, or one version of it as `NAME@VERSION`.",
        agents.AgentDocument,
        {"against": "a version to compare with, in `compared`"},
    ),
    Operation(
        "GET",
        "/api/v1/spend",
        "What model calls have cost.",
        documents.SpendDocument,
        {
            "by": "a row for each `hour`, `day` (the default), `agent`, `batch`, `node` or "
            "`model`; repeatable",
            "since": "first day (UTC): `2026-11-01`, or `30d` for 30 days ago",
            "until": "last day",
            "agent": "only of root runs of this agent",
            "batch": "only of runs of this batch",
        },
    ),
    Operation(
        "GET",
        "/api/v1/stats",
        "How root runs ended, removed ones included.",
        documents.EndedDocument,
        {
            "by": "a row for each `hour`, `day` (the default), `agent` or `batch`; repeatable",
            "since": "first day (UTC): `2026-11-01`, or `30d` for 30 days ago",
            "until": "last day",
            "agent": "only of this agent",
            "batch": "only of this batch",
        },
    ),
    Operation(
        "GET",
        "/api/v1/costs",
        "What was spent in a period, with the day's forecast and the dearest runs.",
        trends.CostsDocument,
        {
            "period": "`24h`, `7d` (the default) or `30d`",
            "per": "`hour` or `day`; 7 days may be by either",
            "by": "`agent` (the default), `model`, `batch`, `node` or `label`",
            "label": "`by` the values of this one; the default is the dearest label",
        },
    ),
    Operation("GET", "/api/v1/limits", "Limits, pauses and budgets.", engine.LimitsPageDocument),
    Operation(
        "POST",
        "/api/v1/limits",
        "Change limits; returns the new ones.",
        engine.LimitsPageDocument,
        takes=bodies.LimitsBody,
    ),
    Operation("GET", "/api/v1/views", "Your named lists of runs.", records.ViewListDocument),
    Operation(
        "POST",
        "/api/v1/views",
        "Name a list of runs, or remove the name; returns all of yours.",
        records.ViewListDocument,
        takes=bodies.ViewBody,
    ),
    Operation(
        "GET",
        "/api/v1/agents/{name}/plan",
        "What one run does and costs at least and at most, and what recent ones did.",
        plans.AgentPlanDocument,
    ),
    Operation(
        "GET",
        "/api/v1/evaluations",
        "Evaluations that were run, or that agents have.",
        evaluations.EvaluationListDocument,
        {"agent": "only of this one"},
    ),
    Operation(
        "GET",
        "/api/v1/evaluations/{agent}/{name}",
        "Scores of the versions whose runs are stored, as `sleipnir eval --json`, and more.",
        evaluations.EvaluationDocument,
        {
            "baseline": "the version to compare with, or its first digits",
            "rows": "digest of the rows, as in `stored`",
        },
    ),
    Operation(
        "GET",
        "/api/v1/find",
        "Pages, agents, batches and their items, labels, limits and runs, by name or id.",
        engine.FindDocument,
        {"q": "a part of a name, the beginning of a run's id, or an item's name"},
    ),
    Operation("GET", "/api/v1/tally", "Totals of finished runs by agent.", agents.TallyDocument),
    Operation("GET", "/api/v1/fleet", "Workers, queues, schedulers, Redis.", engine.FleetDocument),
    Operation(
        "POST",
        "/api/v1/fleet/drain",
        "Have workers finish their visits, take no others, and end.",
        answers.DrainedDocument,
        takes=bodies.DrainBody,
        statuses=(202,),
    ),
    Operation(
        "GET",
        "/api/v1/scale",
        "How much work there is for workers.",
        engine.ScaleDocument,
        {"queue": "its name; without it, all together"},
    ),
    Operation(
        "GET",
        "/api/v1/audit",
        "Actions, newest first.",
        questions.ActListDocument,
        {
            "who": "by this user",
            "act": "its name",
            "target": "prefix of the target",
            "outcome": "this",
            **_PAGE,
        },
    ),
    Operation(
        "GET",
        "/api/v1/stream",
        "Events `change`, `final` and `resync` (load again).",
        "text/event-stream",
        {"topics": "`run:ID`, `bulk:ID`, `runs`, `inbox`: up to 20, comma-separated"},
    ),
    Operation("GET", "/api/v1/me", "The authenticated user.", answers.MeDocument),
    Operation(
        "GET", "/api/v1/openapi.json", "This API as an OpenAPI document.", "application/json"
    ),
    Operation("GET", _HOOKS, "Hooks, and how their deliveries go.", hooks.HookListDocument),
    Operation(
        "POST",
        _HOOKS,
        "Make a hook; the answer has its secret.",
        hooks.CreatedHookDocument,
        takes=bodies.HookBody,
        statuses=(201,),
    ),
    Operation("GET", _HOOK, "A hook.", hooks.HookDocument),
    Operation("PATCH", _HOOK, "Change some fields.", hooks.HookDocument, takes=WantedHook),
    Operation("DELETE", _HOOK, "Remove a hook, and its open events.", answers.DeletedDocument),
    Operation(
        "GET", f"{_HOOK}/deliveries", "Its last attempts, newest first.", hooks.AttemptListDocument
    ),
    Operation(
        "POST",
        f"{_HOOK}/rotate",
        "Give it another secret; the one before signs for a while.",
        hooks.SecretDocument,
        takes=bodies.RotateBody,
    ),
    Operation(
        "POST",
        f"{_HOOK}/test",
        "Send it an event `hook.test`.",
        hooks.SentEventDocument,
        statuses=(202,),
    ),
    Operation(
        "POST",
        f"{_HOOK}/redeliver",
        "Send an event again.",
        hooks.SentEventDocument,
        takes=bodies.RedeliverBody,
        statuses=(202,),
    ),
    Operation("POST", f"{_HOOK}/enable", "Send events again.", hooks.HookDocument),
    Operation("POST", f"{_HOOK}/disable", "Send nothing more.", hooks.HookDocument),
    Operation("GET", _TRIGGERS, "Triggers, by name.", hooks.TriggerListDocument),
    Operation(
        "POST",
        _TRIGGERS,
        "Make a trigger; the answer has its secret.",
        hooks.CreatedTriggerDocument,
        takes=bodies.TriggerBody,
        statuses=(201,),
    ),
    Operation("GET", _TRIGGER, "A trigger.", hooks.TriggerDocument),
    Operation("PATCH", _TRIGGER, "Change some fields.", hooks.TriggerDocument, takes=WantedTrigger),
    Operation("DELETE", _TRIGGER, "Remove a trigger; its runs go on.", answers.DeletedDocument),
    Operation(
        "POST",
        f"{_TRIGGER}/rotate",
        "Give it another secret; the one before is good for a while.",
        hooks.SecretDocument,
        takes=bodies.RotateBody,
    ),
    Operation(
        "GET",
        _SCHEDULES,
        "Schedules, those that fire next first.",
        schedules.ScheduleListDocument,
    ),
    Operation(
        "POST",
        _SCHEDULES,
        "Make a schedule.",
        schedules.ScheduleDocument,
        takes=bodies.ScheduleBody,
        statuses=(201,),
    ),
    Operation("GET", _SCHEDULE, "A schedule.", schedules.ShownScheduleDocument),
    Operation(
        "PATCH",
        _SCHEDULE,
        "Change some fields; with `agent`, its files are taken as they are now.",
        schedules.ScheduleDocument,
        takes=WantedSchedule,
    ),
    Operation("DELETE", _SCHEDULE, "Remove a schedule; its runs stay.", answers.DeletedDocument),
    Operation(
        "POST",
        f"{_SCHEDULE}/pause",
        "Let it fire no more.",
        schedules.ScheduleDocument,
        takes=bodies.PauseBody,
    ),
    Operation("POST", f"{_SCHEDULE}/resume", "Let it fire again.", schedules.ScheduleDocument),
    Operation(
        "POST",
        f"{_SCHEDULE}/trigger",
        "Start a run now.",
        schedules.TriggeredDocument,
        statuses=(202,),
    ),
    Operation(
        "POST",
        f"{_SCHEDULE}/backfill",
        "Start runs for instants that have passed and have none.",
        schedules.BackfilledDocument,
        takes=bodies.BackfillBody,
        statuses=(202,),
    ),
)

# What the parts of a path match, besides names.
_PARTS: Mapping[str, str] = {
    "run_id": "[0-9a-f]{16}",
    "bulk_id": "[0-9a-f]{16}",
    "step": "[0-9]{1,9}",
    "visit": ".+",
}


def operation_of(method: str, path: str) -> Operation | None:
    """Return the operation that a request asks for; None if the API has none there."""
    # Those without parts first: `/api/v1/batches/{name}` also fits other paths.
    found = (
        each for pattern, each in _patterns() if each.method == method and pattern.fullmatch(path)
    )
    return next(found, None)


@cache
def _patterns() -> list[tuple[re.Pattern[str], Operation]]:
    return [
        (re.compile(re.sub(r"\{(\w+)\}", _part, each.path)), each)
        for each in sorted(OPERATIONS, key=lambda each: "{" in each.path)
    ]


def _part(match: re.Match[str]) -> str:
    return _PARTS.get(match[1], "[^/]+")
