"""The monitor behind a proxy that knows who asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from sleipnir.worker.monitor.access import Access, NamedUsers
from sleipnir.worker.monitor.admission.proxies import Proxies
from sleipnir.worker.monitor.admission.roles import RoleRules
from tests.support.engine import Engine
from tests.support.site import KEY, ServedSite
from tests.support.wait import wait_until

RUN = "0123456789abcdef"
ROLES = RoleRules({"read": [".*"], "answer": ["ann"], "operate": ["oda"]})
SOME_ROLES = RoleRules({"operate": ["oda"]})

Serve = Callable[..., ServedSite]


@pytest.fixture
def serve(engine: Engine) -> Iterator[Serve]:
    """Serves sites whose proxies have the given addresses; all tests come from 127.0.0.1."""
    started: list[ServedSite] = []

    def begin(*trusted: str, roles: RoleRules = ROLES) -> ServedSite:
        access = Access(named=NamedUsers("X-Remote-User", roles.role_of, "s" * 43))
        proxies = Proxies(trusted, "X-Remote-User")
        site = ServedSite(engine.client, access, proxies=proxies, names=["runs.example"])
        started.append(site.__enter__())
        return site

    yield begin
    for site in started:
        site.__exit__(None, None, None)


def named(name: str, **more: str) -> dict[str, str]:
    headers = {each.replace("_", "-"): text for each, text in more.items()}
    return {"X-Remote-User": name, "X-Forwarded-For": "192.0.2.7", **headers}


def test_a_proxy_names_users_and_patterns_give_them_roles(serve: Serve) -> None:
    site = serve("127.0.0.0/8")

    def statuses(name: str) -> list[int]:
        page = site.ask("/limits", headers=named(name))
        token = re.search(r'name="_token" value="(\w+)"', page.text)
        form = {"_token": token[1]} if token else {}
        act = site.ask(f"/runs/{RUN}/cancel", "POST", headers=named(name), form=form)
        answer = site.ask(f"/inbox/{RUN}/1/a", "POST", headers=named(name), form=form)
        return [page.status, answer.status, act.status]

    # There is no such run: 404 is what those are told who may.
    assert {name: statuses(name) for name in ("rob", "ann", "oda")} == {
        "rob": [200, 403, 403],
        "ann": [200, 404, 403],
        "oda": [200, 404, 404],
    }
    assert site.ask("/api/v1/me", headers=named("oda")).json == {
        "name": "oda",
        "role": "operate",
        "via": "proxy",
    }


def test_nobody_names_themselves(serve: Serve) -> None:
    site = serve("192.0.2.1")

    found = [
        site.ask("/runs", headers=headers).status
        for headers in (named("oda"), {"X-Remote-User": "oda"}, {"x_remote_user": "oda"}, {})
    ]

    assert found == [401] * 4


@pytest.mark.parametrize("name", ["", "oda,rob", "oda rob", "od\xe4", "o" * 129])
def test_a_name_that_is_none_is_nobody(name: str, serve: Serve) -> None:
    site = serve("127.0.0.1")

    assert site.ask("/runs", headers={"X-Remote-User": name}).status == 401
    assert site.ask("/", headers={}).status == 401


def test_a_user_without_a_role_is_told_so(serve: Serve) -> None:
    site = serve("127.0.0.1", roles=SOME_ROLES)

    answer = site.ask("/api/v1/runs", headers=named("rob"))

    assert (answer.status, answer.json["error"]["code"]) == (403, "role")
    assert "rob has no role here" in answer.text
    assert site.ask("/healthz", headers=named("rob")).status == 200


def test_forms_of_users_carry_a_token_of_their_own(serve: Serve) -> None:
    site = serve("127.0.0.1")
    tokens = [
        re.findall(r'name="_token" value="(\w+)"', site.ask("/limits", headers=named(name)).text)[0]
        for name in ("oda", "ann")
    ]

    def cancel(**form: str) -> int:
        return site.ask(f"/runs/{RUN}/cancel", "POST", headers=named("oda"), form=form).status

    assert tokens[0] != tokens[1]
    assert [cancel(), cancel(_token=tokens[1]), cancel(_token=tokens[0])] == [403, 403, 404]


def test_hosts_and_addresses_are_those_that_the_proxy_was_asked_for(serve: Serve) -> None:
    site = serve("127.0.0.1")

    def status(**headers: str) -> int:
        return site.ask("/runs", headers=named("oda", **headers)).status

    assert status(X_Forwarded_Host="runs.example") == 200
    assert status(X_Forwarded_Host="evil.example") == 421
    assert status(Host="evil.example", X_Forwarded_Host="runs.example") == 421
    elsewhere = named("oda", Origin="https://evil.example", X_Forwarded_Host="runs.example")
    assert site.ask(f"/runs/{RUN}/cancel", "POST", headers=elsewhere, form={}).status == 403


def test_acts_are_noted_with_the_address_behind_the_proxy(serve: Serve) -> None:
    site = serve("127.0.0.1")

    site.ask(f"/runs/{RUN}/cancel", "POST", headers=named("rob"), form={})

    def acts() -> list[dict[str, str]]:
        found: list[dict[str, str]] = site.ask("/api/v1/audit", headers=named("oda")).json["acts"]
        return found

    (act,) = wait_until(acts, "it is noted")
    assert (act["who"], act["address"]) == ("rob", "192.0.2.7")


def test_wrong_keys_count_for_the_address_behind_the_proxy(serve: Serve) -> None:
    site = serve("127.0.0.1")

    def guess(address: str) -> int:
        headers = {"Authorization": "Bearer guessed", "X-Forwarded-For": address}
        return site.ask("/runs", headers=headers).status

    assert [guess("192.0.2.1") for _ in range(6)] == [401] * 5 + [429]
    assert guess("192.0.2.2") == 401
    assert guess("6.6.6.6, 192.0.2.1") == 429
    network = [guess(f"2001:db8::{number}") for number in range(1, 8)]
    assert network == [401] * 5 + [429] * 2
    assert guess("2001:db8:0:1::1") == 401


def test_a_user_s_name_is_shown_as_text(serve: Serve) -> None:
    name = "<script>alert(1)</script>\"'"
    site = serve("127.0.0.1", roles=RoleRules({"operate": [".*"]}))
    cancel = f"/runs/{RUN}/cancel"

    site.ask(cancel, "POST", headers=named(name), form={})
    page = wait_until(
        lambda: "refused" in (text := site.ask("/audit", headers=named(name)).text) and text,
        "it is noted",
    )

    assert page.count("&lt;script&gt;alert(1)") >= 2  # in the bar and in the list
    assert "<script>alert" not in page


def test_who_is_forwarded_is_not_on_this_machine(engine: Engine) -> None:
    with ServedSite(engine.client, proxies=Proxies(["127.0.0.1"])) as site:
        near, far = {}, {"X-Forwarded-For": "192.0.2.7"}

        assert site.ask("/readyz", headers=near).status == 200
        assert site.ask("/readyz", headers=far).status == 401
        assert site.ask("/runs", headers=far | {"Authorization": f"Bearer {KEY}"}).status == 200
        tls = {"X-Forwarded-Proto": "https"}
        assert "Secure" in site.ask(f"/?key={KEY}", headers=tls).headers["Set-Cookie"]
        assert "Secure" not in site.ask(f"/?key={KEY}", headers={}).headers["Set-Cookie"]
