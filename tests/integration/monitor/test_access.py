"""Who may see the monitor's pages, and where acts may come from."""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from contextlib import ExitStack
from pathlib import Path

import pytest

from sleipnir.scheduler.config.monitor_key import monitor_key
from sleipnir.scheduler.config.monitor_users import ROLES, MonitorUsers, new_line
from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.worker.monitor import connections, gate
from sleipnir.worker.monitor.access import Access, Role
from sleipnir.worker.monitor.admission.rates import ACTS, READS, VisitorRates
from sleipnir.worker.monitor.gate import SERVER_LIMITS
from sleipnir.worker.monitor.routes import ROUTES
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite
from tests.support.users import basic
from tests.support.wait import wait_until

COOKIE = {"Cookie": f"sleipnir_monitor={Access(key=KEY).cookie}"}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def address_of(pattern: str) -> str:
    """Some address that a route's pattern fits."""
    plain = re.sub(r"\(\?:[^()]*\([^()]*\)\)\?", "", pattern)
    plain = re.sub(r"\((\w+)(?:\|[^()]*)?\)", r"\1", plain)
    plain = re.sub(r"\(\[0-9\][^()]*\)", "1", plain)
    plain = re.sub(r"\([^()]*\{43\}\)", "A" * 43, plain)
    plain = re.sub(r"\([^()]*\)", "0123456789abcdef", plain)
    plain = plain.replace("/?", "/")
    assert re.fullmatch(pattern, plain), pattern
    return plain


def test_every_route_asks_for_its_role(site: ServedSite) -> None:
    wrong = {}
    for route in ROUTES:
        for method in METHODS:
            path = address_of(route.pattern)
            stranger = site.ask(path, method, headers={}, body="").status
            owner = site.ask(path, method, body="").status
            needs = "GET" if method == "HEAD" else method
            if needs not in route.needs:
                right = (stranger, owner) == (405, 405)
            else:
                role = route.needs[needs]
                closed = role is not None and role > Role.LOCAL
                right = (stranger == 401) == closed and owner not in (401, 403, 405, 500)
            if not right:
                wrong[method, route.pattern] = stranger, owner

    assert wrong == {}


def test_the_key_of_the_link_becomes_a_cookie_and_leaves_the_address(site: ServedSite) -> None:
    entered = site.ask(f"/?key={KEY}", headers={})
    wrong = site.ask("/?key=guessed", headers={})

    assert (entered.status, entered.headers["Location"]) == (302, "/")
    cookie = entered.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert KEY not in cookie
    assert site.ask("/runs", headers={"Cookie": cookie.partition(";")[0]}).status == 200
    assert (wrong.status, "Set-Cookie" in wrong.headers) == (401, False)
    assert "sleipnir monitor --link" in wrong.text


def test_the_link_opens_every_page(engine: Engine, site: ServedSite) -> None:
    deep = site.ask(f"/runs?status=failed&key={KEY}&agent=a", headers={})
    wrong = site.ask("/runs?key=guessed", headers={})
    parameter = site.ask("/runs/0123456789abcdef/state?key=guessed", headers=COOKIE)

    assert (deep.status, deep.headers["Location"]) == (302, "/runs?status=failed&agent=a")
    assert "HttpOnly" in deep.headers["Set-Cookie"]
    assert (wrong.status, "Set-Cookie" in wrong.headers) == (401, False)
    assert parameter.status == 404
    assert site.ask(f"/api/v1/runs?key={KEY}", headers={}).status == 401


def test_pages_allow_nothing_but_their_own_files(site: ServedSite) -> None:
    page = site.ask("/runs")

    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cache-Control"] == "no-store"
    assert "<style" not in page.text
    assert " style=" not in page.text
    assert " onclick" not in page.text
    for address in re.findall(r'(?:href|src)="(/assets/[^"#]+)[#"]', page.text):
        assert site.ask(address).status == 200
        assert "max-age" in site.ask(address).headers["Cache-Control"]


def test_with_a_password_nothing_but_being_alive_shows_without_it(engine: Engine) -> None:
    with ServedSite(engine.client, Access(password="me:sécret")) as site:
        given = b64encode("me:sécret".encode()).decode()
        wrong = b64encode(b"me:other").decode()

        assert site.ask("/healthz", headers={}).status == 200
        for path in ("/", "/runs", "/readyz", "/api/v1/me"):
            assert site.ask(path, headers={}).status == 401
            assert site.ask(path, headers={"Authorization": f"Basic {wrong}"}).status == 401
            assert site.ask(path, headers={"Authorization": f"Basic {given}"}).status in (200, 302)


