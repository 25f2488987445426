"""`sleipnir monitor`: Flower on real workers, and who may see it."""

from __future__ import annotations

import http.client
import json
import re
import shlex
import signal
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sleipnir.scheduler.store.connection import connect
from sleipnir.worker.monitor.access import Access
from tests.support.command_line import Sleipnir
from tests.support.pages import blocks
from tests.support.processes import children_of
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.web_server import Page, WebServer
from tests.support.workers import Workers

GRAPH = """
start: first
nodes:
  first: {type: script, script: first.py, next: last}
  last: {type: end}
"""
# What the page of tasks asks for, as its table does.
TASKS = "/tasks/datatable?draw=1&start=0&length=50&search[value]=&columns[0][data]=name" + (
    "&order[0][column]=0&order[0][dir]=asc"
)


@pytest.fixture
def sleipnir(tmp_path: Path) -> Sleipnir:
    return Sleipnir(tmp_path / "cli")


class Monitor:
    """A monitor that runs, at a free port."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        found = re.search(r"http://\S+", process.stderr.readline())
        assert found is not None
        self.url = found[0]

    def get(
        self, path: str, auth: str | None = None, method: str = "GET", **headers: str
    ) -> tuple[int, str]:
        """The status and body of a page."""
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        if auth is not None:
            request.add_header("Authorization", f"Basic {b64encode(auth.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=90) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, ""

    def read(self, path: str, auth: str | None = None, **headers: str) -> tuple[int, str]:
        """The same for who looks again and again, which may be too often for the monitor."""

        def answer() -> tuple[int, str] | None:
            status, text = self.get(path, auth, **headers)
            return None if status == 429 else (status, text)

        return wait_until(answer, f"{path} is served", 30)

    def ask(self, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
        """What comes back, not what it leads to."""
        url = urlsplit(self.url + path)
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=90)
        connection.request(method, f"{url.path}?{url.query}", headers=headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer

    def visit(self, path: str) -> int:
        """The status of a page, not of the one that it leads to."""
        return self.ask(path).status


Start = Callable[..., Monitor]


@pytest.fixture
def start(sleipnir: Sleipnir, redis_server: RedisServer, redis_client: Any) -> Iterator[Start]:
    """Starts monitors on the tests' Redis."""
    started: list[Monitor] = []

    def begin(*arguments: str) -> Monitor:
        command = ("monitor", "--redis", redis_server.url, "--port", "0", *arguments)
        started.append(Monitor(sleipnir.start(*command)))
        return started[-1]

    yield begin
    for monitor in started:
        monitor.process.kill()
        monitor.process.communicate()


def test_nodes_show_by_agent_and_node(start: Start, workers: Workers) -> None:
    worker = workers.start()
    monitor = start("--celery-events")
    # It switches events on when it has found the worker.
    wait_until(lambda: "enabled by remote" in worker.log.read_text(), "events are on", 30)

    workers.submit(GRAPH, {"first.py": "print('{}')"})

    def names() -> set[str]:
        return {task["name"] for task in json.loads(monitor.read(TASKS)[1])["data"]}

    wait_until(lambda: names() == {"tested/first", "tested/last"}, "both nodes show", 30)


def test_workers_report_tasks_only_while_somebody_watches(start: Start, workers: Workers) -> None:
    worker = workers.start()
    monitor = start("--basic-auth", "me:secret")
    steps = {"first.py": "print('{}')"}

    def said(what: str) -> int:
        return worker.log.read_text().count(f"{what} by remote")

    def listed() -> list[Any]:
        return list(json.loads(monitor.read("/workers?json=1", "me:secret")[1])["data"])

    def names() -> list[str]:
        found = json.loads(monitor.read(TASKS, "me:secret")[1])["data"]
        return sorted(task["name"] for task in found)

    wait_until(listed, "the monitor has found the worker", 60)
    fleet = json.loads(monitor.read("/api/v1/fleet", "me:secret")[1])
    assert [each["version"] for each in fleet["workers"]] == [version("sleipnir")]
    workers.client.wait(workers.submit(GRAPH, steps))
    assert (said("enabled"), names()) == (0, [])
    monitor.get("/fleet/task-events/watch", "me:secret", method="POST")
    wait_until(lambda: said("enabled"), "events are on", 60)
    workers.submit(GRAPH, steps)
    wait_until(lambda: names() == ["tested/first", "tested/last"], "what followed shows", 60)
    assert "Workers report their tasks there until" in monitor.read("/fleet", "me:secret")[1]
    monitor.get("/fleet/task-events/stop", "me:secret", method="POST")
    wait_until(lambda: said("disabled"), "events are off", 60)


