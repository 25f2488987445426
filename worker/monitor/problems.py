"""Why the monitor refuses a request: a status, a code and a message."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Any

from tornado.web import HTTPError

from sleipnir.graphs.errors import AgentNotFound, AmbiguousAgent, BundleError, InvalidAgent
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import (
    ActionRefused,
    AmbiguousRun,
    AnswerRefused,
    ArchiveFailed,
    BadCursor,
    BudgetUsedUp,
    EngineUnreachable,
    HookNotFound,
    NameInUse,
    RunNotFound,
    RunRemoved,
    ScheduleNotFound,
    SessionInUse,
    SettingInvalid,
    SleipnirError,
    SubmissionRefused,
    TransitionRefused,
    TriggerNotFound,
    ViewInvalid,
)
from sleipnir.scheduler.process.drawing.processes import DrawingTooLarge
from sleipnir.scheduler.store.connection import describe
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.views.visits import NoSuchMap
from sleipnir.worker.monitor.drawings import DrawingNotReady

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """What to tell the sender of a request."""

    status: int
    code: str
    message: str
    hint: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The status in words."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    def to_json(self) -> dict[str, Any]:
        error = {"code": self.code, "message": self.message, "hint": self.hint}
        return {"error": {**error, "details": self.details}}


class Refused(HTTPError):  # type: ignore[misc]  # no stubs
    """A request is refused; says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status)
        self.problem = problem


def bad_request(message: str) -> Refused:
    """Return the refusal for an invalid parameter or body."""
    return Refused(Problem(400, "bad_request", message))


_OF_STATUS = {400: "bad_request", 404: "not_found", 405: "method", 413: "too_large"}
# The first match applies.
_OF_ERRORS: tuple[tuple[type[SleipnirError], int, str], ...] = (
    (RunRemoved, 410, "expired"),
    (RunNotFound, 404, "not_found"),
    (NoSuchMap, 404, "not_found"),
    (ScheduleNotFound, 404, "not_found"),
    (HookNotFound, 404, "not_found"),
    (TriggerNotFound, 404, "not_found"),
    (AmbiguousRun, 400, "ambiguous"),
    (BadCursor, 400, "bad_cursor"),
    (ViewInvalid, 400, "bad_request"),
    (BundleError, 410, "gone"),
    (DrawingTooLarge, 422, "too_large"),
    (DrawingNotReady, 503, "busy"),
    (AnswerRefused, 409, "refused"),
    (ActionRefused, 409, "refused"),
    (TransitionRefused, 409, "refused"),
    (AmbiguousAgent, 409, "ambiguous"),
    (AgentNotFound, 404, "not_found"),
    (InvalidAgent, 422, "invalid"),
    (SessionInUse, 409, "refused"),
    (BudgetUsedUp, 409, "refused"),
    (NameInUse, 409, "refused"),
    (SubmissionRefused, 422, "invalid"),
    (SettingInvalid, 422, "invalid"),
    (EngineUnreachable, 503, "redis"),
    (ArchiveFailed, 503, "archive"),
    (SleipnirError, 400, "refused"),
)


def _details_of(error: SleipnirError) -> dict[str, Any]:
    """Return the facts of an error, so that programs need not parse its message."""
    if not isinstance(error, RunRemoved):
        return {}
    names = ("run_id", "agent", "status", "ended_at", "removed_at", "kept_days")
    return {name: getattr(error, name) for name in names}


def problem_of(error: BaseException | None) -> Problem:
    """Return how to report a handler's exception; unexpected ones are logged with an id."""
    if isinstance(error, Refused):
        return error.problem
    if isinstance(error, HTTPError):
        code = _OF_STATUS.get(error.status_code, "refused")
        return Problem(error.status_code, code, str(error.reason or error.log_message or code))
    if isinstance(error, SleipnirError):
        status, code = next((s, c) for kind, s, c in _OF_ERRORS if isinstance(error, kind))
        return Problem(status, code, str(error), details=_details_of(error))
    if isinstance(error, RedisError):
        return Problem(503, "redis", describe(error), "pages come back when it does")
    number = secrets.token_hex(4)
    log.error("request failed, %s", number, exc_info=error)
    return Problem(
        500, "internal", f"the page could not be made; the monitor's log has the cause at {number}"
    )
