"""TLS in front of a test's Redis, as of a server that is built with it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from tests.support.certificates import PrivateCA, server_context
from tests.support.pages import ROOT

# The user as which sentinels and replicas log in to servers behind a `StaffDoor`.
WATCHER = "watcher"
_HANDSHAKE = b"\x16"
_PING = b"PING"  # how replicas greet a primary


class TlsDoor:
    """Forwards a port of 127.0.0.1 to a socket file; clients need a certificate of `ca`."""

    def __init__(self, ca: PrivateCA, target: Path, *, name: str = "IP:127.0.0.1") -> None:
        certificate, key = ca.issue("server", name)
        context = server_context(certificate_with(key, certificate))
        context.load_verify_locations(ca.certificate)
        context.verify_mode = ssl.CERT_REQUIRED
        self._context, self._target = context, target
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self.port = 0

    def __enter__(self) -> TlsDoor:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(30)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        # What handshakes fail of is for the client to say.
        self._loop.set_exception_handler(lambda *_: None)
        server = await asyncio.start_server(self._forward, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopping.wait()
        server.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = [writer]
        try:
            from_redis, to_redis = await asyncio.open_unix_connection(self._target)
            ends.append(to_redis)
            await asyncio.gather(_pump(reader, to_redis), _pump(from_redis, writer))
        except (asyncio.CancelledError, OSError):  # the door is closed, or nobody is behind it
            pass
        finally:
            for end in ends:
                end.transport.abort()
            await asyncio.sleep(0)


class StaffDoor(TlsDoor):
    """Also lets in those without TLS who log in as `WATCHER`: servers of tests know no TLS."""

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(lambda *_: None)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            async with asyncio.TaskGroup() as arrivals:
                accepting = arrivals.create_task(self._accept(listener, arrivals))
                self._ready.set()
                await self._stopping.wait()
                accepting.cancel()

    async def _accept(self, listener: socket.socket, arrivals: asyncio.TaskGroup) -> None:
        assert self._loop is not None
        while True:
            arrived, _ = await self._loop.sock_accept(listener)
            arrivals.create_task(self._receive(arrived))

    async def _receive(self, arrived: socket.socket) -> None:
        assert self._loop is not None
        spoken = asyncio.Event()
        self._loop.add_reader(arrived, spoken.set)
        try:
            await spoken.wait()
        except asyncio.CancelledError:
            self._loop.remove_reader(arrived)
            arrived.close()
            raise
        self._loop.remove_reader(arrived)
        first = arrived.recv(256, socket.MSG_PEEK)
        has_tls = first.startswith(_HANDSHAKE)
        if not has_tls and not any(word in first for word in (_PING, WATCHER.encode())):
            arrived.close()
            return
        reader = asyncio.StreamReader()
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(
                lambda: asyncio.StreamReaderProtocol(reader, self._forward),
                arrived,
                ssl=self._context if has_tls else None,
            )


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    sink.transport.abort()


def certificate_with(key: Path, certificate: Path) -> Path:
    """Return a file of both."""
    both = certificate.with_suffix(".both")
    both.write_text(key.read_text() + certificate.read_text())
    return both


def url_of_manual(ca: PrivateCA, door: TlsDoor, password: str) -> str:
    """Return the URL that the manual shows, for this door and with files of our own."""
    (shown,) = re.findall(r"rediss://runs\S+", (ROOT / "docs/operating.md").read_text())
    certificate, key = ca.issue("client", "DNS:worker")
    user = f"runs:{quote(password, safe='')}"
    for there, here in (
        ("runs:PASSWORD@redis.internal:6379", f"{user}@127.0.0.1:{door.port}"),
        ("/etc/sleipnir/ca.pem", ca.certificate),
        ("/etc/sleipnir/client.pem", certificate),
        ("/etc/sleipnir/client.key", key),
    ):
        assert there in shown
        shown = shown.replace(there, str(here))
    return shown.strip("'")
