"""Shared by all handlers of the monitor."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import ParamSpec, TypeVar

from sleipnir.scheduler.batch.identity import run_id_of
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.scaling import Scaling
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.scheduler.views.batch_spread import BatchSpreads
from sleipnir.scheduler.views.finding.name_search import NameSearch
from sleipnir.scheduler.views.graph.usual import UsualGraphs
from sleipnir.scheduler.views.text.masked import Masks
from sleipnir.scheduler.views.typical_runs import TypicalRuns
from sleipnir.scheduler.views.versions import agent_file
from sleipnir.worker.monitor.access import ANONYMOUS, Access, User
from sleipnir.worker.monitor.admission.hosts import is_loopback
from sleipnir.worker.monitor.admission.rates import (
    ACTS,
    FAILED_SIGN_INS,
    READS,
    TRIGGERS,
    VisitorRates,
    source_of,
)
from sleipnir.worker.monitor.attention import AttentionWatch
from sleipnir.worker.monitor.bulk import BulkActs
from sleipnir.worker.monitor.drawings import Drawings
from sleipnir.worker.monitor.hub import Hub
from sleipnir.worker.monitor.pages.prefixed_templates import PrefixedTemplates
from sleipnir.worker.monitor.pages.told_pages import ToldPages
from sleipnir.worker.monitor.pages.uploads import Uploads
from sleipnir.worker.monitor.self_metrics import SelfMetrics
from sleipnir.worker.monitor.serving.serving import Serving
from sleipnir.worker.monitor.task_events import TaskEvents
from sleipnir.worker.monitor.topics import Topics

P = ParamSpec("P")
T = TypeVar("T")

_HERE = Path(__file__).parent
# Concurrent reads of Redis; Flower has threads of its own.
_THREADS = 4
_MOST_OF_NAME = 64  # characters; no user has a longer one
_LOOKS = 2
# Files of agents that were shown last.
_FILES = 64


class TooOften(Exception):
    """Too many wrong keys or passwords were tried; says how many seconds to wait."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


class Site:
    """Our pages over one Redis.

    Args:
        redis_url: its address, to subscribe to changes.
        prefix: "" or a path such as `/sleipnir`.
    """

    def __init__(self, client: Client, access: Access, redis_url: str, prefix: str = "") -> None:
        self.client = client
        self.access = access
        self.audit = AuditLog(client.store.client)
        self.drawings = Drawings(client)
        self.masks = Masks(client)
        # Cached, as pages of runs that go on are made again with every step.
        self.agent_file = lru_cache(_FILES)(partial(agent_file, client))
        self.typical = TypicalRuns(client, self.begin)
        self.usual_graphs = UsualGraphs(client)
        self.scaling = Scaling(client)
        self.spreads = BatchSpreads(client)
        self.names = NameSearch(client, run_id_of)
        self.bulk = BulkActs(client)
        self.prefix = prefix
        self.told = ToldPages()
        self.uploads = Uploads()
        self.templates = PrefixedTemplates(_HERE / "templates", prefix)
        self.reads = VisitorRates(READS)
        self.acts = VisitorRates(ACTS)
        self.fired = VisitorRates(TRIGGERS)
        self.failed_sign_ins = VisitorRates(FAILED_SIGN_INS)
        self.topics = Topics(self, redis_url)
        self.task_events: TaskEvents | None = None  # Flower's, if it is served with our pages
        self.attention = AttentionWatch(self)
        self.serving = Serving(client, redis_url)
        self.hub = Hub(self.topics.look_at, self.topics.follow)
        self.figures = SelfMetrics(lambda: self.hub.streams, lambda: self.serving.waiting)
        self._threads = ThreadPoolExecutor(_THREADS, "monitor")
        # However much is watched, pages do not wait for it.
        self._looks = ThreadPoolExecutor(_LOOKS, "looks")

    def visitor(
        self,
        headers: Mapping[str, str],
        cookie: str | None,
        address: str,
        signed: str | None = None,
        session: str | None = None,
    ) -> User | None:
        """Return the sender of a request, as `Access.visitor`, and count wrong credentials.

        They are counted by address and by the name they are for, so that nobody is shut out by
        guesses of others' passwords. The right key opens however many wrong ones were tried.

        Raises:
            TooOften: too many came from that address.
        """
        shows_something = "Authorization" in headers
        claim = self.access.claim(headers)
        source = _source_of(address, claim or "")
        # Before the password is checked, which is slow on purpose.
        if claim is not None:
            self._require_few(source)
        found = self.access.visitor(headers, cookie, signed, session)
        if found is ANONYMOUS and not is_loopback(address):  # passed on by a proxy
            found = None
        if shows_something and (found is None or found.via == "nothing"):
            self._require_few(source)
            self.failed_sign_ins.take(source)
        return found

    def sign_in(self, name: str, password: str, address: str) -> str | None:
        """Return the cookie for a right password, else None, and count wrong ones.

        Raises:
            TooOften: too many came from that address for that name.
        """
        source = _source_of(address, name)
        self._require_few(source)
        cookie = self.access.sign_in(name, password)
        if cookie is None:
            self.failed_sign_ins.take(source)
        return cookie

    def _require_few(self, source: str) -> None:
        if wait_s := self.failed_sign_ins.wait_s(source):
            raise TooOften(wait_s)

    def asset(self, name: str) -> str:
        """Return the address of a static file."""
        if name not in assets():
            raise KeyError(name)
        return f"{self.prefix}/assets/{assets_version()}/{name}"

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads Redis or computes for long, on a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))

    async def look(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `call`, for what is watched."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._looks, lambda: function(*args, **kwargs))

    def begin(self, function: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a function on a thread without waiting for it."""
        self._threads.submit(function, *args, **kwargs)

    async def close(self) -> None:
        """Stop watching, and release its threads."""
        await self.hub.close()
        await self.topics.close()
        await self.serving.close()
        self._threads.shutdown(wait=False)
        self._looks.shutdown(wait=False)
        self.bulk.close()
        self.uploads.close()
        self.drawings.close()


@cache
def assets() -> Mapping[str, bytes]:
    """Return the static files by name."""
    files = (file for file in (_HERE / "static").rglob("*.*") if file.is_file())
    return {
        file.name: _tight(file.read_text(encoding="utf-8")).encode()
        if file.suffix == ".css"
        else file.read_bytes()
        for file in files
    }


# Of a style sheet: a text, which stays, or what only people read.
_LOOSE = re.compile(
    r'("[^"]*")|/\*.*?(?:\*/|\Z)\s*|(?<!\s)\s*([{};,])\s*|(?<=[\w-])(:) +', re.DOTALL
)


def _tight(sheet: str) -> str:
    """Return a style sheet without comments and most blanks: an eighth less to send."""
    return _LOOSE.sub(lambda found: found[1] or found[2] or found[3] or "", sheet)


@cache
def assets_version() -> str:
    """Return a version of all static files together, as they refer to each other by address."""
    return sha256(repr(sorted(assets().items())).encode()).hexdigest()[:16]


def _source_of(address: str, name: str) -> str:
    """Return what wrong credentials are counted by; names come from strangers."""
    return f"{source_of(address)} {name[:_MOST_OF_NAME]}"
