"""A process's health: answered over HTTP, and told to systemd if that has started the process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress

from sleipnir.scheduler.process.health.address import parse
from sleipnir.scheduler.process.health.door import TEXT, Answer, Door, Loop, as_json

_EVERY_S = 1.0

Reasons = Callable[[], Iterable[str]]


class Health:
    """Answers `/livez`, `/readyz` and `/metrics`.

    Args:
        live: yields why the process should be restarted.
        ready: yields what else keeps it from working.
        figures: returns its metrics as text.
    """

    def __init__(self, live: Reasons, ready: Reasons, figures: Callable[[], str]) -> None:
        self._live = live
        self._ready = ready
        self._figures = figures
        self._was_ready = False
        self._is_stopping = False

    def open(self, address: str | None, loop: Loop) -> None:
        """Answer at `HOST:PORT`, if given, and begin to tell systemd.

        Raises:
            OSError: the address cannot be used.
            ValueError: it is not HOST:PORT.
        """
        if address is not None:
            routes = {
                "/livez": lambda: self._verdict(self._live()),
                "/readyz": lambda: self._verdict([*self._live(), *self._ready()]),
                "/metrics": self._metrics,
            }
            Door(parse(address), routes).open(loop)
        if "NOTIFY_SOCKET" in os.environ:
            self._tell(loop)

    def stopping(self) -> None:
        """Tell systemd that the process is about to end."""
        self._is_stopping = True
        notify("STOPPING=1")

    def _metrics(self) -> Answer:
        return 200, TEXT, self._figures()

    @staticmethod
    def _verdict(reasons: Iterable[str]) -> Answer:
        found = list(reasons)
        return as_json(503 if found else 200, found)

    def _tell(self, loop: Loop) -> None:
        if not list(self._live()):
            notify("WATCHDOG=1")
            if not self._was_ready and not self._is_stopping and not list(self._ready()):
                self._was_ready = True
                notify("READY=1")
        loop.call_in(_EVERY_S, lambda: self._tell(loop))


def notify(state: str) -> None:
    """Tell systemd, as sd_notify(3) does; nothing without it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.setblocking(False)
        systemd.connect(address)
        systemd.send(state.encode())