def test_what_was_watched_ends_with_the_monitor(start: Start, workers: Workers) -> None:
    worker = workers.start()
    monitor = start("--celery-events")
    wait_until(lambda: "enabled by remote" in worker.log.read_text(), "events are on", 60)

    monitor.process.send_signal(signal.SIGTERM)

    assert monitor.process.wait(timeout=90) == 0
    wait_until(lambda: "disabled by remote" in worker.log.read_text(), "events are off", 60)


def test_a_node_that_fails_is_a_failed_task(start: Start, workers: Workers) -> None:
    worker = workers.start()
    monitor = start("--celery-events")
    wait_until(lambda: "enabled by remote" in worker.log.read_text(), "events are on", 60)

    workers.submit(GRAPH, {"first.py": "raise ValueError('secret cause')"})

    def states() -> dict[str, str]:
        found = json.loads(monitor.read(TASKS)[1])["data"]
        return {task["name"]: task["state"] for task in found}

    expected = {"tested/first": "FAILURE", "tested/last": "SUCCESS"}
    wait_until(lambda: states() == expected, "the failure shows", 60)
    assert "secret cause" not in monitor.read(TASKS)[1]


def test_no_page_shows_what_a_run_was_given(start: Start, workers: Workers) -> None:
    canary = "canary-5f2c91d07e"
    graph = GRAPH + "variables: [{name: token, description: a secret, secret: true}]\n"
    worker = workers.start()
    monitor = start("--celery-events")
    wait_until(lambda: "enabled by remote" in worker.log.read_text(), "events are on", 30)
    given: dict[str, Any] = {"prompt": canary, "variables": {"token": canary}}

    workers.submit(graph, {"first.py": "print('{}')"}, state={"seed": canary}, **given)

    def tasks() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(monitor.read(TASKS)[1])["data"]
        return found

    wait_until(lambda: len(tasks()) == 2, "both nodes show", 30)
    name = json.loads(monitor.read("/workers?json=1")[1])["data"][0]["hostname"]
    pages = [TASKS, "/workers", f"/worker/{name}", "/broker", "/tasks"]
    pages += [f"/task/{task['uuid']}" for task in tasks()]
    answers = [monitor.read(page) for page in pages]
    assert [status for status, _ in answers] == [200] * len(pages)
    assert [page for page, (_, text) in zip(pages, answers, strict=True) if canary in text] == []
    assert "tested/first" in answers[-1][1] + answers[-2][1]
    assert canary not in worker.log.read_text()


def test_without_a_password_pages_show_and_nothing_can_be_done(start: Start) -> None:
    monitor = start()

    assert monitor.url.startswith("http://127.0.0.1:")
    assert monitor.get("/workers")[0] == 200
    assert monitor.get("/api/workers")[0] == 401


def test_with_a_password_nothing_shows_without_it(start: Start) -> None:
    monitor = start("--basic-auth", "me:secret")

    assert monitor.get("/workers")[0] == 401
    assert monitor.get("/workers", "me:wrong")[0] == 401
    assert monitor.get("/workers", "me:secret")[0] == 200


def test_figures_want_the_password_too(start: Start) -> None:
    monitor = start("--basic-auth", "me:secret")

    assert monitor.get("/metrics")[0] == 401
    status, figures = monitor.get("/metrics", "me:secret")
    assert status == 200
    assert "sleipnir_redis_up 1.0" in figures
    assert monitor.get("/healthcheck") == (200, "OK")


def test_only_its_own_names_are_answered(start: Start) -> None:
    monitor = start()
    port = monitor.url.rpartition(":")[2]

    asked = ("evil.example", f"evil.example:{port}", f"localhost:{port}", "127.0.0.1")
    pages = ("/workers", "/tasks", "/metrics")
    found = [[monitor.get(page, Host=host)[0] for page in pages] for host in asked]

    assert found == [[421] * 3, [421] * 3, [200] * 3, [200] * 3]


def test_other_machines_are_let_in_only_with_a_password(
    sleipnir: Sleipnir, redis_server: RedisServer
) -> None:
    done = sleipnir("monitor", "--redis", redis_server.url, "--address", "0.0.0.0")

    assert done.returncode == 2
    assert "give --basic-auth USER:PASSWORD" in done.stderr


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"Sec-Fetch-Site": "cross-site"}, 403, id="another site"),
        pytest.param({"Origin": "http://elsewhere.example"}, 403, id="another origin"),
        pytest.param({}, 404, id="a program: there is no such worker"),
    ],
)
def test_pages_of_other_sites_cannot_act_with_the_password(
    headers: dict[str, str], status: int, start: Start
) -> None:
    monitor = start("--basic-auth", "me:secret")

    done = monitor.get("/api/worker/shutdown/nobody", "me:secret", method="POST", **headers)

    assert done[0] == status


