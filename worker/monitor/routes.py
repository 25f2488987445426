"""The handler of every route, and the role needed for every method."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from sleipnir.records import dataclass
from sleipnir.worker.monitor.access import Role
from sleipnir.worker.monitor.handlers.acts import AuditHandler, SteerHandler
from sleipnir.worker.monitor.handlers.agents import AgentApi, AgentPage, AgentsHandler, RunsApi
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.handlers.batches import (
    BatchErrorsApi,
    BatchesHandler,
    BatchHandler,
    BatchResults,
)
from sleipnir.worker.monitor.handlers.bulk import (
    AgainApi,
    BulkApi,
    BulkPage,
    BulkProgressHandler,
)
from sleipnir.worker.monitor.handlers.compare import CompareHandler
from sleipnir.worker.monitor.handlers.engine import (
    DrainApi,
    FleetHandler,
    ScaleApi,
    TallyApi,
    TaskEventsHandler,
)
from sleipnir.worker.monitor.handlers.entry import (
    AliveHandler,
    AssetHandler,
    EntryHandler,
    MeHandler,
    OpenApiHandler,
    ReadyHandler,
)
from sleipnir.worker.monitor.handlers.evaluations.pages import (
    EvaluationHandler,
    EvaluationsHandler,
)
from sleipnir.worker.monitor.handlers.figures.costs import CostsHandler
from sleipnir.worker.monitor.handlers.figures.now import NowHandler
from sleipnir.worker.monitor.handlers.figures.spending import SpendApi, StatsApi
from sleipnir.worker.monitor.handlers.find import FindApi
from sleipnir.worker.monitor.handlers.hooks.api import (
    HookActsApi,
    HookApi,
    HookDeliveriesApi,
    HooksApi,
)
from sleipnir.worker.monitor.handlers.hooks.page import HookPage, HooksPage
from sleipnir.worker.monitor.handlers.limits import LimitsApi, LimitsHandler
from sleipnir.worker.monitor.handlers.questions.answered import AnsweredHandler
from sleipnir.worker.monitor.handlers.questions.by_link import AnswerLinkPage, AnswerLinksApi
from sleipnir.worker.monitor.handlers.questions.inbox import (
    AnswerApi,
    GroupsApi,
    InboxHandler,
    QuestionPage,
)
from sleipnir.worker.monitor.handlers.run import RunApi, RunItemsApi, RunPage
from sleipnir.worker.monitor.handlers.runs import RunsPage
from sleipnir.worker.monitor.handlers.schedules.api import (
    ScheduleActsApi,
    ScheduleApi,
    SchedulesApi,
)
from sleipnir.worker.monitor.handlers.schedules.page import SchedulePage, SchedulesPage
from sleipnir.worker.monitor.handlers.signing_in import SignInHandler, SignOutHandler
from sleipnir.worker.monitor.handlers.starting.batch import BatchesApi, BatchPage
from sleipnir.worker.monitor.handlers.starting.plan import PlanApi
from sleipnir.worker.monitor.handlers.stream import StreamHandler
from sleipnir.worker.monitor.handlers.triggers.api import (
    TriggerApi,
    TriggerRotateApi,
    TriggersApi,
)
from sleipnir.worker.monitor.handlers.triggers.firing import TriggerHandler
from sleipnir.worker.monitor.handlers.triggers.page import TriggerPage, TriggersPage
from sleipnir.worker.monitor.handlers.views import ViewsApi, ViewsPage
from sleipnir.worker.monitor.serving.chat.handlers import ChatHandler, ModelHandler, ModelsHandler
from sleipnir.worker.monitor.serving.mcp.handler import McpHandler
from sleipnir.worker.monitor.site import Site

# What the parts of a path match.
_ID = r"([0-9a-f]{16})"
_PARTS = {
    "run_id": _ID,
    "bulk_id": _ID,
    "visit": r"(.+)",
    "verb": r"(cancel|fork|move|retry)",
    "switch": r"(watch|stop)",
    "deed": r"(pause|resume|trigger|backfill|delete)",
    "hook_deed": r"(edit|enable|disable|rotate|test|redeliver|delete)",
    "hook_act": r"(enable|disable|rotate|test|redeliver)",
    "trigger_deed": r"(edit|rotate|delete)",
    "version": r"([0-9a-f]+)",
    "file": r"([^/]+)",
    "agent": r"([^/]+)",
    "name": r"([^/]+)",
    "map": r"([^/]+)",
    "token": r"([A-Za-z0-9_-]{43})",
    "prefix": r"([^/]+)",
    "tab": r"([a-z]+)",
    "items": r"(items)",
    "step": r"([0-9]{1,9})",
    "part": r"([a-z.]+)",
}


@dataclass(frozen=True, slots=True)
class SiteRoute:
    """A path, and the role needed for each method; None: anyone, from anywhere.

    Parts of the path are in braces; what is in brackets is optional.
    """

    path: str
    handler: type[MonitorHandler]
    needs: Mapping[str, Role | None] = field(default_factory=lambda: {"GET": Role.READ})

    @property
    def pattern(self) -> str:
        """The path as a regular expression."""
        optional = self.path.replace("[", "(?:").replace("]", ")?")
        return re.sub(r"\{(\w+)\}", lambda part: _PARTS[part[1]], optional)


ROUTES = (
    SiteRoute("/?", EntryHandler, {"GET": Role.LOCAL}),
    SiteRoute("/assets/{version}/{file}", AssetHandler, {"GET": None}),
    SiteRoute("/healthz", AliveHandler, {"GET": None}),
    SiteRoute("/readyz", ReadyHandler, {"GET": Role.LOCAL}),
    SiteRoute("/sign-in", SignInHandler, {"GET": None, "POST": None}),
    SiteRoute("/sign-out", SignOutHandler, {"GET": None, "POST": None}),
    SiteRoute("/runs", RunsPage),
    SiteRoute("/runs/{run_id}/{verb}", SteerHandler, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/runs/{prefix}/{items}/{step}/{map}", RunPage),
    SiteRoute("/runs/{prefix}[/{tab}]", RunPage),
    SiteRoute("/now", NowHandler),
    SiteRoute("/batches", BatchesHandler),
    SiteRoute("/batches/{name}", BatchHandler),
    SiteRoute("/batches/{name}/results", BatchResults),
    SiteRoute("/agents", AgentsHandler),
    SiteRoute("/agents/{name}", AgentPage, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/agents/{name}/batch", BatchPage, {"POST": Role.OPERATE}),
    SiteRoute("/schedules", SchedulesPage),
    SiteRoute("/schedules/{name}", SchedulePage),
    SiteRoute("/schedules/{name}/{deed}", SchedulePage, {"POST": Role.OPERATE}),
    SiteRoute("/hooks", HooksPage, {"GET": Role.OPERATE, "POST": Role.OPERATE}),
    SiteRoute("/hooks/{name}", TriggerHandler, {"GET": Role.OPERATE, "POST": None}),
    SiteRoute("/hooks/{name}/{hook_deed}", HookPage, {"POST": Role.OPERATE}),
    SiteRoute("/triggers", TriggersPage, {"GET": Role.OPERATE, "POST": Role.OPERATE}),
    SiteRoute("/triggers/{name}", TriggerPage, {"GET": Role.OPERATE}),
    SiteRoute("/triggers/{name}/{trigger_deed}", TriggerPage, {"POST": Role.OPERATE}),
    SiteRoute("/evaluations", EvaluationsHandler),
    SiteRoute("/evaluations/{agent}/{name}", EvaluationHandler),
    SiteRoute("/costs", CostsHandler),
    SiteRoute("/limits", LimitsHandler, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/fleet", FleetHandler, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/fleet/task-events/{switch}", TaskEventsHandler, {"POST": Role.OPERATE}),
    SiteRoute("/inbox", InboxHandler, {"GET": Role.READ, "POST": Role.ANSWER}),
    SiteRoute("/inbox/answered", AnsweredHandler),
    SiteRoute("/inbox/{run_id}/{visit}", QuestionPage, {"GET": Role.READ, "POST": Role.ANSWER}),
    SiteRoute("/a/{token}", AnswerLinkPage, {"GET": None, "POST": None}),
    SiteRoute("/bulk", BulkPage, {"POST": Role.OPERATE}),
    SiteRoute("/bulk/{bulk_id}", BulkProgressHandler),
    SiteRoute("/compare", CompareHandler),
    SiteRoute("/audit", AuditHandler, {"GET": Role.OPERATE}),
    SiteRoute("/api/v1/me", MeHandler),
    SiteRoute("/api/v1/openapi.json", OpenApiHandler),
    SiteRoute("/api/v1/now", NowHandler),
    SiteRoute("/api/v1/batches", BatchesApi, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/api/v1/batches/{name}", BatchHandler),
    SiteRoute("/api/v1/batches/{name}/errors", BatchErrorsApi),
    SiteRoute("/api/v1/batches/{name}/results", BatchResults),
    SiteRoute("/api/v1/agents", AgentsHandler),
    SiteRoute("/api/v1/evaluations", EvaluationsHandler),
    SiteRoute("/api/v1/evaluations/{agent}/{name}", EvaluationHandler),
    SiteRoute("/api/v1/spend", SpendApi),
    SiteRoute("/api/v1/costs", CostsHandler),
    SiteRoute("/api/v1/stats", StatsApi),
    SiteRoute("/api/v1/agents/{name}", AgentApi),
    SiteRoute("/api/v1/agents/{name}/plan", PlanApi),
    SiteRoute("/api/v1/limits", LimitsApi, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/api/v1/hooks", HooksApi, {"GET": Role.OPERATE, "POST": Role.OPERATE}),
    SiteRoute(
        "/api/v1/hooks/{name}",
        HookApi,
        {"GET": Role.OPERATE, "PATCH": Role.OPERATE, "DELETE": Role.OPERATE},
    ),
    SiteRoute("/api/v1/hooks/{name}/deliveries", HookDeliveriesApi, {"GET": Role.OPERATE}),
    SiteRoute("/api/v1/hooks/{name}/{hook_act}", HookActsApi, {"POST": Role.OPERATE}),
    SiteRoute("/api/v1/triggers", TriggersApi, {"GET": Role.OPERATE, "POST": Role.OPERATE}),
    SiteRoute(
        "/api/v1/triggers/{name}",
        TriggerApi,
        {"GET": Role.OPERATE, "PATCH": Role.OPERATE, "DELETE": Role.OPERATE},
    ),
    SiteRoute("/api/v1/triggers/{name}/rotate", TriggerRotateApi, {"POST": Role.OPERATE}),
    SiteRoute("/api/v1/schedules", SchedulesApi, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute(
        "/api/v1/schedules/{name}",
        ScheduleApi,
        {"GET": Role.READ, "PATCH": Role.OPERATE, "DELETE": Role.OPERATE},
    ),
    SiteRoute("/api/v1/schedules/{name}/{deed}", ScheduleActsApi, {"POST": Role.OPERATE}),
    SiteRoute("/api/v1/fleet", FleetHandler),
    SiteRoute("/api/v1/fleet/drain", DrainApi, {"POST": Role.OPERATE}),
    SiteRoute("/api/v1/scale", ScaleApi),
    SiteRoute("/api/v1/stream", StreamHandler),
    SiteRoute("/api/v1/questions", InboxHandler),
    SiteRoute("/api/v1/questions/groups", GroupsApi),
    SiteRoute("/api/v1/answers", AnsweredHandler),
    SiteRoute("/api/v1/questions/{run_id}/{visit}/answer", AnswerApi, {"POST": Role.ANSWER}),
    SiteRoute(
        "/api/v1/questions/{run_id}/{visit}/links",
        AnswerLinksApi,
        {"GET": Role.ANSWER, "POST": Role.ANSWER, "DELETE": Role.ANSWER},
    ),
    SiteRoute("/api/v1/bulk", BulkApi, {"POST": Role.OPERATE}),
    SiteRoute("/api/v1/bulk/again", AgainApi),
    SiteRoute("/api/v1/bulk/{bulk_id}", BulkProgressHandler),
    SiteRoute("/api/v1/compare", CompareHandler),
    SiteRoute("/api/v1/audit", AuditHandler, {"GET": Role.OPERATE}),
    SiteRoute("/views", ViewsPage, {"POST": Role.READ}),
    SiteRoute("/api/v1/views", ViewsApi, {"GET": Role.READ, "POST": Role.READ}),
    SiteRoute("/api/v1/find", FindApi),
    SiteRoute("/api/v1/tally", TallyApi),
    SiteRoute("/api/v1/runs/{run_id}/{verb}", SteerHandler, {"POST": Role.OPERATE}),
    SiteRoute("/api/v1/runs", RunsApi, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute("/api/v1/runs/{run_id}/items/{step}/{map}", RunItemsApi),
    SiteRoute("/api/v1/runs/{run_id}[/{part}]", RunApi),
    SiteRoute("/mcp", McpHandler, {"POST": Role.OPERATE}),
    SiteRoute("/v1/models", ModelsHandler),
    SiteRoute("/v1/models/{name}", ModelHandler),
    SiteRoute("/v1/chat/completions", ChatHandler, {"POST": Role.OPERATE}),
)


def rules(site: Site) -> Iterator[tuple[str, type[Any], dict[str, Any]]]:
    """Yield the routes in Tornado's form."""
    prefix = re.escape(site.prefix)
    for route in ROUTES:
        arguments = {"site": site, "needs": route.needs, "route": route.path}
        yield f"{prefix}{route.pattern}", route.handler, arguments
