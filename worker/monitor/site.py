"""What all handlers of the monitor share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar

from tornado.template import Loader

from sleipnir.scheduler.client import Client
from sleipnir.worker.monitor.access import Access
from sleipnir.worker.monitor.drawings import Drawings
from sleipnir.worker.monitor.rates import ACTS, FAILED_SIGN_INS, READS, VisitorRates

P = ParamSpec("P")
T = TypeVar("T")

_HERE = Path(__file__).parent
# Reads of Redis that are under way at once; Flower has threads of its own.
_THREADS = 4


class Site:
    """Our pages over one Redis."""

    def __init__(self, client: Client, access: Access) -> None:
        self.client = client
        self.access = access
        self.drawings = Drawings(client)
        self.templates = Loader(str(_HERE / "templates"))
        self.reads = VisitorRates(READS)
        self.acts = VisitorRates(ACTS)
        self.failed_sign_ins = VisitorRates(FAILED_SIGN_INS)
        self._threads = ThreadPoolExecutor(_THREADS, "monitor")

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What a function returns that reads Redis or computes for long: a thread calls it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def close(self) -> None:
        """Let its threads go."""
        self._threads.shutdown(wait=False)


@cache
def assets() -> Mapping[str, bytes]:
    """The static files, by the name that they are served under: it changes with the contents."""
    files = sorted(file for file in (_HERE / "static").iterdir() if file.is_file())
    return {_named(file.name, file.read_bytes()): file.read_bytes() for file in files}


@cache
def asset(name: str) -> str:
    """The address of a static file."""
    return f"/assets/{_named(name, (_HERE / 'static' / name).read_bytes())}"


def _named(name: str, data: bytes) -> str:
    return f"{sha256(data).hexdigest()[:16]}/{name}"