@pytest.mark.parametrize("form", ["unix://:{password}@{file}", "unix://{file}?password={password}"])
def test_the_password_of_redis_shows_nowhere(form: str, sleipnir: Sleipnir, tmp_path: Path) -> None:
    password = "canary-1d3e88b5f6"
    with RedisServer(tmp_path / "redis") as server, connect(server.url) as client:
        client.config_set("requirepass", password)
        url = form.format(password=password, file=server.socket_file)
        sleipnir.environment["SLEIPNIR_REDIS_URL"] = url
        worker = sleipnir.start("worker", "--scheduler")
        process = sleipnir.start("monitor", "--port", "0")
        monitor = Monitor(process)

        def worker_name() -> str | None:
            status, text = monitor.read("/workers?json=1")
            found = json.loads(text)["data"] if status == 200 else []
            return str(found[0]["hostname"]) if found else None

        name = wait_until(worker_name, "the worker shows", 30)
        pages = [monitor.read(page) for page in ("/workers", f"/worker/{name}", "/broker")]
        pids = [process.pid, worker.pid, *children_of(worker.pid)]
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in pids]
        for started in (process, worker):
            started.terminate()
        said = [text for started in (process, worker) for text in started.communicate(timeout=90)]
        client.config_set("requirepass", "")  # or nobody could stop the server

    assert [status for status, _ in pages] == [200] * 3
    assert len(commands) == 3
    shown = [*said, *commands, *(text for _, text in pages)]
    assert [text for text in shown if password in text] == []


def test_a_prefix_and_a_browser_that_is_opened(
    start: Start, sleipnir: Sleipnir, tmp_path: Path
) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new; mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    sleipnir.environment["BROWSER"] = str(browser)

    monitor = start("--url-prefix", "/ops/sleipnir/", "--open")
    wait_until(opened.exists, "a browser was opened", 30)

    site, _, query = opened.read_text().strip().partition("/?")
    assert site == monitor.url
    assert site.endswith("/ops/sleipnir")
    command = Path(f"/proc/{monitor.process.pid}/cmdline").read_text()
    assert "key=" not in query + command
    assert monitor.visit(f"/?{query}") == 302
    assert monitor.visit(f"/?{query}") == 401
    page = monitor.get("/workers")[1]
    addresses = re.findall(r'(?:href|src)="(/[^"]*)"', page)
    assert {address for address in addresses if not address.startswith("/ops/sleipnir/")} == set()
    monitor.url = site.removesuffix("/ops/sleipnir")
    assert {monitor.visit(address) for address in addresses if "static" in address} == {200}
    assert monitor.visit("/workers") == 404


@pytest.mark.parametrize("command", ["monitor", "up"])
def test_a_prefix_that_is_no_path_is_refused(sleipnir: Sleipnir, command: str) -> None:
    done = sleipnir(command, "--url-prefix", "/../etc")

    assert done.returncode == 2
    assert "--url-prefix takes a path such as /sleipnir" in done.stderr


def test_a_port_that_is_taken_is_said(start: Start, sleipnir: Sleipnir) -> None:
    port = start().url.rpartition(":")[2]

    done = sleipnir("monitor", "--port", port)

    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_it_ends_when_told_to(start: Start) -> None:
    monitor = start()

    monitor.process.send_signal(signal.SIGTERM)

    assert monitor.process.wait(timeout=90) == 0


def test_users_see_flower_s_pages_too_and_nobody_else_does(
    start: Start, sleipnir: Sleipnir, tmp_path: Path
) -> None:
    made = sleipnir("monitor", "--new-user", "api-bot", "read")
    (tmp_path / "users").write_text(made.stdout)
    token = made.stderr.rpartition(" ")[2].strip()
    monitor = start("--users", str(tmp_path / "users"))

    pages = ("/runs", "/workers", "/metrics")
    found = [monitor.get(page, Authorization=f"Bearer {token}")[0] for page in pages]

    assert found == [200] * 3
    assert [monitor.get(page)[0] for page in pages] == [401] * 3
    assert monitor.get("/healthz")[0] == 200