def test_acts_come_from_our_own_pages(site: ServedSite) -> None:
    path = "/runs/0123456789abcdef/cancel"
    token = Access(key=KEY).visitor({}, COOKIE["Cookie"].partition("=")[2]).form_token
    program = {"Authorization": f"Bearer {KEY}"}

    refused = (
        site.ask(path, "POST", headers=COOKIE, form={}),
        site.ask(path, "POST", headers=COOKIE, form={"_token": "guessed"}),
        site.ask(
            path, "POST", headers=COOKIE | {"Sec-Fetch-Site": "cross-site"}, form={"_token": token}
        ),
        site.ask(
            path, "POST", headers=COOKIE | {"Origin": "http://evil.example"}, form={"_token": token}
        ),
        site.ask(path, "POST", headers=program | {"Sec-Fetch-Site": "same-site"}, form={}),
    )

    assert [answer.status for answer in refused] == [403] * 5
    own = COOKIE | {"Sec-Fetch-Site": "same-origin"}
    assert site.ask(path, "POST", headers=own, form={"_token": token}).status == 404
    assert site.ask(path, "POST", headers=program, form={}).status == 404


def test_keys_are_not_guessed_quickly(site: ServedSite) -> None:
    wrong = {"Authorization": "Bearer guessed"}

    statuses = [site.ask("/runs", headers=wrong).status for _ in range(7)]

    assert statuses == [401] * 5 + [429] * 2
    assert int(site.ask("/?key=guessed", headers={}).headers["Retry-After"]) >= 1
    assert site.ask("/runs", headers=COOKIE).status == 200
    assert site.ask("/runs").status == 200
    assert site.ask(f"/?key={KEY}", headers={}).status == 302


def test_guesses_shut_out_nobody_else(engine: Engine, users: Path) -> None:
    with ServedSite(engine.client, Access(users=MonitorUsers(users))) as site:
        guessed = [site.ask("/runs", headers=basic("readr", "guess")).status for _ in range(7)]
        right = site.ask("/runs", headers=basic("readr", "pass:readr")).status
        other = site.ask("/runs", headers=basic("answerr", "pass:answerr")).status
        program = site.ask("/runs", headers={"Authorization": "Bearer api-bot.pass:api-bot"}).status

    assert guessed == [401] * 5 + [429] * 2
    assert (right, other, program) == (429, 200, 200)


