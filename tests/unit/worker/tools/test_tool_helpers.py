"""What the shipped tools share: addresses, globs, diffs, and Markdown made of HTML."""

from __future__ import annotations

import ast
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from sleipnir.graphs.functions.lib.sleipnir import addresses, files, markdown, patch, web
from tests.support.web_server import Page, WebServer

HELPERS = Path(web.__file__).parent
TOOLS = Path(__file__).parents[4] / "graphs/functions/tools"


@pytest.mark.parametrize(
    "file", [*HELPERS.glob("*.py"), *TOOLS.glob("*.py")], ids=lambda file: file.name
)
def test_tools_can_be_read_by_python_3_8(file: Path) -> None:
    ast.parse(file.read_text(), feature_version=(3, 8))


# ---- addresses


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
        *("0.0.0.0", "255.255.255.255", "224.0.0.1", "192.0.2.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
        *("::127.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1", "::ffff:0:8.8.8.8", "64:ff9b:1::1"),
        *("64:ff9b:1:7f00:1::", "fec0::1", "feff::1", "100::1", "5f00::1", "4000::1", "3fff::1"),
        *("2001:db8::1", "2001:0:7f00:1::", "192.0.0.1", "192.88.99.1", "198.18.0.1", "240.0.0.1"),
    ],
)
def test_addresses_that_are_not_of_the_public_network(address: str) -> None:
    assert not addresses.is_public(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"],
)
def test_addresses_of_the_public_network(address: str) -> None:
    assert addresses.is_public(address)


@pytest.mark.parametrize(
    "host", ["localhost", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0", "::1"]
)
def test_every_way_to_write_the_own_machine_is_refused(host: str) -> None:
    with pytest.raises(addresses.AddressRefused, match="not a public address"):
        addresses.resolve(host, 80, allow_private=False)


def test_what_resolves_to_a_private_address_is_returned_where_that_is_allowed() -> None:
    assert addresses.resolve("2130706433", 80, allow_private=True) == ["127.0.0.1"]


def test_the_address_that_was_checked_is_the_one_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    # Whoever owns the name answers differently the second time.
    answers = iter(["8.8.8.8", "127.0.0.1"])
    connected: list[tuple[str, int]] = []

    def look_up(_host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    def connect(address: tuple[str, int], *_: object) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)

    with pytest.raises(web.FetchError):
        web.fetch(web.get("http://rebound.example/"), allow_private=False)

    assert set(connected) == {("8.8.8.8", 80)}


def test_a_proxy_is_used_although_names_are_not_resolved_here_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()
    given_up: list[str] = []
    resolved = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".example"):
            over.wait(60)  # as where queries are dropped
            given_up.append(host)
            raise socket.gaierror("timed out")
        return resolved(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(web, "LOCAL_LOOKUP_S", 0.05)
    with WebServer({"http://slow.example/": Page("hi")}) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url())

        assert web.fetch(web.get("http://slow.example/"), allow_private=False).text == "hi"
        assert given_up == []
    over.set()


# ---- requests


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "only http"),
        ("ftp://example.org/", "only http"),
        ("http:///no-host", "only http"),
        ("//example.org", "only http"),
        ("http://example.org:99999/", "Port out of range"),
        ("http://user:word@127.0.0.1/", "not a public address"),
        ("http://[::ffff:10.0.0.1]/", "not a public address"),
    ],
)
def test_what_cannot_be_fetched_is_refused_with_a_reason(url: str, reason: str) -> None:
    with pytest.raises(web.FetchError, match=reason):
        web.fetch(web.get(url), allow_private=False)


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("iso-8859-1", b"caf\xe9", "café"),
        ("", b"caf\xc3\xa9", "café"),
        ("", b'<meta charset="latin-1">\xe9', '<meta charset="latin-1">é'),
        ("no-such-charset", b"plain", "plain"),
        ("", b"broken \xff", "broken \ufffd"),
    ],
)
def test_the_charset_is_the_one_that_server_or_page_name(
    content_type: str, body: bytes, text: str
) -> None:
    response = web.Response("http://x/", 200, "text/html", content_type, body)

    assert response.text == text


# ---- globs


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", "a.py", "b/a.py"),
        ("**/*.py", "a.py", "a.pyc"),
        ("**/*.py", "b/c/a.py", "b/c/a.txt"),
        ("src/**", "src/b/a", "lib/b/a"),
        ("src/**/test_?.py", "src/x/y/test_1.py", "src/x/test_12.py"),
        ("*.{ts,tsx}", "a.tsx", "a.js"),
        ("{src,lib}/*.c", "lib/a.c", "bin/a.c"),
        ("[a-c]?.txt", "b1.txt", "d1.txt"),
        ("[!a-c].txt", "d.txt", "a.txt"),
        ("a+b.(x)", "a+b.(x)", "aab.x"),
    ],
)
def test_a_glob_matches_whole_paths(pattern: str, matching: str, other: str) -> None:
    matches = files.glob_pattern(pattern).fullmatch

    assert (bool(matches(matching)), bool(matches(other))) == (True, False)


