"""Files and pages in prompts: `-f`, and `.file` of chats."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sleipnir.scheduler.cli.attached_files import LIMIT_BYTES, Attaching
from sleipnir.scheduler.errors import SubmissionRefused
from tests.support.web_server import Page, WebServer


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def attach(prompt: str, *places: str, allow_private: bool = True) -> str:
    return Attaching(2 * LIMIT_BYTES, allow_private, pytest.fail).with_files(prompt, places)


def test_files_follow_the_prompt_in_order(here: Path) -> None:
    (here / "b.txt").write_text("two")
    (here / "a.md").write_bytes("\ufeffeins\r\n".encode())

    assert attach("Compare:", "b.txt", "./a.md") == (
        'Compare:\n\n<file path="b.txt">\ntwo\n</file>\n\n<file path="./a.md">\neins\n</file>'
    )
    assert attach("", "b.txt") == '<file path="b.txt">\ntwo\n</file>'


def test_a_home_directory_needs_no_shell(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here))
    (here / "d").mkdir()
    (here / "d" / "a").write_text("x\n")

    whole = '<file path="~/d/a">\nx\n</file>'
    assert (attach("", "~/d/a"), attach("", "~/d")) == (whole, whole)


def test_a_directory_stands_for_its_files_by_path(here: Path) -> None:
    for name in ("d/z.py", "d/in/a.py", "d/.hidden", "d/.git/x", "d/empty"):
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text("" if name == "d/empty" else f"{name}\n")

    assert attach("", "d/") == (
        '<file path="d/empty">\n</file>\n\n'
        '<file path="d/in/a.py">\nd/in/a.py\n</file>\n\n'
        '<file path="d/z.py">\nd/z.py\n</file>'
    )


def test_links_to_directories_are_left_out_and_told(here: Path) -> None:
    (here / "d" / "in").mkdir(parents=True)
    (here / "d" / "a").write_text("x\n")
    (here / "d" / "in" / "circle").symlink_to(here / "d")
    (here / "d" / "linked").symlink_to(here / "d" / "a")
    told: list[str] = []

    attached = Attaching(LIMIT_BYTES, True, told.append).with_files("", ["./d"])

    assert attached == ('<file path="./d/a">\nx\n</file>\n\n<file path="./d/linked">\nx\n</file>')
    assert told == ["left out ./d/in/circle: a link to a directory"]


def test_names_end_no_tag_and_break_no_line(here: Path) -> None:
    (here / 'a"><b&\n').write_text("x\n")

    assert attach("", 'a"><b&\n') == '<file path="a&quot;&gt;&lt;b&\\n">\nx\n</file>'
    with pytest.raises(SubmissionRefused, match=r"^cannot attach no\\n: No such file"):
        attach("", "no\n")


def test_an_empty_name_is_no_directory() -> None:
    with pytest.raises(SubmissionRefused, match=r"^cannot attach '': it names nothing"):
        attach("", "")


def test_what_cannot_be_attached_is_named(here: Path) -> None:
    (here / "picture").write_bytes(b"\x89PNG\xff")
    (here / "nul").write_bytes(b"a\0b")
    (here / "none").mkdir()
    os.mkfifo(here / "pipe")
    for name, why in {
        "gone.txt": "No such file or directory",
        "picture": "it is not text in UTF-8",
        "nul": "it is not text",
        "none": "the directory has no files",
        "pipe": "is a named pipe",
        "~\0x": "null byte",
    }.items():
        with pytest.raises(SubmissionRefused, match=rf"^cannot attach .*{name[-1]}: .*{why}"):
            attach("x", name)


def test_all_files_together_have_a_limit(here: Path) -> None:
    (here / "half").write_bytes(b"x" * (LIMIT_BYTES // 2))
    (here / "one").write_bytes(b"x")

    assert len(attach("", "half", "half")) > LIMIT_BYTES
    with pytest.raises(SubmissionRefused, match=r"attach one: with it, .* more than 8 MiB"):
        attach("", "half", "half", "one")
    (here / "one").write_bytes(b"x" * (LIMIT_BYTES + 1))
    with pytest.raises(SubmissionRefused, match=r"attach one: .*8 MiB"):
        attach("", "one")


def test_what_no_value_holds_is_named(here: Path) -> None:
    (here / "half").write_bytes(b"\n" * 500)
    attaching = Attaching(1_500, True, pytest.fail)

    assert len(attaching.with_files("", ["half"])) > 500
    with pytest.raises(SubmissionRefused, match=r"attach half: .* 2,\d+ bytes as JSON; the limit"):
        attaching.with_files("", ["half", "half"])


def test_pages_are_fetched_as_markdown_under_the_guard_of_addresses() -> None:
    pages = {
        "/p": Page("<nav>menu</nav><h1>Beans</h1><p>Sow <a href='x'>late</a>.</p>"),
        "/t": Page("plain <b>\n", "text/plain"),
        "/z": Page(b"%PDF\xff\xfe", "application/pdf"),
        "/e": Page("", status=404),
    }
    with WebServer(pages) as web:
        url = web.url()

        loud = url.replace("http:", "HTTP:")
        assert attach("", f"{loud}/t") == f'<file path="{loud}/t">\nplain <b>\n</file>'
        assert attach("", f"{url}/p", f"{url}/t") == (
            f'<file path="{url}/p">\n# Beans\n\nSow [late]({url}/x).\n</file>\n\n'
            f'<file path="{url}/t">\nplain <b>\n</file>'
        )
        for place, why in {
            "/z": "it is application/pdf, not text",
            "/e": "HTTP status 404",
        }.items():
            with pytest.raises(SubmissionRefused, match=f"{place}: {why}"):
                attach("", url + place)
        visits = len(web.visits)
        with pytest.raises(SubmissionRefused, match="address"):
            attach("", f"{url}/p", allow_private=False)
        assert len(web.visits) == visits
