"""The monitor's own pages, served by a thread of the test process."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from tornado.netutil import bind_sockets

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.cluster.groups import is_grouped
from sleipnir.worker.monitor.access import Access, Role
from sleipnir.worker.monitor.admission.hosts import Hosts
from sleipnir.worker.monitor.admission.proxies import Proxies
from sleipnir.worker.monitor.admission.rates import AllowedRate, VisitorRates
from sleipnir.worker.monitor.gate import GatedApplication
from sleipnir.worker.monitor.handlers.base import COOKIE
from sleipnir.worker.monitor.routes import SiteRoute, rules
from sleipnir.worker.monitor.site import Site
from tests.support.api_answers import check_answer
from tests.support.styles import StylesPage

KEY = "k" * 43


def is_page(route: SiteRoute) -> bool:
    """Whether people go to it: no part of the API, no file, and not where a form leads."""
    others = (
        "/api/",
        "/assets/",
        "/healthz",
        "/readyz",
        "/?",
        "/sign-",
        "/bulk/",
        "/v1/",
        "/mcp",
        "/a/",
    )
    is_file = route.path.endswith("/results")
    return "GET" in route.needs and not is_file and not route.path.startswith(others)


class Answer(NamedTuple):
    """The response to a request."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class ServedSite:
    """Our routes without Flower; requests have the key unless told otherwise."""

    def __init__(
        self,
        client: Client,
        access: Access | None = None,
        prefix: str = "",
        *,
        proxies: Proxies | None = None,
        names: Collection[str] = (),
    ) -> None:
        self._proxies, self._names = proxies or Proxies(), names
        url = _url_of(client.store.client)
        self.site = Site(client, access or Access(key=KEY), url, prefix)
        # Tests are faster than people.
        self.site.reads = VisitorRates(AllowedRate(1_000_000, 1.0))
        self.site.acts = VisitorRates(AllowedRate(1_000_000, 1.0))
        self._serving = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    @property
    def _styles(self) -> tuple[str, type[StylesPage], dict[str, Any]]:
        needs = {"site": self.site, "needs": {"GET": Role.READ}, "route": "/styles"}
        return f"{self.site.prefix}/styles", StylesPage, needs

    @property
    def cookie(self) -> str:
        """The `Cookie` header of a browser that has opened the link."""
        return f"{COOKIE}={self.site.access.cookie}"

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        application = GatedApplication(
            [*rules(self.site), self._styles], xsrf_cookies=True, compress_response=True
        )
        application.site, application.hosts = self.site, Hosts("127.0.0.1", self._names)
        application.proxies = self._proxies
        application.value_bytes = Settings().value_limit_bytes
        (socket,) = bind_sockets(0, "127.0.0.1")
        server = application.serve_on([socket])
        self.port = socket.getsockname()[1]
        self._serving.set()
        await self._ended.wait()
        server.stop()
        await server.close_all_connections()
        await self.site.close()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._serving.wait(60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    @contextmanager
    def stream(self, topics: str) -> Iterator[Iterator[tuple[str, Any]]]:
        """Watch topics; yields each frame's event and data as it arrives."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        headers = {"Authorization": f"Bearer {KEY}"}
        connection.request("GET", f"/api/v1/stream?topics={topics}", headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200
        try:
            yield _frames(answer)
        finally:
            connection.close()

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | Sequence[tuple[str, str]] | None = None,
        body: str | None = None,
    ) -> Answer:
        """Send a request; without `headers`, as a program that has the key."""
        given = {"Authorization": f"Bearer {KEY}"} if headers is None else dict(headers)
        if form is not None:
            given["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            with suppress(BrokenPipeError):  # it may answer before it has read all
                connection.request(method, path, body, given)
            answer = connection.getresponse()
            found = Answer(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            connection.close()
        if method != "HEAD":
            check_answer(
                method, path, found.status, found.headers.get("Content-Type", ""), found.text
            )
        return found


def _url_of(redis: Any) -> str:
    if is_grouped(redis):
        host, port = redis.nodes.to_ask()[0]
        return f"redis+cluster://{host}:{port}"
    options = redis.connection_pool.connection_kwargs
    database = f"db={options.get('db') or 0}"
    if "path" in options:
        return f"unix://{options['path']}?{database}"
    return f"redis://{options['host']}:{options['port']}?{database}"


def _frames(lines: Iterable[bytes]) -> Iterator[tuple[str, Any]]:
    event = ""
    for line in lines:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name == "event":
            event = value
        elif name == "data":
            yield event, json.loads(value)
