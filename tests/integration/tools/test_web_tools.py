"""The shipped tools for the web, called as processes, against servers of the test."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sleipnir.graphs.functions.lib.sleipnir import web as helpers
from tests.support.certificates import certificate
from tests.support.global_tools import GlobalTools
from tests.support.model_server import ModelServer, fails, says
from tests.support.web_server import Page, WebServer, redirect

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GlobalTools:
    """The tools on a machine without proxies."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return GlobalTools(tmp_path)


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer({}) as server:
        yield server


def fetch(tools: GlobalTools, url: str) -> str:
    return tools.text("fetch_url_via_curl", {"url": url})


def fetch_fails(tools: GlobalTools, url: str) -> str:
    return tools.failure("fetch_url_via_curl", {"url": url})


# ---- fetching


def test_a_page_is_fetched_as_markdown(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    web.pages["/a/page"] = Page('<h1>Title</h1><p>See <a href="b">b</a> <img src="i.png"></p>')

    text = fetch(tools, web.url("/a/page"))

    assert text == f"# Title\n\nSee [b]({web.url('/a/b')})"


def test_text_that_is_no_html_stays_as_it_is(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    web.pages["/text"] = Page("<b>not html</b>", "text/plain")
    web.pages["/json"] = Page('{"a": 1}', "application/json")

    assert fetch(tools, web.url("/text")) == "<b>not html</b>"
    assert tools.call("fetch_url_via_curl", {"url": web.url("/json")}) == {"a": 1}


def test_redirects_are_followed_and_packed_pages_unpacked(
    tools: GlobalTools, web: WebServer
) -> None:
    tools.allow_private_addresses = True
    web.pages["/first"] = redirect("second?x=1 2")
    web.pages["/second"] = Page(gzip.compress(b"hi"), headers={"Content-Encoding": "gzip"})

    assert fetch(tools, web.url("/first")) == "hi"
    assert web.visits[-1].target == "/second?x=1%202"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page("gone", status=410), "HTTP status 410: gone"),
        (Page(b"\x89PNG", "image/png"), "is not text: image/png, 4 bytes"),
        (Page(b"x" * (10 * 1024 * 1024 + 1)), "more than 10 MiB"),
        (
            Page(gzip.compress(b"x" * 11_000_000), headers={"Content-Encoding": "gzip"}),
            "more than 10 MiB",
        ),
        (redirect("/page"), "more than 5 redirects"),
        (redirect("file:///etc/passwd"), "only http:// and https:// URLs"),
    ],
    ids=["status", "image", "large", "bomb", "loop", "file"],
)
def test_what_is_no_readable_page_fails_with_a_reason(
    tools: GlobalTools, web: WebServer, page: Page, reason: str
) -> None:
    tools.allow_private_addresses = True
    web.pages["/page"] = page

    assert reason in fetch_fails(tools, web.url("/page"))


def test_a_page_that_never_ends_is_cut_off(web: WebServer) -> None:
    request = helpers.get(web.url("/page"))
    web.pages["/page"] = Page("begins", drips=True)

    with pytest.raises(helpers.FetchError, match=r"no complete answer within 0\.3 s"):
        helpers.fetch(request, timeout_s=0.3, allow_private=True)


def test_a_host_without_an_answer_fails(tools: GlobalTools) -> None:
    tools.allow_private_addresses = True

    assert "Connection refused" in fetch_fails(tools, "http://127.0.0.1:1/")
    assert "only http:// and https://" in fetch_fails(tools, "example.org")


# ---- addresses that are nobody's business


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "[::1]"),
        *("[::ffff:127.0.0.1]", "10.0.0.1", "192.168.0.1", "169.254.169.254", "0.0.0.0"),
    ],
)
@pytest.mark.parametrize("name", ["fetch_url_via_curl", "fetch_url_via_jina"])
def test_addresses_that_are_not_public_are_refused(
    tools: GlobalTools, web: WebServer, name: str, host: str
) -> None:
    said = tools.failure(name, {"url": web.url("/", host)})

    assert "refused: " in said
    assert "allow_private_addresses" in said
    assert web.visits == []


@pytest.mark.parametrize("place", ["http://169.254.169.254/meta", "http://0x7f.1:8080/", "//[::1]"])
def test_a_public_page_cannot_redirect_to_a_private_address(
    tools: GlobalTools, web: WebServer, place: str
) -> None:
    tools.set({"http_proxy": web.url()})  # where the public address is served
    web.pages["http://8.8.8.8/"] = redirect(place)

    assert "is not a public address" in fetch_fails(tools, "http://8.8.8.8/")
    assert [visit.target for visit in web.visits] == ["http://8.8.8.8/"]


