"""The pages of the documentation, for tests that execute them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {
    file.name: file
    for file in (
        *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
TEXTS = {name: file.read_text(encoding="utf-8") for name, file in PAGES.items()}

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_in_order(page: str) -> list[tuple[str, str]]:
    """Return all code blocks of a page: language and text."""
    return _BLOCK.findall(TEXTS[page])


def blocks(page: str, *languages: str) -> list[str]:
    """Return a page's code blocks in one of the languages."""
    return [text for language, text in blocks_in_order(page) if language in languages]