def test_flower_asks_for_roles_and_its_acts_are_noted(
    start: Start, sleipnir: Sleipnir, tmp_path: Path
) -> None:
    tokens = {}
    with (tmp_path / "users").open("w") as users:
        for name, role in (("api-looks", "read"), ("api-acts", "operate")):
            made = sleipnir("monitor", "--new-user", name, role)
            users.write(made.stdout)
            tokens[role] = {"Authorization": f"Bearer {made.stderr.rpartition(' ')[2].strip()}"}
    monitor = start("--users", str(tmp_path / "users"))
    act = "/api/worker/shutdown/nobody"

    assert monitor.get("/api/workers", **tokens["read"])[0] == 200
    assert monitor.get(act, method="POST", **tokens["read"])[0] == 403
    assert monitor.get(act, method="POST", **tokens["operate"])[0] == 404

    def noted() -> list[tuple[str, str, str, str]]:
        acts = json.loads(monitor.read("/api/v1/audit", **tokens["operate"])[1])["acts"]
        return [(each["who"], each["act"], each["target"], each["outcome"]) for each in acts]

    wait_until(lambda: len(noted()) == 2, "both are noted", 30)
    target = "worker/shutdown/nobody"
    assert noted()[1] == ("api-looks", "celery", target, "this requires the role operate")
    assert noted()[0][:3] == ("api-acts", "celery", target)
    assert "Unknown worker" in noted()[0][3]


def test_a_proxy_may_name_users(start: Start, sleipnir: Sleipnir) -> None:
    header = {"SLEIPNIR_MONITOR_USER_HEADER": "X-Remote-User"}
    sleipnir.environment |= header | {"SLEIPNIR_MONITOR_ROLES": '{"read": ["ada"]}'}
    refused = sleipnir("monitor", "--address", "0.0.0.0")
    sleipnir.environment |= {"SLEIPNIR_MONITOR_PROXIES": "127.0.0.0/8"}
    monitor = start("--address", "0.0.0.0")
    monitor.url = monitor.url.replace("0.0.0.0", "127.0.0.1")
    ada, eve = {"X-Remote-User": "ada"}, {"X-Remote-User": "eve"}

    assert "monitor_user_header also takes monitor_proxies" in refused.stderr
    pages = ("/runs", "/workers", "/metrics", "/static/js/flower.js")
    found = [[monitor.get(page, **who)[0] for page in pages] for who in (ada, eve, {})]
    assert found == [[200] * 4, [403] * 4, [401] * 4]
    assert monitor.get("/api/worker/shutdown/nobody", method="POST", **ada)[0] == 403
    assert monitor.get("/healthz")[0] == 200


@pytest.fixture
def provider() -> Iterator[WebServer]:
    """An OAuth provider that names whom a test tells it to."""
    token = Page('{"access_token": "of-the-provider"}', "application/json")
    with WebServer({"/v1/token": token}) as server:
        yield server


def signed_in(monitor: Monitor, provider: WebServer, address: str) -> tuple[int, dict[str, str]]:
    """The status of signing in as somebody, and the cookie that comes of it."""
    text = json.dumps({"email": address, "email_verified": True})
    provider.pages["/v1/userinfo"] = Page(text, "application/json")
    sent = monitor.ask("/login")
    state = parse_qs(urlsplit(sent.headers["Location"]).query)["state"][0]
    back = f"/login?code=given&state={state}"
    done = monitor.ask(back, Cookie=sent.headers["Set-Cookie"].partition(";")[0])
    cookies = [each for each in done.headers.get_all("Set-Cookie", []) if "user=" in each]
    assert all("HttpOnly; Path=/x; SameSite=Lax" in each for each in cookies)
    assert monitor.ask(back).status == 403  # the state is that of another browser
    return done.status, {"Cookie": cookies[0].partition(";")[0]} if cookies else {}


def test_people_sign_in_with_an_oauth_provider(
    start: Start, sleipnir: Sleipnir, provider: WebServer
) -> None:
    sleipnir.environment |= {
        "FLOWER_OAUTH2_KEY": "ours",
        "FLOWER_OAUTH2_SECRET": "canary-91b3f",
        "FLOWER_OAUTH2_REDIRECT_URI": "http://127.0.0.1/x/login",
        "FLOWER_OAUTH2_OKTA_BASE_URL": provider.url(""),
        "SLEIPNIR_MONITOR_ROLES": '{"read": [".*"], "operate": ["ada@example.org"]}',
    }
    options = ("--auth", ".*@example.org", "--auth-provider", "okta", "--url-prefix", "/x")
    monitor = start(*options)

    for page in ("/runs", "/workers"):
        assert monitor.ask(page).headers["Location"] == "/x/login"
    assert monitor.get("/api/v1/runs")[0] == 401
    _, ada = signed_in(monitor, provider, "ada@example.org")
    _, bob = signed_in(monitor, provider, "bob@example.org")
    assert signed_in(monitor, provider, "eve@evil.example") == (403, {})
    act, own = "/api/worker/shutdown/nobody", {"Sec-Fetch-Site": "same-origin"}
    for who, name, role, status in ((ada, "ada", "operate", 404), (bob, "bob", "read", 403)):
        me = json.loads(monitor.get("/api/v1/me", **who)[1])
        assert me == {"name": f"{name}@example.org", "role": role, "via": "oauth"}
        assert monitor.get("/workers", **who)[0] == 200
        assert monitor.get(act, method="POST", **who, **own)[0] == status
    assert monitor.ask(act, "POST", **ada).status == 403  # nothing vouches for it
    forged = {"Cookie": ada["Cookie"].replace("user=", "user=x")}
    assert monitor.get("/api/v1/runs", **forged)[0] == 401
    assert any(b"canary-91b3f" in visit.body for visit in provider.visits)