def test_a_proxy_is_used_with_its_password_for_names_it_alone_may_know(
    tools: GlobalTools, web: WebServer
) -> None:
    tools.set({"http_proxy": web.url().replace("//", "//me:se%20cret@"), "no_proxy": "127.0.0.1"})
    web.pages["http://no-such-host.invalid/page"] = Page("hi")

    assert fetch(tools, "http://no-such-host.invalid/page") == "hi"
    assert web.visits[0].headers["proxy-authorization"] == "Basic bWU6c2UgY3JldA=="
    assert web.visits[0].headers["host"] == "no-such-host.invalid"
    assert "not a public address" in fetch_fails(tools, web.url("/"))


def test_pages_are_fetched_over_tls_also_through_a_proxy(
    tools: GlobalTools, web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made))
    with WebServer({"/page": Page("hi")}, made) as secure:
        tools.allow_private_addresses = True
        assert fetch(tools, secure.url("/page")) == "hi"

        web.tunnel_to = ("127.0.0.1", secure.port)
        tools.set({"https_proxy": web.url().replace("//", "//me:word@")})
        assert fetch(tools, secure.url("/page")) == "hi"

    assert [visit.target for visit in web.visits] == [f"127.0.0.1:{secure.port}"]
    assert "proxy-authorization" not in secure.visits[-1].headers


def test_a_server_nobody_vouches_for_is_not_read(tools: GlobalTools, tmp_path: Path) -> None:
    tools.allow_private_addresses = True
    with WebServer({"/": Page("hi")}, certificate(tmp_path)) as secure:
        assert "certificate verify failed" in fetch_fails(tools, secure.url("/"))


# ---- services


def test_arxiv_lists_papers(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"ARXIV_API_URL": web.url("/api"), "ARXIV_MAX_RESULTS": "7"})
    web.pages["/api"] = Page(ARXIV_FEED, "application/atom+xml")

    text = tools.text("search_arxiv", {"query": "ti:light & dark"})

    assert text == (
        "Title: On Light\nAuthors: A. One, B. Two\nPublished: 2020-01-02\n"
        "URL: http://arxiv.org/abs/1\nAbstract: It shines."
    )
    assert "search_query=ti%3Alight+%26+dark&max_results=7&" in web.visits[0].target


def test_arxiv_says_when_it_has_nothing_or_no_feed(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"ARXIV_API_URL": web.url("/api")})
    web.pages["/api"] = Page('<feed xmlns="http://www.w3.org/2005/Atom"/>')
    assert tools.text("search_arxiv", {"query": "x"}) == "arXiv has no paper for x"

    web.pages["/api"] = Page("down for maintenance")
    assert "did not answer with a feed" in tools.failure("search_arxiv", {"query": "x"})


def test_wikipedia_shows_the_introduction_of_the_best_hit(
    tools: GlobalTools, web: WebServer
) -> None:
    tools.allow_private_addresses = True
    tools.set({"WIKIPEDIA_API_URL": web.url("/w/api.php")})
    page = {"title": "Odin", "fullurl": "https://w.org/Odin", "extract": "Odin is a god."}
    web.pages["/w/api.php"] = as_json({"query": {"pages": [page]}})

    text = tools.text("search_wikipedia", {"query": "one-eyed god"})

    assert text == "Odin\nhttps://w.org/Odin\n\nOdin is a god."
    assert "gsrsearch=one-eyed+god" in web.visits[0].target


def test_wikipedia_fails_without_a_hit(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"WIKIPEDIA_API_URL": web.url("/w/api.php")})
    web.pages["/w/api.php"] = as_json({"batchcomplete": True})

    assert tools.failure("search_wikipedia", {"query": "x"}) == "Wikipedia has no article for 'x'"


def test_jina_gets_the_address_of_the_page(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"JINA_READER_URL": web.url(), "JINA_API_KEY": "key"})
    web.pages["/https://example.org/a"] = Page("# A", "text/plain")

    assert tools.text("fetch_url_via_jina", {"url": "https://example.org/a?b=1"}) == "# A"
    assert web.visits[0].target == "/https://example.org/a?b=1"
    assert web.visits[0].headers["authorization"] == "Bearer key"


