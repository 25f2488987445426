"""What browsers get: whose it is, and that it stays small."""

from __future__ import annotations

import re
from collections.abc import Mapping
from gzip import compress
from hashlib import sha256
from pathlib import Path

from sleipnir.worker import monitor
from sleipnir.worker.monitor.pages.rail import RAIL_PAGES
from sleipnir.worker.monitor.site import assets

STATIC = Path(monitor.__file__).parent / "static"
TEMPLATES = STATIC.parent / "templates"
# Version, and the sum of its file: idiomorph.min.js as published, and icons of lucide-static.
VENDORED = {
    "idiomorph.js": ("0.8.0", "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96"),
    "icons.svg": ("1.62.0", "fd3277e975a3bfded2f9e7854080c69c5cb5d2b2b503584517f15d877c3114ae"),
}
MOST_ICONS = 30
PAGES = sorted(
    file.name for file in TEMPLATES.glob("*.html") if "{% extends" in file.read_text("utf-8")
)
EVERYWHERE = ("tokens.css", "shell.css", "components.css", "texts.css")


def test_what_others_have_written_is_as_they_published_it() -> None:
    files = [file for file in (STATIC / "vendor").iterdir() if file.suffix != ".LICENSE"]
    found = {file.name: file.read_bytes() for file in files}

    assert {name: sha256(data).hexdigest() for name, data in found.items()} == {
        name: checksum for name, (_, checksum) in VENDORED.items()
    }
    for name in VENDORED:
        assert (STATIC / "vendor" / name).with_suffix(".LICENSE").read_text()
        assert name in assets()


def test_icons_are_few_and_those_that_are_used_exist() -> None:
    there = set(re.findall(r'<symbol id="([\w-]+)"', assets()["icons.svg"].decode()))
    texts = [file.read_text(encoding="utf-8") for file in TEMPLATES.glob("*.html")]
    used = {name for text in texts for name in re.findall(r"\bicon\('([\w-]+)'\)", text)}

    assert len(there) <= MOST_ICONS
    assert used
    assert (used | {page.icon for page in RAIL_PAGES.values()}) - there == set()


def test_scripts_and_styles_stay_small() -> None:
    files = [file for file in STATIC.iterdir() if file.is_file()]
    weight = {name: len(compress(data)) for name, data in assets().items()}
    lines = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    scripts = b"".join(file.read_bytes() for file in files if file.suffix == ".js")
    assert len(compress(scripts)) <= 30_000
    assert {page: size for page in PAGES if (size := styles_of(page, weight)) > 12_000} == {}
    assert all(count <= 320 for name, count in lines.items() if name.endswith(".js"))


def styles_of(page: str, weight: Mapping[str, int]) -> int:
    """The bytes of all style sheets that a page may load, as they are sent."""
    sheets, template = set(EVERYWHERE), page
    while template != "base.html":
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        sheets.update(re.findall(r"'([\w-]+\.css)'", text))
        (template,) = re.findall(r'{% extends "([\w.]+)" %}', text)
    return sum(weight[sheet] for sheet in sheets)
