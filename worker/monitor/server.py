"""The monitor's process: Flower on our workers, with our own pages in front of it.

`sleipnir monitor` runs it as `python -m sleipnir.worker.monitor.server`. Flower's own command would
read options from a file in the current directory, from the environment and from the command line.
Here all options are set in one place, so that none of these can open what must stay closed: without
authentication it serves the loopback interface only, and is read-only.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hmac
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
from sleipnir.scheduler.process.log_lines import FORMAT_VARIABLE, log_line
from sleipnir.scheduler.process.logs import configure_logging, level_of
from sleipnir.scheduler.store.connection import connect, masked
from sleipnir.worker.celery.app import make_app
from sleipnir.worker.monitor.access import Access, NamedUsers, SignedInUsers
from sleipnir.worker.monitor.admission.hosts import Hosts, is_loopback
from sleipnir.worker.monitor.admission.proxies import Proxies
from sleipnir.worker.monitor.admission.roles import RoleRules
from sleipnir.worker.monitor.flower_pages import FlowerTemplates
from sleipnir.worker.monitor.gate import GatedApplication
from sleipnir.worker.monitor.health import MonitorHealth
from sleipnir.worker.monitor.metrics import EngineMetrics
from sleipnir.worker.monitor.routes import rules
from sleipnir.worker.monitor.sign_in import SignIn
from sleipnir.worker.monitor.site import Site
from sleipnir.worker.monitor.task_events import TaskEvents

# Lazy: importing them parses definitions of command-line options.
with lazy_imports():
    from flower import app, urls
    from flower import options as flower_options
    from flower.views import auth, monitor
    from flower.views import error as flower_errors
    from tornado import netutil, web  # type: ignore[attr-defined]  # no stubs

# Not an argument, as everybody can read command lines.
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
    parser.add_argument("--auth", help="e-mail addresses of who may sign in")
    parser.add_argument("--auth-provider", help="where they sign in")
    parser.add_argument("--celery-events", action="store_true", help="have workers report tasks")
    parser.add_argument("--agents-dir", action="append", default=[], help="where agents are")
    parser.add_argument("--quiet", action="store_true", help="do not say where it listens")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    # Hide messages about visitors without a password and about missing workers.
    for chatty in ("tornado.access", "tornado.general", "flower.inspector"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    password = os.environ.get(AUTH_VARIABLE)
    try:
        settings = load_settings().values
        least = "warning" if settings.log_level == "info" else settings.log_level
        configure_logging(level_of(least), settings.log_format)
        known = (arguments.users, arguments.auth, settings.monitor_user_header)
        if problem := _exposure(arguments.address, password, has_users=any(known)):
            return _refuse(problem, 2)
        assert settings.redis_url is not None
        connect(settings.redis_url)  # Flower itself would retry forever
        place = _place(settings, arguments)
        access = _access(settings, place.sign_in, password, arguments.users)
        acceptances = Acceptances.of_engine(data_dir(), settings.redis_url, settings.retention_s)
        client = Client.connect(settings, agent_search(settings, arguments.agents_dir), acceptances)
    except SleipnirError as error:
        return _refuse(str(error), 7)
    site = Site(client, access, settings.redis_url, arguments.prefix)
    return serve(settings, place, site, quiet=arguments.quiet, opens=arguments.open)


@dataclass(frozen=True, slots=True)
class ListenPlace:
    """Where the monitor listens, and what is in front of it."""

    address: str
    port: int  # 0: any free port
    proxies: Proxies
    sign_in: SignIn | None
    has_task_events: bool  # workers always report tasks to Flower's pages


def serve(
    settings: Settings, place: ListenPlace, site: Site, *, quiet: bool = False, opens: bool = False
) -> int:
    """Serve our pages and Flower's; `opens` them in a browser."""
    figures = EngineMetrics(site.client.store, settings)
    REGISTRY.register(figures)
    REGISTRY.register(site.figures)
    flower = _flower(settings, place, figures, site)
    site.task_events = task_events = TaskEvents(flower, always=place.has_task_events)
    flower.add_handlers(".*", list(rules(site)))
    health = MonitorHealth(site, settings.lease_s)
    try:
        health.open(settings.health_address)
    except (OSError, ValueError) as error:
        return _refuse(f"cannot answer health checks at {settings.health_address}: {error}", 2)
    try:
        port = flower.start_http_server()
    except OSError as error:
        return _refuse(
            f"cannot listen on {place.address}:{place.port}: {error.strerror}; "
            "`sleipnir monitor --port` takes another one",
            2,
        )
    flower.io_loop.add_callback(site.figures.loop_lag.watch)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: flower.io_loop.add_callback_from_signal(flower.stop))
    of_site = partial(link, place.address, port, prefix=site.prefix)
    if not quiet:
        shown = masked(settings.broker_url or settings.redis_url or "")
        _say(f"monitor of {shown}: {of_site()}")
        if site.access.key is not None:
            _say(f"open it with: {of_site(site.access.key)}")
    if opens:
        ticket = None if site.access.key is None else site.access.tickets.issue()
        _open(of_site(ticket=ticket))
    # All requests wait while garbage is collected: leave out what the start has created.
    gc.freeze()
    flower.start()
    health.stopping()
    task_events.close()
    site.drawings.close()
    # Its threads wait for workers' events; none of them has anything to finish.
    logging.shutdown()
    os._exit(0)


def _open(address: str) -> None:
    """Open a page in a browser; some browsers occupy the terminal until they are closed."""

    def show() -> None:
        if not webbrowser.open(address):
            _say("no browser can be started here; open the address above")

    threading.Thread(target=show, daemon=True).start()


