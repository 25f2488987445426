"""Which handler answers what, and who may ask it: every route names a role for every method."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from sleipnir.records import dataclass
from sleipnir.worker.monitor.access import Role
from sleipnir.worker.monitor.handlers.acts import AuditApi, AuditHandler, SteerApi, SteerHandler
from sleipnir.worker.monitor.handlers.agents import (
    AgentApi,
    AgentPage,
    AgentsApi,
    AgentsHandler,
    RunsApi,
)
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.handlers.bulk import (
    BulkApi,
    BulkPage,
    BulkProgressApi,
    BulkProgressHandler,
)
from sleipnir.worker.monitor.handlers.compare import CompareApi, CompareHandler
from sleipnir.worker.monitor.handlers.engine import (
    BatchApi,
    BatchesApi,
    BatchesHandler,
    BatchHandler,
    FleetApi,
    FleetHandler,
    NowApi,
    NowHandler,
    TaskEventsHandler,
)
from sleipnir.worker.monitor.handlers.entry import (
    AliveHandler,
    AssetHandler,
    EntryHandler,
    MeHandler,
    ReadyHandler,
)
from sleipnir.worker.monitor.handlers.inbox import (
    AnswerApi,
    AnsweredApi,
    AnsweredHandler,
    InboxApi,
    InboxHandler,
    QuestionPage,
)
from sleipnir.worker.monitor.handlers.limits import LimitsApi, LimitsHandler
from sleipnir.worker.monitor.handlers.run import RunApi, RunPage
from sleipnir.worker.monitor.handlers.runs import RunsPage
from sleipnir.worker.monitor.handlers.stream import StreamHandler
from sleipnir.worker.monitor.site import Site

_RUN = r"([0-9a-f]{16})"


@dataclass(frozen=True, slots=True)
class SiteRoute:
    """Addresses, and who may use them by which method; None: anybody from anywhere."""

    pattern: str
    handler: type[MonitorHandler]
    needs: Mapping[str, Role | None] = field(default_factory=lambda: {"GET": Role.READ})


ROUTES = (
    SiteRoute(r"/?", EntryHandler, {"GET": Role.LOCAL}),
    SiteRoute(r"/assets/([0-9a-f]+)/([^/]+)", AssetHandler, {"GET": Role.LOCAL}),
    SiteRoute(r"/healthz", AliveHandler, {"GET": None}),
    SiteRoute(r"/readyz", ReadyHandler, {"GET": Role.LOCAL}),
    SiteRoute(r"/runs", RunsPage),
    SiteRoute(rf"/runs/{_RUN}/(cancel|retry)", SteerHandler, {"POST": Role.OPERATE}),
    SiteRoute(r"/runs/([^/]+)(?:/([a-z]+))?", RunPage),
    SiteRoute(r"/now", NowHandler),
    SiteRoute(r"/batches", BatchesHandler),
    SiteRoute(r"/batches/([^/]+)", BatchHandler),
    SiteRoute(r"/agents", AgentsHandler),
    SiteRoute(r"/agents/([^/]+)", AgentPage, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute(r"/limits", LimitsHandler, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute(r"/fleet", FleetHandler),
    SiteRoute(r"/fleet/task-events/(watch|stop)", TaskEventsHandler, {"POST": Role.OPERATE}),
    SiteRoute(r"/inbox", InboxHandler, {"GET": Role.READ, "POST": Role.ANSWER}),
    SiteRoute(r"/inbox/answered", AnsweredHandler),
    SiteRoute(rf"/inbox/{_RUN}/(.+)", QuestionPage, {"GET": Role.READ, "POST": Role.ANSWER}),
    SiteRoute(r"/bulk", BulkPage, {"POST": Role.OPERATE}),
    SiteRoute(rf"/bulk/{_RUN}", BulkProgressHandler),
    SiteRoute(r"/compare", CompareHandler),
    SiteRoute(r"/audit", AuditHandler, {"GET": Role.OPERATE}),
    SiteRoute(r"/api/v1/me", MeHandler),
    SiteRoute(r"/api/v1/now", NowApi),
    SiteRoute(r"/api/v1/batches", BatchesApi),
    SiteRoute(r"/api/v1/batches/([^/]+)", BatchApi),
    SiteRoute(r"/api/v1/agents", AgentsApi),
    SiteRoute(r"/api/v1/agents/([^/]+)", AgentApi),
    SiteRoute(r"/api/v1/limits", LimitsApi, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute(r"/api/v1/fleet", FleetApi),
    SiteRoute(r"/api/v1/stream", StreamHandler),
    SiteRoute(r"/api/v1/questions", InboxApi),
    SiteRoute(r"/api/v1/answers", AnsweredApi),
    SiteRoute(rf"/api/v1/questions/{_RUN}/(.+)/answer", AnswerApi, {"POST": Role.ANSWER}),
    SiteRoute(r"/api/v1/bulk", BulkApi, {"POST": Role.OPERATE}),
    SiteRoute(rf"/api/v1/bulk/{_RUN}", BulkProgressApi),
    SiteRoute(r"/api/v1/compare", CompareApi),
    SiteRoute(r"/api/v1/audit", AuditApi, {"GET": Role.OPERATE}),
    SiteRoute(rf"/api/v1/runs/{_RUN}/(cancel|retry)", SteerApi, {"POST": Role.OPERATE}),
    SiteRoute(r"/api/v1/runs", RunsApi, {"GET": Role.READ, "POST": Role.OPERATE}),
    SiteRoute(rf"/api/v1/runs/{_RUN}(?:/([a-z.]+))?", RunApi),
)


def rules(site: Site) -> Iterator[tuple[str, type[Any], dict[str, Any]]]:
    """The routes as Tornado takes them."""
    prefix = re.escape(site.prefix)
    for route in ROUTES:
        yield f"{prefix}{route.pattern}", route.handler, {"site": site, "needs": route.needs}
