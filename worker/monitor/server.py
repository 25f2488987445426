"""The monitor's process: Flower on our workers, with our own pages in front of it.

`python -m sleipnir.worker.monitor.server` is what `sleipnir monitor` becomes. Flower reads its
options from a file in the current directory, from the environment and from the command line when
its own command starts it. Here they are set in one place, so none of those can open what is
closed: without authentication it serves the loopback interface only, and shows without changing
anything.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
import webbrowser
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prometheus_client import REGISTRY

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.monitor_key import link, monitor_key
from sleipnir.scheduler.config.monitor_users import MonitorUsers
from sleipnir.scheduler.config.settings import Settings, load_settings
from sleipnir.scheduler.embedded.acceptances import Acceptances
from sleipnir.scheduler.errors import SettingInvalid, SleipnirError
from sleipnir.scheduler.store.connection import connect, masked
from sleipnir.worker.app import make_app
from sleipnir.worker.monitor.access import Access, NamedUsers
from sleipnir.worker.monitor.admission.hosts import Hosts, is_loopback
from sleipnir.worker.monitor.admission.proxies import Proxies
from sleipnir.worker.monitor.admission.roles import RoleRules
from sleipnir.worker.monitor.flower_pages import FlowerTemplates
from sleipnir.worker.monitor.gate import SERVER_LIMITS, GatedApplication
from sleipnir.worker.monitor.metrics import EngineMetrics
from sleipnir.worker.monitor.routes import rules
from sleipnir.worker.monitor.site import Site

# They read the command line's definitions when they are imported.
with lazy_imports():
    from flower import app, urls
    from flower import options as flower_options
    from flower.views import monitor
    from tornado import httpserver, netutil  # type: ignore[attr-defined]  # no stubs

# Not an argument: everybody can read command lines.
AUTH_VARIABLE = "SLEIPNIR_MONITOR_AUTH"

# Flower keeps what it has seen in memory; our history is in Redis.
_TASKS_IN_MEMORY = 20_000


def main() -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="sleipnir-monitor")
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--prefix", default="", help="where addresses begin")
    parser.add_argument("--open", action="store_true", help="open a browser")
    parser.add_argument("--users", type=Path, help="file of users with their roles")
    parser.add_argument("--quiet", action="store_true", help="do not say where it listens")
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Visitors without a password, and asking for workers when there are none, are no events.
    for chatty in ("tornado.access", "tornado.general", "flower.inspector"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    auth = os.environ.get(AUTH_VARIABLE)
    try:
        settings = load_settings().values
        has_users = arguments.users is not None or settings.monitor_user_header is not None
        if problem := _exposure(arguments.address, auth, has_users=has_users):
            return _refuse(problem, 2)
        assert settings.redis_url is not None
        proxies = Proxies(settings.monitor_proxies, settings.monitor_user_header)
        connect(settings.redis_url)  # Flower itself would try for ever
        users = None if arguments.users is None else MonitorUsers(arguments.users)
        named = _named(settings)
        key = None if auth or users or named else monitor_key(data_dir())
        access = Access(key=key, password=auth, users=users, named=named)
        acceptances = Acceptances.of_engine(data_dir(), settings.redis_url, settings.retention_s)
        client = Client.connect(settings, agent_search(settings), acceptances)
    except SleipnirError as error:
        return _refuse(str(error), 7)
    place = ListenPlace(arguments.address, arguments.port, key)
    site = Site(client, access, arguments.prefix)
    return serve(settings, place, site, proxies, quiet=arguments.quiet, opens=arguments.open)


@dataclass(frozen=True, slots=True)
class ListenPlace:
    """Where the monitor listens, and who may come in."""

    address: str
    port: int  # 0: any that is free
    key: str | None  # of the link


def serve(
    settings: Settings,
    place: ListenPlace,
    site: Site,
    proxies: Proxies,
    *,
    quiet: bool = False,
    opens: bool = False,
) -> int:
    """Serve our pages and Flower's; `opens` them in a browser."""
    figures = EngineMetrics(site.client.store, settings)
    REGISTRY.register(figures)
    flower = _flower(settings, place, figures, site)
    flower.proxies = proxies
    flower.add_handlers(".*", list(rules(site)))
    try:
        port = flower.start_http_server()
    except OSError as error:
        return _refuse(
            f"cannot listen on {place.address}:{place.port}: {error.strerror}; "
            "`sleipnir monitor --port` takes another one",
            2,
        )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: flower.io_loop.add_callback_from_signal(flower.stop))
    of_site = partial(link, place.address, port, prefix=site.prefix)
    if not quiet:
        shown = masked(settings.broker_url or settings.redis_url or "")
        _say(f"monitor of {shown}: {of_site()}")
        if place.key is not None:
            _say(f"open it with: {of_site(place.key)}")
    if opens:
        ticket = None if place.key is None else site.access.tickets.issue()
        _open(of_site(ticket=ticket))
    flower.start()
    # Its threads wait for events of workers; none of them has anything to finish.
    logging.shutdown()
    os._exit(0)