def test_tavily_answers_with_its_sources(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"TAVILY_API_URL": web.url("/search"), "TAVILY_API_KEY": "key"})
    result = {"title": "T", "url": "https://t.org", "content": "words"}
    web.pages["/search"] = as_json({"answer": "42", "results": [result]})

    assert tools.text("web_search_tavily", {"query": "q"}) == "42\n\n[T](https://t.org)\nwords"
    assert json.loads(web.visits[0].body)["query"] == "q"


def test_perplexity_answers_with_its_sources(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"PERPLEXITY_API_URL": web.url("/chat"), "PERPLEXITY_API_KEY": "key"})
    choice = {"message": {"content": "It is so [1]."}}
    web.pages["/chat"] = as_json({"choices": [choice], "citations": ["https://p.org"]})

    text = tools.text("web_search_perplexity", {"query": "q"})

    assert text == "It is so [1].\n\nSources:\n[1] https://p.org"
    assert web.visits[0].headers["authorization"] == "Bearer key"


def test_a_key_is_not_sent_where_a_service_redirects_to(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"TAVILY_API_URL": web.url("/search"), "TAVILY_API_KEY": "key"})
    web.pages["/search"] = redirect(web.url("/other", host="localhost"))

    assert "it redirects to" in tools.failure("web_search_tavily", {"query": "q"})
    assert len(web.visits) == 1


def test_weather_is_one_line(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"WTTR_URL": web.url()})
    web.pages["/New%20York%2F"] = Page("New York: +9°C\n", "text/plain; charset=utf-8")

    text = tools.text("get_current_weather", {"location": "New York/"})

    assert text == "New York: +9°C"
    assert web.visits[0].target.endswith("?format=4&M=")


def test_wolfram_answers_with_its_pods(tools: GlobalTools, web: WebServer) -> None:
    tools.allow_private_addresses = True
    tools.set({"WOLFRAM_API_URL": web.url("/query"), "WOLFRAM_API_ID": "id"})
    pods = [
        {"title": "Result", "subpods": [{"plaintext": "4"}, {"plaintext": ""}]},
        {"title": "Plot", "subpods": [{"plaintext": ""}]},
    ]
    web.pages["/query"] = as_json({"queryresult": {"success": True, "pods": pods}})

    assert tools.call("search_wolframalpha", {"query": "2+2"}) == {"Result": ["4"]}
    assert "appid=id&input=2%2B2" in web.visits[0].target


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("web_search_tavily", "TAVILY_API_KEY"),
        ("web_search_perplexity", "PERPLEXITY_API_KEY"),
        ("search_wolframalpha", "WOLFRAM_API_ID"),
        ("web_search", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
def test_a_service_without_its_key_names_the_variable(
    tools: GlobalTools, monkeypatch: pytest.MonkeyPatch, name: str, variable: str
) -> None:
    for key in variable.split(" or "):
        monkeypatch.delenv(key, raising=False)

    assert variable in tools.failure(name, {"query": "q"})


def test_web_search_asks_a_model_to_search(tools: GlobalTools) -> None:
    with ModelServer(says("The answer.")) as server:
        tools.set(model_variables(server))

        text = tools.text("web_search", {"query": "what is new?"})

    assert text == "The answer."
    assert server.requests[0].prompt == "what is new?"
    assert server.requests[0].body["model"] == "a-search-model"
    assert server.requests[0].body["web_search_options"] == {}


def test_web_search_fails_with_what_the_model_says(tools: GlobalTools) -> None:
    with ModelServer(fails(401, "the key has expired")) as server:
        tools.set(model_variables(server))

        said = tools.failure("web_search", {"query": "q"})

    assert "openai:a-search-model failed" in said
    assert "the key has expired" in said


def model_variables(server: ModelServer) -> dict[str, str]:
    return {
        "WEB_SEARCH_MODEL": "openai:a-search-model",
        "OPENAI_API_KEY": "key",
        "OPENAI_BASE_URL": server.base_url,
    }


def as_json(value: Any) -> Page:
    return Page(json.dumps(value), "application/json")


ARXIV_FEED = """<?xml version="1.0"?>
<feed xmlns="http://www.w3.org/2005/Atom">
  <entry>
    <id>http://arxiv.org/abs/1</id>
    <title>On
      Light</title>
    <published>2020-01-02T03:04:05Z</published>
    <summary>  It shines. </summary>
    <author><name>A. One</name></author><author><name>B. Two</name></author>
  </entry>
</feed>
"""
