"""`make site`: every page is in it, in reading order, and it needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.support.pages import ROOT

_FROM_ELSEWHERE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//")

# Two asterisks that mark parameters, read as emphasis of what stands between them.
_LOST_MARKS = re.compile(r"</code><em>[,;|]")


def test_the_site_has_every_page_and_needs_no_network(tmp_path: Path) -> None:
    made = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"),
            *("--builder", "html", str(ROOT / "docs"), str(tmp_path / "site")),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert made.returncode == 0, made.stderr
    pages = {path.stem: path.read_text() for path in (tmp_path / "site").glob("*.html")}
    sources = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert sources <= pages.keys()
    # The side bar of each page leads to all others.
    assert sources - set(re.findall(r'href="(\w[\w-]*)\.html"', pages["tutorial"])) == {"tutorial"}
    assert "tutorial" in (tmp_path / "site" / "searchindex.js").read_text()
    assert {name for name, text in pages.items() if _FROM_ELSEWHERE.search(text)} == set()
    assert {name for name, text in pages.items() if _LOST_MARKS.search(text)} == set()
