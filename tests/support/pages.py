"""The pages of the documentation, for tests that hold them to their word."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {file.name: file for file in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
TEXTS = {name: file.read_text(encoding="utf-8") for name, file in PAGES.items()}

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_in_order(page: str) -> list[tuple[str, str]]:
    """All code blocks of a page: what each is marked as, and its text."""
    return _BLOCK.findall(TEXTS[page])


def blocks(page: str, *languages: str) -> list[str]:
    """The code blocks of a page that are marked as one of the languages."""
    return [text for language, text in blocks_in_order(page) if language in languages]