def _open(address: str) -> None:
    """Show a page in a browser; some take the terminal until they end."""

    def show() -> None:
        if not webbrowser.open(address):
            _say("no browser can be started here; open the address above")

    threading.Thread(target=show, daemon=True).start()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - for the person who started it


def _flower(settings: Settings, place: ListenPlace, figures: EngineMetrics, site: Site) -> Any:
    options = flower_options.options
    options.address = place.address
    options.port = place.port
    # Who may do what is decided before Flower is asked.
    options.basic_auth, options.read_only = [], False
    options.max_tasks = _TASKS_IN_MEMORY
    options.url_prefix = site.prefix
    broker_url = settings.broker_url or settings.redis_url
    assert broker_url is not None
    # Flower's own way to open its API to everybody.
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)
    celery = make_app(broker_url, settings.concurrency)
    made = _gated(figures)(
        capp=celery,
        options=options,
        compress_response=True,
        template_loader=FlowerTemplates(urls.settings["template_path"], site.prefix),
        **urls.settings
        | {
            "static_url_prefix": f"{site.prefix}/static/",
            "xsrf_cookie_kwargs": {"path": site.prefix or "/", "samesite": "Strict"},
        },
    )
    made.site, made.hosts = site, Hosts(place.address, settings.monitor_hosts)
    made.value_bytes = settings.value_limit_bytes
    return made


def _gated(figures: EngineMetrics) -> type[Any]:
    """Flower with its handlers behind our checks, and our figures among its own."""

    class Figures(monitor.Metrics):  # type: ignore[misc]  # no stubs
        async def get(self) -> None:
            await asyncio.to_thread(figures.collect)  # so that what is written has been read
            await super().get()

    class GatedFlower(GatedApplication, app.Flower):  # type: ignore[misc]  # not known before
        instead: Mapping[type[Any], type[Any]] = MappingProxyType({monitor.Metrics: Figures})

        def start_http_server(self) -> int:
            sockets = netutil.bind_sockets(self.options.port, address=self.options.address)
            server = httpserver.HTTPServer(self, **SERVER_LIMITS)
            server.add_sockets(sockets)
            return int(sockets[0].getsockname()[1])

    return GatedFlower


def _named(settings: Settings) -> NamedUsers | None:
    """Users whom proxies name, if they do.

    Raises:
        SettingInvalid: what is set does not go together.
    """
    header, roles = settings.monitor_user_header, settings.monitor_roles
    if header is None:
        if roles:
            raise SettingInvalid("monitor_roles is for users named by monitor_user_header: set it")
        return None
    if not settings.monitor_proxies or not roles:
        raise SettingInvalid(
            "monitor_user_header takes monitor_proxies, which are believed, and monitor_roles, "
            "which say what users may do"
        )
    return NamedUsers(header, RoleRules(roles).role_of, monitor_key(data_dir()))


def _exposure(address: str, auth: str | None, *, has_users: bool) -> str | None:
    """Why this address must not be served, if so."""
    if auth is not None and not all(auth.partition(":")):
        return "--basic-auth takes USER:PASSWORD"
    if auth is None and not has_users and not is_loopback(address):
        return (
            f"{address} can be reached from other machines, and the monitor would show them "
            "every run; give --basic-auth USER:PASSWORD, --users FILE or the setting "
            "monitor_user_header, or leave --address at 127.0.0.1"
        )
    return None


def _refuse(problem: str, code: int) -> int:
    print(f"error: {problem}", file=sys.stderr)  # noqa: T201 - for the person who started it
    return code


if __name__ == "__main__":
    sys.exit(main())
