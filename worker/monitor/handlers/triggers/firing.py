"""POST /hooks/NAME: another system starts a run."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from sleipnir.graphs.document.finding import cut, printable
from sleipnir.graphs.errors import AgentNotFound, InvalidAgent
from sleipnir.graphs.state import decode
from sleipnir.scheduler.errors import SettingInvalid, SleipnirError, SubmissionRefused
from sleipnir.scheduler.process.telemetry.identity import carried_by
from sleipnir.scheduler.runs.inbound.triggers import Outcome, Trigger, seen_headers, triggered
from sleipnir.scheduler.runs.inbound.verifying import delivery_of
from sleipnir.scheduler.store.audit.log import DONE
from sleipnir.scheduler.views import submission
from sleipnir.scheduler.views.submission import AcceptedRun, WantedRun
from sleipnir.worker.monitor.access import Role, User
from sleipnir.worker.monitor.admission.rates import source_of
from sleipnir.worker.monitor.handlers.hooks.page import HookPage
from sleipnir.worker.monitor.problems import Problem, Refused, problem_of

log = logging.getLogger(__name__)

_MOST_FIELDS = 1_000  # of a form or a query
_MOST_OF_PROBLEM = 200  # characters
# What has become of a request by the status of the answer; any other: it was refused.
_OUTCOMES: Mapping[int, Outcome] = {401: "unauthorized", 429: "limited", 503: "failed"}


class TriggerHandler(HookPage):
    """/hooks/NAME: to look at, the page of a hook; to post to, the trigger of that name.

    Whoever posts has no account: the trigger says what proves that it may.
    """

    _sender = ""

    @property
    def wants(self) -> str:
        return "json" if self.request.method == "POST" else super().wants

    @property
    def actor(self) -> User:
        return User(self._sender, Role.OPERATE, "key") if self._sender else super().actor

    @property
    def via(self) -> str:
        return "trigger" if self._sender else super().via

    async def prepare(self) -> None:
        if self.request.method != "POST":
            await super().prepare()
            return
        self.site.figures.loop_lag.watch()
        source = source_of(self.request.remote_ip)
        if wait_s := self.site.reads.take(f"trigger {source}"):
            self.refuse_for(wait_s)

    async def post(self, name: str, deed: str = "") -> None:
        triggers = self.site.client.triggers
        trigger = await self.site.call(triggers.get, name)
        try:
            await self._require_genuine(trigger)
            accepted = await self._accepted(trigger)
        except (SleipnirError, Refused) as error:
            outcome = _OUTCOMES.get(problem_of(error).status, "refused")
            await self.site.call(triggers.count, trigger, outcome)
            raise
        await self.site.call(triggers.count, trigger, "started" if accepted.is_new else "repeated")
        self.set_status(202 if accepted.is_new else 200)
        self.give_json({"run_id": accepted.run_id})

    async def _require_genuine(self, trigger: Trigger) -> None:
        """Check that the request may fire a trigger, now.

        Raises:
            Refused: it may not.
        """
        name, request = trigger.name, self.request
        check = self.site.client.triggers.is_genuine
        try:
            is_genuine = await self.site.call(check, trigger, request.headers, request.body)
        except SettingInvalid as error:  # no business of whoever posts
            log.error("cannot check who fires trigger '%s': %s", name, error)
            message = "this monitor cannot check who sends requests; its log says why"
            raise Refused(Problem(503, "setup", message)) from error
        if not is_genuine:
            message = f"the request does not prove that it may fire trigger '{name}'"
            raise Refused(
                Problem(401, "unauthorized", message, f"it is verified: {trigger.verify}")
            )
        self._sender = f"trigger {name}"
        if wait_s := self.site.fired.take(name):
            self.refuse_for(wait_s)

    async def _accepted(self, trigger: Trigger) -> AcceptedRun:
        """Return the run that the request asks for; what came of it is in the audit log.

        Raises:
            SleipnirError: it asks for none that can be.
        """
        try:
            accepted = await self.site.call(self._start, trigger)
        except SleipnirError as error:
            await self.note("submit", trigger.agent, "", problem_of(error).message)
            if isinstance(error, AgentNotFound | InvalidAgent):
                # What is wrong with it names files of this machine.
                raise SubmissionRefused(
                    f"agent '{trigger.agent}' cannot be run here; the audit log says why"
                ) from error
            raise
        if accepted.is_new:
            await self.note("submit", accepted.run_id, trigger.agent, DONE)
        return accepted

    def _start(self, trigger: Trigger) -> AcceptedRun:
        """Start the run that the request asks for, unless it was started already."""
        request, client = self.request, self.site.client
        layer = {
            "body": _body_of(request.headers.get("Content-Type", ""), request.body),
            "headers": seen_headers(trigger, request.headers.get_all()),
            "query": _fields_of(request.query),
        }
        own_key = delivery_of(trigger.verify, request.headers)
        limit = client.store.settings.value_limit_bytes
        wanted = triggered(trigger, layer, own_key, limit)
        # A trigger that is made anew under its name starts runs of its own.
        by = f"trigger {trigger.name} {trigger.made_ms}"
        if known := submission.run_of_key(client, by, wanted.key):
            return AcceptedRun(known.run_id, is_new=False)
        traceparent, tracestate = carried_by(request.headers)
        run = WantedRun(
            trigger.agent,
            wanted.prompt,
            wanted.state,
            labels={"trigger": trigger.name},
            batch=trigger.batch,
            key=wanted.key,
            traceparent=traceparent,
            tracestate=tracestate,
        )
        try:
            return submission.submit_run(client, run, by)
        except SubmissionRefused:
            # The same delivery may have come twice at once, with another text.
            if known := submission.run_of_key(client, by, wanted.key):
                return AcceptedRun(known.run_id, is_new=False)
            raise


def _body_of(content_type: str, body: bytes) -> Any:
    """Return what a request sends: the fields of a form, or else JSON; nothing is an empty object.

    Raises:
        SubmissionRefused: it is neither.
    """
    try:
        if content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded":
            return _fields_of(body.decode())
        found = decode(body.decode("utf-8-sig")) if body else {}
        # refuse lone surrogates, which cannot be encoded
        json.dumps(found, ensure_ascii=False).encode()
    except ValueError as error:
        why = cut(printable(str(error)), _MOST_OF_PROBLEM)
        raise SubmissionRefused(
            f"the body is neither JSON nor the fields of a form: {why}"
        ) from error
    return found


def _fields_of(text: str) -> dict[str, str]:
    """Return named values; of a name that is given again, the last one."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise SubmissionRefused(f"more than {_MOST_FIELDS:,} fields were sent") from error
