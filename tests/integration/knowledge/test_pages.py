"""Knowledge bases of web pages: what is read of them, how often, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.graphs.files import MIB
from sleipnir.graphs.functions.lib.sleipnir.web import FetchError, Request, Response, fetch
from sleipnir.graphs.knowledge.sources import SourceError
from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.knowledge.reading import pages
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.reading.loading import load_local
from sleipnir.worker.knowledge.reading.pages import text_of_page
from sleipnir.worker.knowledge.reading.reach import reach_here
from tests.support.engine import Engine
from tests.support.web_server import Page, WebServer, redirect

PAGES = {
    "/cats": Page("<nav>Menu</nav><h2>Cats</h2><p>Cats <b>sleep</b>.</p><script>x</script>"),
    "/notes": Page("Dogs bark.", "text/plain"),
    "/moved": redirect("/cats"),
    "/photo": Page(b"\x89PNG", "image/png"),
    "/paper": Page(b"%PDF-1.7", "application/pdf"),
    "/table": Page(b"PK", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    "/gone": Page("no", status=404),
    "/large": Page(b"x" * (12 * MIB), "text/plain"),
    "/too-large": Page(b"x" * (32 * MIB + 1), "text/plain"),
}


@pytest.fixture
def site() -> Iterator[WebServer]:
    with WebServer(PAGES) as server:
        yield server


def graph(*urls: str) -> str:
    return f"""
    start: look_up
    nodes:
      look_up:
        type: rag
        documents: [{", ".join(urls)}]
        embedding_model: none
        state_updates: {{context: "{{{{output.context}}}}"}}
        next: z
      z: {{type: end, output: "{{{{context}}}}"}}
    """


def test_pages_become_text_and_are_fetched_once(
    engine: Engine, site: WebServer, tmp_path: Path
) -> None:
    engine.configure(allow_private_addresses=True)
    urls = (site.url("/cats"), site.url("/notes"))

    run = engine.finish(graph(*urls), prompt="cats")

    assert run.status == "succeeded", run.failure
    context = engine.state(run.run_id)["context"]
    assert context.startswith(f"[Source: {urls[0]}]\n")
    assert "## Cats" in context
    assert "Cats **sleep**." in context
    assert "Menu" not in context
    fetched = len(site.visits)
    engine.configure(allow_private_addresses=True)  # another worker, the same agent
    run = engine.finish(graph(*urls), prompt="dogs")
    assert engine.state(run.run_id)["context"].endswith("Dogs bark.")
    assert len(site.visits) == fetched == 2


def test_a_page_may_be_larger_than_tools_may_fetch(site: WebServer) -> None:
    page = fetch(Request(site.url("/large")), allow_private=True, max_bytes=32 * MIB)

    assert len(page.body) == 12 * MIB
    with pytest.raises(FetchError, match="more than 10 MiB"):
        fetch(Request(site.url("/large")), allow_private=True)


@pytest.mark.parametrize(
    ("kind", "path", "ext"),
    [
        ("text/plain", "/a.py", "txt"),
        ("text/javascript", "/a", "js"),
        ("text/markdown", "/a", "md"),
        ("text/x-python", "/a", "py"),
        ("application/json", "/a.txt", "json"),
        ("application/octet-stream", "/a.rst?raw=1", "rst"),
        ("", "/a.RST", "rst"),
        ("", "/", "txt"),
    ],
)
def test_the_type_of_a_page_says_where_it_is_cut(kind: str, path: str, ext: str) -> None:
    response = Response(f"https://x{path}", 200, kind, "utf-8", b"text")

    page = text_of_page("https://x", response, reach_here(Settings()))

    assert page == SourceText("https://x", ext, "text")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("application/rtf", "rtf"),
        ("application/vnd.oasis.opendocument.text", "odt"),
        ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
        ("application/vnd.oasis.opendocument.presentation", "odp"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
        ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ("application/pdf", "pdf"),
    ],
)
def test_a_page_of_another_format_is_saved_for_its_loader(kind: str, name: str) -> None:
    response = Response("https://x/a", 200, kind, "", b"text")
    reach = reach_here(Settings(document_loaders={name: "sh -c 'echo $0; cat $0' $1"}))

    page = text_of_page("https://x/a", response, reach)

    saved, text = page.text.splitlines()
    assert (page.ext, text) == ("txt", "text")
    assert saved.endswith(f".{name}")


def test_a_page_that_does_not_end_is_given_up(
    site: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_TIME_S", 0.3)
    site.pages["/endless"] = Page(b"x", drips=True)

    with pytest.raises(SourceError, match=r"0\.3 s"):
        pages.fetch_page(site.url("/endless"), reach_here(Settings(allow_private_addresses=True)))


@pytest.mark.parametrize("path", ["/cats", "/moved"])
def test_a_private_address_is_refused(engine: Engine, site: WebServer, path: str) -> None:
    run = engine.finish(graph(site.url(path)), prompt="cats")

    message = engine.failure(run.run_id).message
    assert "127.0.0.1 is not a public address" in message
    assert site.visits == []


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/photo", "it is image/png, not text"),
        ("/paper", "it cannot be read as pdf"),
        ("/table", "it is xlsx: configure a loader for it, document_loaders.xlsx"),
        ("/gone", "HTTP status 404"),
        ("/too-large", "more than 32 MiB"),
        ("/nothing/**", "no page could be read"),
    ],
)
def test_a_page_that_gives_no_text_fails_the_run_by_name(
    engine: Engine, site: WebServer, path: str, words: str
) -> None:
    engine.configure(allow_private_addresses=True)

    run = engine.finish(graph(site.url(path)), prompt="cats")

    message = engine.failure(run.run_id).message
    assert site.url(path) in message
    assert words in message


def test_a_text_is_measured_after_it_was_converted() -> None:
    reach = reach_here(Settings(rag_document_max_bytes=MIB))
    latin = Response("https://x/a", 200, "text/plain", "latin1", b"\xe9" * (MIB - 1))
    deep = b"<blockquote>" * 12 + b"<pre>" + b"x\n" * 100_000
    page = Response("https://x/b", 200, "text/html", "utf-8", deep)

    for response in (latin, page):
        with pytest.raises(SourceError, match="its text is "):
            text_of_page("https://x", response, reach)


def test_a_page_that_no_library_can_take_is_its_own_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object, **__: object) -> str:
        raise AssertionError("unexpected")

    monkeypatch.setattr(pages, "from_html", fails)
    response = Response("https://x/a", 200, "text/html", "utf-8", b"<p>x")

    with pytest.raises(SourceError, match="it cannot be converted: AssertionError: unexpected"):
        text_of_page("https://x", response, reach_here(Settings()))


def test_a_page_in_a_file_is_read_without_its_scripts(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<h1>Cats</h1><script>let dogs</script><p>sleep &amp; eat")

    loaded = load_local(tmp_path, ["a.html"], reach_here(Settings()), lambda: False)

    assert [(d.ext, d.text) for d in loaded.documents] == [("md", "# Cats\n\nsleep & eat")]


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\xff", b"caf\xe9", b"a\0b"])
def test_a_file_that_is_no_text_says_how_to_leave_it_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.png").write_bytes(content)

    loaded = load_local(tmp_path, ["x.png"], reach_here(Settings()), lambda: False)

    [(source, why)] = loaded.failures
    assert source == "./x.png"
    assert "leave it out by a pattern in `documents`, as `docs/**/*.md`" in why