def test_connections_without_credentials_shut_nobody_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gate, "most_connections", lambda: 8)

    with ServedSite(engine.client) as site, ExitStack() as opened, site.stream("runs") as frames:
        idle = [
            opened.enter_context(socket.create_connection(("127.0.0.1", site.port), timeout=60))
            for _ in range(40)
        ]
        alive = site.ask("/healthz", headers={}).status
        closed = [connection.recv(1) for connection in idle[:30]]
        event, _ = next(frames)

    assert (alive, closed, event) == (200, [b""] * 30, "change")
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_the_bound_of_connections_leaves_files_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = {"now": (1_024, 1_024)}
    monkeypatch.setattr(connections.resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(connections.resource, "setrlimit", lambda _, new: limits.update(now=new))

    assert connections.most_connections() == 1_024 - 256
    limits["now"] = (256, 4_096)
    assert connections.most_connections() == connections.MOST_CONNECTIONS
    assert limits["now"][0] == connections.MOST_CONNECTIONS + 256


def test_the_key_is_kept_and_replaced_if_others_could_read_it(tmp_path: Path) -> None:
    key = monitor_key(tmp_path / "data")
    file = tmp_path / "data" / "monitor.key"
    assert (monitor_key(tmp_path / "data"), file.stat().st_mode & 0o777) == (key, 0o600)

    file.chmod(0o644)

    assert monitor_key(tmp_path / "data") != key
    assert file.stat().st_mode & 0o777 == 0o600


def test_another_key_shuts_out_who_had_the_old_one(engine: Engine) -> None:
    with ServedSite(engine.client, Access(key="n" * 43)) as site:
        old = {"Authorization": f"Bearer {KEY}"}

        assert site.ask("/runs", headers=COOKIE).status == 401
        assert site.ask("/runs", headers=old).status == 401
        assert site.ask(f"/?key={KEY}", headers={}).status == 401


@pytest.mark.parametrize("path", ["/nowhere", "/runs/zz", "/runs/0123456789abcdef/nothing"])
def test_what_is_not_there_is_said_without_a_traceback(path: str, site: ServedSite) -> None:
    answer = site.ask(path)

    assert answer.status == 404
    assert "Traceback" not in answer.text


def statuses_of(site: ServedSite, headers: dict[str, str]) -> list[int]:
    """What a visitor may: see runs, answer, cancel."""
    run = "0123456789abcdef"
    asked = (
        site.ask("/runs", headers=headers),
        site.ask(f"/inbox/{run}/1/a", "POST", headers=headers, form={"answer": "x"}),
        site.ask(f"/runs/{run}/cancel", "POST", headers=headers, form={}),
    )
    return [answer.status for answer in asked]


def test_users_may_do_what_their_role_says(engine: Engine, users: Path) -> None:
    with ServedSite(engine.client, Access(users=MonitorUsers(users))) as site:
        found = {role: statuses_of(site, basic(f"{role}r", f"pass:{role}r")) for role in ROLES}
        bot = statuses_of(site, {"Authorization": "Bearer api-bot.pass:api-bot"})
        stranger = statuses_of(site, {})
        users.write_text(new_line("readr", "operate", "another"))
        later = statuses_of(site, basic("readr", "another"))
        gone = site.ask("/runs", headers=basic("operater", "pass:operater")).status

    # There is no such run: 404 is what those are told who may.
    assert found == {
        "read": [200, 403, 403],
        "answer": [200, 404, 403],
        "operate": [200, 404, 404],
    }
    assert (bot, stranger, later, gone) == ([200, 404, 403], [401] * 3, [200, 404, 404], 401)


def test_refused_acts_are_noted(engine: Engine, users: Path) -> None:
    path = "/runs/0123456789abcdef/cancel"

    with ServedSite(engine.client, Access(users=MonitorUsers(users))) as site:
        site.ask(path, "POST", headers=basic("readr", "pass:readr"), form={})
        site.ask(path, "POST", headers={}, form={})
        reader = basic("operater", "pass:operater")
        wait_until(lambda: site.ask("/api/v1/audit", headers=reader).json["acts"], "it is noted")
        acts = site.ask("/api/v1/audit", headers=reader).json["acts"]

    (act,) = acts
    assert (act["who"], act["role"], act["act"], act["target"]) == (
        "readr",
        "read",
        "refused",
        path,
    )
    assert act["outcome"] == "this requires the role operate"


def test_requests_that_are_too_large_are_refused_before_they_come(site: ServedSite) -> None:
    def status(path: str, megabytes: int) -> int:
        headers = {"Authorization": f"Bearer {KEY}", "Content-Length": str(megabytes << 20)}
        return site.ask(path, "POST", headers=headers).status

    assert status("/runs/0123456789abcdef/cancel", 2) == 413
    assert status("/api/v1/limits", 1_000_000) == 413
    assert status("/api/v1/runs", 9) == 413
    assert site.ask("/api/v1/runs", "POST", body=" " * (2 << 20)).status == 400


def test_reads_and_acts_have_rates(site: ServedSite) -> None:
    site.site.reads = VisitorRates(READS, lambda: 0.0)
    site.site.acts = VisitorRates(ACTS, lambda: 0.0)
    path = "/runs/0123456789abcdef/cancel"

    reads = [site.ask("/api/v1/me").status for _ in range(51)]
    acts = [site.ask(path, "POST", form={}) for _ in range(11)]

    assert reads == [*[200] * 50, 429]
    assert [act.status for act in acts] == [*[404] * 10, 429]
    assert int(acts[-1].headers["Retry-After"]) >= 1


def test_who_sends_slowly_is_given_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(SERVER_LIMITS[name] == 60 for name in ("idle_connection_timeout", "body_timeout"))
    for name in ("idle_connection_timeout", "body_timeout"):
        monkeypatch.setitem(SERVER_LIMITS, name, 0.2)

    with ServedSite(engine.client) as site:
        body = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"
        for begun in (b"GET /healthz HT", body):
            with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
                connection.sendall(begun)
                assert connection.recv(1_000) == b""


def test_lines_that_are_wrong_are_named(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ada operate hunter2\n")

    with pytest.raises(SettingInvalid, match="users:1: expected NAME ROLE SCRYPT"):
        MonitorUsers(file)
    with pytest.raises(SettingInvalid, match="'boss' is not a role"):
        new_line("ada", "boss", "x")
    with pytest.raises(SettingInvalid, match="'a b' is not a valid name"):
        new_line("a b", "read", "x")
