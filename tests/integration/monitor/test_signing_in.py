"""People sign in with a password on a page, stay signed in by a cookie, and sign out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sleipnir.scheduler.config.monitor_users import MonitorUsers, new_line
from sleipnir.worker.monitor.access import Access
from sleipnir.worker.monitor.admission.signed_cookies import SESSION_DAYS, SignedCookies
from tests.support.engine import Engine
from tests.support.site import Answer, ServedSite
from tests.support.users import basic

BROWSER = {"Accept": "text/html,*/*;q=0.8", "User-Agent": "Mozilla/5.0 Firefox/140.0"}
ASKS = """
start: ask
nodes:
  ask: {type: input, question: "Which?", next: z}
  z: {type: end}
"""


def sign_in(site: ServedSite, name: str, password: str, next_page: str = "/runs") -> Answer:
    """Send the form as a browser does."""
    path = f"{site.site.prefix}/sign-in?next={next_page}"
    return site.ask(path, "POST", headers=BROWSER, form={"name": name, "password": password})


def signed_in(site: ServedSite, name: str) -> dict[str, str]:
    """The headers of a browser whose reader has signed in."""
    done = sign_in(site, name, f"pass:{name}")
    return BROWSER | {"Cookie": done.headers["Set-Cookie"].partition(";")[0]}


def test_a_browser_is_led_to_the_form_and_back(engine: Engine, users: Path) -> None:
    access = Access(users=MonitorUsers(users), secret="s" * 43)
    with ServedSite(engine.client, access, "/sleipnir") as site:
        asked = site.ask("/sleipnir/runs?status=failed", headers=BROWSER)
        form = site.ask(asked.headers["Location"], headers=BROWSER)
        assets = re.findall(r'(?:href|src)="(/sleipnir/assets/[^"]+)"', form.text)
        loaded = {site.ask(each, headers=BROWSER).status for each in assets}
        wrong = sign_in(site, "answerr", "guess")
        done = sign_in(site, "answerr", "pass:answerr", "%2Fruns%3Fstatus%3Dfailed")
        cookie = done.headers["Set-Cookie"]
        page = site.ask("/sleipnir/runs", headers=signed_in(site, "answerr"))
        program = site.ask("/sleipnir/runs", headers={})
        fetched = site.ask("/sleipnir/api/v1/me", headers={"User-Agent": "Mozilla/5.0"})

    assert asked.headers["Location"] == "/sleipnir/sign-in?next=%2Fruns%3Fstatus%3Dfailed"
    assert form.status == 200
    assert loaded == {200}
    assert 'autocomplete="current-password"' in form.text
    assert 'aria-label="Pages"' not in form.text
    assert (wrong.status, "Wrong name or password" in wrong.text) == (401, True)
    assert 'value="answerr"' in wrong.text
    assert (done.status, done.headers["Location"]) == (303, "/sleipnir/runs?status=failed")
    assert all(part in cookie for part in ("HttpOnly", "SameSite=Lax", "Path=/sleipnir;"))
    assert re.search(r'<p class="name">answerr</p>\s*<p>Role: answer</p>', page.text)
    assert 'action="/sleipnir/sign-out"' in page.text
    assert (program.status, program.headers["Www-Authenticate"][:5]) == (401, "Basic")
    assert (fetched.status, "Www-Authenticate" in fetched.headers) == (401, False)


@pytest.fixture
def site(engine: Engine, users: Path) -> ServedSite:
    """The monitor of several users."""
    return ServedSite(engine.client, Access(users=MonitorUsers(users), secret="s" * 43))


def test_who_has_signed_in_acts_under_that_name_by_forms_with_a_token(
    engine: Engine, site: ServedSite
) -> None:
    path = f"/inbox/{engine.finish(ASKS).run_id}/1/ask"
    with site:
        headers = signed_in(site, "answerr")
        token = site.ask(path, headers=headers).text.partition('name="_token" value="')[2][:64]
        forged = site.ask(path, "POST", headers=headers, form={"answer": "7"})
        given = site.ask(path, "POST", headers=headers, form={"answer": "7", "_token": token})
        (told,) = site.ask("/api/v1/answers", headers=headers).json["answers"]
        refused = site.ask("/api/v1/audit", headers=headers).status

    assert site.site.told.find("", "", "") is None
    assert (forged.status, given.status) == (303, 303)
    assert (told["by"], told["answer"], refused) == ("answerr", "7", 403)


def test_a_session_ends_with_signing_out_another_password_or_the_user(
    site: ServedSite, users: Path
) -> None:
    with site:
        headers = signed_in(site, "readr")
        token = site.ask("/runs", headers=headers).text.partition('name="_token" value="')[2][:64]
        out = site.ask("/sign-out", "POST", headers=headers, form={"_token": token})
        page = site.ask("/sign-out", headers=BROWSER)
        before = site.ask("/api/v1/me", headers=headers).json
        users.write_text(new_line("readr", "operate", "another"))
        after = site.ask("/api/v1/me", headers=headers).status
        users.write_text("")
        gone = site.ask("/api/v1/me", headers=headers).status

    assert (out.status, out.headers["Location"]) == (303, "/sign-out")
    assert 'sleipnir_session="";' in out.headers["Set-Cookie"]
    assert "Sign in again" in page.text
    assert before == {"name": "readr", "role": "read", "via": "session"}
    assert (after, gone) == (401, 401)


def test_passwords_are_not_guessed_on_the_form_either(site: ServedSite) -> None:
    with site:
        guessed = [sign_in(site, "readr", "guess").status for _ in range(6)]
        right = sign_in(site, "readr", "pass:readr")
        by_header = site.ask("/runs", headers=basic("readr", "pass:readr")).status
        other = sign_in(site, "answerr", "pass:answerr").status
        # What is remembered of a name is bounded, so endless ones are one.
        endless = [sign_in(site, "x" * 64 + str(n), "guess").status for n in range(6)]

    assert endless == [401] * 5 + [429]
    assert guessed == [401] * 5 + [429]
    assert (right.status, "Too many attempts" in right.text, by_header) == (429, True, 429)
    assert int(right.headers["Retry-After"]) >= 1
    assert other == 303


@pytest.mark.parametrize(
    "elsewhere", ["//evil.example", "/%5Cevil.example", "https://evil.example", "/%09/e"]
)
def test_signing_in_leads_to_pages_of_this_site_only(site: ServedSite, elsewhere: str) -> None:
    with site:
        done = sign_in(site, "readr", "pass:readr", elsewhere)

    assert done.headers["Location"] == "/now"


def test_the_one_user_of_a_password_signs_in_too(engine: Engine) -> None:
    with ServedSite(engine.client, Access(password="me:secret", secret="s")) as site:
        done = sign_in(site, "me", "secret")
        cookie = {"Cookie": done.headers["Set-Cookie"].partition(";")[0]}
        me = site.ask("/api/v1/me", headers=cookie).json

    assert me == {"name": "me", "role": "operate", "via": "session"}


def test_a_cookie_is_valid_for_its_user_and_its_time_only() -> None:
    now = [1_000.0]
    sessions = SignedCookies("secret", {"ana": b"1", "bob": b"2"}.get, lambda: now[0])
    cookie = sessions.issue("ana")
    name, until, signature = cookie.split(".")

    assert sessions.name_in(cookie) == "ana"
    forged = (
        sessions.issue("bob").replace(sessions.issue("bob").partition(".")[0], name),
        f"{name}.{int(until) + 1}.{signature}",
        f"{name}.{until}.",
        f"{name}.x.{signature}",
        "\N{SNOWMAN}..",
        "",
    )
    assert [sessions.name_in(each) for each in forged] == [None] * 6
    assert SignedCookies("other", {"ana": b"1"}.get, lambda: now[0]).name_in(cookie) is None
    now[0] += SESSION_DAYS * 86_400
    assert sessions.name_in(cookie) is None