def test_signing_in_takes_a_pattern_a_provider_and_what_it_gave_out(sleipnir: Sleipnir) -> None:
    alone = sleipnir("monitor", "--auth", "a@example.org")
    without = sleipnir("monitor", "--auth", "a@example.org", "--auth-provider", "github")

    assert (alone.returncode, without.returncode) == (2, 7)
    assert "--auth and --auth-provider must be given together" in alone.stderr
    assert "FLOWER_OAUTH2_KEY" in without.stderr


def test_wrong_passwords_are_counted_on_flower_s_pages_too(start: Start) -> None:
    monitor = start("--basic-auth", "me:secret")

    found = [monitor.get("/workers", "me:guessed")[0] for _ in range(7)]

    assert found == [401] * 5 + [429] * 2
    assert monitor.get("/runs", "me:guessed")[0] == 429
    assert monitor.get("/healthcheck")[0] == 200


def test_flower_s_pages_cannot_be_framed_and_show_controls_to_some(
    start: Start, workers: Workers
) -> None:
    workers.start()
    monitor = start()
    assert monitor.process.stderr is not None
    key = monitor.process.stderr.readline().partition("key=")[2].strip()
    bearer = {"Authorization": f"Bearer {key}"}

    def worker_name() -> str | None:
        status, text = monitor.read("/workers?json=1")
        found = json.loads(text)["data"] if status == 200 else []
        return str(found[0]["hostname"]) if found else None

    name = wait_until(worker_name, "the worker shows", 30)
    for_all, for_some = (monitor.read(f"/worker/{name}", **who)[1] for who in ({}, bearer))
    with urllib.request.urlopen(f"{monitor.url}/workers", timeout=90) as answer:
        policy = answer.headers["Content-Security-Policy"]

    assert "frame-ancestors 'none'" in policy
    assert "Shut Down" not in for_all
    assert "Shut Down" in for_some
    cookie = f"sleipnir_monitor={Access(key=key).cookie}"
    shutdown = "/api/worker/shutdown/nobody"
    assert monitor.get(shutdown, method="POST", Cookie=cookie)[0] == 403
    own = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    assert monitor.get(shutdown, method="POST", **own)[0] == 404
    assert monitor.get(shutdown, method="POST")[0] == 401


def test_the_link_that_is_printed_opens_the_pages(start: Start, sleipnir: Sleipnir) -> None:
    monitor = start()

    assert monitor.process.stderr is not None
    link = monitor.process.stderr.readline().rpartition(" ")[2].strip()

    port = monitor.url.rpartition(":")[2]
    assert sleipnir("monitor", "--link", "--port", port).stdout.strip() == link
    key = link.partition("key=")[2]
    assert monitor.get("/runs", Authorization=f"Bearer {key}")[0] == 200
    assert monitor.get("/runs")[0] == 401
    assert 'href="/now">Sleipnir' in monitor.get("/workers")[1]


def test_the_monitor_behind_a_proxy_starts_as_documented(start: Start, sleipnir: Sleipnir) -> None:
    (text,) = (text for text in blocks("operating.md", "sh") if "MONITOR_HOSTS" in text)
    here = re.sub(r"10\.0\.0\.\d", "127.0.0.1", text)  # of the proxy and of the monitor
    *exports, command = map(shlex.split, here.splitlines())
    for _, assignment in exports:
        name, _, value = assignment.partition("=")
        sleipnir.environment[name] = value

    monitor = start(*command[2:])

    monitor.url = monitor.url.removesuffix("/sleipnir")
    ada = {"Host": "runs.example", "X-Remote-User": "ada"}
    assert monitor.get("/sleipnir/runs", **ada)[0] == 200
    assert monitor.get("/sleipnir/runs", Host="runs.example")[0] == 401
