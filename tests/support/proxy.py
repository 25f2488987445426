"""A TCP proxy in front of a test's Redis or model server: slow, resetting or silent."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path
from types import TracebackType

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, with no time


class Proxy:
    """Forwards a port of 127.0.0.1 to a socket file or another port, with faults on demand."""

    def __init__(self, target: Path | int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"  # if it forwards to a Redis
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self.delay_s = 0.0  # for every piece, in both directions
        self.accepted = 0

    def go_silent(self) -> None:
        """Keep all connections open and accept new ones, but forward nothing.

        What is in transit is lost, even after `recover`: the connections are dead, but neither end
        knows.
        """
        self._flowing.clear()

    def refuse(self) -> None:
        """Reset all connections, and every new one."""
        self._refusing = True
        self.reset()

    def reset(self) -> None:
        """Reset all connections."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _cut(end)

    def recover(self) -> None:
        """Serve new connections again."""
        self._refusing = False
        with self._lock:
            self._flowing = threading.Event()
            self._flowing.set()

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self.refuse()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                _cut(client)
                continue
            try:
                server = self._connect()
            except OSError:
                _cut(client)
                continue
            with self._lock:
                self.accepted += 1
                self._pairs.append((client, server))
                flowing = self._flowing
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(*ends, flowing), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._target, int):
            return socket.create_connection(("127.0.0.1", self._target))
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self._target))
        except OSError:
            server.close()
            raise
        return server

    def _pump(self, source: socket.socket, sink: socket.socket, flowing: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if self.delay_s:
                    threading.Event().wait(self.delay_s)
                if flowing.is_set():
                    sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)


def _cut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        end.shutdown(socket.SHUT_RDWR)
    end.close()
