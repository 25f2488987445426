"""Refusals of requests before any handler: plain text, or JSON; nothing is read."""

from __future__ import annotations

import json

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.worker.monitor.problems import Problem

OTHER_HOST = Problem(
    421,
    "host",
    "This monitor does not serve this host name. Use the address it listens on, or "
    "list the name in the setting monitor_hosts.",
)
OTHER_SITE = Problem(403, "origin", "A page of another site sent this.")
TOO_LARGE = Problem(413, "too_large", "This is larger than the monitor takes.")


@web.stream_request_body  # do not wait for it
class RefusalHandler(web.RequestHandler):  # type: ignore[misc]  # no stubs
    """Refuses every method."""

    def initialize(self, problem: Problem, is_api: bool) -> None:
        self.problem = problem
        self.is_api = is_api

    def check_xsrf_cookie(self) -> None:
        """Do nothing: no act is carried out here."""

    def prepare(self) -> None:
        self.set_status(self.problem.status)
        if self.is_api:
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(self.problem.to_json()))
            return
        self.set_header("Content-Type", "text/plain")
        self.finish(f"{self.problem.message}\n")

    def data_received(self, chunk: bytes) -> None:
        """Ignore the body."""
