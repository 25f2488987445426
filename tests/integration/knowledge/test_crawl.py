"""Sites read page by page: what is followed, what is left alone, and how politely."""

from __future__ import annotations

import json
from collections.abc import Iterator
from time import monotonic

import pytest

from sleipnir.graphs.knowledge.sources import SourceError
from sleipnir.records import dataclass
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.knowledge.crawl import crawling, github
from sleipnir.worker.knowledge.crawl.crawling import crawl
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.reading.reach import reach_here
from tests.support.engine import Engine
from tests.support.web_server import Page, WebServer, redirect


def links(*targets: str, text: str = "Text.") -> Page:
    return Page(f"<p>{text}</p>" + "".join(f'<a href="{target}">x</a>' for target in targets))


SITE = {
    "/docs/": links("a", "b?q=1", "/other", "#here", "deep/", "https://elsewhere.example/docs/"),
    "/docs/a": links("/docs/index.html", "b?q=1#part", "gone", "moved", "away", "mail", "a#top"),
    "/docs/b": links(text="Bees."),
    "/docs/deep/": links("c", "../../up", "mailto:me@example.com", "javascript:x", "http://["),
    "/docs/deep/c": Page("Plain.", "text/plain"),
    "/docs/moved": redirect("/docs/target"),
    "/docs/target": links(text="Moved."),
    "/docs/away": redirect("/other"),
    "/docs/mail": Page("<nav>only chrome</nav>"),
    "/other": links(text="Not below."),
}


@pytest.fixture
def site() -> Iterator[WebServer]:
    with WebServer(SITE) as server:
        yield server


@dataclass(frozen=True, slots=True)
class Crawled:
    """What a crawl has given."""

    documents: list[SourceText]
    warnings: list[str]


def read(site: WebServer, path: str = "/docs/", pages: int = 100, **more: Page) -> Crawled:
    site.pages |= {f"/{name.replace('_', '.')}": page for name, page in more.items()}
    settings = Settings(allow_private_addresses=True, rag_crawl_max_pages=pages)
    warnings: list[str] = []
    documents = list(crawl(site.url(path), reach_here(settings), lambda: False, warnings))
    return Crawled(documents, warnings)


def paths(site: WebServer, crawled: Crawled) -> list[str]:
    return [document.source.removeprefix(site.url()) for document in crawled.documents]


def visited(site: WebServer) -> list[str]:
    return [visit.target for visit in site.visits]


def test_the_pages_below_a_url_are_read_breadth_first_and_once(site: WebServer) -> None:
    crawled = read(site, "/docs/start?x=1#y")

    assert paths(site, crawled) == [
        *("/docs/", "/docs/a", "/docs/b?q=1", "/docs/deep/", "/docs/target", "/docs/deep/c")
    ]
    assert crawled.documents[2].text.startswith("Bees.")
    assert [document.ext for document in crawled.documents] == ["md"] * 5 + ["txt"]
    warnings = "\n".join(crawled.warnings)
    assert "/docs/gone: HTTP status 404" in warnings
    assert f"/docs/away: it leads to {site.url('/other')}" in warnings
    asked = visited(site)
    assert len(asked) == len(set(asked))


def test_robots_txt_is_asked_once_and_obeyed(site: WebServer) -> None:
    rules = "User-agent: *\nDisallow: /\n\nUser-agent: sleipnir\nDisallow: /docs/*?q=\n"

    crawled = read(site, robots_txt=Page(rules, "text/plain"))

    assert "/docs/b?q=1" not in visited(site)
    assert "/docs/a" in paths(site, crawled)
    assert visited(site).count("/robots.txt") == 1
    assert all(visit.headers["user-agent"] == "sleipnir" for visit in site.visits)


@pytest.mark.parametrize(
    ("robots", "words"),
    [
        (Page("User-agent: *\nDisallow: /docs/", "text/plain"), "does not allow it"),
        (Page("oh", status=503), "HTTP status 503"),
        (Page("User-agent: *", drips=True), "0.3 s"),
    ],
)
def test_a_site_that_does_not_want_to_be_read_is_not(
    site: WebServer, monkeypatch: pytest.MonkeyPatch, robots: Page, words: str
) -> None:
    monkeypatch.setattr(crawling, "PAGE_TIME_S", 0.3)
    with pytest.raises(SourceError, match=words):
        read(site, robots_txt=robots)

    assert visited(site) == ["/robots.txt"]


def test_a_crawl_stops_at_its_cap_and_says_so(site: WebServer) -> None:
    crawled = read(site, pages=2)

    assert paths(site, crawled) == ["/docs/", "/docs/a"]
    assert "2 pages are read, and there are more" in crawled.warnings[-1]


def test_what_a_site_says_beyond_all_measure_is_ignored(
    site: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawling, "_MOST_LINKS", 2)
    site.pages["/docs/"] = links("a", "b", "deep/")
    site.pages["/docs/a"] = links()
    rules = "User-agent: *\nDisallow: /docs/a\n" + "Disallow: /x\n" * 50_000

    crawled = read(site, robots_txt=Page(f"{rules}Disallow: /docs/b", "text/plain"))

    assert paths(site, crawled) == ["/docs/", "/docs/b"]


