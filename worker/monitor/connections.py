"""An HTTP server with a bound on open connections.

Without it, strangers who open connections and send nothing use up the process's file descriptors:
then nobody is served, and every attempt to accept a connection fails and is logged.
"""

from __future__ import annotations

import resource
from typing import Any

from tornado.httpserver import HTTPServer

MOST_CONNECTIONS = 1_000
# Left for Redis, files and programs.
_OTHER_FILES = 256


def most_connections() -> int:
    """Raise the process's limit on open files, and return how many connections fit in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, soft - _OTHER_FILES))


class BoundedServer(HTTPServer):  # type: ignore[misc]  # no stubs
    """Closes the oldest connection of a stranger when there are too many.

    Connections over which somebody has shown credentials are kept; if all are, new ones are closed.
    """

    def initialize(self, *arguments: Any, most: int, **options: Any) -> None:
        super().initialize(*arguments, **options)
        self._most = most
        self._strangers: dict[Any, None] = {}  # their streams, the oldest first
        self._known: set[Any] = set()

    def handle_stream(self, stream: Any, address: Any) -> None:
        if len(self._strangers) + len(self._known) >= self._most:
            oldest = next(iter(self._strangers), stream)
            self._forget(oldest)
            oldest.close()
        if not stream.closed():
            self._strangers[stream] = None
            super().handle_stream(stream, address)

    def keep(self, stream: Any) -> None:
        """Keep a connection however many others there are: its user is known."""
        if stream in self._strangers:
            del self._strangers[stream]
            self._known.add(stream)

    def on_close(self, server_conn: Any) -> None:
        super().on_close(server_conn)
        self._forget(server_conn.stream)

    def _forget(self, stream: Any) -> None:
        self._strangers.pop(stream, None)
        self._known.discard(stream)
