"""Hooks of tests, and the schedulers that tell them of events."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from sleipnir.scheduler.hooks.bodies import Bodies
from sleipnir.scheduler.hooks.deliverer import Deliverer
from sleipnir.scheduler.service.scheduler import Scheduler
from tests.support.engine import Engine
from tests.support.wait import wait_until
from tests.support.web_server import Visit, WebServer


def hook_key(directory: Path) -> str:
    """Make a key that encrypts secrets of hooks; return the name of its file."""
    file = directory / "hook.key"
    file.write_text("x" * 64)
    file.chmod(0o600)
    return str(file)


@contextmanager
def delivering(engine: Engine) -> Iterator[Scheduler]:
    """Return a scheduler that delivers events, one tick at a time."""
    deliverer = Deliverer(engine.store, Bodies(engine.client).of)
    deliverer.start()
    try:
        yield Scheduler(engine.store, monotonic=engine.clock.passed_s, deliverer=deliverer)
    finally:
        deliverer.stop()
        _await_ends_of_deliveries()


def _await_ends_of_deliveries() -> None:
    """Wait until nothing writes to Redis: an attempt is noted after its delivery is removed."""
    for thread in threading.enumerate():
        if thread.name.startswith("hooks-"):
            thread.join()


def open_deliveries(engine: Engine) -> int:
    """Return how many events wait to be delivered."""
    return engine.store.deliveries.count_open()


def deliver_all(engine: Engine, scheduler: Scheduler) -> None:
    """Tick until nothing is left to be delivered."""

    def is_done() -> bool:
        engine.clock.move(0.1)  # what its host had no room for is due again soon
        scheduler.run_once()
        return open_deliveries(engine) == 0

    wait_until(is_done, "all is delivered")


def attempts(engine: Engine, scheduler: Scheduler, hook: str, count: int) -> list[Any]:
    """Tick until so many attempts were made; return them, the newest first."""
    found: list[Any] = []

    def is_done() -> bool:
        nonlocal found
        scheduler.run_once()
        found = list(engine.client.hooks.attempts(hook))
        return len(found) >= count

    wait_until(is_done, f"{count} attempts were made")
    return found


def verified(visit: Visit, secret: str) -> dict[str, Any]:
    """Return a delivery's document, whose signature a published library has checked."""
    found: dict[str, Any] = Webhook(secret).verify(visit.body, dict(visit.headers))
    return found


def events_at(server: WebServer) -> list[str]:
    """Return the types of the events that arrived, in order."""
    return [json.loads(visit.body)["type"] for visit in server.visits]
