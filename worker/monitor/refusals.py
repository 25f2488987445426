"""Refusals of requests before any handler: plain text, and nothing is read."""

from __future__ import annotations

from tornado import web  # type: ignore[attr-defined]  # no stubs

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A status and the reason."""

    status: int
    text: str


OTHER_HOST = Refusal(
    421,
    "This monitor does not serve this host name. Use the address it listens on, or "
    "list the name in the setting monitor_hosts.\n",
)
OTHER_SITE = Refusal(403, "A page of another site sent this.\n")
TOO_LARGE = Refusal(413, "This is larger than the monitor takes.\n")


@web.stream_request_body  # do not wait for it
class RefusalHandler(web.RequestHandler):  # type: ignore[misc]  # no stubs
    """Refuses every method."""

    def initialize(self, refusal: Refusal) -> None:
        self.refusal = refusal

    def check_xsrf_cookie(self) -> None:
        """Do nothing: no act is carried out here."""

    def prepare(self) -> None:
        self.set_status(self.refusal.status)
        self.set_header("Content-Type", "text/plain")
        self.finish(self.refusal.text)

    def data_received(self, chunk: bytes) -> None:
        """Ignore the body."""
