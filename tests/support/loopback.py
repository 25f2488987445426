"""Test servers on the loopback interface, each on threads of its own."""

from __future__ import annotations

import socketserver
import threading
from types import TracebackType
from typing import Self


class Loopback:
    """Serves until its `with` block ends."""

    def __init__(self, server: socketserver.BaseServer) -> None:
        self.stopping = threading.Event()
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])