# ---- diffs

TEXT = "one\ntwo\nthree\nfour\nfive\n"


def patched(text: str, diff: str) -> str:
    return patch.apply_patch(text, patch.read_patch(diff))


def test_hunks_apply_in_order_at_the_lines_they_name() -> None:
    diff = """--- a/file
+++ b/file
@@ -1,2 +1,3 @@
 one
+one and a half
 two
@@ -4,2 +5,1 @@ in the end
-four
 five
"""

    assert patched(TEXT, diff) == "one\none and a half\ntwo\nthree\nfive\n"


@pytest.mark.parametrize("header", ["@@ -40,1 +40,1 @@", "@@", "@@ somewhere @@"])
def test_a_hunk_without_the_right_line_number_goes_to_the_one_place_it_fits(header: str) -> None:
    assert patched(TEXT, f"{header}\n-three\n+3\n") == "one\ntwo\n3\nfour\nfive\n"


def test_a_hunk_that_fits_in_several_places_is_refused() -> None:
    with pytest.raises(patch.PatchFailed, match="hunk 1 fits in 2 places, at lines 1, 3"):
        patched("x\ny\nx\n", "@@\n-x\n+z\n")


def test_a_hunk_that_fits_nowhere_is_named_with_both_lines() -> None:
    diff = "@@ -1,1 +1,1 @@\n-one\n+1\n@@ -3,2 +3,1 @@\n three\n-vier\n"

    with pytest.raises(
        patch.PatchFailed, match="hunk 2 does not fit: line 4: expected 'vier', found 'four'"
    ):
        patched(TEXT, diff)


def test_hunks_out_of_order_are_refused() -> None:
    diff = "@@ -4,1 +4,1 @@\n-four\n+4\n@@ -1,1 +1,1 @@\n-one\n+1\n"

    with pytest.raises(patch.PatchFailed, match="hunk 2 does not fit"):
        patched(TEXT, diff)


def test_white_space_must_match_exactly() -> None:
    with pytest.raises(patch.PatchFailed, match="expected '  x', found ' x'"):
        patched(" x\n", "@@ -1 +1 @@\n-  x\n+y\n")


@pytest.mark.parametrize(
    ("text", "diff", "result"),
    [
        ("a", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n", "b\n"),
        ("a\n", "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "b"),
        ("a", "@@ -1 +1,2 @@\n a\n+b\n", "a\nb\n"),
        ("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n", "a\r\nc\r\n"),
        ("", "@@ -0,0 +1,2 @@\n+a\n+b\n", "a\nb\n"),
        ("a\n\nb\n", "@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n", "a\n\nc\n"),
        ("-- x\ny\n", "@@ -1,2 +1,1 @@\n--- x\n y\n", "y\n"),
        ("a\x0cb\n", "@@ -1 +1 @@\n-a\x0cb\n+c\n", "c\n"),
    ],
)
def test_ends_of_lines_and_files_survive(text: str, diff: str, result: str) -> None:
    assert patched(text, diff) == result


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("", "no hunk"),
        ("just text", "no hunk"),
        ("@@ -1 +1 @@\nno mark", "hunk 1: a line begins with neither"),
        ("@@ -1 +1 @@\n-a\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-c", "more than one file"),
        ("@@ -1 +1 @@\n-a\ndiff --git a/b b/b", "more than one file"),
        ("@@\n+b", "names no line of the file"),
    ],
)
def test_what_is_no_diff_of_one_file_is_refused(diff: str, reason: str) -> None:
    with pytest.raises(patch.PatchFailed, match=reason):
        patched("a\n", diff)


def test_the_patch_helper_of_bash_tools_prints_the_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(TEXT)
    (tmp_path / "diff").write_text("@@ -1 +1 @@\n-one\n+1\n")

    printed = subprocess.run(
        [sys.executable, patch.__file__, "file", "diff"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
    )

    assert printed.stdout == "1\ntwo\nthree\nfour\nfive\n"


# ---- Markdown


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h2>A <em>b</em></h2><p>c</p>", "## A *b*\n\nc"),
        ("<p>a <b>bold </b>b<br>c</p>", "a **bold** b\nc"),
        ('<a href="x y">in</a>', "[in](http://e.org/d/x%20y)"),
        ('<a href="javascript:x()">in</a> <a href="http://[">broken</a>', "in broken"),
        ('<p>a<img src="data:image/png;base64,AAAA" alt="pic">b</p>', "ab"),
        ("<ul><li>a<ul><li>b</li></ul></li><li><p>c</p></li></ul>", "- a\n   - b\n- c"),
        ("<p>x</p><ol><li>a<li>b</ol>", "x\n\n1. a\n2. b"),
        ("<blockquote><p>a</p><p>b</p></blockquote>", "> a\n>\n> b"),
        ("<pre><code>a\n  b\n</code></pre>", "```\na\n  b\n```"),
        ("<pre>```</pre>", "````\n```\n````"),
        ("<code>a`b</code>", "`` a`b ``"),
        (
            "<table><tr><th>a<th>b|c<tr><td><p>1</p></table>d",
            "| a | b\\|c |\n|---|---|\n| 1 |\n\nd",
        ),
        ("<script>x</script><style>y</style><title>z</title>a &amp; b", "a & b"),
        ("<p>never <b>closed <a href=u>text<p>next", "never closed text\n\nnext"),
        ("</p></li></ul></td></table></pre></a>a", "a"),
    ],
)
def test_html_becomes_markdown(html: str, text: str) -> None:
    assert markdown.from_html(html, "http://e.org/d/") == text


