"""A link answers one question, once, for somebody without an account; looking never does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from sleipnir.scheduler.client.inbound.answer_links import (
    links_to,
    make_answer_link,
    revoke_answer_link,
)
from sleipnir.scheduler.errors import ActionRefused, SettingInvalid, SubmissionRefused
from sleipnir.scheduler.runs.events import QuestionAnswered
from sleipnir.scheduler.runs.inbound.answer_links import MOST_LINKS
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.worker.monitor.metrics import EngineMetrics
from tests.support.engine import Engine
from tests.support.site import KEY, Answer, ServedSite

ANN = "ann@example.com"
GRAPH = """
start: review
nodes:
  review:
    type: approval
    question: "Publish {{initial_prompt}}?"
    options: ["yes", "no"]
    routes: {"yes": z, "no": z}
    on_other: z
    state_updates: {said: "{{choice}}"}
  z: {type: end, output: "{{said}}"}
"""
NAME = """
start: name
nodes:
  name: {type: input, question: "Which name?", validation: "len(input) >= 5", next: z}
  z: {type: end, output: fine}
"""
BROWSER = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(autouse=True)
def public_url(engine: Engine) -> None:
    engine.configure(monitor_public_url="https://runs.example/")


@pytest.fixture
def site(engine: Engine, public_url: None) -> Iterator[ServedSite]:
    """Made after the setting."""
    with ServedSite(engine.client) as served:
        yield served


def link_to(engine: Engine, run_id: str, recipient: str = ANN) -> str:
    """Return the path of a new link to a run's question."""
    question = engine.client.open_question(run_id)
    url = make_answer_link(engine.client, question, recipient).url
    assert url.startswith("https://runs.example/a/")
    return urlsplit(url).path


def post(site: ServedSite, path: str, text: str, **more: str) -> Answer:
    return site.ask(path, "POST", headers=BROWSER, form={"answer": text, **more})


def test_looking_answers_nothing_and_of_many_answers_one_counts(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH, prompt="<b>this</b>")
    path = link_to(engine, run.run_id)

    def look(number: int) -> int:
        return site.ask(path, "HEAD" if number % 10 == 0 else "GET", headers=BROWSER).status

    with ThreadPoolExecutor(8) as threads:
        seen = set(threads.map(look, range(1_000)))
    form = site.ask(path, headers=BROWSER).text
    still_open = engine.client.queries.questions(run.run_id)
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: post(site, path, ("yes", "no")[n % 2]), range(50)))
    engine.drive()

    assert seen == {200}
    assert len(still_open) == 1
    assert "Publish &lt;b&gt;this" in form
    assert sorted({each.status for each in answers}) == [303, 409]
    (counted,) = (number for number, each in enumerate(answers) if each.status == 303)
    assert engine.run(run.run_id).status == Status.SUCCEEDED
    assert engine.run(run.run_id).output == ("yes", "no")[counted % 2]
    (told,) = engine.events(run.run_id, QuestionAnswered)
    assert (told.by, told.via) == (ANN, "link")
    after = site.ask(path, headers=BROWSER)
    assert after.status == 200
    assert f" by <b>{ANN}" in re.sub("<bdi[^>]*>|</bdi>", "", after.text)
    accepted = [
        entry.act
        for entry in AuditLog(engine.store.client).newest(100).entries
        if entry.act.outcome == "done"
    ]
    assert [(act.who, act.via, act.act, act.detail) for act in accepted] == [
        (ANN, "link", "answer", ("yes", "no")[counted % 2])
    ]


def test_the_page_shows_its_question_and_nothing_else_of_the_engine(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH, prompt="this")
    path = link_to(engine, run.run_id)

    stranger = site.ask(path, headers=BROWSER)
    signed_in = site.ask(path, headers={**BROWSER, "Cookie": site.cookie})
    of_cookie = site.ask(
        path, "POST", headers={**BROWSER, "Cookie": site.cookie}, form={"answer": "yes"}
    )

    for page in (stranger, signed_in):
        assert page.status == 200
        assert run.run_id not in page.text
        assert 'href="/runs' not in page.text
    policy = stranger.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy
    assert (of_cookie.status, of_cookie.headers["Location"]) == (303, path)
    (told,) = engine.events(run.run_id, QuestionAnswered)
    assert told.by == ANN


