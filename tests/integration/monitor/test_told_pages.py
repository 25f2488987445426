"""What a browser's form leads to is a page of its own: loading it again sends nothing again."""

from __future__ import annotations

import pytest

from sleipnir.worker.monitor.access import Access
from sleipnir.worker.monitor.pages import told_pages
from sleipnir.worker.monitor.pages.told_pages import ToldPage, ToldPages
from tests.support.engine import Engine
from tests.support.site import KEY, Answer, ServedSite

ACCESS = Access(key=KEY)
BROWSER = {
    "Cookie": f"sleipnir_monitor={ACCESS.cookie}",
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
}
ASKS = """
start: name
nodes:
  name: {type: input, question: "Under which name?", validation: "len(input) >= 5", next: z}
  z: {type: end}
"""


def send(site: ServedSite, path: str, *form: tuple[str, str]) -> Answer:
    """Send a form as a browser does."""
    visitor = ACCESS.visitor({}, ACCESS.cookie)
    assert visitor is not None
    return site.ask(path, "POST", headers=BROWSER, form=[*form, ("_token", visitor.form_token)])


def test_a_refused_answer_is_on_a_page_with_what_was_typed(
    engine: Engine, site: ServedSite
) -> None:
    path = f"/inbox/{engine.finish(ASKS).run_id}/1/name"

    refused = send(site, path, ("answer", "Ada<"))
    pages = [site.ask(refused.headers["Location"], headers=BROWSER) for _ in range(2)]
    stranger = site.ask(refused.headers["Location"])

    assert (refused.status, refused.text) == (303, "")
    assert refused.headers["Location"].startswith(f"{path}?told=")
    assert [(page.status, "Ada&lt;</textarea>" in page.text) for page in pages] == [(422, True)] * 2
    assert (stranger.status, "Ada" in stranger.text) == (200, False)
    assert len(site.ask("/api/v1/audit").json["acts"]) == 1
    assert send(site, pages[0].headers.get("Location", path), ("answer", "Ada L"))[0] == 303


def test_confirmations_and_refusals_of_forms_are_pages_too(
    engine: Engine, site: ServedSite
) -> None:
    run_id = engine.finish(ASKS).run_id
    question = ("question", f"{run_id}/1/name")

    asked = send(site, "/inbox?node=name", question, ("answer", "Ada L"))
    page = site.ask(asked.headers["Location"], headers=BROWSER)
    plain = send(site, "/inbox", question, ("answer", "Ada L"))
    done = send(site, "/inbox?node=name", question, ("answer", "Ada L"), ("confirmed", "1"))
    told = [site.ask(done.headers["Location"], headers=BROWSER).text for _ in range(2)]
    late = send(site, f"/runs/{run_id}/retry")
    gone = site.ask("/bulk?told=guessed", headers=BROWSER)

    assert "Answer 1 question" in page.text
    assert 'action="?node=name"' in page.text
    assert ["1 answered with <b>Ada L</b>" in " ".join(text.split()) for text in told] == [True] * 2
    assert (
        'method="post" action="/inbox"' in site.ask(plain.headers["Location"], headers=BROWSER).text
    )
    assert site.ask(late.headers["Location"], headers=BROWSER).status == 409
    assert (gone.status, "no longer stored" in gone.text) == (410, True)
    assert len(site.ask("/api/v1/answers").json["answers"]) == 1


def test_the_newest_pages_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_pages, "_MOST_BYTES", 10)
    monkeypatch.setattr(told_pages, "_MOST_PAGES", 3)
    pages = ToldPages()

    def kept(*sizes: int) -> list[bool]:
        ids = [pages.keep(ToldPage("ana", "/inbox", 200, b"x" * size)) for size in sizes]
        return [pages.find(each, "ana", "/inbox") is not None for each in ids]

    assert kept(1, 1, 1, 1) == [False, True, True, True]
    assert kept(6, 5) == [False, True]
    assert kept(11) == [False]