def test_nesting_without_end_stays_readable() -> None:
    text = markdown.from_html("<ul><li>a" * 2_000)

    assert len(re.findall("- a", text)) == 2_000
    assert len(text) < 100_000


@pytest.mark.parametrize("opened", ["<!--", "<a ", "a<b ", "<a href='", "<![x["])
def test_a_page_with_much_left_open_is_read_at_once(opened: str) -> None:
    began_s = process_time()

    text = markdown.from_html(f"<p>Cats sleep.</p>{opened * 8_000}")

    assert text.startswith("Cats sleep.")
    assert process_time() - began_s < 1  # one by one, it would take eight seconds


@pytest.mark.parametrize(
    "part",
    [
        *("<b>", "<a href=x>x", "<i>x<b>", "<svg>", "</svg>x<svg>", "<ul><li>", "<blockquote>x"),
        *("<td>x", "<tr>", "<tr><td>x", "<table><tr><td>x", "<pre>x", "<code>`", "<p><b>"),
    ],
)
def test_a_page_is_converted_in_linear_time_and_size(part: str) -> None:
    began_s = process_time()

    text = markdown.from_html(part * (240_000 // len(part)))

    assert len(text) < 240_000 * 8
    assert process_time() - began_s < 5  # each took a minute where its time was quadratic


def test_a_table_of_wide_and_long_parts_stays_small() -> None:
    rows = "<tr><td>x" * 8_000
    html = f"<table><tr>{'<td>x' * 8_000}{rows}</table>"

    assert len(markdown.from_html(html)) < 2 * len(html)


@pytest.mark.parametrize(
    ("html", "base"),
    [
        ("<a href=x>x</a>" * 1_000, "http://e.org/" + "d" * 60_000 + "/"),
        ("<blockquote><ul><li>" * 12 + "<pre>" + "x\n" * 500_000, ""),
    ],
)
def test_a_text_that_outgrows_its_page_is_given_up(html: str, base: str) -> None:
    with pytest.raises(markdown.NotConverted, match="too long"):
        markdown.from_html(html, base, most=10_000_000)


def test_a_conversion_that_is_not_needed_ends() -> None:
    with pytest.raises(markdown.NotConverted, match="no longer needed"):
        markdown.from_html("<p>x" * 2_000, stopped=lambda: True)


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("utf-8", "é".encode(), "é"),
        ("UTF8", "é".encode(), "é"),
        ("iso-8859-1", b"\xe9 \x93", "é “"),
        ("windows_1252", b"\xe9", "é"),
        ("Shift_JIS", "日本".encode("cp932"), "日本"),
        ("gb2312", "汉".encode("gb18030"), "汉"),
        ("euc-kr", "한".encode("cp949"), "한"),
        ("big5", "漢".encode("big5hkscs"), "漢"),
        ("iso-2022-jp", "日本".encode("iso2022_jp"), "日本"),
        ("koi8-r", "я".encode("koi8-r"), "я"),
        ("utf-16", "é".encode("utf-16-le"), "é"),
        ("latin1", "\ufeffé".encode(), "é"),
        ("", "\ufeffé".encode("utf-16-be"), "é"),
        ("", b"<meta charset=koi8-r>" + "я".encode("koi8-r"), "<meta charset=koi8-r>я"),
        ("", b"<meta charset=utf-16>\xc3\xa9", "<meta charset=utf-16>é"),
        *(
            (name, "é".encode(), "é")
            for name in (
                *("", "punycode", "idna", "undefined", "utf-7", "base64", "hex", "rot13", "zlib"),
                *("unicode_escape", "raw_unicode_escape", "mbcs", "x" * 100_000, "a\0b", "../x"),
                *("hz", "\ud800"),
            )
        ),
    ],
)
def test_a_page_is_read_in_the_charsets_that_browsers_know(
    charset: str, body: bytes, text: str
) -> None:
    assert web.Response("http://x/", 200, "text/html", charset, body).text == text


def test_a_charset_of_a_page_cannot_cost_much() -> None:
    body = b"<meta charset=punycode>" + b"a-" * 5_000_000
    began_s = process_time()

    assert len(web.Response("http://x/", 200, "text/html", "idna", body).text) == len(body)
    assert process_time() - began_s < 2


def test_every_charset_is_one_of_the_library() -> None:
    for label, codec in web._CODECS.items():
        assert b"a".ljust(2, b"\0").decode(codec, "replace"), label


def test_a_page_has_what_browsers_skip() -> None:
    assert markdown.from_html("a<![endif]-->b<![foo bar[x>c &amp d &a") == "abc & d &a"