def test_wrong_tokens_count_as_wrong_passwords_and_the_right_one_still_opens(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    path = link_to(engine, run.run_id)
    wrong = f"/a/{'x' * 43}"

    statuses = [site.ask(wrong, headers=BROWSER).status for _ in range(7)]
    posted = post(site, wrong, "yes").status

    assert statuses == [404] * 5 + [429] * 2
    assert posted == 429
    assert site.ask(path, headers=BROWSER).status == 200
    assert len(engine.client.queries.questions(run.run_id)) == 1


def test_other_sites_cannot_answer_with_a_link(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH)
    headers = {**BROWSER, "Sec-Fetch-Site": "cross-site"}

    path = link_to(engine, run.run_id)

    assert site.ask(path, "POST", headers=headers, form={"answer": "yes"}).status == 403
    assert len(engine.client.queries.questions(run.run_id)) == 1


def test_answers_are_checked_as_on_other_pages(engine: Engine, site: ServedSite) -> None:
    named, approved = engine.finish(NAME), engine.finish(GRAPH)

    short = post(site, link_to(engine, named.run_id), "abc")
    path = link_to(engine, approved.run_id)
    unsure = post(site, path, "perhaps")
    sure = post(site, path, "perhaps", other="1")
    engine.drive()

    assert (short.status, "abc</textarea>" in short.text) == (422, True)
    assert (unsure.status, "is none of the options" in unsure.text) == (200, True)
    assert sure.status == 303
    assert engine.run(approved.run_id).output == "perhaps"
    assert len(engine.client.queries.questions(named.run_id)) == 1


def test_a_link_is_for_one_question_even_if_its_run_asks_again(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    path = link_to(engine, run.run_id)
    engine.client.cancel(run.run_id)
    cancelled = post(site, path, "yes")
    engine.clock.move(1)
    engine.client.retry(run.run_id)
    engine.drive()

    again = post(site, path, "yes")

    assert (cancelled.status, again.status) == (409, 409)
    assert "not open any more" in again.text
    assert len(engine.client.queries.questions(run.run_id)) == 1


def test_a_link_ends_with_its_question_or_after_a_week(engine: Engine) -> None:
    short = engine.finish(f"settings: {{timeout: 600}}\n{GRAPH}")
    long = engine.finish(f"settings: {{timeout: 9000000}}\n{GRAPH}")
    ends = [
        make_answer_link(engine.client, engine.client.open_question(run.run_id), ANN).expires_at
        for run in (short, long)
    ]

    assert ends == [short.deadline, engine.clock.ms + 7 * 86_400_000]
    keys: Any = engine.redis
    assert all(keys.pttl(key) > 0 for key in keys.scan_iter("sleipnir:answer-link*"))


def test_a_new_link_for_the_same_person_replaces_the_earlier_one(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    first, other = link_to(engine, run.run_id), link_to(engine, run.run_id, "bob")
    second = link_to(engine, run.run_id)

    assert [site.ask(path, headers=BROWSER).status for path in (first, second, other)] == [
        404,
        200,
        200,
    ]


def test_a_revoked_link_opens_nothing_and_is_not_made_again(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    question, token = engine.client.open_question(run.run_id), "t" * 43
    path = urlsplit(make_answer_link(engine.client, question, ANN, token).url).path
    other = link_to(engine, run.run_id, "bob")

    revoke_answer_link(engine.client, question, ANN)

    assert [site.ask(each, headers=BROWSER).status for each in (path, other)] == [404, 200]
    assert [link.recipient for link in links_to(engine.client, question)] == ["bob"]
    with pytest.raises(ActionRefused, match="has no link"):
        revoke_answer_link(engine.client, question, ANN)
    # As the delivery of an event does that is repeated.
    with pytest.raises(ActionRefused, match="was revoked"):
        make_answer_link(engine.client, question, ANN, token)
    assert site.ask(link_to(engine, run.run_id), headers=BROWSER).status == 200


def test_links_are_listed_for_the_question_that_is_asked_now(engine: Engine) -> None:
    run = engine.finish(GRAPH)
    link_to(engine, run.run_id)
    engine.client.cancel(run.run_id)
    engine.clock.move(1)
    engine.client.retry(run.run_id)
    engine.drive()
    link_to(engine, run.run_id, "bob")

    listed = links_to(engine.client, engine.client.open_question(run.run_id))

    assert [link.recipient for link in listed] == ["bob"]
    assert listed[0].expires_at > engine.clock.ms


def test_of_links_that_are_made_at_once_one_is_good(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH)

    with ThreadPoolExecutor(8) as threads:
        paths = list(threads.map(lambda _: link_to(engine, run.run_id), range(24)))

    statuses = [site.ask(path, headers=BROWSER).status for path in paths]
    assert statuses.count(200) == 1


def test_a_question_has_so_many_links(engine: Engine) -> None:
    run = engine.finish(GRAPH)
    for number in range(MOST_LINKS):
        link_to(engine, run.run_id, f"person {number}")

    with pytest.raises(ActionRefused, match="has 100 links already"):
        link_to(engine, run.run_id, "one more")
    link_to(engine, run.run_id, "person 7")


def test_links_that_are_made_at_once_are_no_more_than_a_question_may_have(engine: Engine) -> None:
    run = engine.finish(GRAPH)
    question = engine.client.open_question(run.run_id)
    for number in range(MOST_LINKS - 10):
        link_to(engine, run.run_id, f"person {number}")

    def add(number: int) -> bool:
        try:
            make_answer_link(engine.client, question, f"another {number}")
        except ActionRefused:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(add, range(40)))

    assert made.count(True) == 10
    assert len(links_to(engine.client, question)) == MOST_LINKS


def test_links_can_be_turned_off_for_a_question_or_for_all(engine: Engine) -> None:
    closed = engine.finish(
        GRAPH.replace("type: approval", "type: approval\n    answer_link: false")
    )
    open_ = engine.finish(GRAPH)
    path = link_to(engine, open_.run_id)

    with pytest.raises(ActionRefused, match="its `answer_link` is false"):
        link_to(engine, closed.run_id)
    for recipient in ("", "x" * 129, "two\nlines"):
        with pytest.raises(SubmissionRefused, match="one line of 1 to 128 characters"):
            link_to(engine, open_.run_id, recipient)
    engine.configure(answer_links=False)
    with pytest.raises(ActionRefused, match="answer links are turned off"):
        link_to(engine, open_.run_id)
    with ServedSite(engine.client) as site:
        assert post(site, path, "yes").status == 404
    engine.configure(answer_links=True, monitor_public_url=None)
    with pytest.raises(SettingInvalid, match="monitor_public_url is not set"):
        link_to(engine, open_.run_id)


def test_the_api_makes_links_and_says_for_whom_in_the_audit_log(
    engine: Engine, site: ServedSite
) -> None:
    run = engine.finish(GRAPH)
    address = f"/api/v1/questions/{run.run_id}/1/review/links"
    site.ask(address, "POST", body='{"recipient": "bob & co"}')
    listed = site.ask(address).json["links"]
    revoked = site.ask(f"{address}?recipient=bob+%26+co", "DELETE")
    again = site.ask(f"{address}?recipient=bob+%26+co", "DELETE")

    made = site.ask(address, "POST", body=f'{{"recipient": "{ANN}"}}')
    path = urlsplit(made.json["answer_url"]).path

    assert made.status == 201
    assert post(site, path, "yes").status == 303
    acts = [entry.act for entry in AuditLog(engine.store.client).newest(10).entries]
    assert [(act.act, act.who, act.via) for act in acts] == [
        ("answer", ANN, "link"),
        ("answer-link", "operator", "api"),
        *[("answer-link revoke", "operator", "api")] * 2,
        ("answer-link", "operator", "api"),
    ]
    assert [act.detail for act in acts[1:]] == [f"for {ANN}", *["for bob & co"] * 3]
    assert [each["recipient"] for each in listed] == ["bob & co"]
    assert (revoked.status, again.status) == (200, 409)
    assert site.ask(address, "POST", body=f'{{"recipient": "{ANN}"}}').status == 409


def test_a_page_of_a_question_makes_and_revokes_links(engine: Engine, site: ServedSite) -> None:
    run = engine.finish(GRAPH)
    address = f"/inbox/{run.run_id}/1/review"
    token = site.ask(address).text.partition('name="_token" value="')[2].partition('"')[0]
    headers = {"Authorization": f"Bearer {KEY}", "Origin": f"http://127.0.0.1:{site.port}"}

    def act(**fields: str) -> Answer:
        return site.ask(address, "POST", form={"_token": token, **fields}, headers=headers)

    made, refused = act(link_for=f" {ANN}"), act(link_for="x" * 129)
    (path,) = re.findall(r"https://runs\.example(/a/[\w-]{43})<", made.text)
    opened, looked = site.ask(path, headers=BROWSER), site.ask(address)
    revoked, closed = act(revoke=ANN), site.ask(path, headers=BROWSER)

    assert (opened.status, closed.status) == (200, 404)
    assert (refused.status, "one line of 1 to 128" in refused.text) == (422, True)
    assert f'name="revoke" value="{ANN}"' in looked.text
    assert "/a/" not in looked.text
    links = revoked.text.partition("Answer links")[2].partition("A link for")[0]
    assert (revoked.status, ANN in links) == (200, False)
    assert len(engine.client.queries.questions(run.run_id)) == 1


def test_answers_by_links_and_wrong_ones_are_counted(engine: Engine, site: ServedSite) -> None:
    path = link_to(engine, engine.finish(GRAPH).run_id)
    for _ in range(2):
        site.ask(f"/a/{'x' * 43}", headers=BROWSER)
        post(site, path, "yes")

    registry = CollectorRegistry()
    registry.register(EngineMetrics(engine.store, engine.store.settings))

    name = "sleipnir_answer_links_total"
    found = [registry.get_sample_value(name, {"outcome": each}) for each in ("answered", "wrong")]
    assert found == [1, 2]
    engine.redis.delete("sleipnir:inbound:figures")