def _say(line: str) -> None:
    if os.environ.get(FORMAT_VARIABLE) == "json":
        line = log_line("sleipnir.monitor", "info", line)
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - for the person who started it


def _flower(settings: Settings, place: ListenPlace, figures: EngineMetrics, site: Site) -> Any:
    options = flower_options.options
    options.address = place.address
    options.port = place.port
    # Roles are checked before Flower gets the request.
    options.basic_auth, options.read_only = [], False
    options.enable_events = place.has_task_events
    options.max_tasks = _TASKS_IN_MEMORY
    options.url_prefix = site.prefix
    broker_url = settings.broker_url or settings.redis_url
    assert broker_url is not None
    # Flower's own way of opening its API to everyone.
    os.environ.pop("FLOWER_UNAUTHENTICATED_API", None)
    celery = make_app(broker_url, settings.concurrency)
    sign_in = {} if place.sign_in is None else _sign_in_settings(place.sign_in)
    options.auth = "" if place.sign_in is None else place.sign_in.pattern
    made = _gated(figures, place.sign_in)(
        capp=celery,
        options=options,
        compress_response=True,
        template_loader=FlowerTemplates(urls.settings["template_path"], site.prefix),
        **urls.settings
        | {
            "static_url_prefix": f"{site.prefix}/static/",
            "xsrf_cookie_kwargs": {"path": site.prefix or "/", "samesite": "Strict"},
        }
        | sign_in,
    )
    made.proxies = place.proxies
    made.site, made.hosts = site, Hosts(place.address, settings.monitor_hosts)
    made.value_bytes = settings.value_limit_bytes
    return made


def _sign_in_settings(sign_in: SignIn) -> dict[str, Any]:
    """Return settings of Flower's handlers; users stay signed in when the monitor restarts."""
    secret = hmac.new(monitor_key(data_dir()).encode(), b"sign-in", "sha256").hexdigest()
    return {"cookie_secret": secret, "oauth": dict(sign_in.credentials)}


def _gated(figures: EngineMetrics, sign_in: SignIn | None) -> type[Any]:
    """Return Flower with its handlers behind our checks, and our metrics among its own."""
    pages = {auth.LoginHandler: web.ErrorHandler, auth.LogoutHandler: web.ErrorHandler}
    if sign_in is not None:
        pages = {auth.LoginHandler: sign_in.handler}
    pages[flower_errors.NotFoundErrorHandler] = web.ErrorHandler

    class Figures(monitor.Metrics):  # type: ignore[misc]  # no stubs
        async def get(self) -> None:
            await asyncio.to_thread(figures.collect)  # so that what is written has been read
            await super().get()

    class GatedFlower(GatedApplication, app.Flower):  # type: ignore[misc]  # not known before
        instead: Mapping[type[Any], type[Any]] = MappingProxyType(
            {monitor.Metrics: Figures, **pages}
        )

        def start_http_server(self) -> int:
            sockets = netutil.bind_sockets(self.options.port, address=self.options.address)
            self.serve_on(sockets)
            return int(sockets[0].getsockname()[1])

    return GatedFlower


def _place(settings: Settings, arguments: argparse.Namespace) -> ListenPlace:
    """Return where to listen; raises SettingInvalid."""
    proxies = Proxies(settings.monitor_proxies, settings.monitor_user_header)
    sign_in = None
    if arguments.auth or arguments.auth_provider:
        sign_in = SignIn.of(arguments.auth_provider, arguments.auth)
    where = arguments.address, arguments.port
    return ListenPlace(*where, proxies, sign_in, arguments.celery_events)


def _access(
    settings: Settings, sign_in: SignIn | None, password: str | None, users_file: Path | None
) -> Access:
    """Return who has access.

    Raises:
        SettingInvalid: settings contradict each other, or a file is unusable.
    """
    header, roles = settings.monitor_user_header, settings.monitor_roles
    vouched = header is not None or sign_in is not None
    if vouched != bool(roles) or (header is not None and not settings.monitor_proxies):
        raise SettingInvalid(
            "monitor_roles says what users may do who sign in with --auth, or whom "
            "monitor_user_header names: it takes one of these, and they take it; "
            "monitor_user_header also takes monitor_proxies, which are believed"
        )
    role_of = RoleRules(roles).role_of
    secret = monitor_key(data_dir()) if vouched or password or users_file else ""
    users = None if users_file is None else MonitorUsers(users_file)
    return Access(
        key=None if password or users or vouched else monitor_key(data_dir()),
        owner=settings.identity,
        password=password,
        users=users,
        secret=secret,
        named=None if header is None else NamedUsers(header, role_of, secret),
        signed_in=None if sign_in is None else SignedInUsers(sign_in.allows, role_of, secret),
    )


def _exposure(address: str, password: str | None, *, has_users: bool) -> str | None:
    """Return why this address must not be served; None if it may."""
    if password is not None and not all(password.partition(":")):
        return "--basic-auth takes USER:PASSWORD"
    if password is None and not has_users and not is_loopback(address):
        return (
            f"{address} can be reached from other machines, and the monitor would show them "
            "every run; give --basic-auth USER:PASSWORD, --users FILE, --auth or the setting "
            "monitor_user_header, or leave --address at 127.0.0.1"
        )
    return None


def _refuse(problem: str, code: int) -> int:
    print(f"error: {problem}", file=sys.stderr)  # noqa: T201 - for the person who started it
    return code


if __name__ == "__main__":
    sys.exit(main())