def test_pages_are_handed_on_as_they_are_found(site: WebServer) -> None:
    settings = Settings(allow_private_addresses=True)
    found = crawl(site.url("/docs/"), reach_here(settings), lambda: False, [])

    assert next(found).source == site.url("/docs/")

    assert visited(site) == ["/robots.txt", "/docs/"]
    found.close()


@pytest.fixture
def hub(site: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """The site as GitHub."""
    monkeypatch.setattr(github, "SITE", site.url("/"))
    monkeypatch.setattr(github, "API", site.url("/api/"))
    monkeypatch.setattr(github, "RAW", site.url("/raw/"))
    return site


def test_of_a_wiki_the_bodies_of_its_pages_are_read(hub: WebServer) -> None:
    body = (
        '<h1>Chrome</h1><div id="wiki-body"><div>A &amp; B</div><a href="/o/r/wiki/Two">2</a>'
        '<a href="/o/r/wiki/Two/_history">h</a><a href="/o/r/issues">i</a></div><p>More chrome</p>'
    )
    hub.pages |= {"/o/r/wiki": Page(body), "/o/r/wiki/Two": links(text="Whole.")}

    crawled = read(hub, "/o/r/wiki/")

    assert paths(hub, crawled) == ["/o/r/wiki", "/o/r/wiki/Two"]
    first, second = (document.text for document in crawled.documents)
    assert first.startswith("A & B")
    assert "chrome" not in first.lower()
    assert second.startswith("Whole.")
    assert crawled.warnings == []


def test_of_a_tree_the_markdown_files_are_read(hub: WebServer) -> None:
    names = ("docs/a b.md", "docs/deep/B.MD", "docs/Changelog.md", "docs/x.py", "other/c.md")
    files = [{"path": name, "type": "blob"} for name in names]
    tree = json.dumps({"tree": [*files, {"path": "docs", "type": "tree"}]})
    hub.pages |= {
        "/api/repos/o/r/git/trees/main": Page(tree, "application/json"),
        "/raw/o/r/main/docs/a%20b.md": Page("# A", "text/plain"),
        "/raw/o/r/main/docs/deep/B.MD": Page("[c](c.md)", "text/plain"),
    }

    crawled = read(hub, "/o/r/tree/main/docs/")

    assert [(each.ext, each.text) for each in crawled.documents] == [
        *(("md", "# A"), ("md", "[c](c.md)"))
    ]
    assert paths(hub, crawled) == ["/raw/o/r/main/docs/a%20b.md", "/raw/o/r/main/docs/deep/B.MD"]
    assert crawled.warnings == []
    hub.pages["/api/repos/o/r/git/trees/main"] = Page(
        json.dumps({"tree": files, "truncated": True}), "application/json"
    )
    [warning] = read(hub, "/o/r/tree/main/docs/").warnings
    assert "GitHub lists only a part" in warning
    assert "clone it" in warning
    with pytest.raises(SourceError, match="HTTP status 404"):
        read(hub, "/o/gone/tree/main/")


def test_a_site_without_any_text_is_an_error_with_reasons(site: WebServer) -> None:
    with pytest.raises(SourceError, match=r"no page could be read; .*HTTP status 404"):
        read(site, "/nothing/here")


def test_a_host_is_asked_at_most_every_tenth_of_a_second(site: WebServer) -> None:
    began_at = monotonic()
    read(site)

    # The first one waits for nothing, and two redirects are followed at once.
    assert monotonic() - began_at >= 0.1 * (len(visited(site)) - 3)


def test_a_host_is_asked_as_seldom_as_it_wants_within_reason(
    site: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawling, "_BETWEEN_AT_MOST_S", 0.5)
    rules = Page("User-agent: *\nCrawl-delay: 3600", "text/plain")
    began_at = monotonic()

    read(site, pages=4, robots_txt=rules)

    # The first page was on its way before the site had said so.
    assert monotonic() - began_at >= 0.5 * 3


def test_private_addresses_are_not_read(site: WebServer) -> None:
    with pytest.raises(SourceError, match=r"not public|private"):
        list(crawl(site.url("/docs/"), reach_here(Settings()), lambda: False, []))

    assert visited(site) == []


def test_a_knowledge_base_is_built_of_a_site_and_says_what_was_missing(
    engine: Engine, site: WebServer
) -> None:
    engine.configure(allow_private_addresses=True)
    graph = f"""
    start: look_up
    nodes:
      look_up:
        type: rag
        documents: ["{site.url("/docs/**")}"]
        embedding_model: none
        state_updates: {{sources: "{{{{output.sources}}}}"}}
        next: z
      z: {{type: end}}
    """
    run = engine.finish(graph, prompt="bees")

    assert run.status == "succeeded", run.failure
    assert engine.state(run.run_id)["sources"] == [site.url("/docs/b?q=1")]
    [step] = [c for c in engine.queries.history(run.run_id) if "look_up" in c.nodes]
    assert any("/docs/gone" in text for text in step.nodes["look_up"]["warnings"])
